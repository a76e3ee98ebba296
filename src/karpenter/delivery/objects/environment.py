"""
The operator's environment: which value becomes which variable.

Texts that are empty are left to the operator's own default. Numbers and truth values are always stated, so
that ``false`` means false.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karpenter.delivery.tree import Fact, Is, Items, Joined, Required, Text, Value, When, Words, given

if TYPE_CHECKING:
    from karpenter.delivery.tree import Tree

_STATED: Final = {
    "BATCH_MAX_DURATION": "batchMaxDuration",
    "BATCH_IDLE_DURATION": "batchIdleDuration",
    "PREFERENCE_POLICY": "preferencePolicy",
    "MIN_VALUES_POLICY": "minValuesPolicy",
    "IGNORE_DRA_REQUESTS": "ignoreDRARequests",
    "DISABLE_CLUSTER_STATE_OBSERVABILITY": "disableClusterStateObservability",
    "DISABLE_CONTROLLER_WARMUP": "disableControllerWarmup",
    "ENABLE_PROFILING": "enableProfiling",
    "KUBE_CLIENT_QPS": "kubeClientQPS",
    "KUBE_CLIENT_BURST": "kubeClientBurst",
    "PACKING_POLICY": "packingPolicy",
    "CONSOLIDATION_STRATEGY": "consolidationStrategy",
    "CONSOLIDATION_PAYBACK": "consolidationPayback",
    "EVICTION_PRICE": "evictionPrice",
    "SURGE_BEFORE_EVICT": "surgeBeforeEvict",
    "STEER_SCALE_DOWN": "steerScaleDown",
    "FLIGHT_RECORD_SIZE": "flightRecordSize",
}
_GIVEN: Final = {"SCHEDULER_CONFIG": "schedulerConfig", "FLIGHT_RECORD": "flightRecord"}
_AWS_STATED: Final = {
    "ISOLATED_VPC": "isolatedVPC",
    "EKS_CONTROL_PLANE": "eksControlPlane",
    "VM_MEMORY_OVERHEAD_PERCENT": "vmMemoryOverheadPercent",
    "ENABLE_ZONAL_SHIFT": "enableZonalShift",
    "RESERVED_ENIS": "reservedENIs",
    "DISABLE_DRY_RUN": "disableDryRun",
    "AMI_REFRESH_INTERVAL": "amiRefreshInterval",
    "SUBNET_REFRESH_INTERVAL": "subnetRefreshInterval",
}
_AWS_GIVEN: Final = {
    "CLUSTER_ENDPOINT": "clusterEndpoint",
    "CLUSTER_CA_BUNDLE": "clusterCABundle",
    "INTERRUPTION_QUEUE": "interruptionQueue",
}
_GATES: Final = {
    "ReservedCapacity": "reservedCapacity",
    "NodeRepair": "nodeRepair",
    "SpotToSpotConsolidation": "spotToSpotConsolidation",
    "NodeOverlay": "nodeOverlay",
    "StaticCapacity": "staticCapacity",
    "CapacityBuffer": "capacityBuffer",
}
_ON_AWS: Final = Is("settings.cloudProvider", "aws")


def variables() -> list[Tree]:
    """Return the environment of the container."""
    return [
        _variable("CLOUD_PROVIDER", Text("settings.cloudProvider")),
        _variable("CLUSTER_NAME", Required("settings.clusterName")),
        _variable("KARPENTER_SERVICE", Fact("fullname")),
        _variable("METRICS_PORT", Text("controller.metrics.port")),
        _variable("HEALTH_PROBE_PORT", Text("controller.healthProbe.port")),
        _variable("LOG_LEVEL", Text("logLevel")),
        _variable("LOG_OUTPUT_PATHS", Joined("logOutputPaths")),
        _variable("LOG_ERROR_OUTPUT_PATHS", Joined("logErrorOutputPaths")),
        _resource("CPU_REQUESTS", "requests.cpu", "1m"),
        _resource("MEMORY_LIMIT", "limits.memory", "1"),
        _variable("FEATURE_GATES", _gates("settings.featureGates", _GATES)),
        *(_variable(name, Text(f"settings.{value}")) for name, value in _STATED.items()),
        *_if_given(_GIVEN),
        When(_ON_AWS, _on_aws()),
        Items("controller.env"),
    ]


def _on_aws() -> list[Tree]:
    gates = _gates("settings.awsFeatureGates", {"NodeClassCEL": "nodeClassCEL"})
    return [
        _variable("AWS_FEATURE_GATES", gates),
        *(_variable(name, Text(f"settings.{value}")) for name, value in _AWS_STATED.items()),
        *_if_given(_AWS_GIVEN),
    ]


def _variable(name: str, value: Tree) -> dict[str, Any]:
    return {"name": name, "value": value}


def _if_given(names: dict[str, str]) -> list[Tree]:
    return [
        given(f"settings.{value}", _variable(name, Text(f"settings.{value}")))
        for name, value in names.items()
    ]


def _resource(name: str, resource: str, divisor: str) -> dict[str, Any]:
    source = {"containerName": Text("controller.containerName"), "divisor": divisor, "resource": resource}
    return {"name": name, "valueFrom": {"resourceFieldRef": source}}


def _gates(path: str, names: dict[str, str]) -> Words:
    parts: list[str | Value] = []
    for number, (gate, value) in enumerate(names.items()):
        parts += [f"{',' if number else ''}{gate}=", Value(f"{path}.{value}")]
    return Words(tuple(parts))
