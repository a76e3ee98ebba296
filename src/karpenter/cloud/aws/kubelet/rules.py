"""
What the kubelet settings of a class may say.

:func:`check_settings` judges the settings by themselves; :func:`check_family` whether images of a family can
be told them at all. Both return sentences, and none when all is well.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from karpenter.api.ec2nodeclass import BOTTLEROCKET
from karpenter.base.duration import DurationError, parse_duration
from karpenter.base.quantity import QuantityError, parse_quantity
from karpenter.cloud.aws.kubelet.shape import check_shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from karpenter.cloud.aws.families import Family

SIGNALS: Final = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
)
RESERVABLE: Final = ("cpu", "memory", "ephemeral-storage", "pid")
MAPPED: Final = (
    "clusterDNS",
    "maxPods",
    "podsPerCore",
    "systemReserved",
    "kubeReserved",
    "evictionHard",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "evictionMaxPodGracePeriod",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "cpuCFSQuota",
)
"""The settings that every family can be told."""

_THRESHOLDS: Final = ("evictionHard", "evictionSoft", "evictionMinimumReclaim")
_PERCENTAGE: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)%", re.ASCII)
_WHOLE: Final = 100


def check_settings(kubelet: Mapping[str, Any]) -> tuple[str, ...]:
    """Return everything that is wrong with kubelet settings, whatever the family."""
    plain = dict(kubelet)
    if isinstance(plain.get("maxPods"), str):  # an expression, which is checked elsewhere
        plain["maxPods"] = 0
    wrong = check_shape(plain)
    return wrong or tuple(_meaning(plain))


def check_family(kubelet: Mapping[str, Any], family: Family) -> tuple[str, ...]:
    """Return the settings that images of a family cannot be told."""
    if family.takes_any_kubelet_setting or not family.checks_kubelet_settings:
        return ()
    return tuple(_unsupported(kubelet, family))


def _unsupported(kubelet: Mapping[str, Any], family: Family) -> Iterator[str]:
    for name in sorted(kubelet):
        if name not in MAPPED:
            yield f"{name}: {family.name} does not take this setting"
    if family.name == BOTTLEROCKET and "podsPerCore" in kubelet:
        yield f"podsPerCore: {family.name} does not take this setting"
    if len(kubelet.get("clusterDNS") or ()) > 1:
        yield f"clusterDNS: {family.name} takes one address only"


def _meaning(kubelet: Mapping[str, Any]) -> Iterator[str]:
    if kubelet.get("registerWithTaints"):
        yield "registerWithTaints: taints are set by the pool"
    yield from _signals(kubelet)
    soft, grace = kubelet.get("evictionSoft") or {}, kubelet.get("evictionSoftGracePeriod") or {}
    for key in sorted(soft.keys() - grace.keys()):
        yield f"evictionSoft.{key}: needs an entry in evictionSoftGracePeriod"
    for key in sorted(grace.keys() - soft.keys()):
        yield f"evictionSoftGracePeriod.{key}: needs an entry in evictionSoft"
    for name in ("kubeReserved", "systemReserved"):
        yield from _reserved(name, kubelet.get(name) or {})
    yield from _thresholds(kubelet)
    for name in ("podsPerCore", "evictionMaxPodGracePeriod", "maxPods"):
        if (kubelet.get(name) or 0) < 0:
            yield f"{name}: may not be negative"


def _signals(kubelet: Mapping[str, Any]) -> Iterator[str]:
    for name in (*_THRESHOLDS, "evictionSoftGracePeriod"):
        for key, value in (kubelet.get(name) or {}).items():
            if key not in SIGNALS:
                yield f"{name}.{key}: is none of {', '.join(SIGNALS)}"
            elif name == "evictionSoftGracePeriod":
                yield from _grace(f"{name}.{key}", value)
            else:
                yield from _threshold(f"{name}.{key}", value)


def _grace(path: str, value: str) -> Iterator[str]:
    try:
        if parse_duration(value).total_seconds() < 0:
            yield f"{path}: may not be negative"
    except DurationError as error:
        yield f"{path}: {error}"


def _threshold(path: str, value: str) -> Iterator[str]:
    if value.endswith("%"):
        if percentage(value) is None:
            yield f"{path}: {value!r} is not a percentage between 0% and 100%"
        return
    try:
        if parse_quantity(value).nanos < 0:
            yield f"{path}: may not be negative"
    except QuantityError as error:
        yield f"{path}: {error}"


def _reserved(name: str, entries: Mapping[str, str]) -> Iterator[str]:
    for key, value in entries.items():
        if key not in RESERVABLE:
            yield f"{name}.{key}: is none of {', '.join(RESERVABLE)}"
        elif value.startswith("-"):
            yield f"{name}.{key}: may not be negative"


def _thresholds(kubelet: Mapping[str, Any]) -> Iterator[str]:
    high, low = kubelet.get("imageGCHighThresholdPercent"), kubelet.get("imageGCLowThresholdPercent")
    for name, value in (("imageGCHighThresholdPercent", high), ("imageGCLowThresholdPercent", low)):
        if value is not None and not 0 <= value <= _WHOLE:
            yield f"{name}: {value} is not between 0 and 100"
    if high is not None and low is not None and high <= low:
        yield "imageGCHighThresholdPercent: must be greater than imageGCLowThresholdPercent"


def percentage(text: str) -> float | None:
    """Return the number before a percent sign; None unless it is one between 0 and 100."""
    match = _PERCENTAGE.fullmatch(text)
    share = float(match[1]) if match else -1.0
    return share if 0 <= share <= _WHOLE else None
