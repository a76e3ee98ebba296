"""
Validates the kubelet settings of a node class.

:func:`check_settings` checks the settings by themselves; :func:`check_family` whether AMIs of a family take
them. Both return sentences, and none when all is well.

The table of settings and their types is that of ``kubelet.config.k8s.io/v1beta1`` as of Kubernetes 1.36
(https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/). A setting that is not in it is
refused, so that a typing error does not become a node that never joins.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from karpenter.api.ec2nodeclass_kubelet import RESERVABLE, SIGNALS
from karpenter.base.duration import DurationError, parse_duration
from karpenter.base.quantity import QuantityError, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from karpenter.cloud.aws.amifamily.family import Family

    Check = Callable[[Any, str], Iterator[str]]


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
"""The settings that every AMI family takes."""

# An amount or a percentage of the capacity:
# https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#eviction-thresholds
_THRESHOLDS: Final = ("evictionHard", "evictionSoft", "evictionMinimumReclaim")
_PERCENTAGE: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)%", re.ASCII)
_WHOLE_PERCENT: Final = 100

_INT32: Final = 2**31
_INT64: Final = 2**63


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _text(value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{path}: expected a text"


def _flag(value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, bool):
        yield f"{path}: expected true or false"


def _number(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield f"{path}: expected a number"


def _integer(limit: int) -> Check:
    def check(value: Any, path: str) -> Iterator[str]:
        if isinstance(value, bool) or not isinstance(value, int) or not -limit <= value < limit:
            yield f"{path}: expected a whole number of {limit.bit_length()} bits"

    return check


def _duration(value: Any, path: str) -> Iterator[str]:
    try:
        parse_duration(value)
    except DurationError as error:
        yield f"{path}: {error}"


def _amount(value: Any, path: str) -> Iterator[str]:
    try:
        parse_quantity(value)
    except QuantityError as error:
        yield f"{path}: {error}"


def _list(item: Check) -> Check:
    def check(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, list):
            yield f"{path}: expected a list"
            return
        for place, each in enumerate(value):
            yield from item(each, f"{path}[{place}]")

    return check


def _map(member: Check) -> Check:
    def check(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{path}: expected a map"
            return
        for key, each in value.items():
            yield from member(each, f"{path}.{key}")

    return check


def _object(fields: Mapping[str, Check]) -> Check:
    def check(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{path}: expected an object"
            return
        for key, each in value.items():
            place = f"{path}.{key}" if path else key
            if key not in fields:
                yield f"{place}: unknown setting"
            elif each is not None:
                yield from fields[key](each, place)

    return check


# The fields of KubeletConfiguration by their types, so that a wrong type is told before a node fails on it:
# https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/
_TEXTS: Final = _words("""
    staticPodPath podLogsDir staticPodURL address tlsCertFile tlsPrivateKeyFile tlsMinVersion
    imagePullCredentialsVerificationPolicy healthzBindAddress clusterDomain kubeletCgroups systemCgroups
    cgroupRoot cgroupDriver cpuManagerPolicy memoryManagerPolicy topologyManagerPolicy topologyManagerScope
    hairpinMode podCIDR resolvConf contentType containerLogMaxSize
    configMapAndSecretChangeDetectionStrategy reservedSystemCPUs showHiddenMetricsForVersion
    systemReservedCgroup kubeReservedCgroup volumePluginDir providerID memoryReservationPolicy
    containerRuntimeEndpoint imageServiceEndpoint
""")
_FLAGS: Final = _words("""
    enableServer rotateCertificates serverTLSBootstrap enableDebuggingHandlers enableContentionProfiling
    cgroupsPerQOS singleProcessOOMKill runOnce cpuCFSQuota serializeImagePulls mergeDefaultEvictionSettings
    enableControllerAttachDetach protectKernelDefaults makeIPTablesUtilChains failSwapOn
    kernelMemcgNotification enableSystemLogHandler enableSystemLogQuery enableProfilingHandler
    enableDebugFlagsHandler seccompDefault registerNode localStorageCapacityIsolation failCgroupV1
""")
_INTEGERS: Final = _words("""
    port readOnlyPort registryPullQPS registryBurst eventRecordQPS eventBurst healthzPort oomScoreAdj
    nodeLeaseDurationSeconds imageGCHighThresholdPercent imageGCLowThresholdPercent maxPods
    nodeStatusMaxImages kubeAPIQPS kubeAPIBurst maxParallelImagePulls evictionMaxPodGracePeriod podsPerCore
    iptablesMasqueradeBit iptablesDropBit containerLogMaxFiles containerLogMaxWorkers
""")
_LARGE_INTEGERS: Final = _words("podPidsLimit maxOpenFiles")
_DURATIONS: Final = _words("""
    syncFrequency fileCheckFrequency httpCheckFrequency streamingConnectionIdleTimeout
    nodeStatusUpdateFrequency nodeStatusReportFrequency imageMinimumGCAge imageMaximumGCAge
    volumeStatsAggPeriod cpuManagerReconcilePeriod runtimeRequestTimeout cpuCFSQuotaPeriod
    evictionPressureTransitionPeriod containerLogMonitorInterval shutdownGracePeriod
    shutdownGracePeriodCriticalPods
""")
_LISTS: Final = _words("""
    tlsCipherSuites preloadedImagesVerificationAllowlist clusterDNS enforceNodeAllocatable
    allowedUnsafeSysctls
""")
_MAPS: Final = _words("""
    cpuManagerPolicyOptions topologyManagerPolicyOptions qosReserved evictionHard evictionSoft
    evictionSoftGracePeriod evictionMinimumReclaim systemReserved kubeReserved
""")

_ROUTING: Final[dict[str, Check]] = {"splitStream": _flag, "infoBufferSize": _amount}
_LOGGING: Final = _object(
    {
        "format": _text,
        "flushFrequency": lambda value, path: (
            _integer(_INT64)(value, path) if isinstance(value, int) else _duration(value, path)
        ),
        "verbosity": _integer(_INT32),
        "vmodule": _list(_object({"filePattern": _text, "verbosity": _integer(_INT32)})),
        "options": _object({"text": _object(_ROUTING), "json": _object(_ROUTING)}),
    }
)
_TAINT: Final = _object({"key": _text, "value": _text, "effect": _text, "timeAdded": _text})

_CHECK: Final = _object(
    {
        "apiVersion": _text,
        "kind": _text,
        **dict.fromkeys(_TEXTS, _text),
        **dict.fromkeys(_FLAGS, _flag),
        **dict.fromkeys(_INTEGERS, _integer(_INT32)),
        **dict.fromkeys(_LARGE_INTEGERS, _integer(_INT64)),
        **dict.fromkeys(_DURATIONS, _duration),
        **dict.fromkeys(_LISTS, _list(_text)),
        **dict.fromkeys(_MAPS, _map(_text)),
        "tlsCurvePreferences": _list(_integer(_INT32)),
        "staticPodURLHeader": _map(_list(_text)),
        "featureGates": _map(_flag),
        "memoryThrottlingFactor": _number,
        "authentication": _object(
            {
                "x509": _object({"clientCAFile": _text}),
                "webhook": _object({"enabled": _flag, "cacheTTL": _duration}),
                "anonymous": _object({"enabled": _flag}),
            }
        ),
        "authorization": _object(
            {
                "mode": _text,
                "webhook": _object({"cacheAuthorizedTTL": _duration, "cacheUnauthorizedTTL": _duration}),
            }
        ),
        "memorySwap": _object({"swapBehavior": _text}),
        "logging": _LOGGING,
        "shutdownGracePeriodByPodPriority": _list(
            _object({"priority": _integer(_INT32), "shutdownGracePeriodSeconds": _integer(_INT64)})
        ),
        "crashLoopBackOff": _object({"maxContainerRestartPeriod": _duration}),
        "reservedMemory": _list(_object({"numaNode": _integer(_INT32), "limits": _map(_amount)})),
        "registerWithTaints": _list(_TAINT),
        "tracing": _object({"endpoint": _text, "samplingRatePerMillion": _integer(_INT32)}),
        "userNamespaces": _object({"idsPerPod": _integer(_INT64)}),
    }
)


def check_shape(kubelet: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a sentence for each setting that is unknown, or has the wrong type."""
    return tuple(_CHECK(dict(kubelet), ""))


def check_settings(kubelet: Mapping[str, Any]) -> tuple[str, ...]:
    """Return everything that is wrong with kubelet settings, for any family."""
    plain = dict(kubelet)
    if isinstance(plain.get("maxPods"), str):  # an expression, which is checked elsewhere
        plain["maxPods"] = 0
    wrong = check_shape(plain)
    return wrong or tuple(_values(plain))


def check_family(kubelet: Mapping[str, Any], family: Family) -> tuple[str, ...]:
    """Return a sentence for each setting that a family does not take."""
    if family.takes_any_kubelet_setting or not family.checks_kubelet_settings:
        return ()
    return tuple(_unsupported(kubelet, family))


def _unsupported(kubelet: Mapping[str, Any], family: Family) -> Iterator[str]:
    for name in sorted(kubelet):
        if name not in MAPPED:
            yield f"{name}: {family.name} does not take this setting"


def _values(kubelet: Mapping[str, Any]) -> Iterator[str]:
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
        if value is not None and not 0 <= value <= _WHOLE_PERCENT:
            yield f"{name}: {value} is not between 0 and 100"
    if high is not None and low is not None and high <= low:
        yield "imageGCHighThresholdPercent: must be greater than imageGCLowThresholdPercent"


def percentage(text: str) -> float | None:
    """Return the number before a percent sign; None unless it is one between 0 and 100."""
    match = _PERCENTAGE.fullmatch(text)
    share = float(match[1]) if match else -1.0
    return share if 0 <= share <= _WHOLE_PERCENT else None
