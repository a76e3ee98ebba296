"""
Everything about devices that a run never changes: pools, strands, and what is held already.

Made once per problem. Kinds of machine that bring along the same devices are one strand, so that
a catalogue of a thousand types is a handful of questions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from karpenter.core.scheduling.devices.ledger import Ledger, held_before
from karpenter.core.scheduling.devices.places import NodePlace
from karpenter.core.scheduling.devices.pools import published_pools
from karpenter.core.scheduling.devices.requests import compile_claim
from karpenter.core.scheduling.devices.search import Wish
from karpenter.core.scheduling.devices.selectors import Matcher
from karpenter.core.scheduling.devices.stock import NOTHING, Published, Stock, Templates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from karpenter.api.pod import Pod
    from karpenter.core.model.catalog import InstanceType
    from karpenter.core.scheduling.devices.device import Device, PoolId
    from karpenter.core.scheduling.devices.needs import Claim, Devices, Needs
    from karpenter.core.scheduling.devices.requests import Wanted
    from karpenter.core.scheduling.problem import Existing
    from karpenter.core.scheduling.templates import Template

_ENCODER: Final = msgspec.json.Encoder(order="sorted")


class Strands:
    """The kinds of one pool, by the devices that they bring along."""

    def __init__(self, types: Sequence[InstanceType], world: World) -> None:
        numbers: dict[bytes, int] = {}
        self.of = np.zeros(len(types), np.int64)
        """``of[kind]``."""

        self.stocks: list[Stock] = []
        for kind, each in enumerate(types):
            content = _ENCODER.encode(each.devices)
            number = numbers.setdefault(content, len(numbers))
            if number == len(self.stocks):
                self.stocks.append(world.stock_of(Templates(each.devices)))
            self.of[kind] = number

    def kinds(self, kinds: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
        """Return some kinds by their strand."""
        mine = self.of[kinds]
        return {number: kinds[mine == number] for number in np.unique(mine).tolist()}


class World:
    """Devices as one problem describes them."""

    def __init__(self, devices: Devices, pods: Sequence[Pod], templates: Sequence[Template]) -> None:
        self._devices = devices
        self._matcher = Matcher()
        self._published = Published(published_pools(devices.slices))
        self._local: dict[str, list[Device]] = {}
        self._general: list[Device] = []
        sound = [device for pool in self._published.sound for device in pool.devices]
        for device in sound:
            (self._local.setdefault(device.home, []) if device.home else self._general).append(device)
        self._let_go = devices.let_go(pods)
        self._before = held_before(devices.holdings, self._let_go)
        self._drawn: dict[tuple[PoolId, str, str], int] = {}
        held = self._before.devices
        for device in sound:
            for draw in device.draws if device.id in held else ():
                key = device.id.pool_id, draw.counter_set, draw.counter
                self._drawn[key] = self._drawn.get(key, 0) + draw.amount
        self._strands = {each.number: Strands(each.pool.types, self) for each in templates}
        self._nodes: dict[str, tuple[NodePlace, Stock]] = {}
        self._wanted: dict[bytes, Wanted] = {}

    def needs(self, pod: Pod) -> Needs:
        """Return the claims of a pod that has some."""
        return self._devices.needs[pod.key]

    def is_settled(self, claim: Claim) -> bool:
        """Return whether a claim has devices and keeps them."""
        return claim.reach is not None and claim.key not in self._let_go

    def wish(self, claim: Claim) -> Wish:
        """Return what a claim asks for; claims made alike ask for the very same thing."""
        content = _ENCODER.encode(claim.devices)
        if content not in self._wanted:
            self._wanted[content] = compile_claim(claim.devices, self._devices.classes)
        return Wish(claim.key, claim.name, self._wanted[content])

    def fresh_ledger(self) -> Ledger:
        """Return who has what before anything is placed."""
        return Ledger(self._before, self._drawn)

    def strands(self, template: Template) -> Strands:
        """Return the strands of a pool."""
        return self._strands[template.number]

    def stock_of(self, templates: Templates) -> Stock:
        """Return what a new machine has to choose from."""
        return Stock(self._matcher, self._published, self._general, templates)

    def node(self, node: Existing) -> tuple[NodePlace, Stock]:
        """Return a node that is there, and what it has to choose from."""
        if node.name not in self._nodes:
            place = NodePlace(node)
            near = [*self._local.get(node.name, ())]
            near += [d for d in self._general if any(place.narrow(term) is not None for term in d.reach)]
            coming = self._devices.templates.get(node.name)
            templates = Templates(coming) if coming is not None else NOTHING
            self._nodes[node.name] = place, Stock(self._matcher, self._published, near, templates)
        return self._nodes[node.name]
