"""Small manifests, as a user would write them: builders take what matters to a test and fill in the rest."""

from typing import Any

from karpenter_local.kubelet.settings import UNMANAGED

Object = dict[str, Any]

NOBODY = "nobody"
"""The scheduler of pods that are to stay where they are."""


def meta(name: str, **fields: Any) -> Object:
    return {"name": name, **fields}


def configmap(name: str, data: dict[str, str] | None = None, **metadata: Any) -> Object:
    """Return a ConfigMap: the plainest object there is."""
    found: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(name, **metadata)}
    return found if data is None else {**found, "data": data}


def secret(name: str, **metadata: Any) -> Object:
    """Return a Secret: plain, and made by no controller."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": meta(name, **metadata),
        "stringData": {"k": "v"},
    }


def container(name: str = "main", *, requests: dict[str, str] | None = None, **fields: Any) -> Object:
    """Return a container that asks for `requests`."""
    found: Object = {"name": name, "image": "registry.example/app:1", **fields}
    if requests:
        found["resources"] = {"requests": requests}
    return found


def pod(
    name: str, *, spec: Object | None = None, requests: dict[str, str] | None = None, **metadata: Any
) -> Object:
    """Return a pod that no scheduler looks at, unless `spec` names one."""
    body: Object = {
        "schedulerName": NOBODY,
        "terminationGracePeriodSeconds": 0,
        "containers": [container(requests=requests)],
        **(spec or {}),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta(name, **metadata), "spec": body}


def template(labels: dict[str, str], **spec: Any) -> Object:
    """Return a pod template whose pods stay unscheduled unless `spec` says otherwise."""
    return {"metadata": {"labels": labels}, "spec": pod("x", spec=spec)["spec"]}


def workload(
    kind: str, name: str, *, replicas: int | None = None, spec: Object | None = None, **pod_spec: Any
) -> Object:
    """Return a Deployment, ReplicaSet, StatefulSet or DaemonSet whose pods carry ``app: NAME``."""
    labels = {"app": name}
    body: Object = {"selector": {"matchLabels": labels}, "template": template(labels, **pod_spec)}
    if replicas is not None:
        body["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta(name), "spec": {**body, **(spec or {})}}


def deployment(name: str, replicas: int = 1, *, spec: Object | None = None, **pod_spec: Any) -> Object:
    return workload("Deployment", name, replicas=replicas, spec=spec, **pod_spec)


def job(name: str, *, spec: Object | None = None, **pod_spec: Any) -> Object:
    body = {"template": template({}, restartPolicy="Never", **pod_spec), **(spec or {})}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta(name), "spec": body}


def budget(name: str, labels: dict[str, str], **spec: Any) -> Object:
    """Return a PodDisruptionBudget over pods with `labels`."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": meta(name),
        "spec": {"selector": {"matchLabels": labels}, **spec},
    }


def node(name: str, *, labels: dict[str, str] | None = None, spec: Object | None = None) -> Object:
    """Return a Node before any kubelet has reported on it; none will, because the tests do it themselves."""
    metadata = meta(name, labels=labels or {}, annotations={UNMANAGED: "none"})
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec or {}}


def lease(name: str, **metadata: Any) -> Object:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": meta(name, **metadata),
        "spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 15},
    }
