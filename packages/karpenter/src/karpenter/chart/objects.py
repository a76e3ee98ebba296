"""
The objects of an installation: roles, Deployment, environment, service account, disruption budget, metrics.

Replicas of the Deployment elect a leader. They run on nodes that Karpenter does not manage, away from each
other, as user 65532 with a read-only root file system and without capabilities.

Environment variables follow Karpenter's own chart: a setting that is empty or false is left to the operator's
default. The exceptions are in :data:`_STATED`: there zero and false differ from the default. Sixteen settings
may be templates. Permissions are in :mod:`.permissions`, defaults of values in :mod:`.values`.
"""

from __future__ import annotations

from typing import Any, Final

from karpenter.chart import permissions
from karpenter.chart.permissions import ON_AWS
from karpenter.chart.tree import (
    APIServed,
    ChartFile,
    Concatenation,
    Copy,
    Derived,
    Either,
    Entries,
    Given,
    Joined,
    ListItems,
    ReleaseFact,
    Required,
    Templated,
    TextValue,
    Tree,
    Value,
    When,
    given,
    is_set,
)
from karpenter.dashboards.boards import DASHBOARDS
from karpenter.dashboards.objects import ALERTS, MONITORING, dashboard_text

SELECTOR: Final[dict[str, Tree]] = {
    "app.kubernetes.io/name": ReleaseFact("name"),
    "app.kubernetes.io/instance": ReleaseFact("release"),
}
"""The labels by which the operator's pods are found."""

_LABELS: Final[dict[str, Tree]] = {
    "helm.sh/chart": ReleaseFact("chart"),
    **SELECTOR,
    "app.kubernetes.io/version": ReleaseFact("version"),
    "app.kubernetes.io/managed-by": ReleaseFact("service"),
}


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
        "name": name
        or (Concatenation((ReleaseFact("fullname"), suffix)) if suffix else ReleaseFact("fullname")),
        **({"namespace": ReleaseFact("namespace")} if namespaced else {}),
        "labels": Entries({**_LABELS, **(fixed or {})}, ("additionalLabels", *labels)),
        "annotations": When(Given(more), Entries({}, more)),
    }


_GROUP: Final = "rbac.authorization.k8s.io"
_API: Final = f"{_GROUP}/v1"


def roles() -> list[Tree]:
    """Return what is granted, and to whom."""
    cluster: list[Tree] = [each.rule() for each in permissions.CLUSTER]
    reading: list[Tree] = [each.rule() for each in permissions.SHADOW]
    name = metadata(namespaced=False)
    lease: list[Tree] = [each.rule() for each in permissions.LEASE_NAMESPACE]
    return [
        When(
            permissions.LEADS, _role("ClusterRole", name, [*cluster, ListItems("additionalClusterRoleRules")])
        ),
        When(permissions.IS_SHADOW, _role("ClusterRole", name, reading)),
        _binding("ClusterRole", name),
        When(permissions.LEADS, _role("Role", _lease(), lease)),
        When(permissions.LEADS, _binding("Role", _lease())),
        When(permissions.ON_AWS, _role("Role", _system(), [each.rule() for each in permissions.SYSTEM])),
        When(permissions.ON_AWS, _binding("Role", _system())),
        When(
            permissions.LEADS,
            _role(
                "ClusterRole",
                metadata("-admin", namespaced=False, fixed={f"{_GROUP}/aggregate-to-admin": "true"}),
                [each.rule() for each in permissions.ADMINISTRATION],
            ),
        ),
    ]


def _lease() -> dict[str, Any]:
    return {**metadata(), "namespace": ReleaseFact("leaseNamespace")}


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
            {"kind": "ServiceAccount", "name": ReleaseFact("account"), "namespace": ReleaseFact("namespace")},
        ],
    }


# Karpenter's chart sets it for the knative libraries that older versions used.
KUBERNETES_MIN_VERSION: Final = "1.19.0-0"
"""Read by libraries of older operators; charts have carried it ever since."""

_GIVEN: Final = {
    "PREFERENCE_POLICY": "preferencePolicy",
    "MIN_VALUES_POLICY": "minValuesPolicy",
    "SCHEDULER_CONFIG": "schedulerConfig",
    "PRICE_FACTORS": "priceFactors",
    "COMMITMENTS": "commitments",
    "FLIGHT_RECORD": "flightRecord",
    "SHADOW_RECORD": "shadowRecord",
}
_TEMPLATED: Final = {
    "BATCH_MAX_DURATION": "batchMaxDuration",
    "BATCH_IDLE_DURATION": "batchIdleDuration",
    "DISABLE_CLUSTER_STATE_OBSERVABILITY": "disableClusterStateObservability",
}
_STATED: Final = {
    "DISABLE_CONTROLLER_WARMUP": "disableControllerWarmup",
    "ENABLE_PROFILING": "enableProfiling",
    "KUBE_CLIENT_QPS": "kubeClientQPS",
    "KUBE_CLIENT_BURST": "kubeClientBurst",
    "PACKING_POLICY": "packingPolicy",
    "CONSOLIDATION_STRATEGY": "consolidationStrategy",
    "CONSOLIDATION_PAYBACK": "consolidationPayback",
    "EVICTION_PRICE": "evictionPrice",
    "NODE_PRICE": "nodePrice",
    "VCPU_PRICE": "vcpuPrice",
    "INTERRUPTION_PRICE": "interruptionPrice",
    "SPOT_CONCENTRATION_PRICE": "spotConcentrationPrice",
    "PREFERRED_POOL_PRICE": "preferredPoolPrice",
    "NOMINATE_PODS": "nominatePods",
    "SURGE_BEFORE_EVICT": "surgeBeforeEvict",
    "STEER_SCALE_DOWN": "steerScaleDown",
    "FLIGHT_RECORD_SIZE": "flightRecordSize",
}
_AWS_TEMPLATED: Final = {
    "CLUSTER_CA_BUNDLE": "clusterCABundle",
    "CLUSTER_ENDPOINT": "clusterEndpoint",
    "ISOLATED_VPC": "isolatedVPC",
    "EKS_CONTROL_PLANE": "eksControlPlane",
    "INTERRUPTION_QUEUE": "interruptionQueue",
    "ENABLE_ZONAL_SHIFT": "enableZonalShift",
    "RESERVED_ENIS": "reservedENIs",
    "DISABLE_DRY_RUN": "disableDryRun",
    "AMI_REFRESH_INTERVAL": "amiRefreshInterval",
    "SUBNET_REFRESH_INTERVAL": "subnetRefreshInterval",
}
_GATES: Final = {
    "ReservedCapacity": "reservedCapacity",
    "SpotToSpotConsolidation": "spotToSpotConsolidation",
    "NodeRepair": "nodeRepair",
    "NodeOverlay": "nodeOverlay",
    "StaticCapacity": "staticCapacity",
    "CapacityBuffer": "capacityBuffer",
}


def variables() -> list[Tree]:
    return [
        _variable("CLOUD_PROVIDER", TextValue("settings.cloudProvider", default="aws")),
        _variable("KUBERNETES_MIN_VERSION", KUBERNETES_MIN_VERSION),
        _variable("KARPENTER_SERVICE", ReleaseFact("fullname")),
        given("logLevel", _variable("LOG_LEVEL", TextValue("logLevel"))),
        given("logOutputPaths", _variable("LOG_OUTPUT_PATHS", Joined("logOutputPaths"))),
        given("logErrorOutputPaths", _variable("LOG_ERROR_OUTPUT_PATHS", Joined("logErrorOutputPaths"))),
        _variable("METRICS_PORT", TextValue("controller.metrics.port")),
        _variable("HEALTH_PROBE_PORT", TextValue("controller.healthProbe.port")),
        {"name": "SYSTEM_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        _resource("CPU_REQUESTS", "requests.cpu", "1m"),
        _resource("MEMORY_LIMIT", "limits.memory", "0"),
        _variable("FEATURE_GATES", _gates("settings.featureGates", _GATES)),
        _variable("CLUSTER_NAME", Required("settings.clusterName")),
        *(given(f"settings.{value}", _setting(name, value)) for name, value in _GIVEN.items()),
        *(given(f"settings.{value}", _template(name, value)) for name, value in _TEMPLATED.items()),
        # Karpenter's chart loses a false here, and with it what the user asked for.
        is_set("settings.ignoreDRARequests", _template("IGNORE_DRA_REQUESTS", "ignoreDRARequests")),
        *(is_set(f"settings.{value}", _setting(name, value)) for name, value in _STATED.items()),
        When(ON_AWS, _on_aws()),
        When(permissions.IS_SHADOW, _variable("SHADOW", "true")),
        ListItems("controller.env"),
    ]


def _on_aws() -> list[Tree]:
    gates = _gates("settings.awsFeatureGates", {"NodeClassCEL": "nodeClassCEL"})
    return [
        is_set("settings.awsFeatureGates.nodeClassCEL", _variable("AWS_FEATURE_GATES", gates)),
        *(given(f"settings.{value}", _template(name, value)) for name, value in _AWS_TEMPLATED.items()),
        # And a zero here: no overhead at all.
        is_set(
            "settings.vmMemoryOverheadPercent",
            _template("VM_MEMORY_OVERHEAD_PERCENT", "vmMemoryOverheadPercent"),
        ),
    ]


def _setting(name: str, value: str) -> dict[str, Any]:
    return _variable(name, TextValue(f"settings.{value}"))


def _template(name: str, value: str) -> dict[str, Any]:
    return _variable(name, Templated(f"settings.{value}"))


def _variable(name: str, value: Tree) -> dict[str, Any]:
    return {"name": name, "value": value}


def _resource(name: str, resource: str, divisor: str) -> dict[str, Any]:
    source = {"containerName": ReleaseFact("container"), "divisor": divisor, "resource": resource}
    return {"name": name, "valueFrom": {"resourceFieldRef": source}}


def _gates(path: str, names: dict[str, str]) -> Concatenation:
    parts: list[str | Value] = []
    for number, (gate, value) in enumerate(names.items()):
        parts += [f"{',' if number else ''}{gate}=", Value(f"{path}.{value}")]
    return Concatenation(tuple(parts))


# A numeric user, because runAsNonRoot cannot be checked against a name:
# https://kubernetes.io/docs/tasks/configure-pod-container/security-context/
USER: Final = 65532
"""The user id of ``nonroot`` in distroless images, which Karpenter's own image uses as well."""

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
_RESOURCES: Final = {"requests": {"cpu": "500m", "memory": "512Mi"}}
"""Where none are given: an operator without requests is among the first to be evicted."""

_EXTRAS: Final = ("appArmorProfile", "seLinuxOptions", "seccompProfile")


def deployment() -> Tree:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(),
        "spec": {
            "replicas": Value("replicas"),
            "revisionHistoryLimit": Value("revisionHistoryLimit"),
            "strategy": given("strategy", Copy("strategy")),
            "selector": {"matchLabels": SELECTOR},
            "template": {
                "metadata": {
                    "labels": Entries(SELECTOR, ("podLabels",)),
                    "annotations": given("podAnnotations", Copy("podAnnotations")),
                },
                "spec": _pod(),
            },
        },
    }


def _pod() -> dict[str, Any]:
    return {
        "automountServiceAccountToken": True,
        "serviceAccountName": ReleaseFact("account"),
        "securityContext": given("podSecurityContext", Copy("podSecurityContext")),
        "priorityClassName": given("priorityClassName", TextValue("priorityClassName")),
        "terminationGracePeriodSeconds": given(
            "terminationGracePeriodSeconds", Value("terminationGracePeriodSeconds")
        ),
        "hostNetwork": given("hostNetwork", True),
        "schedulerName": given("schedulerName", TextValue("schedulerName")),
        "dnsPolicy": given("dnsPolicy", TextValue("dnsPolicy")),
        "dnsConfig": given("dnsConfig", Copy("dnsConfig")),
        "imagePullSecrets": given("imagePullSecrets", Copy("imagePullSecrets")),
        "nodeSelector": given("nodeSelector", Copy("nodeSelector")),
        "affinity": given("affinity", Derived("affinity")),
        "topologySpreadConstraints": given("topologySpreadConstraints", Derived("topologySpreadConstraints")),
        "tolerations": given("tolerations", Copy("tolerations")),
        "initContainers": given("initContainers", Copy("initContainers")),
        "containers": [_container(), given("controller.sidecarContainer", Derived("sidecars"))],
        "volumes": given("extraVolumes", Copy("extraVolumes")),
    }


def _container() -> dict[str, Any]:
    return {
        "name": ReleaseFact("container"),
        "image": ReleaseFact("image"),
        "imagePullPolicy": TextValue("imagePullPolicy"),
        "args": ["run", "--log-form", "json"],
        "securityContext": {
            "privileged": False,
            "runAsUser": USER,
            "runAsGroup": USER,
            "runAsNonRoot": True,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            **{
                name: given(f"controller.securityContext.{name}", Copy(f"controller.securityContext.{name}"))
                for name in _EXTRAS
            },
        },
        "env": variables(),
        "envFrom": given("controller.envFrom", Copy("controller.envFrom")),
        "ports": [
            {"name": "http-metrics", "containerPort": Value("controller.metrics.port"), "protocol": "TCP"},
            {"name": "http", "containerPort": Value("controller.healthProbe.port"), "protocol": "TCP"},
        ],
        **_PROBES,
        "resources": Either("controller.resources", _RESOURCES),
        "volumeMounts": given("controller.extraVolumeMounts", Copy("controller.extraVolumeMounts")),
    }


def service_account() -> Tree:
    """Return the account as which the operator talks to the API server, and by IRSA to AWS."""
    return given(
        "serviceAccount.create",
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata(name=ReleaseFact("account"), annotations=("serviceAccount.annotations",)),
            # The pods ask for the token themselves; other pods with the account get none by accident.
            "automountServiceAccountToken": False,
        },
    )


def budget() -> Tree:
    """Return the budget that keeps a replica while nodes are drained; a shadow may be drained."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(name=TextValue("podDisruptionBudget.name")),
        "spec": {
            "maxUnavailable": Value("podDisruptionBudget.maxUnavailable"),
            "selector": {"matchLabels": SELECTOR},
        },
    }
    return When(permissions.LEADS, body)


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


def network_policy() -> Tree:
    """Return what limits who reaches the pods, and where they reach, on networks that enforce it."""
    metrics = {
        "ports": [{"port": Value("controller.metrics.port"), "protocol": "TCP"}],
        "from": given("networkPolicy.metricsFrom", Copy("networkPolicy.metricsFrom")),
    }
    # Probes come from the node, whose addresses no selector names.
    probes = {"ports": [{"port": Value("controller.healthProbe.port"), "protocol": "TCP"}]}
    return given(
        "networkPolicy.enabled",
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata(),
            "spec": {
                "podSelector": {"matchLabels": SELECTOR},
                "policyTypes": ["Ingress", given("networkPolicy.egress", "Egress")],
                "ingress": [metrics, probes, ListItems("networkPolicy.ingress")],
                "egress": given("networkPolicy.egress", Copy("networkPolicy.egress")),
            },
        },
    )


def service_monitor() -> Tree:
    """Return what tells the Prometheus operator where the metrics are."""
    endpoint = Entries(
        {
            "port": "http-metrics",
            "path": "/metrics",
            "relabelings": given("serviceMonitor.relabelings", Copy("serviceMonitor.relabelings")),
            "metricRelabelings": given(
                "serviceMonitor.metricRelabelings", Copy("serviceMonitor.metricRelabelings")
            ),
        },
        ("serviceMonitor.endpointConfig",),
    )
    return When(
        APIServed("serviceMonitor.enabled", MONITORING),
        {
            "apiVersion": MONITORING,
            "kind": "ServiceMonitor",
            "metadata": metadata(labels=("serviceMonitor.additionalLabels",)),
            "spec": {
                "namespaceSelector": {"matchNames": [ReleaseFact("namespace")]},
                "selector": {"matchLabels": SELECTOR},
                "sampleLimit": is_set("serviceMonitor.sampleLimit", Value("serviceMonitor.sampleLimit")),
                "endpoints": [endpoint],
            },
        },
    )


def prometheus_rule() -> Tree:
    """Return the alerts for the Prometheus operator."""
    rules: list[Tree] = []
    for each in ALERTS:
        rule = each.rule()
        page = Concatenation((Value("prometheusRule.runbookURL"), f"#{each.anchor}"))
        url = given("prometheusRule.runbookURL", page)
        rules.append({**rule, "annotations": {**rule["annotations"], "runbook_url": url}})
    return When(
        APIServed("prometheusRule.enabled", MONITORING),
        {
            "apiVersion": MONITORING,
            "kind": "PrometheusRule",
            "metadata": metadata(labels=("prometheusRule.additionalLabels",)),
            "spec": {"groups": [{"name": "karpenter", "rules": rules}]},
        },
    )


def dashboards() -> list[Tree]:
    """Return the dashboards, for the sidecar of Grafana."""
    return [
        given(
            "grafanaDashboards.enabled",
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": metadata(
                    each.name.removeprefix("karpenter"),
                    labels=("grafanaDashboards.labels",),
                    annotations=("grafanaDashboards.annotations",),
                ),
                "data": {
                    f"{each.name}.json": ChartFile(f"dashboards/{each.name}.json", dashboard_text(each))
                },
            },
        )
        for each in DASHBOARDS
    ]
