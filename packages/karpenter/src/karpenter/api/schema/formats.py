"""
The formats of text that API servers check: dates, durations, addresses, names and encodings.

A format that is not listed here is not checked, as Kubernetes does with formats it does not know.
Book numbers and credit cards, which Kubernetes also checks, are among those.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from types import MappingProxyType
from urllib.parse import urlsplit

from karpenter.base.duration import parse_nanoseconds

_DATE_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})",
)
_WORDY_DURATION = re.compile(r"([0-9]+)\s*(\w+)")
_WORDY_UNITS = {
    timedelta(microseconds=0.001): "ns nano nanos nanosecond nanoseconds nanosec nanosecs",
    timedelta(microseconds=1): "us \u00b5s micro micros microsecond microseconds microsec microsecs",
    timedelta(milliseconds=1): "ms milli millis millisecond milliseconds millisec millisecs",
    timedelta(seconds=1): "s sec secs second seconds",
    timedelta(minutes=1): "m min mins minute minutes",
    timedelta(hours=1): "h hr hrs hour hours",
    timedelta(days=1): "d day days",
    timedelta(weeks=1): "w wk wks week weeks",
}
_UNITS = {word: unit for unit, words in _WORDY_UNITS.items() for word in words.split()}
# The API server accepts leading zeros.
_OCTET = "0*(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_HOSTNAME_PART = r"[0-9A-Za-z]([0-9A-Za-z-]{0,61}[0-9A-Za-z])?"
_HOSTNAME = re.compile(rf"{_HOSTNAME_PART}|({_HOSTNAME_PART}\.)+[A-Za-z]{{2,63}}")
_SHORT_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_HEX_PAIR = "[0-9A-Fa-f]{2}"
# RFC 1123: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
_LONGEST_HOSTNAME = 255
_LONGEST_SHORT_NAME = 63
_LONGEST_LONG_NAME = 253


def parse_date_time(text: str) -> datetime:
    """
    Return the moment that an RFC 3339 text stands for.

    Raises:
        ValueError: if it is none.
    """
    if not _DATE_TIME.fullmatch(text):
        raise ValueError(text)
    return datetime.fromisoformat(text.upper())


def _does_not_fail(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def succeeds(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, OverflowError):
            return False
        return True

    return succeeds


def _looks_like(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None


def parse_duration(text: str) -> timedelta:
    """
    Return the duration that a text stands for: ``1h30m`` or ``90 minutes``.

    Raises:
        ValueError: if it is none.
    """
    wordy = _WORDY_DURATION.fullmatch(text)
    if wordy is not None and wordy[2] in _UNITS:
        return int(wordy[1]) * _UNITS[wordy[2]]
    return timedelta(microseconds=parse_nanoseconds(text) / 1000)


def _parse_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(text) from error


def _is_uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


def _is_hostname(text: str) -> bool:
    return len(text) <= _LONGEST_HOSTNAME and _HOSTNAME.fullmatch(text) is not None


def _parse_cidr(text: str) -> object:
    if "/" not in text:
        raise ValueError(text)
    return ipaddress.ip_interface(text)


def _is_short_name(text: str) -> bool:
    return len(text) <= _LONGEST_SHORT_NAME and re.fullmatch(_SHORT_NAME, text) is not None


def _is_long_name(text: str) -> bool:
    pattern = rf"{_SHORT_NAME}(\.{_SHORT_NAME})*"
    return len(text) <= _LONGEST_LONG_NAME and re.fullmatch(pattern, text) is not None


def _uuid(version: str, variant: str = "[0-9A-Fa-f]") -> Callable[[str], bool]:
    digit = "[0-9A-Fa-f]"
    return _looks_like(
        f"{digit}{{8}}-?{digit}{{4}}-?{version}{digit}{{3}}-?{variant}{digit}{{3}}-?{digit}{{12}}"
    )


_FORMATS: Mapping[str, Callable[[str], bool]] = MappingProxyType(
    {
        "bsonobjectid": _looks_like("[0-9A-Fa-f]{24}"),
        "byte": _does_not_fail(_parse_base64),
        "cidr": _does_not_fail(_parse_cidr),
        "date": _does_not_fail(date.fromisoformat),
        "datetime": _does_not_fail(parse_date_time),
        "duration": _does_not_fail(parse_duration),
        "email": _looks_like(r"[^@\s]+@[^@\s]+"),
        "hexcolor": _looks_like("#?([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})"),
        "hostname": _is_hostname,
        "ipv4": _looks_like(rf"({_OCTET}\.){{3}}{_OCTET}"),
        "ipv6": _does_not_fail(ipaddress.IPv6Address),
        "k8slongname": _is_long_name,
        "k8sshortname": _is_short_name,
        "mac": _looks_like(f"({_HEX_PAIR}[:-]){{5}}{_HEX_PAIR}"),
        "password": lambda _: True,
        "rgbcolor": _looks_like(r"rgb\([0-9]{1,3},\s*[0-9]{1,3},\s*[0-9]{1,3}\)"),
        "ssn": _looks_like("[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}"),
        "uri": _is_uri,
        "uuid": _uuid("[0-9A-Fa-f]"),
        "uuid3": _uuid("3"),
        "uuid4": _uuid("4", "[89abAB]"),
        "uuid5": _uuid("5", "[89abAB]"),
    }
)


def is_of_format(name: str, text: str) -> bool:
    """Say whether `text` is of the format called `name`; every text is of an unknown format."""
    check = _FORMATS.get(name.replace("-", ""))
    return check is None or check(text)
