"""Writing down what changed about a claim: only what differs, and only if it still is what was looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter.api.labels import TERMINATION_FINALIZER
from karpenter.core.effects import Amend, Count, DeleteObject
from karpenter.core.lifecycle.conditions import render
from karpenter.core.lifecycle.naming import disrupted_labels
from karpenter.core.state.pods import runs_again

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from karpenter.api.meta import Condition, Resource
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.nodepool import NodePool
    from karpenter.api.overlay import NodeOverlay
    from karpenter.api.pod import Pod
    from karpenter.core.effects import Effect
    from karpenter.core.lifecycle.conditions import Board


def amend(
    item: NodeClaim | NodePool | NodeOverlay,
    board: Board,
    *,
    because: str,
    changes: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> tuple[Effect, ...]:
    """Return the change that makes an object's conditions those of a board, beside others, if any."""
    written = dict(status or {})
    if differ(item.status.conditions, board.held):
        written["conditions"] = render(board.held)
    if not written and not changes:
        return ()
    return (
        Amend(
            kind=item.kind,
            name=item.name,
            changes=changes or {},
            status=written,
            version=item.metadata.resource_version,
            because=because,
        ),
    )


def differ(before: tuple[Condition, ...], after: tuple[Condition, ...]) -> bool:
    """Say whether two lists of conditions are written differently; their order does not count."""
    return sorted(before, key=lambda each: each.type) != sorted(after, key=lambda each: each.type)


def add_finalizer(item: Resource, because: str) -> Amend:
    """Return the change that keeps an object from going before its machine has."""
    finalizers = [*item.metadata.finalizers, TERMINATION_FINALIZER]
    return _finalizers(item, finalizers, because)


def remove_finalizer(item: Resource, because: str) -> Amend:
    """Return the change that lets an object go."""
    finalizers = [each for each in item.metadata.finalizers if each != TERMINATION_FINALIZER]
    return _finalizers(item, finalizers, because)


def has_finalizer(item: Resource) -> bool:
    """Whether an object waits for its machine to be gone."""
    return TERMINATION_FINALIZER in item.metadata.finalizers


def delete_claim(
    claim: NodeClaim, reason: str, because: str, pods: Iterable[Pod] | None = None
) -> tuple[Effect, ...]:
    """Return what removes a claim by our own decision, and counts it and its `pods` that run again."""
    labels = disrupted_labels(claim, reason)
    gone = (
        DeleteObject(kind=claim.kind, name=claim.name, uid=claim.metadata.uid, because=because),
        Count(metric="karpenter_nodeclaims_disrupted_total", labels=labels),
    )
    if pods is None:
        return gone
    moving = float(sum(1 for pod in pods if runs_again(pod)))
    return (*gone, Count(metric="karpenter_pods_disruption_initiated_total", labels=labels, amount=moving))


def _finalizers(item: Resource, finalizers: list[str], because: str) -> Amend:
    return Amend(
        kind=item.kind,
        name=item.name,
        namespace=item.namespace,
        changes={"metadata": {"finalizers": finalizers}},
        version=item.metadata.resource_version,
        because=because,
    )
