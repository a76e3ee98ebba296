"""
What each namespace, workload and team costs, and what is paid for that no pod requests.

The price of a node is divided among its cpu, memory and GPUs in the ratio of :data:`WEIGHTS`, and each part
among the pods of the node by what they request of what is allocatable. What DaemonSets request is overhead,
because every node has it; what no pod requests is idle. Overhead, idle and the shares of one table add up to
the bill, to the cent. Usage is not looked at: requests are what machines are bought for.

Pure: nodes with prices and pods with requests go in. Pods without a node cost nothing yet.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.core.model.pricing import HOURS_A_MONTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from karpenter.api.pod import Pod
    from karpenter.core.state.cluster import ClusterView

DEFAULT_TEAM_LABEL: Final = "team"

# Of one core, one GiB and one GPU; those that OpenCost divides the price of a node by:
# https://github.com/opencost/opencost/blob/develop/configs/default.json
WEIGHTS: Final = (0.031611, 0.004237, 0.95)

_TEMPLATE_HASH: Final = "pod-template-hash"
_UNITS: Final = (1000, 1024, 1)
_NANO: Final = 10**9
_DIGITS: Final = 6


class CostNode(msgspec.Struct, frozen=True):
    """A node, as far as its price is divided."""

    hourly: float | None
    """Dollars; None where the price is not known."""

    cpu: int
    """Allocatable, in thousandths of a core; memory is in MiB."""

    memory: int
    gpus: int = 0


class CostPod(msgspec.Struct, frozen=True):
    """A pod, as far as it has a part in the price of its node."""

    node: str
    """Empty where it has none."""

    workload: str
    """Its namespace and the name of what made it, such as ``default/web``."""

    team: str
    cpu: int
    memory: int
    gpus: int = 0
    daemon: bool = False

    @property
    def namespace(self) -> str:
        return self.workload.partition("/")[0]


class CostAmount(msgspec.Struct, frozen=True, kw_only=True):
    """Dollars."""

    hourly: float
    monthly: float
    """For 730 hours, in whole cents."""


class CostShare(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the bill of one namespace, workload or team."""

    name: str
    """Empty for the pods that have no such label."""

    hourly: float
    monthly: float
    pods: int
    cpu: int
    """Requested, in thousandths of a core; memory is in MiB."""

    memory: int
    gpus: int = 0


class CostAllocation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The bill, divided in three ways; each with overhead and idle is the whole."""

    total: CostAmount
    overhead: CostAmount
    """What DaemonSets request."""

    idle: CostAmount
    """What no pod requests."""

    namespaces: tuple[CostShare, ...]
    """The dearest first, as in the other two."""

    workloads: tuple[CostShare, ...]
    teams: tuple[CostShare, ...]
    team_label: str
    unpriced: int
    """Nodes without a known price, which are in none of the amounts."""


def allocate_costs(
    nodes: Mapping[str, CostNode], pods: Iterable[CostPod], *, team_label: str = DEFAULT_TEAM_LABEL
) -> CostAllocation:
    by_node: defaultdict[str, list[CostPod]] = defaultdict(list)
    for pod in pods:
        by_node[pod.node].append(pod)
    tables: list[tuple[Callable[[CostPod], str], dict[str, _Sum]]] = [
        (lambda pod: pod.namespace, {}),
        (lambda pod: pod.workload, {}),
        (lambda pod: pod.team, {}),
    ]
    total = overhead = idle = 0
    for name, node in nodes.items():
        price = round((node.hourly or 0.0) * _NANO)
        amounts = _divided(price, node, by_node[name])
        total += price
        idle += price - sum(amounts)
        for pod, amount in zip(by_node[name], amounts, strict=True):
            if pod.daemon:
                overhead += amount
                continue
            for name_of, sums in tables:
                sums.setdefault(name_of(pod), _Sum()).add(pod, amount)
    cents = _apportioned([total - overhead - idle, overhead, idle], _cents(total))
    namespaces, workloads, teams = (_shares(sums, cents[0]) for _, sums in tables)
    return CostAllocation(
        total=CostAmount(hourly=_dollars(total), monthly=_cents(total) / 100),
        overhead=CostAmount(hourly=_dollars(overhead), monthly=cents[1] / 100),
        idle=CostAmount(hourly=_dollars(idle), monthly=cents[2] / 100),
        namespaces=namespaces,
        workloads=workloads,
        teams=teams,
        team_label=team_label,
        unpriced=sum(node.hourly is None for node in nodes.values()),
    )


class _Sum:
    """What the pods of one name cost together, in billionths of a dollar, and request."""

    def __init__(self) -> None:
        self.amount = self.pods = self.cpu = self.memory = self.gpus = 0

    def add(self, pod: CostPod, amount: int) -> None:
        self.amount += amount
        self.pods += 1
        self.cpu += pod.cpu
        self.memory += pod.memory
        self.gpus += pod.gpus


def _divided(price: int, node: CostNode, pods: Sequence[CostPod]) -> list[int]:
    """Return the part of each pod of a node in its price; together they are never more than all of it."""
    room = (node.cpu, node.memory, node.gpus)
    weights = [weight * size / unit for weight, size, unit in zip(WEIGHTS, room, _UNITS, strict=True)]
    wanted = [(pod.cpu, pod.memory, pod.gpus) for pod in pods]
    if not wanted or not sum(weights):
        return [0] * len(pods)
    # A node may hold more than is allocatable, for example since its kubelet has reserved more.
    wholes = [max(size, sum(each)) for size, each in zip(room, zip(*wanted, strict=True), strict=True)]
    parts = [
        weight / sum(weights) / whole if whole else 0.0 for weight, whole in zip(weights, wholes, strict=True)
    ]
    return [
        int(price * sum(part * size for part, size in zip(parts, sizes, strict=True))) for sizes in wanted
    ]


def _shares(sums: Mapping[str, _Sum], cents: int) -> tuple[CostShare, ...]:
    ordered = sorted(sums.items(), key=lambda each: (-each[1].amount, each[0]))
    monthly = _apportioned([each.amount for _, each in ordered], cents)
    return tuple(
        CostShare(
            name=name,
            hourly=_dollars(each.amount),
            monthly=amount / 100,
            pods=each.pods,
            cpu=each.cpu,
            memory=each.memory,
            gpus=each.gpus,
        )
        for (name, each), amount in zip(ordered, monthly, strict=True)
    )


def _apportioned(amounts: Sequence[int], cents: int) -> list[int]:
    """Return monthly cents of hourly amounts that add up to `cents`: those that lose most are rounded up."""
    exact = [amount * HOURS_A_MONTH * 100 for amount in amounts]
    found = [each // _NANO for each in exact]
    losing = sorted(range(len(exact)), key=lambda place: -(exact[place] % _NANO))
    for place in losing[: cents - sum(found)]:
        found[place] += 1
    return found


def _cents(amount: int) -> int:
    return (amount * HOURS_A_MONTH * 100 + _NANO // 2) // _NANO


def _dollars(amount: int) -> float:
    return round(amount / _NANO, _DIGITS)


def gpus_of(amounts: Mapping[str, int]) -> int:
    """Return how many GPUs there are among resources, of any kind."""
    return sum(amount for name, amount in amounts.items() if name.endswith("/gpu"))


def workload_of(pod: Pod) -> str:
    """Return the workload that a pod belongs to: of a ReplicaSet the Deployment, by its name."""
    for owner in pod.metadata.owner_references:
        if owner.controller:
            mark = pod.metadata.labels.get(_TEMPLATE_HASH, "")
            # https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#pod-template-hash-label
            name = owner.name.removesuffix(f"-{mark}") if owner.kind == "ReplicaSet" and mark else owner.name
            return f"{pod.namespace}/{name}"
    return pod.key


def team_of(pod: Pod, view: ClusterView, label: str) -> str:
    """Return the value of a label of a pod, or of its namespace where the pod has none."""
    own = pod.metadata.labels.get(label)
    if own is not None:
        return own
    namespace = view.namespaces.get(pod.namespace)
    return namespace.metadata.labels.get(label, "") if namespace is not None else ""
