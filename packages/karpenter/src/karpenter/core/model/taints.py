"""
Taints and tolerations: which nodes a pod stays off, and which taints are ephemeral. Every toleration is
decided here.

A pod fits a node when it tolerates every taint of it, PreferNoSchedule included: the solver relaxes that
preference by adding a toleration. Taints are told apart by key and effect; the value does not count.

Which taints a node has is for the caller to say.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from karpenter.api import labels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.node import Taint
    from karpenter.api.pod import Toleration

# Upstream's KnownEphemeralTaints: https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/scheduling/taints.go
_KNOWN_EPHEMERAL: Final = frozenset(
    {
        (labels.NOT_READY, labels.NO_SCHEDULE),
        (labels.NOT_READY, labels.NO_EXECUTE),
        (labels.UNREACHABLE, labels.NO_SCHEDULE),
        (labels.CLOUD_UNINITIALIZED, labels.NO_SCHEDULE),
        (labels.UNREGISTERED, labels.NO_EXECUTE),
    }
)
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")


def tolerates(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> bool:
    """Say whether every one of `taints` is tolerated, whatever its effect."""
    return first_untolerated(tolerations, taints) is None


def first_untolerated(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> Taint | None:
    """Return the first of `taints` that no toleration covers."""
    covers = tuple(tolerations)
    for taint in taints:
        if not any(tolerates_taint(toleration, taint) for toleration in covers):
            return taint
    return None


def tolerates_taint(toleration: Toleration, taint: Taint) -> bool:
    """Say whether `toleration` covers `taint`; an operator that is not known covers nothing."""
    # An empty effect tolerates all effects; an empty key with Exists tolerates everything:
    # https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        # Numeric comparison, behind the feature gate TaintTolerationComparisonOperators:
        # https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
        case "Lt" | "Gt":
            return _compares(toleration, taint)
        case _:
            return False


def _compares(toleration: Toleration, taint: Taint) -> bool:
    """Say whether the taint's number is below (Lt) or above (Gt) the toleration's; both must be integers."""
    if not _INTEGER.fullmatch(toleration.value) or not _INTEGER.fullmatch(taint.value):
        return False
    bound, number = int(toleration.value), int(taint.value)
    return number < bound if toleration.operator == "Lt" else number > bound


def is_ephemeral(taint: Taint) -> bool:
    """Say whether `taint` is removed once a new node is up, so that pods need not tolerate it."""
    return (taint.key, taint.effect) in _KNOWN_EPHEMERAL or taint.key.startswith(
        labels.READINESS_TAINT_PREFIX
    )


def same_taint(left: Taint, right: Taint) -> bool:
    """Say whether two taints are one: the same key and effect, whatever the value."""
    # A node can have several taints of one key, but one for each effect of it:
    # https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
    return left.key == right.key and left.effect == right.effect


def merge(first: Iterable[Taint], second: Iterable[Taint]) -> tuple[Taint, ...]:
    """Return `first`, and those of `second` that it does not have yet."""
    merged = tuple(first)
    return merged + tuple(taint for taint in second if not any(same_taint(taint, has) for has in merged))


def without(taints: Iterable[Taint], removed: Iterable[Taint]) -> tuple[Taint, ...]:
    """Return `taints` except those that are in `removed`."""
    gone = tuple(removed)
    return tuple(taint for taint in taints if not any(same_taint(taint, other) for other in gone))
