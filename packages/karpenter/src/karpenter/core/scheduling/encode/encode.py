"""
A problem encoded for packing: pods as classes, resources as an axis, pools as templates.

Encoding is done once per problem; each :class:`~karpenter.core.scheduling.pack.scheduler.Scheduler` starts
from it with fresh counts. Every index that packing uses (class, template, resource) is assigned here.

Pod classes: equal pods are one class, and what holds for one of them is worked out once for all.

Two pods are equal when nothing that scheduling reads tells them apart. Labels count only where some
selector of the problem names their key, so the pods of a StatefulSet are one class although each has a
label of its own. Pods with volumes are classes of their own, since their claims differ.

Pods with different requests often have the same node affinity, tolerations and topology constraints;
classes share those as :class:`PodConstraints`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from operator import is_
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from karpenter.api.labels import PREFER_NO_SCHEDULE
from karpenter.core.model.hostportusage import HostPort, host_ports
from karpenter.core.model.resources import CPU, MEMORY, PODS, pod_requests
from karpenter.core.scheduling.encode.devices import DeviceInventory
from karpenter.core.scheduling.encode.nodeclaimtemplate import Template, daemon_pod
from karpenter.core.scheduling.encode.preferences import Relaxation, relaxations, required_anti_affinity
from karpenter.core.scheduling.problem import NO_VOLUMES, PodVolumes, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from karpenter.api.meta import LabelSelector
    from karpenter.api.pod import Pod, PodAffinityTerm, PodSpec, PodStatus, TopologySpreadConstraint
    from karpenter.core.model.requirements import Requirements

_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ENCODER: Final = msgspec.json.Encoder()
_UNKNOWN: Final[NDArray[np.int64]] = np.zeros(0, np.int64)


class PodConstraints:
    """What pods require of a node, their requests aside; shared by pods with different containers."""

    __slots__ = ("example", "labels", "number", "relaxations", "volumes")

    def __init__(
        self,
        number: int,
        example: Pod,
        labels: dict[str, str],
        steps: tuple[Relaxation, ...],
        volumes: PodVolumes,
    ) -> None:
        self.number = number
        self.example = example
        self.labels = labels
        """The labels that some selector of the problem names."""

        self.relaxations = steps
        """Every relaxation of the preferences, most demanding first."""

        self.volumes: tuple[Requirements, ...] = volumes.alternatives
        """Where the volumes can be reached; one of these must hold."""

    @property
    def namespace(self) -> str:
        return self.example.metadata.namespace


class PodConstraintsCache:
    """The different pod constraints of a problem."""

    def __init__(self, *, respect: bool, avoidance: bool) -> None:
        """
        Begin without any.

        `respect` treats preferences as required until they are relaxed; `avoidance` says that some
        NodePool has a PreferNoSchedule taint.
        """
        self._respect = respect
        self._avoidance = avoidance
        self._known: dict[tuple[object, ...], PodConstraints] = {}
        self._encode = msgspec.json.Encoder().encode

    def of(
        self,
        pod: Pod,
        labels: tuple[tuple[str, str], ...],
        spreads: Sequence[TopologySpreadConstraint],
        volumes: PodVolumes,
    ) -> PodConstraints:
        """Return the constraints of a pod; pods with volumes have their own, since their claims differ."""
        spec, namespace = pod.spec, pod.metadata.namespace
        asked = self._encode((spec.node_selector, spec.affinity, spec.tolerations, spreads))
        identity = (asked, namespace, labels, pod.key if volumes.claims or volumes.alternatives else None)
        found = self._known.get(identity)
        if found is None:
            steps = relaxations(spec, spreads, respect=self._respect, avoidance=self._avoidance)
            found = PodConstraints(len(self._known), pod, dict(labels), tuple(steps), volumes)
            self._known[identity] = found
        return found


class PodClass:
    """Pods that the scheduler cannot tell apart, in the order in which they are placed."""

    __slots__ = (
        "constraints",
        "devices",
        "example",
        "moved",
        "number",
        "pods",
        "ports",
        "requests",
        "vector",
        "volumes",
        "want",
    )

    def __init__(
        self,
        *,
        number: int,
        example: Pod,
        constraints: PodConstraints,
        volumes: PodVolumes,
        moved: bool,
        requests: Mapping[str, int],
        devices: bool = False,
    ) -> None:
        self.number = number
        self.example = example
        self.constraints = constraints
        self.volumes = volumes
        self.moved = moved
        self.devices = devices
        """Whether its pods claim devices: they are placed one at a time."""

        self.pods: list[Pod] = []
        self.ports: tuple[HostPort, ...] = host_ports(example)
        self.requests = requests
        self.want: tuple[int, ...] = ()
        """The requests over the resource axis of the problem."""

        self.vector = _UNKNOWN


def classify(problem: Problem, *, avoidance: bool) -> list[PodClass]:
    """Return the classes of the problem's pods in the order of placing: the largest pods first."""
    specs, keys = _specs(problem)
    selected = tuple(sorted(keys))
    cached_requests = _CachedRequests()
    cache = PodConstraintsCache(respect=problem.options.preferences == "Respect", avoidance=avoidance)
    known: dict[tuple[object, ...], PodClass] = {}
    found: list[PodClass] = []
    order = _Order()
    extras = _ProblemExtras(problem)
    any_extras = bool(extras)
    for pod in problem.pods:
        meta, status = pod.metadata, pod.status
        values = tuple(map(meta.labels.get, selected))
        reported = (
            _reported_resources(status)
            if status.container_statuses or status.init_container_statuses
            else b""
        )
        # The specs of the problem outlive this loop, so no other object has their ids.
        usual = (specs[id(pod.spec)], meta.namespace, values, reported)
        identity = extras.identity(pod, usual) if any_extras else usual
        group = known.get(identity)
        if group is None:
            volumes = problem.volumes.get(pod.key, NO_VOLUMES)
            labels = tuple([(key, meta.labels[key]) for key in selected if key in meta.labels])
            group = known[identity] = PodClass(
                number=len(found),
                example=pod,
                constraints=cache.of(pod, labels, extras.spreads(pod), volumes),
                volumes=volumes,
                moved=pod.key in problem.moved,
                devices=extras.claims_devices(pod),
                requests=pod_requests(pod) if reported else cached_requests.of(pod),
            )
            found.append(group)
        group.pods.append(pod)
    for group in found:
        if len(group.pods) > 1:
            group.pods.sort(key=order.within)
    found.sort(key=order.between)
    return found


class _CachedRequests:
    """The requests of pods; pods with equal containers are looked at once."""

    def __init__(self) -> None:
        self._known: dict[bytes, dict[str, int]] = {}

    def of(self, pod: Pod) -> dict[str, int]:
        """Return the requests of a pod whose status says nothing about them."""
        spec = pod.spec
        key = _ENCODER.encode((spec.containers, spec.init_containers, spec.resources, spec.overhead))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = pod_requests(pod)
        return found


class _ProblemExtras:
    """What a problem holds of its pods beyond their specs: volumes, default spreads, device claims, moves."""

    def __init__(self, problem: Problem) -> None:
        self._volumes = problem.volumes
        self._moved = problem.moved
        self._defaults = problem.spread_defaults
        self._claiming = problem.devices.pod_claims if problem.devices is not None else {}

    def __bool__(self) -> bool:
        return bool(self._volumes or self._moved or self._defaults or self._claiming)

    def spreads(self, pod: Pod) -> Sequence[TopologySpreadConstraint]:
        own = pod.spec.topology_spread_constraints
        return own or self._defaults.get(pod.key, own)

    def claims_devices(self, pod: Pod) -> bool:
        return pod.key in self._claiming

    def identity(self, pod: Pod, usual: tuple[object, ...]) -> tuple[object, ...]:
        key = pod.key
        claims = self._claiming.get(key)
        spreads, own = self.spreads(pod), pod.spec.topology_spread_constraints
        return (
            *usual,
            key in self._moved,
            key if self._volumes.get(key, NO_VOLUMES) is not NO_VOLUMES else None,
            id(spreads) if spreads is not own else 0,
            claims.identity if claims is not None else b"",
        )


class _Order:
    """The order of placing: large before small requests, old before young pods."""

    @staticmethod
    def within(pod: Pod) -> tuple[datetime, str]:
        return pod.metadata.creation_timestamp or _BEGINNING, pod.metadata.uid

    def between(self, group: PodClass) -> tuple[int, int, datetime, str, int]:
        # First-fit decreasing: cpu, then memory, then age, as upstream sorts its queue:
        # https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/controllers/provisioning/scheduling/queue.go
        want = group.requests
        return (-want.get("cpu", 0), -want.get("memory", 0), *self.within(group.pods[0]), group.number)


def _specs(problem: Problem) -> tuple[dict[int, int], frozenset[str]]:
    """Number the different pod specs, and collect the label keys that any selector mentions."""
    numbers: dict[int, int] = {}
    known: dict[bytes, int] = {}
    keys: set[str] = set()
    encode = _ENCODER.encode
    for pod in problem.pods:
        spec = pod.spec
        if id(spec) in numbers:
            continue
        encoded = encode(_without_unique_fields(spec) if spec.volumes or spec.node_name else spec)
        number = known.get(encoded)
        if number is None:
            number = known[encoded] = len(known)
            keys.update(_keys_of_spec(spec))
        numbers[id(spec)] = number
    seen: set[int] = set()
    for located in problem.bound_pods:
        if id(located.pod.spec) not in seen:
            seen.add(id(located.pod.spec))
            keys.update(_keys_of_terms(required_anti_affinity(located.pod.spec)))
    for spreads in problem.spread_defaults.values():
        keys.update(_keys_of_spreads(spreads))
    return numbers, frozenset(keys)


def _without_unique_fields(spec: PodSpec) -> PodSpec:
    """
    Return a spec without what differs between equal pods.

    The API server gives every pod a projected token volume with a name of its own
    (https://kubernetes.io/docs/concepts/storage/projected-volumes/); volumes that constrain a pod are in the
    problem. The node of a pod says nothing about where it will run next.
    """
    return msgspec.structs.replace(spec, volumes=(), node_name="")


def _reported_resources(status: PodStatus) -> bytes:
    """Return the resources that containers have by their status, which in-place resize may have changed."""
    reported = [
        (each.name, each.allocated_resources, each.resources)
        for each in (*status.container_statuses, *status.init_container_statuses)
        if each.resources is not None
    ]
    if not reported:
        return b""
    resizing = [each.reason for each in status.conditions if each.type == "PodResizePending"]
    return _ENCODER.encode((reported, status.resize, resizing))


def _keys_of_spec(spec: PodSpec) -> Iterator[str]:
    yield from _keys_of_spreads(spec.topology_spread_constraints)
    if spec.affinity is None:
        return
    for side in (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity):
        if side is not None:
            yield from _keys_of_terms(side.required_during_scheduling_ignored_during_execution)
            weighted = side.preferred_during_scheduling_ignored_during_execution
            yield from _keys_of_terms([each.pod_affinity_term for each in weighted])


def _keys_of_spreads(spreads: Iterable[TopologySpreadConstraint]) -> Iterator[str]:
    for spread in spreads:
        yield from _keys_of_selector(spread.label_selector)
        yield from spread.match_label_keys


def _keys_of_terms(terms: Sequence[PodAffinityTerm]) -> Iterator[str]:
    for term in terms:
        yield from _keys_of_selector(term.label_selector)
        yield from term.match_label_keys
        yield from term.mismatch_label_keys


def _keys_of_selector(selector: LabelSelector | None) -> Iterator[str]:
    if selector is not None:
        yield from selector.match_labels
        yield from (entry.key for entry in selector.match_expressions)


class EncodedProblem:
    """A problem and everything about it that packing never changes."""

    def __init__(self, problem: Problem, like: EncodedProblem | None = None) -> None:
        """Encode a problem; it shares the templates of one that is `like` it: another part of one cluster."""
        self.problem = problem
        self.well_known = problem.rules.well_known
        avoidance = any(t.effect == PREFER_NO_SCHEDULE for pool in problem.pools for t in pool.taints)
        self.classes = classify(problem, avoidance=avoidance)
        daemons = [daemon_pod(pod) for pod in problem.daemons]
        names = {CPU, MEMORY, PODS}
        names.update(*(each.requests for each in self.classes), *(daemon.requests for daemon in daemons))
        self.axis = tuple(sorted(names))
        for each in self.classes:
            each.want = tuple([each.requests.get(name, 0) for name in self.axis])
        wants = np.array([each.want for each in self.classes], np.int64).reshape(
            len(self.classes), len(self.axis)
        )
        for each, vector in zip(self.classes, wants, strict=True):
            each.vector = vector
        self.templates: list[Template] = (
            like.templates
            if like is not None and self._has_templates_of(like)
            else [
                Template(number, pool, daemons, self.axis, self.well_known)
                for number, pool in enumerate(problem.pools)
            ]
        )
        devices = problem.devices
        self.devices = DeviceInventory(devices, problem.pods, self.templates) if devices is not None else None

    def _has_templates_of(self, other: EncodedProblem) -> bool:
        """Whether templates depend on the same values here as in another problem."""
        ours, theirs = self.problem, other.problem
        return (
            self.axis == other.axis
            and ours.rules is theirs.rules
            and ours.daemons is theirs.daemons
            and len(ours.pools) == len(theirs.pools)
            and all(map(is_, ours.pools, theirs.pools))
        )
