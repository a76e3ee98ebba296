"""
Device selectors: CEL expressions over one device, and which devices they select.

An expression sees the driver, the attributes and the capacities of a device, each under its domain, and
whether the device can be shared. A domain that a device does not have is an empty map. An expression that
fails on a device does not select it; allocationMode All needs to know about failures, so they are kept.

The CEL library lacks two things, which are added here: semantic versions travel through CEL as a map with one
entry, as quantities do; and functions that take versions and quantities alike tell the two apart
(https://kubernetes.io/docs/reference/using-api/cel/). Any user may write a selector, so an evaluation that
costs too much is ended: it counts as failed on the device.
"""

from __future__ import annotations

import re
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from karpenter.api.meta import InvalidObject
from karpenter.api.schema.cel import FUNCTIONS, Program, RuleFailed, compile_with, quantity
from karpenter.api.schema.cel_macros import TICK, CostMeter, rewrite_macros
from karpenter.base.pretty import excerpt
from karpenter.core.scheduling.dynamicresources.types import DeviceClaimError, DeviceInfo, qualified

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


_VERSION: Final = "semantic version"
_NUMBER: Final = r"(0|[1-9][0-9]*)"
_WORD: Final = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_GRAMMAR: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_WORD}(?:\.{_WORD})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)
_LOOSE: Final = re.compile(r"v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?([-+].*)?", re.ASCII)


class _Parts(NamedTuple):
    major: int
    minor: int
    patch: int
    released: bool
    prior: tuple[tuple[int, int, str], ...]
    """The identifiers of a pre-release; numbers sort below texts."""


def version(text: str) -> dict[str, str]:
    """Return a version as selectors see it, without checking it."""
    return {_VERSION: text}


def semver(text: str, normalize: bool = False) -> dict[str, str]:
    """Return a version; `normalize` accepts loosely written ones such as v1.2."""
    written = _in_order(text) if normalize else text
    _parts(written)
    return version(written)


def is_semver(text: Any, normalize: bool = False) -> bool:
    """Say whether a text is a version."""
    try:
        semver(text, normalize)
    except (TypeError, ValueError):
        return False
    return True


def major(value: Any) -> int:
    return _parts(value[_VERSION]).major


def minor(value: Any) -> int:
    return _parts(value[_VERSION]).minor


def patch(value: Any) -> int:
    return _parts(value[_VERSION]).patch


def compare_to(a: Any, b: Any) -> int:
    """Return -1, 0 or 1 as `a` is less than, equal to or greater than `b`."""
    if not _is_version(a):
        found: int = FUNCTIONS["compareTo"](a, b)
        return found
    left, right = _parts(a[_VERSION]), _parts(b[_VERSION])
    return (left > right) - (left < right)


def is_less_than(a: Any, b: Any) -> bool:
    """Say whether `a` is less than `b`."""
    return compare_to(a, b) < 0


def is_greater_than(a: Any, b: Any) -> bool:
    """Say whether `a` is greater than `b`."""
    return compare_to(a, b) > 0


def _is_version(value: Any) -> bool:
    return isinstance(value, dict) and _VERSION in value


def _in_order(text: str) -> str:
    match = _LOOSE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text} is not a version")
    numbers = ".".join(str(int(part or "0")) for part in match.groups()[:3])
    return numbers + (match[4] or "")


def _parts(text: str) -> _Parts:
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise ValueError(f"{text} is not a version")
    words = match[4].split(".") if match[4] else []
    prior = tuple((not word.isdigit(), int(word) if word.isdigit() else 0, word) for word in words)
    return _Parts(int(match[1]), int(match[2]), int(match[3]), not words, prior)


DEVICE_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        **FUNCTIONS,
        "compareTo": compare_to,
        "isGreaterThan": is_greater_than,
        "isLessThan": is_less_than,
        "isSemver": is_semver,
        "major": major,
        "minor": minor,
        "patch": patch,
        "semver": semver,
    }
)
"""The functions that device selectors may call."""


_LONGEST: Final = 10 * 1024
_DOMAIN: Final = re.compile(
    r"\bdevice\s*\.\s*(?P<part>attributes|capacity)\s*\[\s*(?:'(?P<one>[^'\\]*)'|\"(?P<other>[^\"\\]*)\")\s*\]"
)
_BOUND: Final = re.compile(r"\.\s*(?:all|exists|exists_one|filter|map)\s*\(\s*([A-Za-z_]\w*)\s*,")
_ENCODER: Final = msgspec.json.Encoder(order="sorted")


class CelSelector(msgspec.Struct, frozen=True, eq=False):
    """A compiled CEL expression over a device."""

    source: str
    program: Program
    domains: dict[str, dict[str, Any]]
    """The domains of attributes and capacities that it mentions, as empty maps."""


@lru_cache(maxsize=1024)
def compile_selector(source: str) -> CelSelector:
    """
    Compile an expression over a device.

    Raises:
        BadDevices: if it is no expression, or asks for what cannot be evaluated here.
    """
    if len(source) > _LONGEST:
        raise DeviceClaimError(f"the selector {excerpt(source)} is longer than {_LONGEST} characters")
    try:
        plain = rewrite_macros(source)
        program = compile_with(plain, {**DEVICE_FUNCTIONS, TICK: CostMeter()})
    except InvalidObject as error:
        raise DeviceClaimError(f"the selector {excerpt(source)} cannot be used: {error.problem}") from None
    unknown = set(program.compiled.variables()) - {"device", *_BOUND.findall(plain)}
    if unknown:
        raise DeviceClaimError(f"the selector {excerpt(source)} asks for {min(unknown)}, which is not there")
    domains: dict[str, dict[str, Any]] = {"attributes": {}, "capacity": {}}
    for match in _DOMAIN.finditer(plain):
        domains[match["part"]][match["one"] or match["other"] or ""] = {}
    return CelSelector(source, program, domains)


class SelectorMatcher:
    """Evaluates selectors on devices; devices with equal content are evaluated once."""

    def __init__(self) -> None:
        self._contents: dict[DeviceInfo, tuple[int, dict[str, Any]]] = {}
        self._numbers: dict[bytes, int] = {}
        self._results: dict[tuple[str, int], bool | str] = {}

    def matches(self, selectors: Iterable[CelSelector], device: DeviceInfo) -> bool:
        """Return whether every selector is true of a device; one that fails on it is not."""
        return all(self._result(selector, device) is True for selector in selectors)

    def failure(self, selectors: Iterable[CelSelector], device: DeviceInfo) -> str:
        """Return why the first selector that is not true of a device fails on it; nothing if none fails."""
        for selector in selectors:
            result = self._result(selector, device)
            if result is not True:
                return result or ""
        return ""

    def _result(self, selector: CelSelector, device: DeviceInfo) -> bool | str:
        number, content = self._content(device)
        key = selector.source, number
        if key not in self._results:
            self._results[key] = _evaluate(selector, content)
        return self._results[key]

    def _content(self, device: DeviceInfo) -> tuple[int, dict[str, Any]]:
        """Return what selectors see of a device, and the number of its content."""
        known = self._contents.get(device)
        if known is None:
            seen = [device.id.driver, device.raw.attributes, device.raw.capacity, device.shared]
            number = self._numbers.setdefault(_ENCODER.encode(seen), len(self._numbers))
            known = self._contents[device] = number, _environment(device)
        return known


def _evaluate(selector: CelSelector, content: dict[str, Any]) -> bool | str:
    empty = selector.domains
    device = {
        **content,
        "attributes": {**empty["attributes"], **content["attributes"]},
        "capacity": {**empty["capacity"], **content["capacity"]},
    }
    try:
        result = selector.program.run({"device": device}, {TICK: CostMeter()})
    except RuleFailed as failure:
        return str(failure)
    return result if isinstance(result, bool) else f"it says {excerpt(result)} instead of true or false"


def _environment(device: DeviceInfo) -> dict[str, Any]:
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
