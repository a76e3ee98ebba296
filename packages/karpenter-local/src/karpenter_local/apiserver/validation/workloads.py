"""The rules for deployments, replica sets, stateful sets, daemon sets and disruption budgets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from karpenter_local.apiserver.field_errors import FieldError, forbidden, invalid, not_supported, required
from karpenter_local.apiserver.selectors import from_object
from karpenter_local.apiserver.validation.pods import template
from karpenter_local.apiserver.validation.scheduling import label_selector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter_local.apiserver.entry import Object

_PERCENT = re.compile(r"[0-9]+%").fullmatch
# https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#update-strategies
_SET_CHANGES = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_MAY_CHANGE = frozenset(
    {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    }
)


def not_negative(given: dict[str, Any], path: str, *keys: str) -> Iterator[FieldError]:
    for key in keys:
        if (given.get(key) or 0) < 0:
            yield invalid(f"{path}.{key}", given[key], "must be greater than or equal to 0")


def int_or_percent(value: int | str | None, path: str) -> Iterator[FieldError]:
    if isinstance(value, str) and not _PERCENT(value):
        why = (
            "a valid percent string must be a numeric string followed by an ending '%' "
            "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        )
        yield invalid(path, value, why)
    elif isinstance(value, int) and value < 0:
        yield invalid(path, value, "must be greater than or equal to 0")


def _common(spec: dict[str, Any], kind: str) -> Iterator[FieldError]:
    """Yield what is wrong with the selector and the template that it must match."""
    selector = spec.get("selector")
    given = spec.get("template") or {}
    labels = (given.get("metadata") or {}).get("labels") or {}
    if selector is None:
        if kind != "daemonset":
            yield required("spec.selector")
    else:
        wrong = list(label_selector(selector, "spec.selector"))
        if wrong:
            yield from wrong
            yield invalid("spec.selector", selector, "invalid label selector")
            return
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            yield invalid("spec.selector", selector, f"empty selector is invalid for {kind}")
    conditions = from_object(selector) or ()
    if not all(item.matches(labels) for item in conditions) or selector is None:
        why = "`selector` does not match template `labels`"
        yield invalid("spec.template.metadata.labels", labels or None, why)


def _always(given: dict[str, Any]) -> Iterator[FieldError]:
    spec = given.get("spec") or {}
    policy = spec.get("restartPolicy")
    if policy != "Always":
        yield not_supported("spec.template.spec.restartPolicy", policy, ("Always",))
    if spec.get("activeDeadlineSeconds") is not None:
        yield forbidden(
            "spec.template.spec.activeDeadlineSeconds", "activeDeadlineSeconds in a workload is not supported"
        )


def _fixed(spec: dict[str, Any], before: dict[str, Any], key: str) -> Iterator[FieldError]:
    if spec.get(key) != before.get(key):
        yield invalid(f"spec.{key}", spec.get(key), "field is immutable")


def deployment(value: Object, old: Object | None) -> Iterator[FieldError]:
    spec = value["spec"]
    yield from not_negative(spec, "spec", "replicas", "minReadySeconds", "revisionHistoryLimit")
    yield from _common(spec, "deployment")
    yield from template(spec["template"], "spec.template")
    yield from _always(spec["template"])
    yield from _strategy(spec.get("strategy") or {})
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds", 0)
    if deadline is not None and deadline <= ready:
        yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
    if old is not None:
        yield from _fixed(spec, old["spec"], "selector")


def _strategy(given: dict[str, Any]) -> Iterator[FieldError]:
    path = "spec.strategy"
    match given.get("type"):
        case "Recreate":
            if given.get("rollingUpdate") is not None:
                why = "may not be specified when strategy `type` is 'Recreate'"
                yield forbidden(f"{path}.rollingUpdate", why)
        case "RollingUpdate":
            yield from _rolling(given.get("rollingUpdate") or {}, f"{path}.rollingUpdate")
        case _:
            yield not_supported(path, given, ("Recreate", "RollingUpdate"))


def _rolling(given: dict[str, Any], path: str) -> Iterator[FieldError]:
    down, up = given.get("maxUnavailable"), given.get("maxSurge")
    yield from int_or_percent(down, f"{path}.maxUnavailable")
    yield from int_or_percent(up, f"{path}.maxSurge")
    if _is_zero(down) and _is_zero(up):
        yield invalid(f"{path}.maxUnavailable", down, "may not be 0 when `maxSurge` is 0")
    yield from _at_most_all(down, f"{path}.maxUnavailable")


def _at_most_all(value: int | str | None, path: str) -> Iterator[FieldError]:
    if isinstance(value, str) and _PERCENT(value) and int(value[:-1]) > 100:  # noqa: PLR2004  percent
        yield invalid(path, value, "must not be greater than 100%")


def _is_zero(value: int | str | None) -> bool:
    return value in {0, "0%", "00%"}


def replica_set(value: Object, old: Object | None) -> Iterator[FieldError]:
    spec = value["spec"]
    yield from not_negative(spec, "spec", "replicas", "minReadySeconds")
    yield from _common(spec, "deployment")  # sic
    yield from template(spec.get("template") or {}, "spec.template")
    yield from _always(spec.get("template") or {})
    if old is not None:
        yield from _fixed(spec, old["spec"], "selector")


def daemon_set(value: Object, old: Object | None) -> Iterator[FieldError]:
    spec = value["spec"]
    yield from _common(spec, "daemonset")
    yield from template(spec["template"], "spec.template")
    yield from _always(spec["template"])
    yield from not_negative(spec, "spec", "minReadySeconds", "revisionHistoryLimit")
    update = spec.get("updateStrategy") or {}
    if update.get("type") not in {"RollingUpdate", "OnDelete"}:
        yield not_supported("spec.updateStrategy", update, ("RollingUpdate", "OnDelete"))
    rolling = update.get("rollingUpdate")
    if update.get("type") == "RollingUpdate" and rolling is not None:
        down, up = rolling.get("maxUnavailable"), rolling.get("maxSurge")
        path = "spec.updateStrategy.rollingUpdate"
        yield from int_or_percent(down, f"{path}.maxUnavailable")
        yield from int_or_percent(up, f"{path}.maxSurge")
        if _is_zero(down) and _is_zero(up):
            yield required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")
    if old is not None:
        yield from _fixed(spec, old["spec"], "selector")


def stateful_set(value: Object, old: Object | None) -> Iterator[FieldError]:
    spec = value["spec"]
    if old is not None:
        before = old["spec"]
        keys = {key for key in (*spec, *before) if key not in _MAY_CHANGE}
        if any(spec.get(key) != before.get(key) for key in keys):
            yield forbidden("spec", _SET_CHANGES)
    if spec.get("podManagementPolicy") not in {"OrderedReady", "Parallel"}:
        why = "must be 'OrderedReady' or 'Parallel'"
        yield invalid("spec.podManagementPolicy", spec.get("podManagementPolicy"), why)
    update = spec.get("updateStrategy") or {}
    if update.get("type") not in {"RollingUpdate", "OnDelete"}:
        yield invalid("spec.updateStrategy", update, "must be 'RollingUpdate' or 'OnDelete'")
    yield from not_negative(spec, "spec", "replicas", "minReadySeconds")
    yield from _common(spec, "statefulset")
    claimed = [each.get("metadata", {}).get("name", "") for each in spec.get("volumeClaimTemplates") or ()]
    yield from template(spec["template"], "spec.template", claimed=claimed)
    yield from _always(spec["template"])


def replication_controller(value: Object, old: Object | None) -> Iterator[FieldError]:
    _ = old
    spec = value["spec"]
    yield from not_negative(spec, "spec", "replicas", "minReadySeconds")
    if not spec.get("selector"):
        yield required("spec.selector")
    if spec.get("template") is None:
        yield required("spec.template")
    else:
        yield from template(spec["template"], "spec.template")


def budget(value: Object, old: Object | None) -> Iterator[FieldError]:
    _ = old
    spec = value["spec"]
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        yield invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for key, given in (("minAvailable", least), ("maxUnavailable", most)):
        yield from int_or_percent(given, f"spec.{key}")
        yield from _at_most_all(given, f"spec.{key}")
    if spec.get("selector") is not None:
        yield from label_selector(spec["selector"], "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in {"IfHealthyBudget", "AlwaysAllow"}:
        yield not_supported("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget"))
