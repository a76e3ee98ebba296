"""Builders of typed objects from parts of their manifests, written as a user writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter.api.meta import convert
from karpenter.api.pod import Pod

if TYPE_CHECKING:
    from collections.abc import Mapping


def manifest_pod(
    name: str = "web",
    *,
    namespace: str = "default",
    node: str = "",
    cpu: str = "",
    meta: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Pod:
    """
    Return a pod, bound to `node` if there is one, with a container that requests `cpu` if it is given.

    `meta` is merged into the metadata; other keywords are fields of the spec.
    """
    plain: dict[str, Any] = {"nodeName": node} if node else {}
    if cpu:
        plain["containers"] = [{"name": "app", "resources": {"requests": {"cpu": cpu}}}]
    body = {
        "metadata": {"name": name, "namespace": namespace, **(meta or {})},
        "spec": {**plain, **spec},
        "status": dict(status or {}),
    }
    return convert(body, Pod)
