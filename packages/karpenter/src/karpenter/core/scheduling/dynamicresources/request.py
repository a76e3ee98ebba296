"""
What a claim asks for, checked and made ready to be searched for.

A request is a list of alternatives in order of preference, usually one. Each alternative asks
for a number of devices of a class, or for all of them; some attributes must be the same on all
devices of certain requests.

What is not understood is refused here, before anything is searched: a class that is not there,
a selector that cannot be evaluated, a constraint of another kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from karpenter.api.dra import DeviceToleration
from karpenter.api.node import Taint
from karpenter.api.pod import Toleration
from karpenter.base.pretty import excerpt
from karpenter.base.quantity import QuantityError, parse_quantity
from karpenter.core.model.taints import tolerates_taint
from karpenter.core.scheduling.dynamicresources.selectors import CelSelector, compile_selector
from karpenter.core.scheduling.dynamicresources.types import DeviceClaimError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.dra import (
        CapacityRequirements,
        DeviceClaim,
        DeviceClassSpec,
        DeviceConstraint,
        DeviceRequest,
        DeviceSelector,
        DeviceTaint,
        ExactDeviceRequest,
    )
    from karpenter.api.dra import DeviceSubRequest as _Sub

MAX_DEVICES_PER_CLAIM: Final = 32
"""How many devices one claim may be given."""

_KEEPS_OFF: Final = frozenset({"NoSchedule", "NoExecute"})
Classes: TypeAlias = "Mapping[str, DeviceClassSpec]"


class RequestAlternative(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A number of devices that all fit one description."""

    request: str
    name: str
    """The request, and the alternative behind a slash where there are several."""

    class_name: str
    count: int | None
    """None asks for all there are."""

    selectors: tuple[CelSelector, ...] = ()
    capacity: Mapping[str, int] = {}
    tolerations: tuple[DeviceToleration, ...] = ()
    admin: bool = False
    """Whether it only looks after devices that others use, and takes none from anybody."""

    def tolerates(self, taints: Iterable[DeviceTaint]) -> bool:
        """Return whether no taint keeps the request off a device."""
        return all(
            any(_tolerates(toleration, taint) for toleration in self.tolerations)
            for taint in taints
            if taint.effect in _KEEPS_OFF
        )


class ParsedRequest(msgspec.Struct, frozen=True, eq=False):
    """Alternatives, the most wanted first."""

    name: str
    asks: tuple[RequestAlternative, ...]


class MatchAttribute(msgspec.Struct, frozen=True):
    """An attribute that must be the same on the devices of some requests."""

    attribute: str
    requests: frozenset[str] = frozenset()
    """Names of requests or of alternatives; none stands for all."""

    def covers(self, ask: RequestAlternative) -> bool:
        """Return whether the devices of an alternative must keep to it."""
        return not self.requests or ask.request in self.requests or ask.name in self.requests


class ParsedClaim(msgspec.Struct, frozen=True, eq=False):
    """Everything that one claim asks for."""

    requests: tuple[ParsedRequest, ...]
    constraints: tuple[MatchAttribute, ...] = ()


def compile_claim(claim: DeviceClaim, classes: Classes) -> ParsedClaim:
    """
    Return what a claim asks for.

    Raises:
        BadDevices: if a class is missing, or something in it is not understood.
    """
    wanted = ParsedClaim(
        tuple(_request(each, classes) for each in claim.requests),
        tuple(_constraint(each) for each in claim.constraints),
    )
    least = sum(min(ask.count or 0 for ask in request.asks) for request in wanted.requests)
    if least > MAX_DEVICES_PER_CLAIM:
        raise DeviceClaimError(
            f"it asks for {least} devices, and a claim can have at most {MAX_DEVICES_PER_CLAIM}"
        )
    return wanted


def _request(each: DeviceRequest, classes: Classes) -> ParsedRequest:
    if each.exactly is not None:
        asked = _ask(each.exactly, each.name, each.name, classes, admin=bool(each.exactly.admin_access))
        return ParsedRequest(each.name, (asked,))
    if not each.first_available:
        raise DeviceClaimError(f"request {each.name} asks for nothing: expected exactly or firstAvailable")
    names = (f"{each.name}/{sub.name}" for sub in each.first_available)
    asks = (_ask(sub, each.name, n, classes) for sub, n in zip(each.first_available, names, strict=True))
    return ParsedRequest(each.name, tuple(asks))


def _ask(
    each: ExactDeviceRequest | _Sub, request: str, name: str, classes: Classes, *, admin: bool = False
) -> RequestAlternative:
    found = classes.get(each.device_class_name)
    if found is None:
        raise DeviceClaimError(
            f"request {name} asks for DeviceClass {each.device_class_name}, which is not there"
        )
    if each.allocation_mode not in {"", "ExactCount", "All"}:
        mode = excerpt(each.allocation_mode)
        raise DeviceClaimError(f"request {name} has allocationMode {mode}: expected ExactCount or All")
    return RequestAlternative(
        request=request,
        name=name,
        class_name=each.device_class_name,
        count=None if each.allocation_mode == "All" else max(each.count, 1),
        selectors=tuple(_selector(one, name) for one in (*found.selectors, *each.selectors)),
        capacity=_amounts(each.capacity, name),
        tolerations=each.tolerations,
        admin=admin,
    )


def _selector(each: DeviceSelector, name: str) -> CelSelector:
    if each.cel is None:
        raise DeviceClaimError(f"request {name} has a selector that is not understood: expected cel")
    return compile_selector(each.cel.expression)


def _amounts(each: CapacityRequirements | None, name: str) -> dict[str, int]:
    try:
        written = each.requests.items() if each is not None else ()
        return {dimension: parse_quantity(amount).nanos for dimension, amount in written}
    except QuantityError as error:
        raise DeviceClaimError(f"request {name}: {error}") from None


def _constraint(each: DeviceConstraint) -> MatchAttribute:
    if each.match_attribute is None:
        raise DeviceClaimError("it has a constraint that is not understood: expected matchAttribute")
    return MatchAttribute(each.match_attribute, frozenset(each.requests))


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    return tolerates_taint(
        Toleration(
            key=toleration.key,
            operator=toleration.operator,
            value=toleration.value,
            effect=toleration.effect,
        ),
        Taint(key=taint.key, value=taint.value, effect=taint.effect),
    )
