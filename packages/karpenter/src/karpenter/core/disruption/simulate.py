"""
Simulates scheduling without some nodes: where their pods would run, and what would be launched for them.

The cluster is built into a problem once; each simulation only leaves nodes out and adds the pods that would
have to move. Pending pods take part, so that a saving never takes their place. What cannot make a
difference to those pods (nodes without room for any of them, running pods that none of their selectors
match) is left out of the problem, which changes no answer.

Commands of one decision follow each other: each is simulated in the cluster as it will be once those before
it are carried out, with their nodes gone and their pods moved. Free room on new nodes is not used by later
commands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import HOSTNAME, NODEPOOL, ZONE
from karpenter.api.pod import Pod, PodSpec, TopologySpreadConstraint
from karpenter.core.disruption.sweep import FreeResources, least_requests, memory_per_cpu
from karpenter.core.model.hostportusage import host_ports
from karpenter.core.model.pricing import COMMITMENT, Commitment, part
from karpenter.core.model.resources import merge, pod_requests, subtract
from karpenter.core.scheduling.build.build import assemble
from karpenter.core.scheduling.build.pods import deleting_node_pods, provisionable_pods
from karpenter.core.scheduling.build.virtualpods import virtual_pods
from karpenter.core.scheduling.encode.encode import EncodedProblem
from karpenter.core.scheduling.encode.preferences import required_anti_affinity
from karpenter.core.scheduling.pack.scheduler import Scheduler
from karpenter.core.scheduling.problem import (
    NO_VOLUMES,
    BoundPod,
    ExistingNode,
    NewNode,
    Options,
    Plan,
    PodVolumes,
    Problem,
    Refusal,
    TopologyNode,
)
from karpenter.core.scheduling.purchases import OnDemandFloors, after_purchases, with_commitments
from karpenter.core.scheduling.solve import packed_by_price, plan_of, search, solve

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.api.meta import LabelSelector
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.command import Command
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.scheduling.build.policy import SchedulingPolicy
    from karpenter.core.state.cluster import ClusterView
    from karpenter.core.state.pdb import PdbLimits
    from karpenter.core.state.statenode import StateNode


Pair = tuple[str, str]
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class RunningPods:
    """The running pods of a cluster, found by their labels and by their anti-affinity."""

    def __init__(
        self, running: Sequence[BoundPod], spreads: Mapping[str, tuple[TopologySpreadConstraint, ...]]
    ) -> None:
        """`spreads` are constraints, by pod key, that pods follow which state none themselves."""
        self.all = running
        self._spreads = spreads
        self._labelled: dict[Pair, list[int]] = {}
        self._refusing: dict[Pair, list[int]] = {}
        self._refusing_any: list[int] = []
        for number, each in enumerate(running):
            for pair in each.pod.metadata.labels.items():
                self._labelled.setdefault(pair, []).append(number)
            if each.pod.spec.affinity is not None:
                self._note_refusals(number, each.pod.spec)

    def of(
        self, pods: Iterable[Pod], *, but: frozenset[str], moved: Mapping[str, str] = _NONE
    ) -> tuple[BoundPod, ...]:
        """
        Return the running pods that may matter to `pods`, in their order, `but` some keys.

        Pods that have `moved` since, by key, are found where they went.
        """
        found = set(self._refusing_any)
        for pod in pods:
            for pair in pod.metadata.labels.items():
                found.update(self._refusing.get(pair, ()))
            for selector in self._selectors(pod):
                sure = _pair(selector)
                if sure is None:
                    return _located(self.all, but, moved)
                found.update(self._labelled.get(sure, ()))
        return _located((self.all[number] for number in sorted(found)), but, moved)

    def _note_refusals(self, number: int, spec: PodSpec) -> None:
        # Required anti-affinity of a running pod also keeps new pods away from it:
        # https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
        for term in required_anti_affinity(spec):
            pair = _pair(term.label_selector)
            if pair is None:
                self._refusing_any.append(number)
            else:
                self._refusing.setdefault(pair, []).append(number)

    def _selectors(self, pod: Pod) -> Iterator[LabelSelector]:
        """Yield every selector by which a pod selects others, preferences included."""
        spreads = pod.spec.topology_spread_constraints or self._spreads.get(pod.key, ())
        found = [spread.label_selector for spread in spreads]
        affinity = pod.spec.affinity
        for side in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else ():
            if side is not None:
                required = side.required_during_scheduling_ignored_during_execution
                found += [term.label_selector for term in required]
                preferred = side.preferred_during_scheduling_ignored_during_execution
                found += [each.pod_affinity_term.label_selector for each in preferred]
        yield from (selector for selector in found if selector is not None)


def _located(
    running: Iterable[BoundPod], but: frozenset[str], moved: Mapping[str, str]
) -> tuple[BoundPod, ...]:
    found = (each for each in running if each.pod.key not in but)
    return tuple(BoundPod(each.pod, moved[each.pod.key]) if each.pod.key in moved else each for each in found)


def _pair(selector: LabelSelector | None) -> Pair | None:
    """Return a label that every selected pod must have; None when no single label decides."""
    return next(iter(selector.match_labels.items()), None) if selector is not None else None


class SimulationState(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything that a simulation needs to know of the cluster."""

    problem: Problem
    """The whole cluster; its pods are those that wait and those that could move."""

    moving: dict[str, Pod]
    """The pods that could move, by key."""

    waiting: tuple[Pod, ...]
    running: RunningPods
    """All running pods, on the nodes where they were at first."""

    locations: Mapping[str, str] = {}
    """Where earlier commands put pods, by key."""

    gone: frozenset[str] = frozenset()
    """Machines that earlier commands remove."""

    floors: OnDemandFloors = OnDemandFloors()
    """How much of each NodePool is kept on demand."""

    commitments: tuple[tuple[Commitment, float], ...] = ()
    """What running nodes leave of commitments."""

    @cached_property
    def rooms(self) -> FreeResources:
        return FreeResources(self.problem.nodes)

    def can_simulate(self, command: Command) -> bool:
        """Whether the cluster after a command can be simulated: no pod is pending for what it may change."""
        bought = [node.purchase for node in command.replacements]
        finite = any(each.reservation_id or part(each.parts, COMMITMENT) for each in bought)
        return not (self.waiting or finite or self.problem.devices is not None)

    def after(self, command: Command, removed: Iterable[StateNode] = ()) -> SimulationState:
        """Return the cluster as it will be once a command is carried out, which removes some nodes."""
        problem, gone = self.problem, frozenset(command.candidates)
        locations = dict(command.moves)
        places = [place for place in problem.topology_nodes if place.name not in gone]
        for node in command.replacements:
            name = f"{len(places)}/{node.name}"  # no node can be called that
            locations.update(dict.fromkeys(node.pods, name))
            labels = {**node.labels, ZONE: node.purchase.zone, HOSTNAME: name}
            places.append(TopologyNode(name=name, labels=labels, taints=node.taints))
        nodes = filled(problem, ((self.moving[key], name) for key, name in command.moves.items()))
        pools = tuple(after_purchases(pool, command.replacements) for pool in problem.pools)
        return msgspec.structs.replace(
            self,
            problem=msgspec.structs.replace(problem, nodes=nodes, topology_nodes=tuple(places), pools=pools),
            locations={**self.locations, **locations},
            gone=self.gone | gone,
            floors=self.floors.without(removed).with_nodes(command.replacements),
        )


def filled(problem: Problem, arriving: Iterable[tuple[Pod, str]]) -> tuple[ExistingNode, ...]:
    """Return the nodes of a problem with what is left once some pods have arrived."""
    by_node: dict[str, list[Pod]] = {}
    for pod, name in arriving:
        by_node.setdefault(name, []).append(pod)
    return tuple(
        _filled(node, by_node[node.name], problem.volumes) if node.name in by_node else node
        for node in problem.nodes
    )


def _filled(node: ExistingNode, pods: Sequence[Pod], volumes: Mapping[str, PodVolumes]) -> ExistingNode:
    """Return a node with what is left once some pods have arrived."""
    held = dict(node.volumes)
    for pod in pods:
        for driver, claims in volumes.get(pod.key, NO_VOLUMES).claims.items():
            held[driver] = held.get(driver, frozenset()) | claims
    return msgspec.structs.replace(
        node,
        free=subtract(node.free, merge(map(pod_requests, pods))),
        ports=(*node.ports, *(port for pod in pods for port in host_ports(pod))),
        volumes=held,
    )


_EFFORT: Final = 2
"""Rounds of improvement for each question about new machines; there are many questions."""

_REMEMBERED: Final = 32
"""Greedy schedules that are kept for packing by price: more than the search in a small cluster asks for."""

Asked = tuple[frozenset[str], frozenset[str]]
"""The machines that go, and those that no pod may use."""

Schedule = tuple[Scheduler, dict[int, int]]
"""A schedule, and the pods that it leaves, per class number."""


class SimulationResult(msgspec.Struct, frozen=True, kw_only=True):
    """Where the pods of nodes that are removed would run."""

    plan: Plan
    replacements: tuple[NewNode, ...]
    """New nodes that are needed because of what is removed."""

    moves: dict[str, str]
    stranded: tuple[Refusal, ...]
    """Moved pods that would have no place."""


class Simulator:
    """Simulates scheduling in one cluster, many times."""

    def __init__(
        self,
        view: ClusterView,
        catalog: Catalog,
        nodes: Sequence[StateNode],
        pdbs: PdbLimits,
        now: datetime,
        *,
        movable: Sequence[Candidate],
        quiet: frozenset[str],
        options: Options,
        policy: SchedulingPolicy,
        destinations: Mapping[str, str] = _NONE,
        fullest_first: bool = False,
    ) -> None:
        """
        Build the problem of the whole cluster.

        Pods that a command in progress moves have their `destinations`, by key, and look for no other place.
        With `fullest_first` the others try nodes whose free room suits them, the fullest first, which are the
        last to be removed themselves; else nodes in order of their names.
        """
        leaving = deleting_node_pods(nodes, pdbs, now)
        pending = [*provisionable_pods(view), *(pod for pod in leaving if pod.key not in destinations)]
        if policy.buffers:
            pending += virtual_pods(view)
        moving = [pod for candidate in movable for pod in candidate.movable]
        options = msgspec.structs.replace(
            options,
            packing="greedy",
            effort=min(options.effort, _EFFORT),
            usual=memory_per_cpu(nodes) if fullest_first else None,
            reserved="fallback",
        )
        built = assemble(view, catalog, nodes=nodes, pods=[*pending, *moving], options=options, policy=policy)
        self._refusals = {refusal.pod: refusal for refusal in built.refusals}
        starting = {node.name for node in nodes if node.is_managed and not node.is_initialized}
        self._quiet, self._starting = quiet | starting, frozenset(starting)
        self._order = {candidate.name: number for number, candidate in enumerate(movable)}
        locations = {pod.key: candidate.name for candidate in movable for pod in candidate.movable}
        found = {pod.key: pod for pod in built.problem.pods if pod.key in locations}
        staying = (BoundPod(pod, locations[key]) for key, pod in found.items())
        arriving = ((pod, destinations[pod.key]) for pod in leaving if pod.key in destinations)
        ready = filled(built.problem, arriving)
        self._cluster = SimulationState(
            problem=msgspec.structs.replace(built.problem, nodes=ready),
            moving=found,
            waiting=tuple(pod for pod in built.problem.pods if pod.key not in locations),
            running=RunningPods((*built.problem.bound_pods, *staying), built.problem.spread_defaults),
            floors=OnDemandFloors.of(view.pools.values(), nodes),
            commitments=built.commitments,
        )
        self._nodes = {node.name: node for node in nodes}
        self._least: dict[str, Mapping[str, int]] = {}
        self._greedy: dict[Asked, Schedule] = {}
        self._encoded: EncodedProblem | None = None

    @property
    def waiting(self) -> int:
        """How many pods wait for a place, whatever goes."""
        return len(self._cluster.waiting)

    def as_it_is(self) -> Problem:
        """Return the cluster with every pod where it was at first, and all that could move to be placed."""
        cluster = self._cluster
        return msgspec.structs.replace(
            cluster.problem,
            pods=tuple(cluster.moving.values()),
            nodes=_quieted(cluster.problem.nodes, self._quiet),
            bound_pods=cluster.running.all,
            moved=frozenset(cluster.moving),
        )

    def encoded(self) -> EncodedProblem:
        """Return the same encoded; simulations share what they can with it."""
        if self._encoded is None:
            self._encoded = EncodedProblem(self.as_it_is())
        return self._encoded

    def is_movable(self, candidate: Candidate) -> bool:
        """Return whether none of a machine's pods was turned away before looking for a place."""
        return not any(pod.key in self._refusals for pod in candidate.movable)

    def after(self, command: Command) -> Simulator | None:
        """Return the cluster as it will be after a command; None when that cannot be simulated."""
        if not self._cluster.can_simulate(command):
            return None
        found = copy(self)
        removed = [self._nodes[name] for name in command.candidates]
        found._cluster = self._cluster.after(command, removed)  # noqa: SLF001  one of us
        found._greedy = {}  # noqa: SLF001  one of us
        return found

    def within(self, pools: AbstractSet[str]) -> Simulator:
        """Return what simulates the same cluster where pods may go to some NodePools only."""
        base = self._cluster.problem
        problem = msgspec.structs.replace(
            base,
            pools=tuple(pool for pool in base.pools if pool.name in pools),
            nodes=tuple(node for node in base.nodes if node.labels.get(NODEPOOL) in pools),
        )
        found = copy(self)
        found._cluster = msgspec.structs.replace(self._cluster, problem=problem)  # noqa: SLF001  one of us
        found._greedy = {}  # noqa: SLF001  one of us
        return found

    def without(
        self, candidates: Sequence[Candidate], *, savings: bool = True, by_price: bool = False
    ) -> SimulationResult:
        """
        Return what becomes of the pods if these machines go.

        `savings` keeps pods off quiet nodes; `by_price` looks for the cheapest new machines
        instead of the fewest.
        """
        quiet = self._quiet if savings else frozenset[str]()
        found = self._without(candidates, quiet - self._starting, by_price=by_price)
        late = [key for key, name in found.moves.items() if name in self._starting]
        if not late:
            return found
        # A starting node that the pods could use is not replaced by another, or machines would pile up where
        # nodes never become ready; nor is anything removed for one:
        # https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/controllers/disruption/helpers.go
        elsewhere = self._without(candidates, quiet | self._starting, by_price=by_price)
        if not elsewhere.replacements:
            return elsewhere
        waits = tuple(
            Refusal(pod=key, message=f"node {found.moves[key]}, where it would run, is not initialized yet")
            for key in sorted(late)
        )
        return msgspec.structs.replace(found, stranded=(*found.stranded, *waits))

    def _without(
        self, candidates: Sequence[Candidate], quiet: frozenset[str], *, by_price: bool
    ) -> SimulationResult:
        """Return what becomes of the pods if these machines go and none of the pods may use `quiet` nodes."""
        moving = frozenset(pod.key for candidate in candidates for pod in candidate.movable)
        schedule = self._schedule(candidates, moving, quiet)
        floors = self._cluster.floors.without(candidate.node for candidate in candidates)
        plan = floors.apply(plan_of(*(packed_by_price(*schedule) if by_price else schedule)))
        stranded = [refusal for refusal in plan.refusals if refusal.pod in moving]
        stranded += [self._refusals[key] for key in sorted(moving) if key in self._refusals]
        return SimulationResult(
            plan=plan,
            replacements=with_commitments(self._replacements(plan, moving), self._cluster.commitments),
            moves={pod: node for node, pods in plan.placed.items() for pod in pods if pod in moving},
            stranded=tuple(stranded),
        )

    def _schedule(
        self, candidates: Sequence[Candidate], moving: frozenset[str], quiet: frozenset[str]
    ) -> Schedule:
        """Return the greedy schedule of a question; packing by price goes on from there."""
        cluster, base = self._cluster, self._cluster.problem
        gone = frozenset(candidate.name for candidate in candidates)
        found = self._greedy.get((gone, quiet))
        if found is not None:
            return found
        ordered = sorted(candidates, key=lambda candidate: self._order[candidate.name])
        leaving = (cluster.moving.get(pod.key) for candidate in ordered for pod in candidate.movable)
        pods = (*cluster.waiting, *(pod for pod in leaving if pod is not None))
        roomy = cluster.rooms.with_room(self._least_of(candidates), without=gone | cluster.gone)
        problem = msgspec.structs.replace(
            base,
            pods=pods,
            nodes=_quieted([base.nodes[at] for at in roomy], quiet),
            topology_nodes=tuple(place for place in base.topology_nodes if place.name not in gone),
            bound_pods=cluster.running.of(pods, but=moving, moved=cluster.locations),
            moved=moving,
        )
        if len(self._greedy) >= _REMEMBERED:
            self._greedy.clear()
        found = self._greedy[gone, quiet] = search(problem, self._encoded)
        return found

    def broken_floor(self, candidates: Sequence[Candidate], replacements: Iterable[NewNode]) -> str:
        """Return which NodePool would have too little on demand if these machines are replaced so."""
        going = [candidate.node for candidate in candidates]
        return self._cluster.floors.without(going).with_nodes(replacements).broken_by(going)

    def lost(self, command: Command) -> tuple[Refusal, ...]:
        """Return the pods that no longer have room on the machines that stay, as a command has foreseen."""
        cluster, base = self._cluster, self._cluster.problem
        gone = frozenset(command.candidates)
        pods = tuple(cluster.moving[key] for key in command.moves if key in cluster.moving)
        problem = msgspec.structs.replace(
            base,
            pods=(*cluster.waiting, *pods),
            pools=(),
            nodes=_quieted([node for node in base.nodes if node.name not in gone], self._quiet),
            topology_nodes=tuple(place for place in base.topology_nodes if place.name not in gone),
            bound_pods=cluster.running.of(pods, but=frozenset(cluster.moving)),
            moved=frozenset(command.moves),
        )
        return tuple(each for each in solve(problem).refusals if each.pod in command.moves)

    @cached_property
    def _wanted_anyway(self) -> int:
        """How many new machines the pods that wait need while every machine stays."""
        cluster = self._cluster
        located = cluster.running.all
        problem = msgspec.structs.replace(cluster.problem, pods=cluster.waiting, bound_pods=located)
        return len(solve(problem, self._encoded).new_nodes)

    def _least_of(self, candidates: Sequence[Candidate]) -> Mapping[str, int]:
        """Return the least that any pod of a question asks for, resource by resource."""
        found = [self._least_on(candidate) for candidate in candidates if candidate.movable]
        return least_requests([*found, *map(pod_requests, self._cluster.waiting)])

    def _least_on(self, candidate: Candidate) -> Mapping[str, int]:
        if candidate.name not in self._least:
            mine = (pod for pod in candidate.movable if pod.key in self._cluster.moving)
            self._least[candidate.name] = least_requests(pod_requests(pod) for pod in mine)
        return self._least[candidate.name]

    def _replacements(self, plan: Plan, moving: frozenset[str]) -> tuple[NewNode, ...]:
        """Return the new machines that are needed because of what goes."""
        mine: list[NewNode] = []
        others: list[NewNode] = []
        for node in plan.new_nodes:
            (others if moving.isdisjoint(node.pods) else mine).append(node)
        # Pods that would be launched for anyway are not a reason to keep a node.
        surplus = max(0, len(others) - self._wanted_anyway)
        others.sort(key=lambda node: -node.purchase.price)
        return (*mine, *others[:surplus])


def _quieted(nodes: Sequence[ExistingNode], quiet: frozenset[str]) -> tuple[ExistingNode, ...]:
    return tuple(msgspec.structs.replace(node, quiet=True) if node.name in quiet else node for node in nodes)
