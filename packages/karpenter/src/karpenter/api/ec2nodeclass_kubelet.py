"""
What the definition of EC2NodeClass allows among the kubelet settings.

Twelve settings are those of Karpenter 1.14, and a mistake in one of them is refused as 1.14's definition
refuses it. The other settings that a kubelet knows are let through as they are, and so are expressions over
the instance type in the place of a number of pods or of an amount; the provider judges those, and says so in
the conditions of the class. A name that no kubelet knows is refused.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from karpenter.api.constraints import QUANTITY, constraint, rule

# https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/
SIGNALS = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
)
"""What an eviction threshold can be about."""

# https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/
RESERVABLE = ("cpu", "memory", "ephemeral-storage", "pid")
"""What can be reserved for the kubelet and the system."""

VARIABLES = ("vcpus", "memory_mib", "default_enis", "ips_per_eni", "max_pods", "instance_type")
"""What an expression sees of an instance type; a text that names none of them is no expression."""

_OTHERS = """
    address allowedUnsafeSysctls apiVersion authentication authorization cgroupDriver cgroupRoot
    cgroupsPerQOS clusterDomain configMapAndSecretChangeDetectionStrategy containerLogMaxFiles
    containerLogMaxSize containerLogMaxWorkers containerLogMonitorInterval containerRuntimeEndpoint
    contentType cpuCFSQuotaPeriod cpuManagerPolicy cpuManagerPolicyOptions cpuManagerReconcilePeriod
    crashLoopBackOff enableContentionProfiling enableControllerAttachDetach enableDebugFlagsHandler
    enableDebuggingHandlers enableProfilingHandler enableServer enableSystemLogHandler
    enableSystemLogQuery enforceNodeAllocatable eventBurst eventRecordQPS evictionMinimumReclaim
    evictionPressureTransitionPeriod failCgroupV1 failSwapOn featureGates fileCheckFrequency hairpinMode
    healthzBindAddress healthzPort httpCheckFrequency imageMaximumGCAge imageMinimumGCAge
    imagePullCredentialsVerificationPolicy imageServiceEndpoint iptablesDropBit iptablesMasqueradeBit
    kernelMemcgNotification kind kubeAPIBurst kubeAPIQPS kubeReservedCgroup kubeletCgroups
    localStorageCapacityIsolation logging makeIPTablesUtilChains maxOpenFiles maxParallelImagePulls
    memoryManagerPolicy memoryReservationPolicy memorySwap memoryThrottlingFactor
    mergeDefaultEvictionSettings nodeLeaseDurationSeconds nodeStatusMaxImages nodeStatusReportFrequency
    nodeStatusUpdateFrequency oomScoreAdj podCIDR podLogsDir podPidsLimit port
    preloadedImagesVerificationAllowlist protectKernelDefaults providerID qosReserved readOnlyPort
    registerNode registerWithTaints registryBurst registryPullQPS reservedMemory reservedSystemCPUs
    resolvConf rotateCertificates runOnce runtimeRequestTimeout seccompDefault serializeImagePulls
    serverTLSBootstrap showHiddenMetricsForVersion shutdownGracePeriod shutdownGracePeriodByPodPriority
    shutdownGracePeriodCriticalPods singleProcessOOMKill staticPodPath staticPodURL staticPodURLHeader
    streamingConnectionIdleTimeout syncFrequency systemCgroups systemReservedCgroup tlsCertFile
    tlsCipherSuites tlsCurvePreferences tlsMinVersion tlsPrivateKeyFile topologyManagerPolicy
    topologyManagerPolicyOptions topologyManagerScope tracing userNamespaces volumePluginDir
    volumeStatsAggPeriod
"""

OTHER_SETTINGS = tuple(_OTHERS.split())
"""The settings of ``kubelet.config.k8s.io/v1beta1`` that Karpenter 1.14 does not have."""

_MOST_INT32 = 2**31 - 1
_EXPRESSION = f"({'|'.join(VARIABLES)})"
_PLAIN_QUANTITY = QUANTITY.removeprefix("^").removesuffix("$")
_THRESHOLD = rf"^((\d{{1,2}}(\.\d{{1,2}})?|100(\.0{{1,2}})?)%|{_PLAIN_QUANTITY})?$"
_AMOUNT = rf"^{_PLAIN_QUANTITY}$|{_EXPRESSION}"

_COUNT: Mapping[str, Any] = MappingProxyType({"type": "integer", "format": "int32", "minimum": 0})
_PERCENT: Mapping[str, Any] = MappingProxyType({**_COUNT, "maximum": 100})
# Keeps fields that the schema does not list, which would be pruned otherwise:
# https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#field-pruning
_OPEN = "x-kubernetes-preserve-unknown-fields"


def _keys_rule(allowed: tuple[str, ...]) -> dict[str, Any]:
    return rule(f"self.all(x, x in {list(allowed)})", f"the keys are some of {', '.join(allowed)}")


def _thresholds(description: str, *, pattern: str = "") -> dict[str, Any]:
    return {
        "description": description,
        "type": "object",
        "maxProperties": len(SIGNALS),
        "additionalProperties": {"type": "string", **({"pattern": pattern} if pattern else {})},
        "x-kubernetes-validations": [_keys_rule(SIGNALS)],
    }


def _reserved(description: str) -> dict[str, Any]:
    return {
        "description": description,
        "type": "object",
        "maxProperties": len(RESERVABLE),
        "additionalProperties": {"type": "string", "pattern": _AMOUNT},
        "x-kubernetes-validations": [
            _keys_rule(RESERVABLE),
            rule("self.all(x, !self[x].startsWith('-'))", "no amount may be negative"),
        ],
    }


_SETTINGS: dict[str, Any] = {
    "clusterDNS": {
        "description": "The addresses of DNS servers for containers.",
        "type": "array",
        "items": {"type": "string"},
    },
    "cpuCFSQuota": {
        "description": "Whether the CPU limits of containers are enforced by CFS quotas.",
        "type": "boolean",
    },
    "evictionHard": _thresholds(
        "Below how much of something pods are evicted at once: a quantity or a percentage.",
        pattern=_THRESHOLD,
    ),
    "evictionMaxPodGracePeriod": {
        "description": "How many seconds evicted pods get at most to end, when a soft threshold was crossed.",
        "type": "integer",
        "format": "int32",
    },
    "evictionSoft": _thresholds(
        "Below how much of something pods are evicted after a grace period: a quantity or a percentage.",
        pattern=_THRESHOLD,
    ),
    "evictionSoftGracePeriod": _thresholds(
        "For how long a soft threshold must be crossed before pods are evicted: a duration each."
    ),
    "imageGCHighThresholdPercent": {
        "description": "From which usage of the disk on images are removed until usage is low again.",
        **_PERCENT,
    },
    "imageGCLowThresholdPercent": {
        "description": "Below which usage of the disk no image is removed.",
        **_PERCENT,
    },
    "kubeReserved": _reserved("What is kept for the kubelet and the container runtime."),
    "maxPods": {
        "description": "How many pods a node takes: a number, or an expression over the instance type.",
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
        "x-kubernetes-validations": [
            rule(
                f"type(self) == int ? self >= 0 && self <= {_MOST_INT32} : self.matches('{_EXPRESSION}')",
                "'maxPods' is a number that is not negative, or an expression that names one of"
                f" {', '.join(VARIABLES)}",
            )
        ],
    },
    "podsPerCore": {"description": "How many pods a node takes per CPU core; 0 for any number.", **_COUNT},
    "systemReserved": _reserved("What is kept for the operating system."),
}

KUBELET = constraint(
    properties=dict(
        sorted(
            {
                **_SETTINGS,
                **{
                    name: {"description": "Passed on to the kubelet as it is.", _OPEN: True}
                    for name in OTHER_SETTINGS
                },
            }.items()
        )
    ),
    rules=(
        rule(
            "!has(self.imageGCHighThresholdPercent) || !has(self.imageGCLowThresholdPercent) ||"
            " self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent",
            "'imageGCHighThresholdPercent' must be greater than 'imageGCLowThresholdPercent'",
        ),
        rule(
            "!has(self.evictionSoft) || self.evictionSoft.all(e,"
            " has(self.evictionSoftGracePeriod) && e in self.evictionSoftGracePeriod)",
            "each entry of 'evictionSoft' needs one in 'evictionSoftGracePeriod'",
        ),
        rule(
            "!has(self.evictionSoftGracePeriod) || self.evictionSoftGracePeriod.all(e,"
            " has(self.evictionSoft) && e in self.evictionSoft)",
            "each entry of 'evictionSoftGracePeriod' needs one in 'evictionSoft'",
        ),
    ),
)
"""What the definition says about ``spec.kubelet``."""
