"""
The requests of a claim, checked and compiled for the search.

A request is a list of alternatives in order of preference, usually one. Each alternative requests a number
of devices of a DeviceClass, or all of them; a matchAttribute constraint demands that an attribute is equal
on the devices of some requests.

What is not supported is refused here, before anything is searched: a class that does not exist, a selector
that cannot be evaluated, another kind of constraint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from karpenter.api.dra import (
    CapacityRequirements,
    DeviceClaim,
    DeviceClassSpec,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
)
from karpenter.api.dra import DeviceSubRequest as _Sub
from karpenter.api.node import Taint
from karpenter.api.pod import Toleration
from karpenter.base.pretty import excerpt
from karpenter.base.quantity import QuantityError, parse_quantity
from karpenter.core.model.taints import tolerates_taint
from karpenter.core.scheduling.dynamicresources.selectors import CelSelector, compile_selector
from karpenter.core.scheduling.dynamicresources.types import DeviceClaimError

MAX_DEVICES_PER_CLAIM: Final = 32
"""
How many devices one claim may be allocated, as the API server enforces it (AllocationResultsMaxSize):
https://github.com/kubernetes/api/blob/master/resource/v1/types.go
"""

_BLOCKING_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})
Classes: TypeAlias = "Mapping[str, DeviceClassSpec]"


class RequestAlternative(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One alternative of a request: a number of devices of a class."""

    request: str
    name: str
    """The request, and the subrequest behind a slash where there are several."""

    class_name: str
    count: int | None
    """None is allocationMode All."""

    selectors: tuple[CelSelector, ...] = ()
    capacity: Mapping[str, int] = {}
    tolerations: tuple[DeviceToleration, ...] = ()
    admin: bool = False
    """Whether it has adminAccess: it uses devices beside the claims that have them."""

    def tolerates(self, taints: Iterable[DeviceTaint]) -> bool:
        """Return whether no taint keeps the request off a device."""
        return all(
            any(_tolerates(toleration, taint) for toleration in self.tolerations)
            # DeviceTaint effects NoSchedule and NoExecute keep a request off; None only informs.
            for taint in taints
            if taint.effect in _BLOCKING_EFFECTS
        )


class ParsedRequest(msgspec.Struct, frozen=True, eq=False):
    """A request: its alternatives, the first that can be served counts (firstAvailable)."""

    name: str
    alternatives: tuple[RequestAlternative, ...]


class MatchAttribute(msgspec.Struct, frozen=True):
    """A matchAttribute constraint: an attribute that must be equal on the devices of some requests."""

    attribute: str
    requests: frozenset[str] = frozenset()
    """Names of requests or of subrequests; none stands for all."""

    def covers(self, alternative: RequestAlternative) -> bool:
        """Return whether the constraint covers the devices of an alternative."""
        return not self.requests or alternative.request in self.requests or alternative.name in self.requests


class ParsedClaim(msgspec.Struct, frozen=True, eq=False):
    """Everything that one claim requests."""

    requests: tuple[ParsedRequest, ...]
    constraints: tuple[MatchAttribute, ...] = ()


def compile_claim(claim: DeviceClaim, classes: Classes) -> ParsedClaim:
    """
    Return what a claim requests.

    Raises:
        BadDevices: if a class is missing, or something in it is not supported.
    """
    wanted = ParsedClaim(
        tuple(_request(each, classes) for each in claim.requests),
        tuple(_constraint(each) for each in claim.constraints),
    )
    least = sum(
        min(alternative.count or 0 for alternative in request.alternatives) for request in wanted.requests
    )
    if least > MAX_DEVICES_PER_CLAIM:
        raise DeviceClaimError(
            f"it asks for {least} devices, and a claim can have at most {MAX_DEVICES_PER_CLAIM}"
        )
    return wanted


def _request(each: DeviceRequest, classes: Classes) -> ParsedRequest:
    if each.exactly is not None:
        asked = _alternative(
            each.exactly, each.name, each.name, classes, admin=bool(each.exactly.admin_access)
        )
        return ParsedRequest(each.name, (asked,))
    if not each.first_available:
        raise DeviceClaimError(f"request {each.name} asks for nothing: expected exactly or firstAvailable")
    names = (f"{each.name}/{sub.name}" for sub in each.first_available)
    alternatives = (
        _alternative(sub, each.name, n, classes) for sub, n in zip(each.first_available, names, strict=True)
    )
    return ParsedRequest(each.name, tuple(alternatives))


def _alternative(
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
        # An empty allocationMode means ExactCount, and an empty count means 1, as the API server defaults
        # them.
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
