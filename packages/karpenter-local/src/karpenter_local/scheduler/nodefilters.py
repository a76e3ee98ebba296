"""
The filters that look at the node alone: cordon, taints, selector and required affinity; and the matching
scores.

The answers depend only on the pod's :class:`.podinfo.Placement` and the node, so they are kept per placement
and row, and worked out anew only for rows whose node changed since.
"""

from collections import OrderedDict
from collections.abc import Iterable

from karpenter.api.node import Taint
from karpenter.api.pod import Toleration
from karpenter.core.model.taints import tolerates_taint
from karpenter_local.scheduler import nodeterms, reasons
from karpenter_local.scheduler.nodeinfo import UNSCHEDULABLE_TAINT, NodeInfo
from karpenter_local.scheduler.podinfo import NodeConstraints
from karpenter_local.scheduler.reasons import Filter
from karpenter_local.scheduler.rows import Ints, Mask, Rows

MOST_VIEWS = 4096
"""Placements whose answers are kept at a time."""

_REPELS = frozenset({"NoSchedule", "NoExecute"})
_DISCOURAGES = "PreferNoSchedule"


class NodeFilterResult:
    """Result of the filters of one placement on every row."""

    def __init__(self, placement: NodeConstraints, rows: Rows) -> None:
        self.placement = placement
        self.seen = -1
        """The revision of the nodes up to which the answers hold."""
        self._allowed = rows.flags()
        self._matches = rows.flags()
        self._tolerates = rows.flags()
        self._discouraged = rows.ints()
        self._preferred = rows.ints()
        self.refusals: dict[int, tuple[Filter, str]] = {}
        """Row to the first refusal, for rows that are not allowed."""

    @property
    def allowed(self) -> Mask:
        """Rows that pass every filter of this module."""
        return self._allowed.data

    @property
    def matches(self) -> Mask:
        """Rows that satisfy selector and required affinity, whatever their taints."""
        return self._matches.data

    @property
    def tolerates(self) -> Mask:
        """Rows whose taints the pod tolerates, whatever their labels."""
        return self._tolerates.data

    @property
    def discouraged(self) -> Ints:
        """How many taints that merely discourage are not tolerated."""
        return self._discouraged.data

    @property
    def preferred(self) -> Ints:
        """The sum of the weights of preferred terms that hold."""
        return self._preferred.data

    def look(self, row: int, node: NodeInfo) -> None:
        """Work out the answers for one row."""
        want = self.placement
        matches = _matches(want, node)
        repelled = first_untolerated(node.taints, want.tolerations)
        refusal = _first_refusal(want, node, matches=matches, repelled=repelled)
        self._matches.data[row] = matches
        self._tolerates.data[row] = repelled is None
        self._allowed.data[row] = refusal is None
        self._discouraged.data[row] = sum(
            taint.effect == _DISCOURAGES and not tolerated(taint, want.tolerations) for taint in node.taints
        )
        self._preferred.data[row] = sum(
            weight for weight, term in want.preferences if nodeterms.holds(term, node.labels, node.name)
        )
        if refusal is None:
            self.refusals.pop(row, None)
        else:
            self.refusals[row] = refusal


class NodeFilterResults:
    """The views of recent placements, brought up to date when they are asked for."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._views: OrderedDict[NodeConstraints, NodeFilterResult] = OrderedDict()

    def of(
        self, placement: NodeConstraints, nodes: dict[int, NodeInfo], changed: Ints, revision: int
    ) -> NodeFilterResult:
        """Return the view; `changed` holds the revision at which each row's node changed last."""
        view = self._views.get(placement)
        if view is None:
            view = self._views[placement] = NodeFilterResult(placement, self._rows)
            if len(self._views) > MOST_VIEWS:
                self._views.popitem(last=False)
        else:
            self._views.move_to_end(placement)
        if view.seen < revision:
            for row in (changed > view.seen).nonzero()[0].tolist():
                node = nodes.get(row)
                if node is not None:
                    view.look(row, node)
            view.seen = revision
        return view


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(tolerates_taint(toleration, taint) for toleration in tolerations)


def first_untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """Return the first taint that keeps the pod off the node."""
    return next((t for t in taints if t.effect in _REPELS and not tolerated(t, tolerations)), None)


def _matches(want: NodeConstraints, node: NodeInfo) -> bool:
    if any(node.labels.get(key) != value for key, value in want.selector):
        return False
    return want.terms is None or nodeterms.any_holds(want.terms, node.labels, node.name)


def _first_refusal(
    want: NodeConstraints, node: NodeInfo, *, matches: bool, repelled: Taint | None
) -> tuple[Filter, str] | None:
    if want.names is not None and node.name not in want.names:
        return Filter.NODE_NAME, reasons.NOT_NAMED
    if node.unschedulable and not tolerated(UNSCHEDULABLE_TAINT, want.tolerations):
        return Filter.NODE_UNSCHEDULABLE, reasons.UNSCHEDULABLE
    if repelled is not None:
        return Filter.TAINTS, reasons.UNTOLERATED
    if not matches:
        return Filter.NODE_AFFINITY, reasons.WRONG_AFFINITY
    return None
