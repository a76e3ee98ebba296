"""
The embedded AWS of a simulated run: nine instance types, quick instances, the faults of AWS, and an
invariant.

Every machine that was launched became the machine of a NodeClaim. An answer that was lost is found again by
its tags, by the same operator or by the next one. Not judged are runs in which two operators led at once, and
those in which EC2 hid what it had launched for longer than an operator waits for it: then a second machine is
launched, and the first one is terminated.
"""

from __future__ import annotations

from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.labels import NODEPOOL, SPOT
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.instance.createfleet import is_launched_for
from karpenter.cloud.aws.instance.launch import SETTLING
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.cloud.cloudprovider import Machine, ProviderId
from karpenter_local.aws.account import CapacityError as Shortage
from karpenter_local.aws.account import OfferingPattern
from karpenter_local.aws.commands import Impair, Interrupt, Kill, Rebalance, ReleaseAmi, Retire
from karpenter_local.aws.events import InstanceLaunched, InterruptionScheduled
from karpenter_local.aws.instancestate import SHUTTING_DOWN, TERMINATED, capacity_type_of, is_leaving
from karpenter_local.aws.inventory import InstanceInventory
from karpenter_local.aws.mail import post
from karpenter_local.aws.room import InstanceTimings
from karpenter_local.sandbox.options import AwsOptions
from karpenter_local.simulation.aws.faults import (
    REGION,
    BadAws,
    BadMessages,
    BadQueue,
    HideInstances,
    ImpairInstance,
    RunShort,
)
from karpenter_local.simulation.aws.network import AwsCallFaults, FaultyAws
from karpenter_local.simulation.faults import BadCloud, BadLaunch, Drift, LoseMachine, SellOut
from karpenter_local.simulation.invariants.invariant import Invariant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from karpenter.cloud.aws.sdk import AwsApi
    from karpenter.core.model.catalog import Catalog
    from karpenter_local.aws.commands import Command
    from karpenter_local.aws.events import AccountEvent
    from karpenter_local.aws.site import ClusterAccount
    from karpenter_local.simulation.aws.network import AwsCallFault
    from karpenter_local.simulation.cloud import Later
    from karpenter_local.simulation.cluster import SimulatedCluster
    from karpenter_local.simulation.faults import InjectedFault
    from karpenter_local.simulation.invariants.invariant import ViolationLog
    from karpenter_local.simulation.mirror import ObjectWrite
    from karpenter_local.simulation.network import FaultyTransport

_FAMILIES: Final = ("c5", "m5", "r5")
_SIZES: Final = ("large", "xlarge", "2xlarge")
TYPES: Final = tuple(f"{family}.{size}" for family in _FAMILIES for size in _SIZES)
"""The instance types that are sold: enough to choose among, and quick to choose from."""

_PACE: Final = InstanceTimings(pending=2.0, boot=6.0, shutdown=4.0)
_NOTICE: Final = 120.0
_NEVER: Final = float("inf")
_ALL_CALL_FAULTS: Final[tuple[AwsCallFault, ...]] = ("throttled", "error", "unreachable", "lost")
_LAUNCHES: Final[dict[str, tuple[AwsCallFault, ...]]] = {
    "fail": ("throttled", "throttled"),
    "hang": ("silent", "silent"),
    "lose": ("lost for good",),
    "lose and hang": ("deaf", "silent"),
}
"""What happens to a launch, which is sent twice."""

_CHECKS: Final = frozenset({"instance", "system"})
_MESSAGES: Final[dict[str, Callable[..., Command]]] = {"retire": Retire, "rebalance": Rebalance}


@cache
def _catalog() -> Catalog:
    whole = load_catalog(f"aws:{REGION}")
    return msgspec.structs.replace(whole, types=tuple(each for each in whole.types if each.name in TYPES))


def aws_options() -> AwsOptions:
    """Return the embedded AWS of a simulated run."""
    return AwsOptions(region=REGION, types=TYPES, pace=_PACE, in_process=True)


class SimulatedAws:
    """The embedded AWS, and what goes wrong with it."""

    def __init__(self, simulated: SimulatedCluster) -> None:
        self._simulated = simulated
        self._cloud = simulated.sandbox.aws
        self.catalog = _catalog()
        self._cores = {each.name: each.capacity["cpu"] for each in self.catalog.types}
        self.call_faults = AwsCallFaults()
        self._inventory: InstanceInventory
        self.launched: list[str] = []
        """Every instance that there ever was."""

        self.longest_lag = 0.0
        """For how long EC2 hid what it had launched, at most."""

    @property
    def node_class(self) -> Mapping[str, str]:
        """The nodeClassRef of NodePools."""
        return self._cloud.node_class

    @property
    def site(self) -> ClusterAccount:
        """The account with the resources of the cluster."""
        return self._cloud.site

    async def start(self) -> None:
        """Follow the account."""
        self._inventory = InstanceInventory(self.site.account)
        self.site.account.subscribe(self._note)

    def machines(self) -> Sequence[Machine]:
        """Return the machines that exist, in the order of launch."""
        claims = {
            each.status.provider_id: each.metadata.uid for each in self._simulated.mirror.claims.values()
        }
        return [self._machine(each, claims) for each in self._inventory.all() if each.state != TERMINATED]

    def aws(self, site: ClusterAccount, *, chance: Random, transport: FaultyTransport) -> AwsApi:
        """Return how an operator calls AWS."""
        return FaultyAws(
            site.clients, site.account, call_faults=self.call_faults, chance=chance, transport=transport
        )

    def inject(self, fault: InjectedFault, later: Later) -> bool:  # noqa: C901  one case for every fault
        """Inject a fault of the cloud; return whether it was one."""
        match fault:
            case SellOut() | RunShort():
                self._run_short(fault, later)
            case BadLaunch(kind="never join" | "slow" as kind, count=count):
                self._cloud.machine_room.setbacks += [_NEVER if kind == "never join" else 60.0] * count
            case BadLaunch(kind=kind, count=count):
                self.call_faults.waiting["CreateFleet"] += [*_LAUNCHES[kind]] * count
            case BadCloud() | BadAws():
                self._fail_calls(fault, later)
            case HideInstances(lag=lag, seconds=seconds):
                self._cloud.site.account.lag = lag
                self.longest_lag = max(self.longest_lag, lag)
                later(seconds, lambda: setattr(self._cloud.site.account, "lag", 0.0))
            case BadQueue(seconds=seconds):
                self._cloud.site.account.post = self._chance(fault)
                later(seconds, lambda: setattr(self._cloud.site.account, "post", None))
            case BadMessages(texts=texts):
                for each in texts:
                    post(self._cloud.site.account, each)
            case Drift():
                self._cloud.control.perform(ReleaseAmi())
            case LoseMachine(pick=pick) | ImpairInstance(pick=pick):
                self._disturb(fault, pick)
            case _:
                return False
        return True

    def recover(self) -> None:
        """End every fault."""
        self.call_faults.recover()
        account = self.site.account
        account.lag = 0.0
        account.post = None
        account.restock()
        self._cloud.machine_room.setbacks.clear()

    def invariants(self, violations: ViolationLog) -> Sequence[Invariant]:
        """Return what must hold on AWS."""
        return [LaunchedOnceInvariant(self._simulated, violations, self)]

    def _note(self, happening: AccountEvent) -> None:
        if isinstance(happening, InstanceLaunched):
            self.launched.append(happening.instance)

    def _run_short(self, fault: SellOut | RunShort, later: Later) -> None:
        pattern = OfferingPattern(zone=fault.zone, capacity_type=getattr(fault, "capacity_type", ""))
        code = fault.code if isinstance(fault, RunShort) else Shortage().code
        if code:
            self._cloud.site.account.sell_out(pattern, Shortage(code=code))
        elif isinstance(fault, RunShort):
            running = sum(
                pattern.holds(capacity_type_of(each), each.instance_type, each.placement.zone)
                for each in self._inventory.all()
                if not is_leaving(each)
            )
            self._cloud.site.account.limit(pattern, running + fault.left)
        later(fault.seconds, lambda: self._cloud.site.account.restock(pattern))

    def _fail_calls(self, fault: BadCloud | BadAws, later: Later) -> None:
        self.call_faults.share = fault.share
        self.call_faults.kinds = fault.kinds if isinstance(fault, BadAws) else _ALL_CALL_FAULTS
        self.call_faults.chance = self._chance(fault)
        later(fault.seconds, lambda: setattr(self.call_faults, "chance", None))

    def _disturb(self, fault: LoseMachine | ImpairInstance, pick: float) -> None:
        found = [each for each in self._inventory.all() if not is_leaving(each)]
        if not found:
            return
        chosen = found[int(pick * len(found))]
        perform = self._cloud.control.perform
        match fault:
            case LoseMachine(announced=True):
                self._simulated.taken.add(_provider_id(chosen))
                if capacity_type_of(chosen) == SPOT:
                    perform(Interrupt(instance=chosen.id))
                else:
                    perform(Retire(instance=chosen.id))
                    self._cloud.site.account.tell(InterruptionScheduled(chosen.id, _NOTICE))
            case LoseMachine():
                perform(Kill(instance=chosen.id))
            case ImpairInstance(what=what):
                if what in _CHECKS:
                    self._simulated.broken.add(_provider_id(chosen))
                if what != "rebalance":
                    self._simulated.taken.add(_provider_id(chosen))
                message = _MESSAGES.get(what)
                perform(message(instance=chosen.id) if message else Impair(instance=chosen.id, what=what))

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
        waiting = (each for each in self._simulated.mirror.claims.values() if not each.status.provider_id)
        return next((each.metadata.uid for each in waiting if is_launched_for(tags, each.metadata.uid)), "")

    def _chance(self, fault: InjectedFault) -> Random:
        return Random(f"{self._simulated.sandbox.seed}/{fault.at}")  # noqa: S311  chance, not secrets


class LaunchedOnceInvariant(Invariant):
    """No machine is launched that does not become the machine of a NodeClaim."""

    name = "launched once"

    def __init__(self, simulated: SimulatedCluster, violations: ViolationLog, cloud: SimulatedAws) -> None:
        super().__init__(simulated, violations)
        self._cloud = cloud
        self._named: set[str] = set()

    def on_write(self, write: ObjectWrite) -> None:
        """Note which machines became those of claims."""
        if isinstance(write.after, NodeClaim) and write.after.status.provider_id:
            self._named.add(write.after.status.provider_id.rpartition("/")[2])

    def unsettled(self) -> Iterable[str]:
        """Return the machines that never had a NodeClaim."""
        if self.simulated.contested_until or self._cloud.longest_lag >= SETTLING:
            return
        for number in self._cloud.launched:
            if number not in self._named:
                yield f"machine {number} was launched, and is that of no claim"


def _provider_id(instance: Any) -> ProviderId:
    return ProviderId(f"aws:///{instance.placement.zone}/{instance.id}")
