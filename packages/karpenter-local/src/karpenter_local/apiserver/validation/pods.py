"""The rules for pods, and for the pod templates inside workloads."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from karpenter_local.apiserver.field_errors import FieldError, forbidden, invalid, not_supported, required
from karpenter_local.apiserver.validation import meta, names, quantities
from karpenter_local.apiserver.validation.containers import containers
from karpenter_local.apiserver.validation.scheduling import placement
from karpenter_local.apiserver.validation.volumes import volumes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from karpenter_local.apiserver.entry import Object

_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_NAMES = (
    ("serviceAccountName", names.subdomain),
    ("nodeName", names.subdomain),
    ("priorityClassName", names.subdomain),
    ("runtimeClassName", names.subdomain),
    ("hostname", names.label),
    ("subdomain", names.label),
)
_MAX_DEADLINE = 2**31 - 1
# https://kubernetes.io/docs/concepts/workloads/pods/#pod-update-and-replacement
_CHANGES = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def pod(value: Object, old: Object | None) -> Iterator[FieldError]:
    if old is None:
        yield from pod_spec(value["spec"], "spec")
    elif value["spec"] != old["spec"]:
        yield from pod_spec(value["spec"], "spec")
        yield from _update(value["spec"], old["spec"])


def pod_template(value: Object, old: Object | None) -> Iterator[FieldError]:
    _ = old
    yield from template(value["template"], "template")


def template(value: dict[str, Any], path: str, *, claimed: Iterable[str] = ()) -> Iterator[FieldError]:
    """Yield what is wrong with a pod template whose pods will also have the `claimed` volumes."""
    given = value.get("metadata") or {}
    yield from meta.labels(given.get("labels"), f"{path}.labels")
    yield from meta.notes(given.get("annotations"), f"{path}.annotations")
    yield from pod_spec(value.get("spec") or {}, f"{path}.spec", claimed=claimed)


def pod_spec(spec: dict[str, Any], path: str, *, claimed: Iterable[str] = ()) -> Iterator[FieldError]:
    if spec.get("volumes"):
        yield from volumes(spec["volumes"], f"{path}.volumes")
    known = {volume.get("name", "") for volume in spec.get("volumes") or ()}.union(claimed)
    yield from containers(spec, path, known)
    if spec.get("restartPolicy") not in _RESTART:
        yield not_supported(f"{path}.restartPolicy", spec.get("restartPolicy"), _RESTART)
    if spec.get("dnsPolicy") not in _DNS:
        yield not_supported(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS)
    yield from placement(spec, path)
    if spec.get("resources"):
        yield from quantities.requirements(spec["resources"], f"{path}.resources")
    if spec.get("overhead"):
        yield from quantities.amounts(spec["overhead"], f"{path}.overhead")
    yield from _scalars(spec, path)


def _scalars(spec: dict[str, Any], path: str) -> Iterator[FieldError]:
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 0 < deadline <= _MAX_DEADLINE:
        why = f"must be between 1 and {_MAX_DEADLINE}, inclusive"
        yield invalid(f"{path}.activeDeadlineSeconds", deadline, why)
    for key, rule in _NAMES:
        text = spec.get(key)
        if text:
            for sentence in rule(text):
                yield invalid(f"{path}.{key}", text, sentence)
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is None:
        yield required(f"{path}.terminationGracePeriodSeconds")


def _update(spec: dict[str, Any], before: dict[str, Any]) -> Iterator[FieldError]:
    """Yield what an update of a pod must not change: nearly everything."""
    if len(spec.get("containers") or ()) != len(before.get("containers") or ()):
        yield forbidden("spec.containers", "pod updates may not add or remove containers")
        return
    if len(spec.get("initContainers") or ()) != len(before.get("initContainers") or ()):
        yield forbidden("spec.initContainers", "pod updates may not add or remove containers")
        return
    yield from _deadline(spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds"))
    if not _only_added(spec.get("tolerations") or [], before.get("tolerations") or []):
        why = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden("spec.tolerations", why)
    yield from _gates(spec, before)
    if _comparable(spec, before) != before:
        yield forbidden("spec", _CHANGES)


def _deadline(now: int | None, was: int | None) -> Iterator[FieldError]:
    if now == was:
        return
    path = "spec.activeDeadlineSeconds"
    if now is None:
        yield invalid(path, now, "must not update from a positive integer to nil value")
    elif now < 0 or now > _MAX_DEADLINE:
        yield invalid(path, now, f"must be between 0 and {_MAX_DEADLINE}, inclusive")
    elif was is not None and now > was:
        yield invalid(path, now, "must be less than or equal to previous value")


def _only_added(now: list[dict[str, Any]], was: list[dict[str, Any]]) -> bool:
    def bare(item: dict[str, Any]) -> dict[str, Any]:
        return {key: part for key, part in item.items() if key != "tolerationSeconds"}

    return all(any(bare(item) == bare(old) for item in now) for old in was)


def _gates(spec: dict[str, Any], before: dict[str, Any]) -> Iterator[FieldError]:
    was = {gate["name"] for gate in before.get("schedulingGates") or ()}
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        if gate.get("name") not in was:
            why = "only deletion is allowed, but found new scheduling gate"
            yield forbidden(f"spec.schedulingGates[{index}].name", f"{why} '{gate.get('name')}'")


def _comparable(spec: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Return the new spec with everything that may change set back."""
    munged = copy.deepcopy(spec)
    for key in ("containers", "initContainers"):
        for new, old in zip(munged.get(key) or (), before.get(key) or (), strict=False):
            if "image" in old:
                new["image"] = old["image"]
    for key in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        _set_back(munged, before, key)
    if before.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    if before.get("schedulingGates"):
        _narrowed(munged, before)
    return munged


def _narrowed(munged: dict[str, Any], before: dict[str, Any]) -> None:
    """Let a gated pod ask for more of its node: labels may be added, required affinity may be set."""
    selector, was = munged.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if all(selector.get(key) == value for key, value in was.items()):
        _set_back(munged, before, "nodeSelector")
    _set_back(munged, before, "affinity")


def _set_back(munged: dict[str, Any], before: dict[str, Any], key: str) -> None:
    if key in before:
        munged[key] = before[key]
    else:
        munged.pop(key, None)
