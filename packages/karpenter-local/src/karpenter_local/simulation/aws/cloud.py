"""The embedded AWS above a made-up cluster: an account, machines that boot from user data, mishaps."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.labels import NODEPOOL, SPOT
from karpenter.cloud.aws.instance.createfleet import is_launched_for
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.cloud.cloudprovider import Machine, ProviderContext, ProviderId
from karpenter.cloud.errors import CloudError
from karpenter.operator.run import Objects
from karpenter_local.aws.account import Shelf
from karpenter_local.aws.account import Trouble as Shortage
from karpenter_local.aws.commands import Impair, Interrupt, Kill, Rebalance, ReleaseAmi, Retire
from karpenter_local.aws.happenings import Doomed, Launched
from karpenter_local.aws.inprocess import AwsInProcess
from karpenter_local.aws.inventory import Inventory
from karpenter_local.aws.mail import post
from karpenter_local.aws.power import SHUTTING_DOWN, TERMINATED, capacity_type_of, is_leaving
from karpenter_local.aws.room import MachineRoom, Pace, Reach
from karpenter_local.aws.site import Site, prepare
from karpenter_local.simulation.aws.faults import Ail, BadAws, BadPost, HideInstances, Rubbish, RunShort
from karpenter_local.simulation.aws.network import Line, Weather
from karpenter_local.simulation.aws.paid import Paid
from karpenter_local.simulation.aws.places import REGION
from karpenter_local.simulation.faults import BadCloud, BadLaunch, Drift, LoseMachine, SellOut

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.operator import Assembled
    from karpenter.cloud.cloudprovider import CloudProvider
    from karpenter.core.model.catalog import Catalog
    from karpenter.kube.client import Client
    from karpenter_local.aws.commands import Command
    from karpenter_local.aws.happenings import Happening
    from karpenter_local.simulation.aws.network import Trouble
    from karpenter_local.simulation.cloud import Later
    from karpenter_local.simulation.faults import Mishap
    from karpenter_local.simulation.invariants.rule import Ledger, Rule
    from karpenter_local.simulation.network import Wire
    from karpenter_local.simulation.world import World

log = structlog.stdlib.get_logger(__name__)

CLUSTER: Final = "simulation"
_FAMILIES: Final = ("c5", "m5", "r5")
_SIZES: Final = ("large", "xlarge", "2xlarge")
TYPES: Final = tuple(f"{family}.{size}" for family in _FAMILIES for size in _SIZES)
"""What is sold: enough to choose among, and quick to choose from."""

_PACE: Final = Pace(pending=2.0, boot=6.0, shutdown=4.0)
_NOTICE: Final = 120.0
_NEVER: Final = float("inf")
_AGAIN: Final = 5.0
"""Seconds after which an operator that AWS did not let begin is started again."""

_ALL_TROUBLES: Final[tuple[Trouble, ...]] = ("throttled", "error", "unreachable", "lost")
_LAUNCHES: Final[dict[str, tuple[Trouble, ...]]] = {
    "fail": ("throttled", "throttled"),
    "hang": ("silent", "silent"),
    "lose": ("lost for good",),
    "lose and hang": ("deaf", "silent"),
}
"""What happens to a launch, which is sent twice."""

_CHECKS: Final = frozenset({"instance", "system"})
_MAIL: Final[dict[str, Callable[..., Command]]] = {"retire": Retire, "rebalance": Rebalance}


@cache
def _catalog() -> Catalog:
    whole = load_catalog(f"aws:{REGION}")
    return msgspec.structs.replace(whole, types=tuple(each for each in whole.types if each.name in TYPES))


class AwsSky:
    """The embedded AWS."""

    node_class: Mapping[str, str] = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}

    def __init__(self, world: World) -> None:
        self._world = world
        self._stack = AsyncExitStack()
        self.catalog = _catalog()
        self._cores = {each.name: each.capacity["cpu"] for each in self.catalog.types}
        self.weather = Weather()
        self._lines: list[Line] = []
        self.launched: list[str] = []
        """Every instance that there ever was."""

        self.longest_lag = 0.0
        """For how long EC2 hid what it had launched, at most."""

    async def begin(self, world: World) -> None:
        """Build an account, let machines come and go there, and make a class of machines."""
        server = self._stack.enter_context(AwsInProcess(seed=str(world.seed)))
        self.site = Site(server, cluster=CLUSTER, region=REGION, types=TYPES)
        self._stack.callback(self.site.close)
        self._account = self.site.account
        self._inventory = Inventory(self._account)
        self._account.subscribe(self._note)
        reach = Reach(cluster=CLUSTER, endpoint=f"https://{CLUSTER}.example", authority="c2ltdWxhdGlvbg==")
        self.site.serve(reach)
        self._room = await self._stack.enter_async_context(
            MachineRoom(
                self._account,
                reach,
                client=world.cluster.connect("kubelet"),
                kubelets=world.cluster.fleet,
                clock=world.clock,
                pace=_PACE,
            )
        )
        body = {"metadata": {"name": self.node_class["name"]}, "spec": self.site.estate.node_class()}
        await world.client.create(EC2NodeClass, body)
        self._account.forget_calls()  # from here on, calls are those of the operator

    async def end(self) -> None:
        """Stop."""
        await self._stack.aclose()

    def machines(self) -> Sequence[Machine]:
        """Return what really exists, in the order of launch."""
        claims = {each.status.provider_id: each.metadata.uid for each in self._world.mirror.claims.values()}
        return [self._machine(each, claims) for each in self._inventory.all() if each.state != TERMINATED]

    def open(self, client: Client, *, clock: Clock, chance: Random, wire: Wire) -> AwsAccount:
        """Return what an operator has here."""
        line = Line(self.site.clients, self._account, weather=self.weather, chance=chance, wire=wire)
        self._lines.append(line)
        around = ProviderContext(clock=clock, chance=chance, cluster=CLUSTER, objects=Objects(client))
        return AwsAccount(line, self.site.assemble(line, around, long_poll=0))

    def strike(self, mishap: Mishap, later: Later) -> bool:  # noqa: C901  one case for every mishap
        """Let a mishap happen that is about the cloud; return whether it was."""
        match mishap:
            case SellOut() | RunShort():
                self._run_short(mishap, later)
            case BadLaunch(kind="never join" | "slow" as kind, count=count):
                self._room.setbacks += [_NEVER if kind == "never join" else 60.0] * count
            case BadLaunch(kind=kind, count=count):
                self.weather.waiting["CreateFleet"] += [*_LAUNCHES[kind]] * count
            case BadCloud() | BadAws():
                self._spoil(mishap, later)
            case HideInstances(lag=lag, seconds=seconds):
                self._account.lag = lag
                self.longest_lag = max(self.longest_lag, lag)
                later(seconds, lambda: setattr(self._account, "lag", 0.0))
            case BadPost(seconds=seconds):
                self._account.post = self._dice(mishap)
                later(seconds, lambda: setattr(self._account, "post", None))
            case Rubbish(texts=texts):
                for each in texts:
                    post(self._account, each)
            case Drift():
                self.site.control.perform(ReleaseAmi())
            case LoseMachine(pick=pick) | Ail(pick=pick):
                self._disturb(mishap, pick)
            case _:
                return False
        return True

    def rules(self, ledger: Ledger) -> Sequence[Rule]:
        """Return what must hold on AWS."""
        return [Paid(self._world, ledger, self)]

    def relent(self) -> None:
        """Let everything be well from now on."""
        self.weather.calm()
        self._account.lag = 0.0
        self._account.post = None
        self._account.restock()
        self._room.setbacks.clear()

    def _note(self, happening: Happening) -> None:
        if isinstance(happening, Launched):
            self.launched.append(happening.instance)

    def _run_short(self, mishap: SellOut | RunShort, later: Later) -> None:
        shelf = Shelf(zone=mishap.zone, capacity_type=getattr(mishap, "capacity_type", ""))
        code = mishap.code if isinstance(mishap, RunShort) else Shortage().code
        if code:
            self._account.sell_out(shelf, Shortage(code=code))
        elif isinstance(mishap, RunShort):
            running = sum(
                shelf.holds(capacity_type_of(each), each.instance_type, each.placement.zone)
                for each in self._inventory.all()
                if not is_leaving(each)
            )
            self._account.limit(shelf, running + mishap.left)
        later(mishap.seconds, lambda: self._account.restock(shelf))

    def _spoil(self, mishap: BadCloud | BadAws, later: Later) -> None:
        self.weather.share = mishap.share
        self.weather.kinds = mishap.kinds if isinstance(mishap, BadAws) else _ALL_TROUBLES
        self.weather.chance = self._dice(mishap)
        later(mishap.seconds, lambda: setattr(self.weather, "chance", None))

    def _disturb(self, mishap: LoseMachine | Ail, pick: float) -> None:
        found = [each for each in self._inventory.all() if not is_leaving(each)]
        if not found:
            return
        chosen = found[int(pick * len(found))]
        perform = self.site.control.perform
        match mishap:
            case LoseMachine(announced=True):
                self._world.doomed.add(_provider_id(chosen))
                if capacity_type_of(chosen) == SPOT:
                    perform(Interrupt(instance=chosen.id))
                else:
                    perform(Retire(instance=chosen.id))
                    self._account.tell(Doomed(chosen.id, _NOTICE))
            case LoseMachine():
                perform(Kill(instance=chosen.id))
            case Ail(what=what):
                if what in _CHECKS:
                    self._world.broken.add(_provider_id(chosen))
                if what != "rebalance":
                    self._world.doomed.add(_provider_id(chosen))
                told = _MAIL.get(what)
                perform(told(instance=chosen.id) if told else Impair(instance=chosen.id, what=what))

    def _machine(self, instance: Any, claims: Mapping[str, str]) -> Machine:
        tags = {each["key"]: each["value"] for each in instance.get_tags()}
        provider_id = _provider_id(instance)
        return Machine(
            provider_id=provider_id,
            claim_uid=claims.get(provider_id) or self._claim(tags),
            labels={NODEPOOL: tags.get(NODEPOOL, "")},
            capacity={"cpu": self._cores[instance.instance_type]},
            deleting=instance.state == SHUTTING_DOWN,
        )

    def _claim(self, tags: Mapping[str, str]) -> str:
        """Return the uid of the claim that waits for a machine with these tags."""
        waiting = (each for each in self._world.mirror.claims.values() if not each.status.provider_id)
        return next((each.metadata.uid for each in waiting if is_launched_for(tags, each.metadata.uid)), "")

    def _dice(self, mishap: Mishap) -> Random:
        return Random(f"{self._world.seed}/{mishap.at}")  # noqa: S311  a simulation's dice


class AwsAccount:
    """What one operator has on the embedded AWS."""

    def __init__(self, line: Line, made: Assembled) -> None:
        self._line = line
        self._made = made
        self.provider: CloudProvider = made.provider

    async def begin(self) -> None:
        """Let the provider ask what it has to know; where AWS does not tell, the operator begins anew."""
        while True:
            try:
                await prepare(self._made)
            except CloudError as error:
                log.warning("operator.did_not_begin", error=str(error))
                await asyncio.sleep(_AGAIN)
            else:
                return

    def end(self) -> None:
        """Carry nothing to AWS from now on."""
        self._line.sever()


def _provider_id(instance: Any) -> ProviderId:
    return ProviderId(f"aws:///{instance.placement.zone}/{instance.id}")
