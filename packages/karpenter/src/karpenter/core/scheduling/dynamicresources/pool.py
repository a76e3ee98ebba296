"""
Resource pools: slices put together, the newest generation of each, and the devices to choose from.

A driver renews a pool by publishing slices of the next generation, so only the newest counts. A pool of
which slices are missing has unknown devices: nothing is allocated from it, and allocationMode All cannot be
served while it is within reach. The same goes for a pool that contradicts itself.

:class:`CandidateDevices` is made once per node and once per device set, and remembers which devices match a
request. Which of them are free is in :mod:`.allocationtracker`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from karpenter.base.quantity import QuantityError, parse_quantity
from karpenter.core.model.requirement import RequirementError
from karpenter.core.scheduling.dynamicresources.attributebindings import AttributeGroups, attribute_groups
from karpenter.core.scheduling.dynamicresources.types import (
    ANYWHERE,
    AllocationTarget,
    DeviceInfo,
    NodeTerms,
    PoolId,
    read_device,
    read_node_terms,
)

if TYPE_CHECKING:
    from karpenter.api.dra import Device as WireDevice
    from karpenter.api.dra import ResourceSliceSpec
    from karpenter.core.model.catalog import DeviceTemplates
    from karpenter.core.scheduling.dynamicresources.request import RequestAlternative
    from karpenter.core.scheduling.dynamicresources.selectors import SelectorMatcher


class DevicePool(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A resource pool: everything that one driver publishes under one name."""

    id: PoolId
    devices: tuple[DeviceInfo, ...] = ()
    counters: Mapping[tuple[str, str], int] = {}
    """What the devices of the pool may consume together, by counter set and counter."""

    problem: str = ""
    """Why nothing is allocated from the pool; empty when all is well."""

    node_terms: NodeTerms = ANYWHERE
    """The node selector terms of all parts of the pool."""

    @property
    def label(self) -> str:
        """The name of the pool in messages."""
        return f"{self.id.driver}/{self.id.pool}"


def published_pools(slices: Iterable[ResourceSliceSpec]) -> tuple[DevicePool, ...]:
    found = []
    for pool, members in sorted(_by_pool(slices).items()):
        # Slices of an older generation are stale (ResourcePool.generation):
        # https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
        newest = max(each.pool.generation for each in members)
        current = [each for each in members if each.pool.generation == newest]
        missing = ""
        # A pool is complete when all resourceSliceCount slices of the generation exist.
        if len(current) != current[0].pool.resource_slice_count:
            missing = f"{len(current)} of {current[0].pool.resource_slice_count} slices are published"
        found.append(_pool(pool, current, missing))
    return tuple(found)


def template_pools(slices: Iterable[ResourceSliceSpec]) -> tuple[DevicePool, ...]:
    """Return the pools that nodes of an instance type will have."""
    pools = _by_pool(slices)
    return tuple(
        _pool(PoolId(pool.driver, pool.pool, template=True), members)
        for pool, members in sorted(pools.items())
    )


def _by_pool(slices: Iterable[ResourceSliceSpec]) -> dict[PoolId, list[ResourceSliceSpec]]:
    found: dict[PoolId, list[ResourceSliceSpec]] = {}
    for each in slices:
        found.setdefault(PoolId(each.driver, each.pool.name), []).append(each)
    return found


def _pool(pool: PoolId, slices: Sequence[ResourceSliceSpec], missing: str = "") -> DevicePool:
    node_terms = ANYWHERE
    try:
        node_terms = node_terms if pool.template else _node_terms(slices)
        devices = tuple(device for each in slices for device in _devices(each, pool))
        counters = {
            (group.name, name): parse_quantity(counter.value).nanos
            for each in slices
            for group in each.shared_counters
            for name, counter in group.counters.items()
        }
    except (QuantityError, RequirementError) as error:
        return DevicePool(id=pool, problem=str(error), node_terms=node_terms)
    problem = missing or next(_contradictions(slices, devices, counters), "")
    return DevicePool(id=pool, devices=devices, counters=counters, problem=problem, node_terms=node_terms)


def _node_terms(slices: Sequence[ResourceSliceSpec]) -> NodeTerms:
    parts: list[ResourceSliceSpec | WireDevice] = []
    for each in slices:
        parts += each.devices if each.per_device_node_selection else (each,)
    terms = (read_node_terms(each.node_name, each.node_selector, each.all_nodes) for each in parts)
    return tuple(dict.fromkeys(term for found in terms for term in found))


def _devices(each: ResourceSliceSpec, pool: PoolId) -> Iterator[DeviceInfo]:
    for raw in each.devices:
        where = raw if each.per_device_node_selection else each
        if pool.template:
            yield read_device(raw, pool, ANYWHERE)
        else:
            node_terms = read_node_terms(where.node_name, where.node_selector, where.all_nodes)
            yield read_device(raw, pool, node_terms, where.node_name or "")


def _contradictions(
    slices: Sequence[ResourceSliceSpec],
    devices: Sequence[DeviceInfo],
    counters: Mapping[tuple[str, str], int],
) -> Iterator[str]:
    if twice := _first_repeated(device.id.name for device in devices):
        yield f"there are two devices called {twice}"
    if twice := _first_repeated(group.name for each in slices for group in each.shared_counters):
        yield f"there are two counter sets called {twice}"
    for device in devices:
        for consumption in device.consumes_counters:
            if (consumption.counter_set, consumption.counter) not in counters:
                counter = f"{consumption.counter_set}/{consumption.counter}"
                yield f"device {device.id.name} consumes {counter}, which the pool lacks"


def _first_repeated(names: Iterable[str]) -> str:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return ""


Counters: TypeAlias = "Mapping[tuple[str, str], int]"
"""Counter set and counter to the amount."""


class TemplateDevices:
    """The template devices of the instance types of one device set."""

    def __init__(self, templates: DeviceTemplates | None) -> None:
        pools = template_pools(templates.slices) if templates is not None else ()
        self.broken = tuple(pool for pool in pools if pool.problem)
        self.devices = tuple(device for pool in pools if not pool.problem for device in pool.devices)
        self.counters: Mapping[PoolId, Counters] = {pool.id: pool.counters for pool in pools}
        self.attribute_groups: AttributeGroups = (
            attribute_groups(templates.bindings) if templates is not None else {}
        )


NO_TEMPLATE_DEVICES = TemplateDevices(None)


class PublishedPools:
    """The published pools: which are complete and consistent, and the counters of their devices."""

    def __init__(self, pools: Sequence[DevicePool]) -> None:
        self.sound = tuple(pool for pool in pools if not pool.problem)
        self.broken = tuple(pool for pool in pools if pool.problem)
        self.counters: Mapping[PoolId, Counters] = {pool.id: pool.counters for pool in self.sound}


class CandidateDevices:
    """The devices that a node or a device set may be allocated, published ones first."""

    def __init__(
        self,
        matcher: SelectorMatcher,
        published: PublishedPools,
        devices: Sequence[DeviceInfo],
        templates: TemplateDevices = NO_TEMPLATE_DEVICES,
    ) -> None:
        """`devices` are the `published` ones that may be within reach."""
        self._matcher = matcher
        self._published = published
        self._templates = templates
        self._devices = (*devices, *templates.devices)
        self._matching: dict[RequestAlternative, tuple[DeviceInfo, ...]] = {}
        self._sets: dict[RequestAlternative, frozenset[DeviceInfo]] = {}
        self.attribute_groups = templates.attribute_groups

    def counters(self, pool: PoolId) -> Counters:
        """Return what the devices of a pool may consume together."""
        return (self._templates if pool.template else self._published).counters[pool]

    def matching(self, alternative: RequestAlternative) -> tuple[DeviceInfo, ...]:
        """Return the devices that match the selectors of a request and whose taints it tolerates."""
        found = self._matching.get(alternative)
        if found is None:
            found = self._matching[alternative] = tuple(
                device
                for device in self._devices
                if alternative.tolerates(device.taints)
                and self._matcher.matches(alternative.selectors, device)
            )
        return found

    def matching_set(self, alternative: RequestAlternative) -> frozenset[DeviceInfo]:
        if alternative not in self._sets:
            self._sets[alternative] = frozenset(self.matching(alternative))
        return self._sets[alternative]

    def uncertain(self, alternative: RequestAlternative, target: AllocationTarget) -> str:
        """Return why it is unknown which devices are all that a request describes; nothing if it is known."""
        for pool in self._published.broken:
            if any(target.narrow(term) is not None for term in pool.node_terms):
                return f"pool {pool.label} cannot be trusted: {pool.problem}"
        for pool in self._templates.broken:
            return f"pool {pool.label} cannot be trusted: {pool.problem}"
        for device in self._devices:
            if failure := self._matcher.failure(alternative.selectors, device):
                return f"a selector fails on device {device.id.name}: {failure}"
        return ""
