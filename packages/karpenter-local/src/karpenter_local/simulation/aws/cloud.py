"""The embedded AWS of a simulated run: nine instance types, quick instances, and the faults of AWS."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.labels import NODEPOOL, SPOT
from karpenter.cloud.aws.instance.createfleet import is_launched_for
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.cloud.cloudprovider import Machine, ProviderId
from karpenter_local.aws.account import CapacityError as Shortage
from karpenter_local.aws.account import OfferingPattern
from karpenter_local.aws.commands import Command, Impair, Interrupt, Kill, Rebalance, ReleaseAmi, Retire
from karpenter_local.aws.events import AccountEvent, InstanceLaunched, InterruptionScheduled
from karpenter_local.aws.instancestate import SHUTTING_DOWN, TERMINATED, capacity_type_of, is_leaving
from karpenter_local.aws.inventory import InstanceInventory
from karpenter_local.aws.mail import post
from karpenter_local.aws.room import InstanceTimings
from karpenter_local.sandbox.operators import REPLICA
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
from karpenter_local.simulation.aws.network import AwsCallFault, AwsCallFaults, FaultyAws
from karpenter_local.simulation.faults import BadCloud, BadLaunch, Drift, InjectedFault, LoseMachine, SellOut
from karpenter_local.simulation.invariants.invariant import CloudCall, Invariant, ViolationLog
from karpenter_local.simulation.invariants.machines import LaunchedOnceInvariant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from karpenter.cloud.aws.sdk import AwsApi
    from karpenter.core.model.catalog import Catalog
    from karpenter_local.aws.site import ClusterAccount
    from karpenter_local.simulation.cloud import Later
    from karpenter_local.simulation.cluster import SimulatedCluster
    from karpenter_local.simulation.network import FaultyTransport

_FAMILIES: Final = ("c5", "m5", "r5")
_SIZES: Final = ("large", "xlarge", "2xlarge")
TYPES: Final = tuple(f"{family}.{size}" for family in _FAMILIES for size in _SIZES)
"""The instance types that are sold: enough to choose among, and quick to choose from."""

_PACE: Final = InstanceTimings(pending=2.0, boot=6.0, shutdown=4.0)
_NOTICE_SECONDS: Final = 120.0
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
        self._on_call: Callable[[CloudCall], None] = lambda _: None

    @property
    def node_class(self) -> Mapping[str, str]:
        return self._cloud.node_class

    @property
    def site(self) -> ClusterAccount:
        return self._cloud.site

    async def start(self) -> None:
        self._inventory = InstanceInventory(self.site.account)
        self.site.account.subscribe(self._note)

    def machines(self) -> Sequence[Machine]:
        """Return the machines that exist, in the order of launch."""
        claims = {
            each.status.provider_id: each.metadata.uid for each in self._simulated.mirror.claims.values()
        }
        return [self._machine(each, claims) for each in self._inventory.all() if each.state != TERMINATED]

    def is_drifted(self, provider_id: str) -> bool:
        """Say whether a machine may not be what its class asks for: images are released now and then."""
        del provider_id
        return True

    def follow(self, on_call: Callable[[CloudCall], None]) -> None:
        """Tell of every launch and termination that an operator asks for."""
        self._on_call = on_call

    def aws(self, site: ClusterAccount, *, chance: Random, transport: FaultyTransport) -> AwsApi:
        return FaultyAws(
            site.clients,
            site.account,
            call_faults=self.call_faults,
            chance=chance,
            transport=transport,
            on_change=self._on_change,
        )

    def inject(self, fault: InjectedFault, later: Later) -> bool:
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
                now = self._simulated.clock.monotonic()
                self._simulated.lags.append((now, now + seconds, lag))
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
        self.call_faults.recover()
        account = self.site.account
        account.lag = 0.0
        account.post = None
        account.restock()
        self._cloud.machine_room.setbacks.clear()

    def invariants(self, violations: ViolationLog) -> Sequence[Invariant]:
        return [LaunchedOnceInvariant(self._simulated, violations)]

    def _on_change(self, operation: str, parameters: Mapping[str, Any]) -> None:
        """Tell of a call that launches or terminates instances."""
        if operation == "CreateFleet":
            self._on_call(CloudCall(by=REPLICA.get(), method="launch"))
        elif operation == "TerminateInstances":
            known = {each.id: each for each in self._inventory.all()}
            for number in parameters["InstanceIds"]:
                if number in known and not is_leaving(known[number]):
                    subject = _provider_id(known[number])
                    self._on_call(CloudCall(by=REPLICA.get(), method="terminate", subject=subject))

    def _note(self, happening: AccountEvent) -> None:
        if isinstance(happening, InstanceLaunched):
            self._simulated.launched[happening.instance] = self._simulated.clock.monotonic()

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
                self._simulated.ended.add(chosen.id)
                self._simulated.taken.setdefault(_provider_id(chosen), self._simulated.clock.monotonic())
                if capacity_type_of(chosen) == SPOT:
                    perform(Interrupt(instance=chosen.id))
                else:
                    perform(Retire(instance=chosen.id))
                    self._cloud.site.account.tell(InterruptionScheduled(chosen.id, _NOTICE_SECONDS))
            case LoseMachine():
                self._simulated.ended.add(chosen.id)
                perform(Kill(instance=chosen.id))
            case ImpairInstance(what=what):
                if what in _CHECKS:
                    self._simulated.broken.add(_provider_id(chosen))
                if what != "rebalance":
                    self._simulated.taken.setdefault(_provider_id(chosen), self._simulated.clock.monotonic())
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


def _provider_id(instance: Any) -> ProviderId:
    return ProviderId(f"aws:///{instance.placement.zone}/{instance.id}")
