"""
The values of the chart: names, defaults, descriptions, and what each may be.

Names are those of Karpenter's own charts, so that existing values files keep working. What is under
``settings`` becomes environment variables of the operator. How files and ``--set`` override them is in
:mod:`.values`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from karpenter.api.labels import NODEPOOL, ZONE
from karpenter.dashboards.objects import SIDECAR_LABELS


class TextForm(msgspec.Struct, frozen=True):
    """How a text is spelled that stands for a number, a duration or a truth value."""

    about: str
    pattern: str
    """What Python, Go and JSON schemas read alike."""

    sorts: tuple[str, ...] = ()
    """What else than a text a value of this form may be, in the words of JSON schemas."""


# What Go's strconv.ParseBool takes: https://pkg.go.dev/strconv#ParseBool
SWITCH: Final = TextForm("true or false", "1|t|T|TRUE|true|True|0|f|F|FALSE|false|False", ("boolean",))
COUNT: Final = TextForm("a whole number", "[0-9]+", ("integer",))
COUNT_OR_SHARE: Final = TextForm("a whole number or a percentage", "[0-9]+%?", ("integer",))
NUMBER: Final = TextForm(
    "a number of 0 or more", r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?", ("number",)
)
# https://pkg.go.dev/time#ParseDuration
DURATION: Final = TextForm(
    "a duration such as 90s or 1h30m", r"0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+"
)
# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
PAGE: Final = TextForm("an address such as https://wiki.example.com/karpenter", r"https?://[^\s]+")
QUANTITY: Final = TextForm(
    "an amount such as 500m, 2 or 1.5Gi",
    r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]+)?",
    ("number",),
)


class ChartValue(msgspec.Struct, frozen=True):
    """One value."""

    path: str
    default: Any
    about: str
    open: bool = False
    """Whether what is below it is the user's: a mapping or list whose content the chart does not know."""

    choices: tuple[str, ...] = ()
    """The only texts that it may be."""

    sorts: tuple[str, ...] = ()
    """What it may be, in the words of JSON schemas; by default what follows from its default."""

    text: TextForm | None = None
    """What its text says; by default what follows from its default."""

    template: bool = False
    """Whether its text may be a template, such as ``{{ .Values.global.clusterName }}``."""

    @property
    def form(self) -> TextForm | None:
        match self.default:
            case _ if self.text is not None or self.open:
                return self.text
            case bool():
                return SWITCH
            case int():
                return COUNT
            case _:
                return None

    @property
    def pattern(self) -> str:
        """What a text has to look like; an empty one is none at all."""
        assert self.form is not None
        template = r"|[\s\S]*\{\{[\s\S]*" if self.template else ""
        return f"^({self.form.pattern}{template})?$"

    def allowed(self) -> tuple[str, ...]:
        """
        Return what the value may be, in the words of JSON schemas.

        Every value may be null, which takes the default away. Numbers and truth values may be texts, and
        texts may be numbers, because ``--set`` makes numbers of digits.
        """
        if self.sorts:
            return (*self.sorts, "null")
        if self.form is not None:
            return (*self.form.sorts, "string", "null")
        match self.default:
            case str():
                return "string", "number", "boolean", "null"
            case dict():
                return "object", "null"
            case _:
                return "array", "null"


def _free(path: str, default: Any, about: str, *sorts: str) -> ChartValue:
    return ChartValue(path, default, about, open=True, sorts=sorts)


RETIRED: Final = {
    "settings.aws": "its values are under settings, tags and defaultInstanceProfile in EC2NodeClasses",
    "settings.assumeRoleARN": "the operator has the rights of its service account",
    "settings.assumeRoleDuration": "the operator has the rights of its service account",
    "settings.featureGates.drift": "drift is always looked for",
    "webhook": "there is no webhook, objects are checked by their CustomResourceDefinitions",
    "logConfig": "use logLevel, logOutputPaths and logErrorOutputPaths",
    "logEncoding": "logs are lines of JSON",
}
"""Values of older charts that are accepted, and what to know about each."""

SHARED: Final = {
    "global": ("object", "Helm hands the values under global to every chart; settings may name them."),
    "enabled": ("boolean", "For charts that have this one as a dependency; not read here."),
}
"""Values that belong to Helm or to a chart around this one."""


_OBJECTS: Final = (
    ChartValue("nameOverride", "", "Replaces the chart's name in labels."),
    ChartValue("fullnameOverride", "", "Replaces the name of every object."),
    ChartValue(
        "mode",
        "operator",
        "operator, or shadow: decide beside a running Karpenter, with read rights only. Ours.",
        choices=("operator", "shadow"),
    ),
    _free("additionalLabels", {}, "Labels for every object."),
    _free("additionalAnnotations", {}, "Annotations for every object."),
    ChartValue(
        "imagePullPolicy",
        "IfNotPresent",
        "When the image is pulled.",
        choices=("Always", "IfNotPresent", "Never"),
    ),
    _free("imagePullSecrets", [], "Secrets for pulling the image, as in a pod."),
    _free("service.annotations", {}, "Annotations for the Service."),
    ChartValue("serviceAccount.create", True, "Whether to make a ServiceAccount."),
    ChartValue("serviceAccount.name", "", "Its name; empty means that of the other objects."),
    _free("serviceAccount.annotations", {}, "Its annotations, such as eks.amazonaws.com/role-arn for IRSA."),
    _free("additionalClusterRoleRules", [], "Rules that the operator's ClusterRole holds besides ours."),
    ChartValue(
        "serviceMonitor.enabled", False, "Whether to make a ServiceMonitor for the Prometheus operator."
    ),
    _free("serviceMonitor.additionalLabels", {}, "Labels by which Prometheus finds it."),
    _free("serviceMonitor.relabelings", [], "Relabelings of its endpoint."),
    _free("serviceMonitor.metricRelabelings", [], "Metric relabelings of its endpoint."),
    _free("serviceMonitor.endpointConfig", {}, "More fields of its endpoint, such as interval."),
    ChartValue(
        "serviceMonitor.sampleLimit",
        None,
        "Most samples that a scrape may have; 0 means no limit.",
        text=COUNT,
    ),
    ChartValue(
        "prometheusRule.enabled",
        False,
        "Whether to make a PrometheusRule with alerts for the Prometheus operator. Ours.",
    ),
    _free("prometheusRule.additionalLabels", {}, "Labels by which Prometheus finds it. Ours."),
    ChartValue(
        "prometheusRule.runbookURL",
        "",
        "Where docs/guides/runbooks.md is published, for alerts to name; empty means nowhere. Ours.",
        text=PAGE,
    ),
    ChartValue(
        "grafanaDashboards.enabled", False, "Whether to make ConfigMaps with dashboards for Grafana. Ours."
    ),
    _free("grafanaDashboards.labels", SIDECAR_LABELS, "Labels by which Grafana's sidecar finds them. Ours."),
    _free("grafanaDashboards.annotations", {}, "Their annotations, such as grafana_folder. Ours."),
    ChartValue("networkPolicy.enabled", False, "Whether to make a NetworkPolicy for the pods. Ours."),
    _free("networkPolicy.metricsFrom", [], "Peers that may read metrics; empty means all. Ours."),
    _free("networkPolicy.ingress", [], "More rules for who reaches the pods. Ours."),
    _free("networkPolicy.egress", [], "Rules for where the pods reach; empty means anywhere. Ours."),
    ChartValue("podDisruptionBudget.name", "karpenter", "The name of the PodDisruptionBudget."),
    ChartValue(
        "podDisruptionBudget.maxUnavailable",
        1,
        "How many replicas may be away by choice.",
        text=COUNT_OR_SHARE,
    ),
)
_POD: Final = (
    ChartValue("replicas", 2, "How many replicas; one works, the others wait for its lease."),
    ChartValue("revisionHistoryLimit", 10, "Old ReplicaSets that are kept."),
    _free("strategy", {"rollingUpdate": {"maxUnavailable": 1}}, "How replicas are replaced."),
    _free("podLabels", {}, "Labels for the pods."),
    _free("podAnnotations", {}, "Annotations for the pods."),
    _free(
        "podSecurityContext",
        {"fsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "The pods' security context.",
    ),
    ChartValue("priorityClassName", "system-cluster-critical", "Who waits for whom."),
    ChartValue(
        "terminationGracePeriodSeconds",
        None,
        "Seconds to finish and give the lease back; null means the 30 of Kubernetes.",
        text=COUNT,
    ),
    ChartValue("hostNetwork", False, "Whether the pods share their node's network."),
    ChartValue("schedulerName", "default-scheduler", "Who schedules the pods."),
    ChartValue(
        "dnsPolicy",
        "ClusterFirst",
        "Default lets the operator start before CoreDNS has a node.",
        choices=("ClusterFirst", "Default", "ClusterFirstWithHostNet", "None"),
    ),
    _free("dnsConfig", {}, "DNS settings of the pods."),
    _free("nodeSelector", {"kubernetes.io/os": "linux"}, "Nodes on which the operator may run."),
    _free(
        "affinity",
        {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": NODEPOOL, "operator": "DoesNotExist"}]}
                    ]
                }
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]
            },
        },
        "Not on nodes that the operator manages, one replica per node. Terms about pods that select none are"
        " about the operator's own.",
    ),
    _free(
        "topologySpreadConstraints",
        [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}],
        "Replicas in different zones. A constraint that selects no pods is about the operator's own.",
    ),
    _free(
        "tolerations",
        [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
        "Taints that do not keep it off.",
    ),
    _free("initContainers", [], "Containers to run before the operator.", "array", "object"),
    _free("extraVolumes", [], "More volumes of the pods."),
)
_CONTROLLER: Final = (
    ChartValue("controller.containerName", "controller", "The name of the container."),
    ChartValue("controller.image.repository", "karpenter", "The image, with its registry."),
    ChartValue("controller.image.tag", "", "Its tag; empty means the version of the chart."),
    ChartValue("controller.image.digest", "", "Its digest, such as sha256:…"),
    _free("controller.env", [], "More environment variables, as in a container."),
    _free("controller.envFrom", [], "Sources of more environment variables."),
    _free("controller.securityContext.appArmorProfile", {}, "AppArmor profile of the container."),
    _free("controller.securityContext.seLinuxOptions", {}, "SELinux options of the container."),
    _free("controller.securityContext.seccompProfile", {}, "Seccomp profile of the container."),
    _free(
        "controller.resources",
        {},
        "What the container gets; where none are given, requests of 500m cpu and 512Mi memory.",
    ),
    _free("controller.extraVolumeMounts", [], "Where more volumes are mounted."),
    _free("controller.sidecarContainer", [], "Containers to run beside the operator."),
    _free(
        "controller.sidecarVolumeMounts",
        [],
        "What is mounted in the containers beside it, besides extraVolumeMounts.",
    ),
    ChartValue("controller.metrics.port", 8080, "Port of the Prometheus endpoint."),
    ChartValue("controller.healthProbe.port", 8081, "Port of the probes."),
    ChartValue("logLevel", "info", "debug, info or error.", choices=("debug", "info", "error")),
    _free("logOutputPaths", ["stdout"], "Where logs go."),
    _free("logErrorOutputPaths", ["stderr"], "Where faults of logging itself go."),
)
_SETTINGS: Final = (
    ChartValue(
        "settings.cloudProvider", "aws", "The cloud: aws, kwok, or another that is installed in the image."
    ),
    ChartValue(
        "settings.clusterName", "", "The name under which machines are tagged. Required.", template=True
    ),
    ChartValue(
        "settings.clusterEndpoint",
        "",
        "Where nodes reach the API server; empty means to ask EKS.",
        template=True,
    ),
    ChartValue(
        "settings.clusterCABundle",
        "",
        "What nodes trust it by, in base64; empty means what the operator trusts it by.",
        template=True,
    ),
    ChartValue(
        "settings.isolatedVPC",
        False,
        "Whether AWS services without an endpoint in the VPC are out of reach.",
        template=True,
    ),
    ChartValue(
        "settings.eksControlPlane",
        False,
        "Whether to ask EKS for the version of the control plane.",
        template=True,
    ),
    ChartValue(
        "settings.vmMemoryOverheadPercent",
        0.075,
        "Share of memory that hypervisor and kernel take.",
        text=NUMBER,
        template=True,
    ),
    ChartValue(
        "settings.interruptionQueue", "", "SQS queue with interruptions; empty means none.", template=True
    ),
    ChartValue(
        "settings.enableZonalShift",
        False,
        "Whether to leave zones that are being shifted away from.",
        template=True,
    ),
    ChartValue(
        "settings.reservedENIs",
        "0",
        "Network interfaces that pods get no addresses from.",
        text=COUNT,
        template=True,
    ),
    ChartValue(
        "settings.disableDryRun",
        False,
        "Whether to skip trying permissions before a class is ready.",
        template=True,
    ),
    ChartValue(
        "settings.amiRefreshInterval",
        "1m",
        "How long images that were found count as current.",
        text=DURATION,
        template=True,
    ),
    ChartValue(
        "settings.subnetRefreshInterval",
        "1m",
        "How long subnets that were found count as current.",
        text=DURATION,
        template=True,
    ),
    ChartValue("settings.awsFeatureGates.nodeClassCEL", False, "Kubelet settings as expressions. Alpha."),
    ChartValue(
        "settings.batchMaxDuration",
        "10s",
        "Longest wait for more pods before a decision.",
        text=DURATION,
        template=True,
    ),
    ChartValue(
        "settings.batchIdleDuration",
        "1s",
        "Wait without a new pod that ends a batch.",
        text=DURATION,
        template=True,
    ),
    ChartValue(
        "settings.preferencePolicy",
        "Respect",
        "Respect or Ignore preferences of pods.",
        choices=("Respect", "Ignore"),
    ),
    ChartValue(
        "settings.minValuesPolicy",
        "Strict",
        "Strict or BestEffort about minValues.",
        choices=("Strict", "BestEffort"),
    ),
    ChartValue(
        "settings.ignoreDRARequests", True, "Whether to leave pods with resource claims alone.", template=True
    ),
    ChartValue(
        "settings.disableClusterStateObservability",
        False,
        "Leave out metrics of single pods and nodes.",
        template=True,
    ),
    ChartValue("settings.disableControllerWarmup", True, "Fill caches only after leadership was won."),
    ChartValue("settings.enableProfiling", False, "Serve profiles beside the metrics."),
    ChartValue("settings.kubeClientQPS", "200", "Requests per second to the API server.", text=NUMBER),
    ChartValue("settings.kubeClientBurst", "300", "Requests in one burst to the API server.", text=COUNT),
    ChartValue("settings.schedulerConfig", "", "YAML with podTopologySpread.defaultConstraints."),
    ChartValue("settings.packingPolicy", "price", "price or greedy. Ours.", choices=("price", "greedy")),
    ChartValue(
        "settings.consolidationStrategy", "classic", "classic or global. Ours.", choices=("classic", "global")
    ),
    ChartValue(
        "settings.consolidationPayback",
        "1h",
        "Time in which a saving must pay for the pods it moves. Ours.",
        text=DURATION,
    ),
    ChartValue(
        "settings.evictionPrice",
        "0.001",
        "What evicting an ordinary pod costs, in dollars. Ours.",
        text=NUMBER,
    ),
    ChartValue(
        "settings.nodePrice",
        "0",
        "What a node costs per hour besides the bill of the cloud. Ours.",
        text=NUMBER,
    ),
    ChartValue("settings.vcpuPrice", "0", "The same for each vCPU. Ours.", text=NUMBER),
    ChartValue(
        "settings.priceFactors", "", "NAME=FACTOR, comma separated: list prices of this account. Ours."
    ),
    ChartValue(
        "settings.commitments", "", "YAML with Reserved Instances and Savings Plans, or its path. Ours."
    ),
    ChartValue(
        "settings.interruptionPrice",
        "0.05",
        "What an interruption of a spot machine costs. Ours.",
        text=NUMBER,
    ),
    ChartValue(
        "settings.spotConcentrationPrice",
        "0.5",
        "Share by which the next spot machine counts as dearer once all are of one type and zone. Ours.",
        text=NUMBER,
    ),
    ChartValue(
        "settings.preferredPoolPrice",
        "0",
        "Share of a node's price that moving its pods back to a NodePool of higher weight is worth. Ours.",
        text=NUMBER,
    ),
    ChartValue(
        "settings.nominatePods",
        "auto",
        "Tell kube-scheduler where pods are planned to run: auto (Kubernetes 1.30 and newer), true or false."
        " Ours.",
        text=TextForm("auto, true or false", "auto|true|false", ("boolean",)),
    ),
    ChartValue("settings.surgeBeforeEvict", False, "Let successors of single replicas start first. Ours."),
    ChartValue(
        "settings.steerScaleDown", False, "Let workloads shrink on the emptiest machines first. Ours."
    ),
    ChartValue(
        "settings.flightRecord", "", "File for what is seen, decided and done; mount a volume for it. Ours."
    ),
    ChartValue(
        "settings.shadowRecord",
        "",
        "File for what a shadow and Karpenter cost and do; mount a volume for it. Ours.",
    ),
    ChartValue(
        "settings.flightRecordSize", "268435456", "Bytes after which a new one is begun. Ours.", text=COUNT
    ),
    ChartValue("settings.featureGates.reservedCapacity", True, "Use capacity reservations. Beta."),
    ChartValue("settings.featureGates.nodeRepair", False, "Replace nodes that are unhealthy. Alpha."),
    ChartValue(
        "settings.featureGates.spotToSpotConsolidation",
        False,
        "Replace spot machines by cheaper ones. Alpha.",
    ),
    ChartValue("settings.featureGates.nodeOverlay", False, "Read NodeOverlays. Alpha."),
    ChartValue("settings.featureGates.staticCapacity", False, "NodePools with replicas. Alpha."),
    ChartValue("settings.featureGates.capacityBuffer", False, "Keep room for CapacityBuffers. Alpha."),
)

VALUES: Final = (*_OBJECTS, *_POD, *_CONTROLLER, *_SETTINGS)
"""Every value, in the order in which they are documented."""
