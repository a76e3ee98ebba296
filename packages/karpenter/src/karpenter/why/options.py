"""
What a NodePool could launch for a pod, by the catalogue alone, and which architectures suit the pod.

This is arithmetic on the catalogue: it asks no solver, so that only a change that can help is tried. It knows
no daemons, no topology and no other pods; what it finds is tried before it is named.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from karpenter.api.labels import ARCH, CAPACITY_TYPE, NODEPOOL, NORMALIZED_LABELS, OS, ZONE, node_class_label
from karpenter.base.quantity import QuantityError
from karpenter.core.model.requirement import RequirementError, requirement
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import fits, pod_requests
from karpenter.core.model.taints import first_untolerated
from karpenter.core.scheduling.encode.preferences import relaxations
from karpenter.core.state.volumetopology import volume_requirements
from karpenter.core.state.volumeusage import VolumeProblem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from karpenter.api.nodepool import NodePool, PoolRequirement
    from karpenter.api.pod import Pod
    from karpenter.core.model.catalog import Catalog, InstanceType, Offering
    from karpenter.core.provisioning.provisioner import ProvisioningDecision
    from karpenter.core.state.cluster import ClusterView

AMD64: Final = "amd64"
ARM64: Final = "arm64"
LINUX: Final = "linux"
_IN_IMAGE: Final = {
    ARM64: re.compile(r"(^|[^a-z0-9])(arm64|aarch64|arm64v8)([^a-z0-9]|$)"),
    AMD64: re.compile(r"(^|[^a-z0-9])(amd64|x86[-_]64)([^a-z0-9]|$)"),
}
_OF_OFFERINGS: Final = frozenset({ZONE, CAPACITY_TYPE})


class Option(NamedTuple):
    """An offering that a NodePool could launch for a pod."""

    kind: InstanceType
    offering: Offering

    def value(self, key: str, wanted: Requirements) -> str:
        """Return the value of a label that the machine would have; empty where it has none."""
        held = self.offering.requirements if key in self.offering.requirements else self.kind.requirements
        return held[key].intersect(wanted[key]).sample() if key in held else ""


class PodDemand(msgspec.Struct, frozen=True):
    """What a pod asks of a machine."""

    alternatives: tuple[Requirements, ...]
    """Requirements of which one must hold, those of its volumes among them."""

    requests: dict[str, int]
    platforms: Requirements
    """The architectures and the operating system that its containers run on."""


def demand_of(pod: Pod, view: ClusterView, catalog: Catalog) -> PodDemand | None:
    """Return what a pod asks of a machine; None where that cannot be read."""
    try:
        places = volume_requirements(pod, view) or (Requirements({}),)
        requests = pod_requests(pod)
        strict = required_labels(pod)
        wanted = tuple(
            one.intersect(place) for one in strict for place in places if one.conflict(place) is None
        )
    except (QuantityError, RequirementError, VolumeProblem):
        return None
    return PodDemand(wanted or strict, requests, platforms_of(pod, view, catalog))


def required_labels(pod: Pod) -> tuple[Requirements, ...]:
    """Return the alternatives of what a pod requires of labels, preferences left out."""
    steps = relaxations(pod.spec, (), respect=False)
    return tuple(dict.fromkeys(each.strict for each in steps))


def cheapest_option(pool: NodePool, demand: PodDemand, catalog: Catalog) -> Option | None:
    """Return the cheapest offering that a NodePool could launch for a pod alone; None where there is none."""
    best: Option | None = None
    for wanted in _together(pool, demand, catalog):
        for option in options(wanted, catalog.types_of(pool.name), demand.requests):
            if best is None or option.offering.price < best.offering.price:
                best = option
    return best


def _together(pool: NodePool, demand: PodDemand, catalog: Catalog) -> Iterator[Requirements]:
    try:
        held = pool_requirements(pool)
    except RequirementError:
        return
    for each in demand.alternatives:
        if held.accepts(each, catalog.label_rules.well_known):
            yield held.intersect(each).intersect(demand.platforms)


def options(
    wanted: Requirements, kinds: Iterable[InstanceType], requests: dict[str, int]
) -> Iterator[Option]:
    for kind in kinds:
        if fits(requests, kind.allocatable) and wanted.conflict(kind.requirements) is None:
            for offering in kind.available:
                if wanted.conflict(offering.requirements) is None:
                    yield Option(kind, offering)


def pool_requirements(pool: NodePool) -> Requirements:
    """Return the requirements and labels of a NodePool's template together."""
    template = pool.spec.template
    ref = template.spec.node_class_ref
    labels = {
        **template.metadata.labels,
        NODEPOOL: pool.name,
        node_class_label(ref.group, ref.kind): ref.name,
    }
    return Requirements.from_entries(template.spec.requirements).intersect(Requirements.from_labels(labels))


def label_of(entry: PoolRequirement) -> str:
    """Return the label of a requirement by its present name."""
    return NORMALIZED_LABELS.get(entry.key, entry.key)


def values_of(key: str, pools: Iterable[NodePool], catalog: Catalog) -> frozenset[str]:
    """Return the values of a label that machines of some NodePools can have."""
    found: set[str] = set()
    for pool in pools:
        held = pool_requirements(pool)
        for option in options(held, catalog.types_of(pool.name), {}):
            source = option.offering.requirements if key in _OF_OFFERINGS else option.kind.requirements
            found |= {value for value in source[key].values if held[key].allows(value)}
    return frozenset(found)


def platforms_of(pod: Pod, view: ClusterView, catalog: Catalog) -> Requirements:
    """
    Return the architectures and the operating system on which the containers of a pod can be started.

    What its selectors say counts, then what they imply (an instance type has one architecture), then the
    names of its images, then what the NodePools offer that it tolerates already; else amd64.
    """
    strict = required_labels(pod)
    system = {value for each in strict if OS in each for value in each[OS].values} or {LINUX}
    return Requirements.of(
        [requirement(ARCH, "In", _architectures(pod, strict, view, catalog)), requirement(OS, "In", system)]
    )


def _architectures(
    pod: Pod, strict: tuple[Requirements, ...], view: ClusterView, catalog: Catalog
) -> frozenset[str]:
    known = _architectures_of(catalog.types) or frozenset({AMD64, ARM64})
    said = frozenset(value for each in strict for value in known if ARCH in each and each[ARCH].allows(value))
    if said or any(ARCH in each for each in strict):
        return said or frozenset(value for each in strict for value in each[ARCH].values)
    implied = known
    for key in {key for each in strict for key in each.keys()} - _OF_OFFERINGS:  # noqa: SIM118  not a dict
        suits = [
            kind
            for kind in catalog.types
            if key in kind.requirements
            and any(each[key].intersects(kind.requirements[key]) for each in strict)
        ]
        implied = implied & _architectures_of(suits) or implied
    if implied != known:
        return implied
    named = _in_images(pod)
    return named or _tolerated(pod, view, catalog) or frozenset({AMD64})


def _in_images(pod: Pod) -> frozenset[str]:
    images = [each.image.lower() for each in (*pod.spec.init_containers, *pod.spec.containers)]
    return frozenset(
        name for name, pattern in _IN_IMAGE.items() if any(pattern.search(image) for image in images)
    )


def _tolerated(pod: Pod, view: ClusterView, catalog: Catalog) -> frozenset[str]:
    """Return the architectures of the NodePools that a pod tolerates; those of all if they have one."""
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for pool in view.pools.values():
        tolerated = first_untolerated(pod.spec.tolerations, pool.spec.template.spec.taints) is None
        try:
            held = pool_requirements(pool)
        except RequirementError:
            continue
        kinds = [kind for kind in catalog.types_of(pool.name) if held.conflict(kind.requirements) is None]
        allowed = {each for each in _architectures_of(catalog.types) if held[ARCH].allows(each)}
        found[tolerated] |= _architectures_of(kinds) or allowed
    if found[True]:
        return frozenset(found[True])
    return frozenset(found[False]) if len(found[False]) == 1 else frozenset()


def _architectures_of(kinds: Iterable[InstanceType]) -> frozenset[str]:
    return frozenset(value for kind in kinds for value in kind.requirements[ARCH].values)


def unfit_pods(
    decision: ProvisioningDecision, demand: PodDemand | None, view: ClusterView, catalog: Catalog
) -> frozenset[str]:
    """Return the pods of a decision that are on machines on which such containers cannot be started."""
    found: set[str] = set()
    if demand is None:
        return frozenset()
    for node in decision.plan.new_nodes:
        kind = catalog.find(node.pool, node.purchase.instance_type)
        if kind is not None and kind.requirements.conflict(demand.platforms) is not None:
            found |= {*node.pods}
    for name, pods in decision.plan.placed.items():
        if name in view.nodes:
            labels = Requirements.from_labels(view.nodes[name].metadata.labels)
            found |= {*pods} if labels.conflict(demand.platforms) is not None else set()
    return frozenset(found)
