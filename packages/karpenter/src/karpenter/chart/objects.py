"""
The objects that make up an installation, one sort a module.

The roles that grant the operator its permissions, and administrators theirs.

The Deployment: replicas of which one leads, away from the nodes that they manage and from each other.

A replica runs as nobody, cannot write to its own file system, and holds no capability.

The operator's environment: which value becomes which variable.

Texts that are empty are left to the operator's own default. Numbers and truth values are always stated, so
that ``false`` means false.

What every object of an installation carries: its name, its labels, and whatever the user adds.

What stands around the Deployment: its account, its budget, the way to its metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karpenter.api.labels import NODEPOOL, ZONE
from karpenter.chart import permissions
from karpenter.chart.tree import (
    Copy,
    Either,
    Entries,
    Fact,
    Given,
    Is,
    Items,
    Joined,
    Required,
    Text,
    Value,
    When,
    Words,
    given,
)

if TYPE_CHECKING:
    from karpenter.chart.tree import Tree


SELECTOR: Final[dict[str, Tree]] = {
    "app.kubernetes.io/name": Fact("name"),
    "app.kubernetes.io/instance": Fact("release"),
}
"""The labels by which the operator's pods are found."""

_LABELS: Final[dict[str, Tree]] = {**SELECTOR, "app.kubernetes.io/version": Fact("version")}


def metadata(
    suffix: str = "",
    *,
    name: Tree = None,
    namespaced: bool = True,
    labels: tuple[str, ...] = (),
    annotations: tuple[str, ...] = (),
    fixed: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Return metadata; `labels` and `annotations` are paths of values with more of them."""
    more = ("additionalAnnotations", *annotations)
    return {
        "name": name or (Words((Fact("fullname"), suffix)) if suffix else Fact("fullname")),
        **({"namespace": Fact("namespace")} if namespaced else {}),
        "labels": Entries({**_LABELS, **(fixed or {})}, ("additionalLabels", *labels)),
        "annotations": When(Given(more), Entries({}, more)),
    }


_GROUP: Final = "rbac.authorization.k8s.io"
_API: Final = f"{_GROUP}/v1"


def roles() -> list[Tree]:
    """Return what is granted, and to whom."""
    cluster: list[Tree] = [each.rule() for each in permissions.CLUSTER]
    return [
        _role("ClusterRole", metadata(namespaced=False), [*cluster, Items("additionalClusterRoleRules")]),
        _binding("ClusterRole", metadata(namespaced=False)),
        _role("Role", metadata(), [each.rule() for each in permissions.OWN_NAMESPACE]),
        _binding("Role", metadata()),
        When(permissions.ON_AWS, _role("Role", _system(), [each.rule() for each in permissions.SYSTEM])),
        When(permissions.ON_AWS, _binding("Role", _system())),
        _role(
            "ClusterRole",
            metadata("-admin", namespaced=False, fixed={f"{_GROUP}/aggregate-to-admin": "true"}),
            [each.rule() for each in permissions.ADMINISTRATION],
        ),
    ]


def _system() -> dict[str, Any]:
    return {**metadata("-dns"), "namespace": permissions.SYSTEM_NAMESPACE}


def _role(kind: str, meta: dict[str, Any], rules: list[Tree]) -> Tree:
    return {"apiVersion": _API, "kind": kind, "metadata": meta, "rules": rules}


def _binding(kind: str, meta: dict[str, Any]) -> Tree:
    return {
        "apiVersion": _API,
        "kind": f"{kind}Binding",
        "metadata": meta,
        "roleRef": {"apiGroup": _GROUP, "kind": kind, "name": meta["name"]},
        "subjects": [
            {"kind": "ServiceAccount", "name": Fact("account"), "namespace": Fact("namespace")},
        ],
    }


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


USER: Final = 65532
"""Nobody in particular."""

_PROBES: Final = {
    "livenessProbe": {
        "initialDelaySeconds": 30,
        "timeoutSeconds": 30,
        "httpGet": {"path": "/healthz", "port": "http"},
    },
    "readinessProbe": {
        "initialDelaySeconds": 5,
        "timeoutSeconds": 30,
        "httpGet": {"path": "/readyz", "port": "http"},
    },
}
_AFFINITY: Final[dict[str, Tree]] = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": NODEPOOL, "operator": "DoesNotExist"}]}]
        }
    },
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": SELECTOR}}
        ]
    },
}
_SPREAD: Final[list[Tree]] = [
    {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": SELECTOR},
    }
]


def deployment() -> Tree:
    """Return the Deployment."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(),
        "spec": {
            "replicas": Value("replicas"),
            "revisionHistoryLimit": Value("revisionHistoryLimit"),
            "strategy": Copy("strategy"),
            "selector": {"matchLabels": SELECTOR},
            "template": {
                "metadata": {
                    "labels": Entries(SELECTOR, ("additionalLabels", "podLabels")),
                    "annotations": given("podAnnotations", Copy("podAnnotations")),
                },
                "spec": _pod(),
            },
        },
    }


def _pod() -> dict[str, Any]:
    return {
        "automountServiceAccountToken": True,
        "serviceAccountName": Fact("account"),
        "securityContext": Copy("podSecurityContext"),
        "priorityClassName": given("priorityClassName", Text("priorityClassName")),
        "terminationGracePeriodSeconds": Value("terminationGracePeriodSeconds"),
        "hostNetwork": given("hostNetwork", True),
        "schedulerName": given("schedulerName", Text("schedulerName")),
        "dnsPolicy": Text("dnsPolicy"),
        "dnsConfig": given("dnsConfig", Copy("dnsConfig")),
        "imagePullSecrets": given("imagePullSecrets", Copy("imagePullSecrets")),
        "nodeSelector": given("nodeSelector", Copy("nodeSelector")),
        "affinity": Either("affinity", _AFFINITY),
        "topologySpreadConstraints": Either("topologySpreadConstraints", _SPREAD),
        "tolerations": given("tolerations", Copy("tolerations")),
        "initContainers": given("initContainers", Copy("initContainers")),
        "containers": [_container(), Items("controller.sidecarContainer")],
        "volumes": given("extraVolumes", Copy("extraVolumes")),
    }


def _container() -> dict[str, Any]:
    return {
        "name": Text("controller.containerName"),
        "image": Fact("image"),
        "imagePullPolicy": Text("imagePullPolicy"),
        "args": ["run", "--log-form", "json"],
        "securityContext": {
            "runAsUser": USER,
            "runAsGroup": USER,
            "runAsNonRoot": True,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "env": variables(),
        "envFrom": given("controller.envFrom", Copy("controller.envFrom")),
        "ports": [
            {"name": "http-metrics", "containerPort": Value("controller.metrics.port"), "protocol": "TCP"},
            {"name": "http", "containerPort": Value("controller.healthProbe.port"), "protocol": "TCP"},
        ],
        **_PROBES,
        "resources": given("controller.resources", Copy("controller.resources")),
        "volumeMounts": given("controller.extraVolumeMounts", Copy("controller.extraVolumeMounts")),
    }


def service_account() -> Tree:
    """Return the account as which the operator talks to the API server, and by IRSA to AWS."""
    return given(
        "serviceAccount.create",
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata(name=Fact("account"), annotations=("serviceAccount.annotations",)),
            # The pods ask for the token themselves; nobody else who uses the account gets one by accident.
            "automountServiceAccountToken": False,
        },
    )


def budget() -> Tree:
    """Return the budget that keeps a replica while nodes are drained."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(name=Text("podDisruptionBudget.name")),
        "spec": {
            "maxUnavailable": Value("podDisruptionBudget.maxUnavailable"),
            "selector": {"matchLabels": SELECTOR},
        },
    }


def service() -> Tree:
    """Return the Service in front of the metrics."""
    port = {
        "name": "http-metrics",
        "port": Value("controller.metrics.port"),
        "targetPort": "http-metrics",
        "protocol": "TCP",
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(annotations=("service.annotations",)),
        "spec": {"type": "ClusterIP", "ports": [port], "selector": SELECTOR},
    }


def service_monitor() -> Tree:
    """Return what tells the Prometheus operator where the metrics are."""
    endpoint = Entries({"port": "http-metrics", "path": "/metrics"}, ("serviceMonitor.endpointConfig",))
    return given(
        "serviceMonitor.enabled",
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "ServiceMonitor",
            "metadata": metadata(labels=("serviceMonitor.additionalLabels",)),
            "spec": {
                "namespaceSelector": {"matchNames": [Fact("namespace")]},
                "selector": {"matchLabels": SELECTOR},
                "endpoints": [endpoint],
            },
        },
    )
