"""
Reading objects that are kept whole, as plain dictionaries: who they are, who owns them, what their
conditions say.

Workloads are handled as plain data and not as structs, because a pod template must come out exactly as it
went in.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from karpenter.api.meta import LabelSelector, OwnerReference, convert
from karpenter.core.model.selectors import Selector, parse_selector
from karpenter.kube.targets import Plain


def name_of(value: Plain) -> str:
    name: str = value["metadata"]["name"]
    return name


def namespace_of(value: Plain) -> str:
    """Return the object's namespace; empty for objects of the whole cluster."""
    namespace: str = value["metadata"].get("namespace", "")
    return namespace


def key_of(value: Plain) -> str:
    """Return ``namespace/name``, or the name for objects of the whole cluster."""
    namespace = namespace_of(value)
    return f"{namespace}/{name_of(value)}" if namespace else name_of(value)


def uid_of(value: Plain) -> str:
    uid: str = value["metadata"].get("uid", "")
    return uid


def labels_of(value: Plain) -> dict[str, str]:
    return value["metadata"].get("labels") or {}


def annotations_of(value: Plain) -> dict[str, str]:
    return value["metadata"].get("annotations") or {}


def spec_of(value: Plain) -> Plain:
    return value.get("spec") or {}


def status_of(value: Plain) -> Plain:
    return value.get("status") or {}


def generation_of(value: Plain) -> int:
    """Return how often the object's desired state has changed."""
    return int(value["metadata"].get("generation", 0))


def is_leaving(value: Plain) -> bool:
    return bool(value["metadata"].get("deletionTimestamp"))


def created_at(value: Plain) -> datetime:
    return parse_time(value["metadata"].get("creationTimestamp")) or datetime.min.replace(tzinfo=UTC)


def parse_time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


@lru_cache(maxsize=64)  # a status carries one moment several times
def render_time(moment: datetime) -> str:
    """Return a time as objects carry it, to the second."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def owners_of(value: Plain) -> list[Plain]:
    return value["metadata"].get("ownerReferences") or []


def controller_uid(value: Plain) -> str:
    """Return the uid of the owner that manages the object; empty if none does."""
    return next((owner["uid"] for owner in owners_of(value) if owner.get("controller")), "")


def managing_owner(owners: Iterable[OwnerReference]) -> OwnerReference | None:
    for owner in owners:  # a generator would take twice as long, and every event of a pod asks several times
        if owner.controller:
            return owner
    return None


def reference_to(owner: Plain) -> Plain:
    """Return the reference by which `owner` manages another object."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def selector_of(value: Plain) -> Selector:
    selector = spec_of(value).get("selector")
    return parse_selector(None if selector is None else convert(selector, LabelSelector))


def pruned(value: Any) -> Any:
    """Return plain data without nulls and empty containers, so that two spellings compare equal."""
    if isinstance(value, Mapping):
        kept = {key: pruned(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, {}, [])}
    if isinstance(value, list):
        return [pruned(item) for item in value]
    return value


def scaled(value: Any, total: int, *, up: bool) -> int:
    """Return a count that is given as a number or as a percentage of `total`."""
    if isinstance(value, str) and value.endswith("%"):
        share = total * int(value[:-1])
        return -(-share // 100) if up else share // 100
    return int(value)
