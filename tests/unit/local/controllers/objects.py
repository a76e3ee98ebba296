"""Objects for the controllers' tests, in as few words as possible."""

from datetime import UTC, datetime, timedelta
from typing import Any

from karpenter.api.pod import Pod
from karpenter.kube.targets import Plain
from karpenter_local.testing.builders import manifest_pod

NOW = datetime(2025, 1, 1, 12, 0, tzinfo=UTC)


def at(seconds: float) -> str:
    """Return the time so many seconds from now, as objects carry it."""
    return (NOW + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def workload(kind: str = "Deployment", name: str = "web", **spec: Any) -> Plain:
    """Return a workload of an app named like itself."""
    status = spec.pop("status", {})
    meta = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "generation": 1,
        "creationTimestamp": at(-3600),
        **spec.pop("metadata", {}),
    }
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main"}]}}
    group = {"Job": "batch/v1", "CronJob": "batch/v1"}.get(kind, "apps/v1")
    body = {"selector": {"matchLabels": {"app": name}}, "template": template, **spec}
    return {"apiVersion": group, "kind": kind, "metadata": meta, "spec": body, "status": status}


def pod(
    name: str = "pod",
    *,
    owner: Plain | None = None,
    ready: bool = True,
    phase: str = "Running",
    age: float = 600.0,
    ready_for: float | None = None,
    node: str = "n",
    leaving: bool = False,
    labels: dict[str, str] | None = None,
    **more: Any,
) -> Pod:
    """Return a pod that runs and is ready, unless told otherwise."""
    meta: dict[str, Any] = {
        "uid": f"uid-{name}",
        "creationTimestamp": at(-age),
        "labels": labels or {},
        **more.pop("metadata", {}),
    }
    if owner is not None:
        meta["ownerReferences"] = [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
            }
        ]
    if leaving:
        meta["deletionTimestamp"] = at(0)
    since = at(-(age if ready_for is None else ready_for))
    condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": since}
    status = {"phase": phase, "conditions": [condition], **more.pop("status", {})}
    return manifest_pod(
        name, meta=meta, status=status, **{"nodeName": node, "containers": [{"name": "main"}], **more}
    )
