"""
The cluster as rows: what each node has, what its pods request, what it costs, and the sums.

Pure: a view of the cluster, a function that prices a node, and the moment go in; rows and sums come out.
Usage is what pods request, never what they use. A node that a pod runs on is counted with it only if the
node is shown, so that the sums are those of the rows. How a row looks is decided in :mod:`.text`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from karpenter.api.labels import (
    CAPACITY_TYPE,
    DISRUPTED,
    INSTANCE_TYPE,
    NODEPOOL,
    ON_DEMAND,
    RESERVED,
    SPOT,
    ZONE,
)
from karpenter.base.pretty import nearest
from karpenter.core.model.pricing import HOURS_A_MONTH
from karpenter.core.model.resources import PODS, merge, pod_requests
from karpenter.core.model.selectors import Selector, SelectorCondition, SelectorError
from karpenter.core.state.pod import is_active
from karpenter.core.state.statenode import StateNode, state_nodes

if TYPE_CHECKING:
    from karpenter.api.pod import Pod
    from karpenter.core.state.cluster import ClusterView

    Priced: TypeAlias = Callable[["NodeRow"], float | None]

FARGATE: Final = "fargate"
GPU: Final = "gpu"
"""Stands for every resource of GPUs, such as ``nvidia.com/gpu``."""

CREATION: Final = "creation"
PRICE_LABEL: Final = "eks-node-viewer/instance-price"
"""A label with which a node states what it costs per hour."""

_EKS_CAPACITY: Final = "eks.amazonaws.com/capacityType"
_EKS_COMPUTE: Final = "eks.amazonaws.com/compute-type"
_CAPACITY: Final = {"ON_DEMAND": ON_DEMAND, "SPOT": SPOT, "CAPACITY_BLOCK": RESERVED}
# Karpenter's taint had another key before version 1: https://karpenter.sh/docs/upgrading/v1-migration/
_LEAVING: Final = frozenset({DISRUPTED, "karpenter.sh/disruption"})
# https://docs.aws.amazon.com/eks/latest/userguide/fargate-pod-configuration.html
_FARGATE_SIZE: Final = "CapacityProvisioned"
_COMPUTED: Final = "eks-node-viewer/"
_USAGE: Final = re.compile(r"node-(?P<resource>.+)-usage")
_PARTS: Final = re.compile(r"(\d+)")


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A node, or a launched NodeClaim whose node has not joined yet."""

    name: str
    key: str = ""
    """The name of the Node, or of the NodeClaim while there is no Node."""

    instance: str = ""
    """The id of the instance; the name where the provider id says none."""

    pool: str = ""
    zone: str = ""
    instance_type: str = ""
    capacity_type: str = ""
    """spot, on-demand, reserved or fargate; empty where the node does not say."""

    auto: bool = False
    """Whether EKS Auto Mode manages it."""

    cordoned: bool = False
    deleting: bool = False
    ready: bool = False
    managed: bool = False
    """Whether it has a NodeClaim."""

    created: datetime | None = None
    waiting_since: datetime | None = None
    """Since when it has not been Ready; None where it is."""

    pods: int = 0
    running: int = 0
    """How many of its pods are in the phase Running; the others have yet to start."""

    requests: Mapping[str, int] = {}
    allocatable: Mapping[str, int] = {}
    labels: Mapping[str, str] = {}
    price: float | None = None
    currency: str = "$"
    """The sign of the currency of the price."""

    """Dollars per hour; None where that is not known."""

    @property
    def state(self) -> str:
        """What is happening to it, in a word or two; empty where nothing is."""
        words = ["Cordoned"] * self.cordoned + ["Deleting"] * self.deleting
        return "/".join(words)

    def amounts(self, resource: str) -> tuple[int, int]:
        """Return how much of a resource is requested, and how much there is."""
        return amount_of(self.requests, resource), amount_of(self.allocatable, resource)

    def share(self, resource: str) -> float | None:
        """Return which share of a resource is requested; None where the node has none of it."""
        used, room = self.amounts(resource)
        return used / room if room else None


class ClusterTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of the rows."""

    nodes: int
    requests: Mapping[str, int]
    allocatable: Mapping[str, int]
    pods: int
    pending: int
    running: int
    bound: int
    hourly: float
    unpriced: int
    """How many nodes have no known price."""

    @property
    def monthly(self) -> float:
        """Dollars for 730 hours."""
        return self.hourly * HOURS_A_MONTH


def amount_of(amounts: Mapping[str, int], resource: str) -> int:
    """Return the amount of a resource, of which ``gpu`` stands for all kinds of GPU."""
    if resource == GPU:
        return sum(amount for name, amount in amounts.items() if name.endswith("/gpu"))
    return amounts.get(resource, 0)


class RowCache:
    """Makes rows, and makes again only those whose node, claim or pods have changed."""

    def __init__(self, price: Priced, currency: str = "$") -> None:
        self._price, self._currency = price, currency
        self._known: dict[str, tuple[StateNode, NodeRow]] = {}

    def rows(self, view: ClusterView) -> list[NodeRow]:
        fresh: dict[str, tuple[StateNode, NodeRow]] = {}
        for node in state_nodes(view):
            known = self._known.get(node.name)
            if known is None or known[0] is not node:
                row = node_row(node)
                price = _stated(row) or self._price(row)
                known = node, msgspec.structs.replace(row, price=price, currency=self._currency)
            fresh[node.name] = known
        self._known = fresh
        return [row for _, row in fresh.values()]


def node_rows(view: ClusterView, price: Priced) -> list[NodeRow]:
    return RowCache(price).rows(view)


def node_row(node: StateNode) -> NodeRow:
    """Return the row of a node, without its price."""
    labels, pods = node.labels, [pod for pod in node.pods if is_active(pod)]
    capacity = labels.get(CAPACITY_TYPE) or _CAPACITY.get(labels.get(_EKS_CAPACITY, ""), "")
    kind = labels.get(INSTANCE_TYPE, "")
    if labels.get(_EKS_COMPUTE) == FARGATE:
        capacity = FARGATE
        sizes = [pod.metadata.annotations.get(_FARGATE_SIZE, "") for pod in pods]
        kind = next((each.replace(" ", "-") for each in sizes if each), kind)
    provider = _provider_id(node)
    instance = provider.rpartition("/")[2]
    is_joined = node.node is not None
    return NodeRow(
        name=node.name if is_joined else instance or node.name,
        key=node.name,
        instance=instance or node.name,
        pool=labels.get(NODEPOOL, ""),
        zone=labels.get(ZONE, ""),
        instance_type=kind,
        capacity_type=capacity,
        auto=labels.get(_EKS_COMPUTE) == "auto",
        cordoned=_is_cordoned(node),
        deleting=node.is_deleting,
        ready=node.is_ready,
        managed=node.is_managed,
        created=_created(node),
        waiting_since=None if node.is_ready else _waiting_since(node),
        pods=len(pods),
        running=sum(map(is_running, pods)),
        requests=merge(pod_requests(pod) for pod in pods),
        allocatable=node.allocatable,
        labels=labels,
    )


def _stated(row: NodeRow) -> float | None:
    try:
        return float(row.labels[PRICE_LABEL])
    except (KeyError, ValueError):
        return None


def _provider_id(node: StateNode) -> str:
    if node.node is not None and node.node.spec.provider_id:
        return node.node.spec.provider_id
    return node.claim.status.provider_id if node.claim is not None else ""


def _is_cordoned(node: StateNode) -> bool:
    if node.node is None:
        return False
    return node.node.spec.unschedulable or any(taint.key in _LEAVING for taint in node.node.spec.taints)


def _created(node: StateNode) -> datetime | None:
    either = node.node or node.claim
    assert either is not None
    return either.metadata.creation_timestamp


def _waiting_since(node: StateNode) -> datetime | None:
    """Return since when a node is not Ready: since its claim was created, if it never was."""
    conditions = node.node.status.conditions if node.node is not None else ()
    if node.claim is not None and not node.is_initialized:
        return node.claim.metadata.creation_timestamp
    moments = [each.last_transition_time for each in conditions if each.type == "Ready"]
    return next(filter(None, moments), None) or _created(node)


def waiting_pods(view: ClusterView) -> list[Pod]:
    unbound = (pod for pod in view.pods.values() if not pod.spec.node_name)
    return [pod for pod in unbound if is_active(pod) and not is_running(pod)]


def is_running(pod: Pod) -> bool:
    """Whether a pod runs; that of an operator on a laptop does so without a node."""
    return pod.status.phase == "Running"


def totals(rows: Sequence[NodeRow], waiting: Sequence[Pod]) -> ClusterTotals:
    """Return the sums of rows, with the pods that are on them or on no node."""
    bound, running = sum(row.pods for row in rows), sum(row.running for row in rows)
    return ClusterTotals(
        nodes=len(rows),
        requests=merge(row.requests for row in rows),
        allocatable=merge(row.allocatable for row in rows),
        pods=bound + len(waiting),
        pending=bound - running + len(waiting),
        running=running,
        bound=bound,
        hourly=sum(row.price or 0.0 for row in rows),
        unpriced=sum(row.price is None for row in rows),
    )


_YEAR: Final = 365 * 86400
# https://github.com/kubernetes/apimachinery/blob/master/pkg/util/duration/duration.go has the steps.
_AGES: Final = (
    (120, 1, "s", 0, ""),
    (600, 60, "m", 1, "s"),
    (3 * 3600, 60, "m", 0, ""),
    (8 * 3600, 3600, "h", 60, "m"),
    (48 * 3600, 3600, "h", 0, ""),
    (8 * 86400, 86400, "d", 3600, "h"),
    (2 * _YEAR, 86400, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", 86400, "d"),
)
"""Seconds below which an age has this unit and letter, and the smaller unit that follows."""


def age(since: timedelta) -> str:
    """Return an age as ``kubectl get`` prints it: two units where one would say too little."""
    seconds = max(int(since.total_seconds()), 0)
    for below, unit, letter, smaller, its_letter in _AGES:
        if seconds < below:
            rest = seconds % unit // smaller if smaller else 0
            return f"{seconds // unit}{letter}{rest}{its_letter}" if rest else f"{seconds // unit}{letter}"
    return f"{seconds // _YEAR}y"


def label_text(row: NodeRow, label: str, now: datetime) -> str:
    """Return what a label column shows: the label, or an age or usage that is computed."""
    if label.startswith(_COMPUTED) and label != PRICE_LABEL:
        name = label.removeprefix(_COMPUTED)
        if name == "node-age":
            return age(now - row.created) if row.created is not None else "-"
        found = _USAGE.fullmatch(name)
        if found is not None:
            share = row.share(found["resource"])
            return "N/A" if share is None else f"{share:.0%}"
    return row.labels.get(label) or "-"


SORTS: Final = (CREATION, "name", "price", "cpu", "memory", PODS, "pool", "zone", "type")
"""What rows are sorted by with a key; any label besides."""


class NodeSort(msgspec.Struct, frozen=True):
    """By what rows are sorted."""

    by: str = CREATION
    descending: bool = True

    def __str__(self) -> str:
        return f"{self.by}={'dsc' if self.descending else 'asc'}"


def parse_sort(text: str) -> NodeSort:
    """
    Return the order that a text such as ``creation=dsc`` names; ascending unless it says so.

    Raises:
        ValueError: it says something else than asc or dsc.
    """
    by, equals, way = text.partition("=")
    if equals and way not in {"asc", "dsc"}:
        raise ValueError(f"{way!r} is not asc or dsc")
    return NodeSort(by or CREATION, way == "dsc")


def without_effect(rows: Sequence[NodeRow], order: NodeSort, resources: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong with names that no node has; nothing where there is no node."""
    if rows and order.by not in SORTS and not any(order.by in row.labels for row in rows):
        near = nearest(order.by, SORTS)
        meant = f"did you mean {near}?" if near else f"it is that or one of {', '.join(SORTS)}"
        yield f"no node has the label {order.by} to sort by; {meant}"
    there = {name for row in rows for name in row.allocatable}
    for name in resources:
        if there and name != GPU and name not in there:
            yield f"no node has the resource {name}; there are {', '.join(sorted(there))}"


def sorted_rows(rows: Iterable[NodeRow], order: NodeSort) -> list[NodeRow]:
    """Return rows in an order; those that are equal by name, or by instance where a label decides."""
    found = sorted(rows, key=lambda row: natural_key(row.name if order.by in SORTS else row.instance))
    found.sort(key=lambda row: _sort_key(row, order.by), reverse=order.descending)
    return found


def _sort_key(row: NodeRow, by: str) -> tuple[object, ...]:
    if by == CREATION:
        return (row.created.timestamp() if row.created is not None else 0.0,)
    if by == "price":
        return (row.price or 0.0,)
    if by in {"cpu", "memory"}:
        return (row.share(by) or 0.0,)
    if by == PODS:
        return (row.pods,)
    texts = {"name": row.name, "pool": row.pool, "zone": row.zone, "type": row.instance_type}
    return natural_key(texts[by] if by in texts else row.labels.get(by, ""))


def natural_key(text: str) -> tuple[object, ...]:
    """Return a key that sorts numbers within texts by their value: ``node-9`` before ``node-10``."""
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in _PARTS.split(text))


def matches(row: NodeRow, words: str) -> bool:
    """Whether every word is in the name, NodePool, zone, type, capacity type or state of a row."""
    text = f"{row.name} {row.pool} {row.zone} {row.instance_type} {row.capacity_type} {row.state}".lower()
    return all(word in text for word in words.lower().split())


_TERM: Final = re.compile(
    r"\s*(?:(?P<absent>!)?\s*(?P<key>[\w./-]+)\s*"
    r"(?:(?P<equals>==|=|!=)\s*(?P<value>[\w.-]*)|(?P<set>in|notin)\s*\((?P<values>[^)]*)\))?)\s*(?:,|$)"
)
"""One condition of a selector, as in https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/."""


def read_selector(text: str) -> Selector:
    """
    Return the selector that a text such as ``pool=a,!spot,zone in (b,c)`` stands for.

    Raises:
        SelectorError: the text is no selector.
    """
    conditions, place = [], 0
    while place < len(text):
        found = _TERM.match(text, place)
        if found is None or found.end() == place:
            raise SelectorError(
                f"{text!r} is no label selector such as karpenter.sh/nodepool=default,zone!=a"
            )
        conditions.append(_condition(found))
        place = found.end()
    return Selector(tuple(conditions))


def _condition(found: re.Match[str]) -> SelectorCondition:
    if found["set"]:
        values = frozenset(each.strip() for each in found["values"].split(","))
        return SelectorCondition(found["key"], values, negated=found["set"] == "notin")
    if found["equals"]:
        return SelectorCondition(found["key"], frozenset({found["value"]}), negated=found["equals"] == "!=")
    return SelectorCondition(found["key"], negated=bool(found["absent"]))
