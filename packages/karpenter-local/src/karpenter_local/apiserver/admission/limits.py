"""The LimitRanger plugin: defaults and bounds for the requests and limits of containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.base.quantity import parse_quantity
from karpenter_local.apiserver import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.entry import Object
    from karpenter_local.apiserver.resources import APIResource


def apply_limits(backend: Backend, resource: APIResource, pod: Object) -> None:
    """Fill in and check a new pod's containers."""
    namespace = pod["metadata"]["namespace"]
    table = backend.store.table("limitranges")
    for key in table.between(namespace):
        for item in (table.entries[key].object().get("spec") or {}).get("limits") or ():
            if item.get("type") == "Container":
                for container in _containers(pod):
                    resources = container["resources"]
                    for part, default in (("limits", "default"), ("requests", "defaultRequest")):
                        for name, quantity in (item.get(default) or {}).items():
                            resources.setdefault(part, {}).setdefault(name, quantity)
                broken = [word for container in _containers(pod) for word in _check(container, item)]
                if broken:
                    words = broken[0] if len(broken) == 1 else f"[{', '.join(broken)}]"
                    raise errors.forbidden(resource, pod["metadata"].get("name", ""), words)


def _containers(pod: Object) -> list[Object]:
    return [*(pod["spec"].get("initContainers") or ()), *(pod["spec"].get("containers") or ())]


def _check(container: Object, item: Object) -> Iterator[str]:
    requests = container["resources"].get("requests") or {}
    limits = container["resources"].get("limits") or {}
    for name, least in (item.get("min") or {}).items():
        if name in requests and parse_quantity(requests[name]) < parse_quantity(least):
            yield f"minimum {name} usage per Container is {least}, but request is {requests[name]}"
    for name, most in (item.get("max") or {}).items():
        if name not in limits:
            yield f"maximum {name} usage per Container is {most}.  No limit is specified"
        elif parse_quantity(limits[name]) > parse_quantity(most):
            yield f"maximum {name} usage per Container is {most}, but limit is {limits[name]}"
