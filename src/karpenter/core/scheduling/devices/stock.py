"""
What there is to choose from at a place: published devices that it can reach, and what it brings along.

Found once per node and once per strand of machines, and asked about by many pods: which devices
suit a request is remembered as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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


class Templates:
    """What machines of one strand bring along."""

    def __init__(self, templates: DeviceTemplates | None) -> None:
        self.pools = template_pools(templates.slices) if templates is not None else ()
        self.devices = tuple(d for pool in self.pools if not pool.problem for d in pool.devices)
        self.peers: Peers = peers(templates.bindings) if templates is not None else {}


NOTHING = Templates(None)


class Stock:
    """Devices to choose from, published ones first."""

    def __init__(
        self,
        matcher: Matcher,
        pools: Sequence[DevicePool],
        devices: Sequence[Device],
        templates: Templates = NOTHING,
    ) -> None:
        """`devices` are those of published `pools` that may be within reach."""
        self._matcher = matcher
        self._pools = [pool for pool in pools if pool.problem]
        self._broken = [pool for pool in templates.pools if pool.problem]
        self._devices = (*devices, *templates.devices)
        self._suiting: dict[Ask, tuple[Device, ...]] = {}
        self.peers = templates.peers
        self.counters: Mapping[PoolId, Mapping[tuple[str, str], int]] = {
            pool.id: pool.counters for pool in (*pools, *templates.pools)
        }

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

    def uncertain(self, ask: Ask, place: Place) -> str:
        """Return why nobody can say which devices are all that a request describes; nothing if one can."""
        for pool in self._pools:
            if any(place.narrow(term) is not None for term in pool.reach):
                return f"pool {pool.label} cannot be trusted: {pool.problem}"
        for pool in self._broken:
            return f"pool {pool.label} cannot be trusted: {pool.problem}"
        for device in self._devices:
            if failure := self._matcher.failure(ask.selectors, device):
                return f"a selector fails on device {device.id.name}: {failure}"
        return ""
