"""
Selectors: expressions over one device, and which devices they are true of.

An expression sees the driver, the attributes and the capacities of a device, each under its
domain, and whether the device can be shared. A domain of which a device says nothing is empty.
Devices that say the same are asked once, whatever they are called.

An expression that fails on a device does not select it. Whoever wants every device that is
selected must know about failures, so they are kept.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.errors import InvalidObject
from karpenter.api.schema.functions import quantity
from karpenter.api.schema.programs import Program, RuleFailed, compile_with
from karpenter.base.excerpt import excerpt
from karpenter.core.scheduling.devices.binds import without_binds
from karpenter.core.scheduling.devices.device import qualified
from karpenter.core.scheduling.devices.problems import BadDevices
from karpenter.core.scheduling.devices.versions import DEVICE_FUNCTIONS, version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.core.scheduling.devices.device import Device

_LONGEST: Final = 10 * 1024
_DOMAIN: Final = re.compile(
    r"\bdevice\s*\.\s*(?P<part>attributes|capacity)\s*\[\s*(?:'(?P<one>[^'\\]*)'|\"(?P<other>[^\"\\]*)\")\s*\]"
)
_BOUND: Final = re.compile(r"\.\s*(?:all|exists|exists_one|filter|map)\s*\(\s*([A-Za-z_]\w*)\s*,")
_ENCODER: Final = msgspec.json.Encoder(order="sorted")


class Selector(msgspec.Struct, frozen=True, eq=False):
    """An expression, ready to be asked about devices."""

    source: str
    program: Program
    domains: dict[str, dict[str, Any]]
    """The domains of attributes and capacities that it mentions, empty."""


@lru_cache(maxsize=1024)
def compile_selector(source: str) -> Selector:
    """
    Compile an expression over a device.

    Raises:
        BadDevices: if it is no expression, or asks for what cannot be evaluated here.
    """
    if len(source) > _LONGEST:
        raise BadDevices(f"the selector {excerpt(source)} is longer than {_LONGEST} characters")
    plain = without_binds(source)
    try:
        program = compile_with(plain, DEVICE_FUNCTIONS)
    except InvalidObject as error:
        raise BadDevices(f"the selector {excerpt(source)} cannot be used: {error.problem}") from None
    unknown = set(program.compiled.variables()) - {"device", *_BOUND.findall(plain)}
    if unknown:
        raise BadDevices(f"the selector {excerpt(source)} asks for {min(unknown)}, which is not there")
    domains: dict[str, dict[str, Any]] = {"attributes": {}, "capacity": {}}
    for match in _DOMAIN.finditer(plain):
        domains[match["part"]][match["one"] or match["other"] or ""] = {}
    return Selector(source, program, domains)


class Matcher:
    """Which devices selectors are true of, remembered."""

    def __init__(self) -> None:
        self._sights: dict[Device, tuple[int, dict[str, Any]]] = {}
        self._numbers: dict[bytes, int] = {}
        self._answers: dict[tuple[str, int], bool | str] = {}

    def matches(self, selectors: Iterable[Selector], device: Device) -> bool:
        """Return whether every selector is true of a device; one that fails on it is not."""
        return all(self._ask(selector, device) is True for selector in selectors)

    def failure(self, selectors: Iterable[Selector], device: Device) -> str:
        """Return why the first selector that is not true of a device fails on it; nothing if none fails."""
        for selector in selectors:
            answer = self._ask(selector, device)
            if answer is not True:
                return answer or ""
        return ""

    def _ask(self, selector: Selector, device: Device) -> bool | str:
        number, sight = self._sight(device)
        key = selector.source, number
        if key not in self._answers:
            self._answers[key] = _answer(selector, sight)
        return self._answers[key]

    def _sight(self, device: Device) -> tuple[int, dict[str, Any]]:
        """Return what selectors see of a device, and the number of everything that looks the same."""
        known = self._sights.get(device)
        if known is None:
            seen = [device.id.driver, device.raw.attributes, device.raw.capacity, device.shared]
            number = self._numbers.setdefault(_ENCODER.encode(seen), len(self._numbers))
            known = self._sights[device] = number, _environment(device)
        return known


def _answer(selector: Selector, sight: dict[str, Any]) -> bool | str:
    empty = selector.domains
    device = {
        **sight,
        "attributes": {**empty["attributes"], **sight["attributes"]},
        "capacity": {**empty["capacity"], **sight["capacity"]},
    }
    try:
        answer = selector.program.run({"device": device})
    except RuleFailed as failure:
        return str(failure)
    return answer if isinstance(answer, bool) else f"it says {excerpt(answer)} instead of true or false"


def _environment(device: Device) -> dict[str, Any]:
    driver, raw = device.id.driver, device.raw
    attributes: dict[str, dict[str, Any]] = {}
    for name, (kind, value) in device.attributes.items():
        domain, _, own = name.partition("/")
        attributes.setdefault(domain, {})[own] = version(str(value)) if kind == "version" else value
    capacity: dict[str, dict[str, Any]] = {}
    for name, each in raw.capacity.items():
        domain, _, own = qualified(name, driver).partition("/")
        capacity.setdefault(domain, {})[own] = quantity(each.value)
    return {
        "driver": driver,
        "attributes": attributes,
        "capacity": capacity,
        "allowMultipleAllocations": device.shared,
    }
