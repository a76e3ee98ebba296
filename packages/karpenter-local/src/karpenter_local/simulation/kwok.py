"""The kwok cloud of a simulated run: a handful of instance types, quick machines, and faults."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.cloud.catalogs.load import load_catalog
from karpenter.cloud.errors import CloudUnreachable, LaunchFailed
from karpenter.cloud.kwok import Behaviour, Fail, Hang, LoseResponse, NeverJoin, Slow
from karpenter.cloud.kwok.cloud import SCHEME
from karpenter_local.sandbox.operators import REPLICA
from karpenter_local.sandbox.options import KwokOptions
from karpenter_local.simulation.faults import BadCloud, BadLaunch, Drift, InjectedFault, LoseMachine, SellOut
from karpenter_local.simulation.invariants.invariant import CloudCall, Invariant, ViolationLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from karpenter.cloud.cloudprovider import Machine
    from karpenter.cloud.kwok.faults import Fault, ProviderCall
    from karpenter.core.model.catalog import Catalog
    from karpenter_local.simulation.cloud import Later
    from karpenter_local.simulation.cluster import SimulatedCluster

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


def kwok_options(catalog: Catalog | None = None) -> KwokOptions:
    """Return the kwok cloud of a simulated run; without a catalogue, a handful of instance types is sold."""
    return KwokOptions(catalog=_catalog() if catalog is None else catalog, behaviour=_BEHAVIOUR)


class SimulatedKwok:
    """The kwok cloud, and what goes wrong with it."""

    def __init__(self, simulated: SimulatedCluster) -> None:
        self._simulated = simulated
        self._cloud = simulated.sandbox.kwok
        self._failing: tuple[float, Random] | None = None
        self._drifted: set[str] = set()
        """The machines that drifted; one that is gone has drifted still, as far as the operator knows."""

        self._on_call: Callable[[CloudCall], None] = lambda _: None
        self._cloud.control.follow(self._fault_of)

    @property
    def node_class(self) -> Mapping[str, str]:
        return self._cloud.node_class

    @property
    def catalog(self) -> Catalog:
        return self._cloud.catalog

    async def start(self) -> None:
        """Do nothing: the cloud is followed from the beginning."""

    def machines(self) -> Sequence[Machine]:
        """Return the machines that exist, in the order of launch."""
        return self._cloud.machines()

    def is_drifted(self, provider_id: str) -> bool:
        """Say whether a machine is not what its class asks for any longer."""
        return provider_id in self._drifted

    def follow(self, on_call: Callable[[CloudCall], None]) -> None:
        """Tell of every launch and termination that an operator asks for."""
        self._on_call = on_call

    def inject(self, fault: InjectedFault, later: Later) -> bool:
        """Inject a fault of the cloud; return whether it was one."""
        control = self._cloud.control
        match fault:
            case SellOut(zone=zone, seconds=seconds):
                control.sell_out(zone=zone)
                later(seconds, lambda: control.restock(zone=zone))
            case BadLaunch(kind=kind, count=count):
                control.next("launch", *[_LAUNCHES[kind]] * count)
            case BadCloud(seconds=seconds, share=share, at=at):
                self._failing = (share, Random(f"{self._simulated.sandbox.seed}/{at}"))  # noqa: S311  as above
                later(seconds, self._end_failures)
            case LoseMachine() | Drift():
                self._disturb_machine(fault)
            case _:
                return False
        return True

    def recover(self) -> None:
        self._failing = None
        self._cloud.control.behave()
        self._cloud.control.follow(self._fault_of)

    def invariants(self, violations: ViolationLog) -> Sequence[Invariant]:
        """Return nothing: this cloud has no invariants of its own."""
        del violations
        return ()

    def _end_failures(self) -> None:
        self._failing = None

    def _fault_of(self, call: ProviderCall) -> Fault | None:
        """Return what goes wrong with a call, if anything does."""
        replica = REPLICA.get()
        seams = self._simulated.seams_of(replica)
        if call.method == "launch":
            self._on_call(CloudCall(by=replica, method="launch"))
        elif call.method == "terminate":
            self._on_call(CloudCall(by=replica, method="terminate", subject=call.subject))
        if seams is not None and call.method in _CHANGES:
            match seams.transport.count():
                case "before":
                    return Hang()
                case "after":
                    return LoseResponse(hangs=True)
        if self._failing is not None and call.method != "interruptions":
            share, chance = self._failing
            if chance.random() < share:
                lost = LaunchFailed if call.method == "launch" else CloudUnreachable
                return Fail(lost("the simulation says no"))
        return None

    def _disturb_machine(self, fault: LoseMachine | Drift) -> None:
        control, kubelets = self._cloud.control, self._simulated.sandbox.cluster.hollow_nodes
        machines = self.machines()
        if not machines:
            return
        chosen = machines[int(fault.pick * len(machines))].provider_id
        node = chosen.removeprefix(SCHEME)
        match fault:
            case Drift():
                control.drift(chosen)
                self._drifted.add(chosen)
            case LoseMachine(announced=True):
                self._simulated.taken.setdefault(chosen, self._simulated.clock.monotonic())
                control.interrupt(chosen)
            case LoseMachine():
                if node in kubelets.nodes:
                    kubelets.make(node, "dead")
                control.kill(chosen)
