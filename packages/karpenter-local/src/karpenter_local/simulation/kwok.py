"""The cloud in memory above a made-up cluster: a handful of types, machines that are quick, and faults."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.kwoknodeclass import KWOKNodeClass
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.cloud.errors import CloudUnreachable, LaunchFailed
from karpenter.cloud.kwok import Behaviour, Fail, Hang, KwokCloud, KwokProvider, LoseResponse, NeverJoin, Slow
from karpenter.cloud.kwok.cloud import SCHEME
from karpenter.cloud.kwok.cloudprovider import ObjectClasses, ObjectNodes
from karpenter.operator.run import KubeClusterObjects
from karpenter_local.simulation.faults import BadCloud, BadLaunch, Drift, LoseMachine, SellOut

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karpenter.base.clock import Clock
    from karpenter.cloud.cloudprovider import CloudProvider, Machine
    from karpenter.cloud.kwok.faults import Fault, ProviderCall
    from karpenter.core.model.catalog import Catalog
    from karpenter.kube.client import Client
    from karpenter_local.kubelet.fleet import Fleet
    from karpenter_local.simulation.cloud import Later
    from karpenter_local.simulation.faults import Mishap
    from karpenter_local.simulation.invariants.rule import Ledger, Rule
    from karpenter_local.simulation.network import Wire
    from karpenter_local.simulation.world import World

CLUSTER: Final = "simulation"
"""The name under which machines are tagged."""

_BEHAVIOUR: Final = Behaviour(launch=2.0, shutdown=3.0, jitter=0.5)
_SIZES: Final = ("1x", "2x", "4x", "8x")
_CHANGES: Final = frozenset({"launch", "terminate"})
_LAUNCHES: Final[dict[str, Fault]] = {
    "fail": Fail(LaunchFailed("the simulation says no")),
    "hang": Hang(),
    "lose": LoseResponse(),
    "lose and hang": LoseResponse(hangs=True),
    "slow": Slow(60.0),
    "never join": NeverJoin(),
}


@cache
def _catalog() -> Catalog:
    """Return the small machines of one sort: enough to choose among, and quick to choose from."""
    whole = load_catalog("kwok")
    types = [kind for kind in whole.types if kind.name.endswith("-amd64-linux")]
    small = tuple(kind for kind in types if kind.name.split("-")[1] in _SIZES)
    return msgspec.structs.replace(whole, types=small)


class KwokSky:
    """The cloud in memory."""

    node_class: Mapping[str, str] = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}

    def __init__(self, world: World, catalog: Catalog | None = None) -> None:
        """`catalog` says what is sold; without it, a handful of types."""
        self._world = world
        self.catalog = _catalog() if catalog is None else catalog
        self.cloud = KwokCloud(
            self.catalog,
            nodes=_Nodes(KubeClusterObjects(world.cluster.connect("kwok")), world.cluster.fleet),
            clock=world.clock,
            chance=Random(f"{world.seed}/cloud"),  # noqa: S311  a simulation's dice
            behaviour=_BEHAVIOUR,
        )
        self._bad: tuple[float, Random] | None = None
        self.cloud.control.follow(self._rule)

    async def begin(self, world: World) -> None:
        """Make a class of machines."""
        await world.client.create(KWOKNodeClass, {"metadata": {"name": self.node_class["name"]}})

    async def end(self) -> None:
        """Stop."""
        await self.cloud.close()

    def machines(self) -> Sequence[Machine]:
        """Return what really exists, in the order of launch."""
        return self.cloud.control.machines(CLUSTER)

    def open(self, client: Client, *, clock: Clock, chance: Random, wire: Wire) -> KwokAccount:
        """Return what an operator has here."""
        del clock, chance, wire
        return KwokAccount(KwokProvider(self.cloud, classes=ObjectClasses(KubeClusterObjects(client)), cluster=CLUSTER))

    def strike(self, mishap: Mishap, later: Later) -> bool:
        """Let a mishap happen that is about the cloud; return whether it was."""
        control = self.cloud.control
        match mishap:
            case SellOut(zone=zone, seconds=seconds):
                control.sell_out(zone=zone)
                later(seconds, lambda: control.restock(zone=zone))
            case BadLaunch(kind=kind, count=count):
                control.next("launch", *[_LAUNCHES[kind]] * count)
            case BadCloud(seconds=seconds, share=share, at=at):
                self._bad = (share, Random(f"{self._world.seed}/{at}"))  # noqa: S311  as above
                later(seconds, self._good)
            case LoseMachine() | Drift():
                self._machine(mishap)
            case _:
                return False
        return True

    def rules(self, ledger: Ledger) -> Sequence[Rule]:
        """Return nothing: this cloud has no rules of its own."""
        del ledger
        return ()

    def relent(self) -> None:
        """Let everything be well from now on."""
        self.cloud.control.behave()

    def _good(self) -> None:
        self._bad = None

    def _rule(self, call: ProviderCall) -> Fault | None:
        leader = self._world.leader
        if leader is not None and call.method in _CHANGES:
            match leader.wire.count():
                case "before":
                    return Hang()
                case "after":
                    return LoseResponse(hangs=True)
        if self._bad is not None and call.method != "interruptions":
            share, chance = self._bad
            if chance.random() < share:
                lost = LaunchFailed if call.method == "launch" else CloudUnreachable
                return Fail(lost("the simulation says no"))
        return None

    def _machine(self, mishap: LoseMachine | Drift) -> None:
        control, fleet = self.cloud.control, self._world.cluster.fleet
        machines = self.machines()
        if not machines:
            return
        chosen = machines[int(mishap.pick * len(machines))].provider_id
        node = chosen.removeprefix(SCHEME)
        match mishap:
            case Drift():
                control.drift(chosen)
            case LoseMachine(announced=True):
                self._world.doomed.add(chosen)
                control.interrupt(chosen)
            case LoseMachine():
                if node in fleet.nodes:
                    fleet.make(node, "dead")
                control.kill(chosen)


class KwokAccount:
    """What one operator has in the cloud in memory."""

    def __init__(self, provider: CloudProvider) -> None:
        self.provider = provider

    async def begin(self) -> None:
        """Do nothing: everything is there."""

    def end(self) -> None:
        """Do nothing: the wire is severed, which the cloud notices."""


class _Nodes(ObjectNodes):
    """Machines in the cluster: each has a kubelet, which dies with it."""

    def __init__(self, objects: KubeClusterObjects, fleet: Fleet) -> None:
        super().__init__(objects)
        self._fleet = fleet

    async def delete_node(self, name: str) -> None:
        """Let the kubelet be dead, and ask for the deletion of its Node."""
        if name in self._fleet.nodes:
            self._fleet.make(name, "dead")
        await super().delete_node(name)
