"""
What there is to choose from at a place: published devices that it can reach, and what it brings along.

Found once per node and once per strand of machines, and asked about by many pods: which devices
suit a request is remembered as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from karpenter.core.scheduling.devices.bindings import peers
from karpenter.core.scheduling.devices.pools import template_pools

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karpenter.core.model.catalog import DeviceTemplates
    from karpenter.core.scheduling.devices.bindings import Peers
    from karpenter.core.scheduling.devices.device import Device, PoolId
    from karpenter.core.scheduling.devices.places import Place
    from karpenter.core.scheduling.devices.pools import DevicePool
    from karpenter.core.scheduling.devices.requests import Ask
    from karpenter.core.scheduling.devices.selectors import Matcher


Counters: TypeAlias = "Mapping[tuple[str, str], int]"
"""Counter set and counter to the amount."""


class Templates:
    """What machines of one strand bring along."""

    def __init__(self, templates: DeviceTemplates | None) -> None:
        pools = template_pools(templates.slices) if templates is not None else ()
        self.broken = tuple(pool for pool in pools if pool.problem)
        self.devices = tuple(device for pool in pools if not pool.problem for device in pool.devices)
        self.counters: Mapping[PoolId, Counters] = {pool.id: pool.counters for pool in pools}
        self.peers: Peers = peers(templates.bindings) if templates is not None else {}


NOTHING = Templates(None)


class Published:
    """The pools that are published: which can be trusted, and what their devices draw from together."""

    def __init__(self, pools: Sequence[DevicePool]) -> None:
        self.sound = tuple(pool for pool in pools if not pool.problem)
        self.broken = tuple(pool for pool in pools if pool.problem)
        self.counters: Mapping[PoolId, Counters] = {pool.id: pool.counters for pool in self.sound}


class Stock:
    """Devices to choose from, published ones first."""

    def __init__(
        self,
        matcher: Matcher,
        published: Published,
        devices: Sequence[Device],
        templates: Templates = NOTHING,
    ) -> None:
        """`devices` are those that are `published` and may be within reach."""
        self._matcher = matcher
        self._published = published
        self._templates = templates
        self._devices = (*devices, *templates.devices)
        self._suiting: dict[Ask, tuple[Device, ...]] = {}
        self._sets: dict[Ask, frozenset[Device]] = {}
        self.peers = templates.peers

    def counters(self, pool: PoolId) -> Counters:
        """Return what the devices of a pool may draw together."""
        return (self._templates if pool.template else self._published).counters[pool]

    def suiting(self, ask: Ask) -> tuple[Device, ...]:
        """Return the devices that fit the description of a request."""
        found = self._suiting.get(ask)
        if found is None:
            found = self._suiting[ask] = tuple(
                device
                for device in self._devices
                if ask.tolerates(device.taints) and self._matcher.matches(ask.selectors, device)
            )
        return found

    def suiting_set(self, ask: Ask) -> frozenset[Device]:
        """Return the same as a set."""
        if ask not in self._sets:
            self._sets[ask] = frozenset(self.suiting(ask))
        return self._sets[ask]

    def uncertain(self, ask: Ask, place: Place) -> str:
        """Return why nobody can say which devices are all that a request describes; nothing if one can."""
        for pool in self._published.broken:
            if any(place.narrow(term) is not None for term in pool.reach):
                return f"pool {pool.label} cannot be trusted: {pool.problem}"
        for pool in self._templates.broken:
            return f"pool {pool.label} cannot be trusted: {pool.problem}"
        for device in self._devices:
            if failure := self._matcher.failure(ask.selectors, device):
                return f"a selector fails on device {device.id.name}: {failure}"
        return ""
