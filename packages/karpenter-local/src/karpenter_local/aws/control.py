"""
The control interface of the embedded AWS: carries out commands, and lists instances.

    control = Control(account, estate)
    control.perform(SellOut(zone="us-west-2a"))
    control.perform(Interrupt(instance="i-0123"))

Every command is answered with one sentence that says what was done.
"""

from __future__ import annotations

from datetime import timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, assert_never

import msgspec
from moto.ec2.models import ec2_backends

from karpenter.doctor.quotas import quota_code
from karpenter_local.aws import faults
from karpenter_local.aws.account import Account, CapacityError, InstanceImpairment, OfferingPattern
from karpenter_local.aws.commands import (
    Allow,
    Command,
    Heal,
    Impair,
    Interrupt,
    Kill,
    Lag,
    Limit,
    MovePrices,
    PublishAmi,
    Rebalance,
    RefuseCalls,
    ReleaseAmi,
    Restock,
    Retire,
    SellOutOfferings,
    SetPrice,
    SetQuota,
    ShiftZone,
)
from karpenter_local.aws.events import InterruptionScheduled
from karpenter_local.aws.instancestate import capacity_type_of, is_leaving
from karpenter_local.aws.mail import announce_interruption, announce_maintenance, announce_rebalance
from karpenter_local.aws.quotas import forget_quotas, set_quota

if TYPE_CHECKING:
    from karpenter_local.aws.estate import ClusterResources

_ARCHITECTURES: Final = ("x86_64", "arm64")


class Impossible(ValueError):  # noqa: N818  says what is wrong
    """A command cannot be carried out; the text says why."""


class InstanceView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An instance as ``karpenter local aws instances`` lists it."""

    id: str
    instance_type: str
    zone: str
    capacity_type: str
    state: str
    node: str
    """The name under which it joins."""

    image: str
    launched: str


class Control:
    """Commands one account and the estate in it."""

    def __init__(self, account: Account, estate: ClusterResources) -> None:
        self.account = account
        self.estate = estate
        self._moves = 0

    def perform(self, command: Command) -> str:
        """
        Carry out a command and return, in one sentence, what was done.

        Raises:
            Impossible: there is no such instance, type or architecture.
        """
        match command:
            case SellOutOfferings() | Limit() | Restock():
                return self._stock(command)
            case SetQuota():
                return self._set_quota(command)
            case Interrupt() | Rebalance() | Retire() | Kill() | Impair() | Heal():
                return self._disturb(command)
            case ReleaseAmi() | PublishAmi():
                return self._publish(command)
            case SetPrice() | MovePrices():
                return self._reprice(command)
            case RefuseCalls() | Allow() | Lag() | ShiftZone():
                return self._spoil(command)
            case _:
                assert_never(command)

    def _set_quota(self, command: SetQuota) -> str:
        code = quota_code(command.instance_type, command.capacity_type)
        if not code:
            raise Impossible(f"no quota is known of {command.capacity_type} {command.instance_type}")
        set_quota(self.account, code, command.vcpus)
        return f"quota {code}: {command.vcpus} vCPUs"

    def instances(self) -> tuple[InstanceView, ...]:
        """Return every instance that is not gone, in the order of launch."""
        return tuple(
            InstanceView(
                id=each.id,
                instance_type=each.instance_type,
                zone=each.placement.zone,
                capacity_type=capacity_type_of(each),
                state=each.state,
                node=each.private_dns_name,
                image=each.image_id,
                launched=each.launch_time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            )
            for each in self._all()
            if each.state != "terminated"
        )

    def console(self, name: str) -> str:
        """
        Return what an instance wrote to its console.

        Raises:
            Impossible: there is no such instance.
        """
        return "\n".join(self.account.consoles.get(self._find(name).id, ()))

    def _stock(self, command: SellOutOfferings | Limit | Restock) -> str:
        pattern = OfferingPattern(
            capacity_type=command.capacity_type, instance_type=command.instance_type, zone=command.zone
        )
        said = (command.instance_type, command.capacity_type, command.zone)
        what = " ".join(filter(None, said)) or "everything"
        match command:
            case SellOutOfferings(code=code):
                self.account.sell_out(pattern, CapacityError(code=code))
                return f"sold out: {what}"
            case Limit(count=count):
                if count < 0:
                    raise Impossible(f"no less than 0 instances can run, and {count} is less")
                self.account.limit(pattern, count)
                return f"at most {count} can run: {what}"
            case Restock():
                self.account.restock(pattern if pattern != OfferingPattern() else None)
                if pattern == OfferingPattern():
                    forget_quotas(self.account)
                return f"in stock again: {what}"
            case _:
                assert_never(command)

    def _disturb(self, command: Interrupt | Rebalance | Retire | Kill | Impair | Heal) -> str:
        found = self._alive(command.instance)
        match command:
            case Interrupt(notice=notice):
                announce_interruption(self.account, found.id)
                self.account.tell(InterruptionScheduled(found.id, notice))
                return f"{found.id} was warned and will be taken away in {notice:g} s"
            case Rebalance():
                announce_rebalance(self.account, found.id)
                return f"{found.id} was told that it may be interrupted"
            case Retire():
                announce_maintenance(self.account, found.id)
                return f"{found.id} was told that its hardware will be retired"
            case Kill():
                found.terminate()
                return f"{found.id} was ended"
            case Impair(what=what):
                self.account.ailments[found.id] = InstanceImpairment(what, self.account.now())
                return f"{found.id} is not well: {what}"
            case Heal():
                self.account.ailments.pop(found.id, None)
                return f"{found.id} is well"
            case _:
                assert_never(command)

    def _shift(self, zone: str, seconds: float) -> str:
        others = [each for each in self.account.shifts if each["awayFrom"] != zone]
        until = self.account.now() + timedelta(seconds=seconds)
        shift = {"awayFrom": zone, "appliedStatus": "APPLIED", "expiryTime": until.timestamp()}
        self.account.shifts = [*others, shift] if seconds > 0 else others
        return f"traffic is shifted away from {zone} for {seconds:g} s"

    def _publish(self, command: ReleaseAmi | PublishAmi) -> str:
        if isinstance(command, ReleaseAmi):
            made = self.estate.release_images()
            return f"released {len(made)} images, such as {next(iter(made.values()))}"
        if command.arch not in _ARCHITECTURES:
            raise Impossible(f"{command.arch!r} is not one of {', '.join(_ARCHITECTURES)}")
        number = self.estate.publish_image(command.name, arch=command.arch, number=command.id)
        return f"published {number} as {command.name}"

    def _spoil(self, command: RefuseCalls | Allow | Lag | ShiftZone) -> str:
        match command:
            case RefuseCalls():
                return self._refuse(command)
            case Allow(operation=operation):
                self.account.faults.never(operation)
                return f"calls of {operation} go well again"
            case Lag(seconds=seconds):
                if seconds < 0:
                    raise Impossible(f"a lag of {seconds:g} s is in the future")
                self.account.lag = seconds
                return f"instances are shown {seconds:g} s after their launch"
            case ShiftZone(zone_id=zone, seconds=seconds):
                return self._shift(zone, seconds)
            case _:
                assert_never(command)

    def _refuse(self, command: RefuseCalls) -> str:
        operation, fault = command.operation, faults.RefuseCall(code=command.code)
        if not command.count:
            self.account.faults.always(operation, fault)
            return f"all calls of {operation} end with {command.code}"
        self.account.faults.next(operation, *[fault] * command.count)
        return f"the next {command.count} calls of {operation} end with {command.code}"

    def _reprice(self, command: SetPrice | MovePrices) -> str:
        if isinstance(command, SetPrice):
            return self._set_price(command)
        return self._move_prices(command.spread, command.seed)

    def _set_price(self, command: SetPrice) -> str:
        name, price, zone = command.instance_type, command.price, command.zone
        if name not in self.account.on_demand:
            raise Impossible(f"no instance type {name!r} is sold here")
        if price <= 0:
            raise Impossible(f"a price is more than 0, and {price:g} is not")
        if zone:
            self.account.spot[name, zone] = price
            return f"{name} costs ${price:g} an hour as spot in {zone}"
        self.account.on_demand[name] = price
        return f"{name} costs ${price:g} an hour on demand"

    def _move_prices(self, spread: float, seed: int) -> str:
        if not 0 < spread < 1:
            raise Impossible(f"a spread is between 0 and 1, and {spread:g} is not")
        self._moves += 1
        zones = self.estate.zones
        for name in self.account.on_demand:
            for zone in zones:
                price = self.account.price("spot", name, zone)
                assert price is not None
                factor = 1 + spread * (2 * _chance(seed, self._moves, name, zone) - 1)
                self.account.spot[name, zone] = price * factor
        return f"moved the spot prices of {len(self.account.on_demand)} types in {', '.join(zones)}"

    def _alive(self, name: str) -> Any:
        found = self._find(name)
        if is_leaving(found):
            raise Impossible(f"instance {found.id} is {found.state}")
        return found

    def _find(self, name: str) -> Any:
        """Return an instance by its id, or by the name of its node."""
        for each in self._all():
            if name in {each.id, each.private_dns_name}:
                return each
        raise Impossible(f"there is no instance {name!r}")

    def _all(self) -> list[Any]:
        backend = ec2_backends[self.account.number][self.account.region]
        return list(backend.all_instances())


def _chance(*facts: object) -> float:
    """Return a number from 0 up to 1 that depends on nothing but the facts."""
    digest = blake2b(repr(facts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
