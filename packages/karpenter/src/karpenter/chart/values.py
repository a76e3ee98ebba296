r"""
The values of the chart: names, defaults, descriptions, their schema, and how files and ``--set`` override
them.

Names are those of Karpenter's own charts, so that existing values files keep working. What is under
``settings`` becomes environment variables of the operator.

``--set`` is read as Helm reads it: ``a.b=1,c=x`` sets two values, ``\\.`` and ``\\,`` are a plain dot and a
plain comma, ``{a,b}`` is a list, ``a[0].b=x`` is in the first item of a list, and ``null`` removes a value.
Unlike Helm, a name that the chart does not know is refused.
See https://helm.sh/docs/intro/using_helm/
"""

from __future__ import annotations

import difflib
import itertools
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.labels import NODEPOOL, ZONE
from karpenter.api.manifests import render_documents
from karpenter.dashboards.objects import RUNBOOKS, SIDECAR_LABELS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def with_notes(values: Mapping[str, Any], notes: Mapping[str, str]) -> str:
    """Return mappings as YAML; `notes` are keyed by path."""
    return "\n".join(_lines(values, notes, "", "")) + "\n"


def _lines(values: Mapping[str, Any], notes: Mapping[str, str], above: str, pad: str) -> Iterator[str]:
    for key, value in values.items():
        path = f"{above}{key}"
        if path in notes:
            yield f"{pad}# {notes[path]}"
            for line in render_documents([{key: value}]).splitlines():
                yield f"{pad}{line}"
        else:
            yield f"{pad}{key}:"
            yield from _lines(value, notes, f"{path}.", f"{pad}  ")


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

    def allowed(self) -> tuple[str, ...]:
        """
        Return what the value may be, in the words of JSON schemas.

        Every value may be null, which takes the default away. Numbers and truth values may be texts, because
        a text may be a template, and texts may be numbers, because ``--set`` makes numbers of digits.
        """
        if self.sorts:
            return (*self.sorts, "null")
        match self.default:
            case bool():
                return "boolean", "string", "null"
            case int() | float():
                return "number", "string", "null"
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
        sorts=("integer",),
    ),
    ChartValue(
        "prometheusRule.enabled",
        False,
        "Whether to make a PrometheusRule with alerts for the Prometheus operator. Ours.",
    ),
    _free("prometheusRule.additionalLabels", {}, "Labels by which Prometheus finds it. Ours."),
    ChartValue("prometheusRule.runbookURL", RUNBOOKS, "The page of runbooks that alerts name. Ours."),
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
    ChartValue("podDisruptionBudget.maxUnavailable", 1, "How many replicas may be away by choice."),
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
        sorts=("integer", "string"),
    ),
    ChartValue("hostNetwork", False, "Whether the pods share their node's network."),
    ChartValue("schedulerName", "default-scheduler", "Who schedules the pods."),
    ChartValue("dnsPolicy", "ClusterFirst", "Default lets the operator start before CoreDNS has a node."),
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
    ChartValue("logLevel", "info", "debug, info or error."),
    _free("logOutputPaths", ["stdout"], "Where logs go."),
    _free("logErrorOutputPaths", ["stderr"], "Where faults of logging itself go."),
)
_SETTINGS: Final = (
    ChartValue(
        "settings.cloudProvider", "aws", "The cloud: aws, kwok, or another that is installed in the image."
    ),
    ChartValue("settings.clusterName", "", "The name under which machines are tagged. Required."),
    ChartValue("settings.clusterEndpoint", "", "Where nodes reach the API server; empty means to ask EKS."),
    ChartValue(
        "settings.clusterCABundle",
        "",
        "What nodes trust it by, in base64; empty means what the operator trusts it by.",
    ),
    ChartValue(
        "settings.isolatedVPC", False, "Whether AWS services without an endpoint in the VPC are out of reach."
    ),
    ChartValue("settings.eksControlPlane", False, "Whether to ask EKS for the version of the control plane."),
    ChartValue("settings.vmMemoryOverheadPercent", 0.075, "Share of memory that hypervisor and kernel take."),
    ChartValue("settings.interruptionQueue", "", "SQS queue with interruptions; empty means none."),
    ChartValue(
        "settings.enableZonalShift", False, "Whether to leave zones that are being shifted away from."
    ),
    ChartValue("settings.reservedENIs", "0", "Network interfaces that pods get no addresses from."),
    ChartValue(
        "settings.disableDryRun", False, "Whether to skip trying permissions before a class is ready."
    ),
    ChartValue("settings.amiRefreshInterval", "1m", "How long images that were found count as current."),
    ChartValue("settings.subnetRefreshInterval", "1m", "How long subnets that were found count as current."),
    ChartValue("settings.awsFeatureGates.nodeClassCEL", False, "Kubelet settings as expressions. Alpha."),
    ChartValue("settings.batchMaxDuration", "10s", "Longest wait for more pods before a decision."),
    ChartValue("settings.batchIdleDuration", "1s", "Wait without a new pod that ends a batch."),
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
    ChartValue("settings.ignoreDRARequests", True, "Whether to leave pods with resource claims alone."),
    ChartValue(
        "settings.disableClusterStateObservability", False, "Leave out metrics of single pods and nodes."
    ),
    ChartValue("settings.disableControllerWarmup", True, "Fill caches only after leadership was won."),
    ChartValue("settings.enableProfiling", False, "Serve profiles beside the metrics."),
    ChartValue("settings.kubeClientQPS", "200", "Requests per second to the API server."),
    ChartValue("settings.kubeClientBurst", "300", "Requests in one burst to the API server."),
    ChartValue("settings.schedulerConfig", "", "YAML with podTopologySpread.defaultConstraints."),
    ChartValue("settings.packingPolicy", "price", "price or greedy. Ours.", choices=("price", "greedy")),
    ChartValue(
        "settings.consolidationStrategy", "global", "global or classic. Ours.", choices=("global", "classic")
    ),
    ChartValue(
        "settings.consolidationPayback", "1h", "Time in which a saving must pay for the pods it moves. Ours."
    ),
    ChartValue("settings.evictionPrice", "0.001", "What evicting an ordinary pod costs, in dollars. Ours."),
    ChartValue("settings.nodePrice", "0", "What a node costs per hour besides the bill of the cloud. Ours."),
    ChartValue("settings.vcpuPrice", "0", "The same for each vCPU. Ours."),
    ChartValue(
        "settings.priceFactors", "", "NAME=FACTOR, comma separated: list prices of this account. Ours."
    ),
    ChartValue(
        "settings.commitments", "", "YAML with Reserved Instances and Savings Plans, or its path. Ours."
    ),
    ChartValue("settings.interruptionPrice", "0.05", "What an interruption of a spot machine costs. Ours."),
    ChartValue(
        "settings.spotConcentrationPrice",
        "0.5",
        "Share by which the next spot machine counts as dearer once all are of one type and zone. Ours.",
    ),
    ChartValue(
        "settings.preferredPoolPrice",
        "0",
        "Share of a node's price that moving its pods back to a NodePool of higher weight is worth. Ours.",
    ),
    ChartValue(
        "settings.nominatePods",
        "auto",
        "Tell kube-scheduler where pods are planned to run: auto (Kubernetes 1.30 and newer), true or false."
        " Ours.",
        sorts=("string", "boolean"),
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
    ChartValue("settings.flightRecordSize", "268435456", "Bytes after which a new one is begun. Ours."),
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


def default_values() -> dict[str, Any]:
    """Return a fresh tree of the defaults."""
    found: dict[str, Any] = {}
    for chart_value in VALUES:
        *above, last = chart_value.path.split(".")
        level = found
        for word in above:
            level = level.setdefault(word, {})
        level[last] = msgspec.json.decode(msgspec.json.encode(chart_value.default))
    return found


def render_values() -> str:
    """Return the chart's ``values.yaml``."""
    return with_notes(default_values(), {chart_value.path: chart_value.about for chart_value in VALUES})


def schema() -> dict[str, Any]:
    """
    Return the chart's ``values.schema.json``: Helm refuses what it does not allow, before it renders.

    Draft 7 is what every Helm 3 reads (https://helm.sh/docs/topics/charts/#schema-files).
    """
    root: dict[str, Any] = _object("")
    for chart_value in VALUES:
        level, last = _level(root, chart_value.path)
        level[last] = {"description": chart_value.about, "type": list(chart_value.allowed())}
        if chart_value.choices:
            level[last]["enum"] = [*chart_value.choices, "", None]
    for path, about in RETIRED.items():
        level, last = _level(root, path)
        level[last] = {"description": f"Has no effect: {about}."}
    for path, (sort, about) in SHARED.items():
        root["properties"][path] = {"description": about, "type": [sort, "null"]}
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of the chart", **root}


def _level(root: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
    """Return the properties that a path is one of, and its last word."""
    *above, last = path.split(".")
    level: dict[str, Any] = root["properties"]
    for word in above:
        level = level.setdefault(word, _object("null"))["properties"]
    return level, last


def _object(also: str) -> dict[str, Any]:
    sorts = ["object", *([also] if also else [])]
    return {"type": sorts, "additionalProperties": False, "properties": {}}


_WORD: Final = re.compile(r"((?:\\.|[^\\.\[\]])+)((?:\[\d+\])*)")
_WHOLE: Final = re.compile(r"-?(?:0|[1-9]\d*)")
# An index such as a[999999999]=x must not fill the memory; Helm has such a limit, too.
_LONGEST_LIST: Final = 1000
_SORTS: Final[dict[type, str]] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    dict: "object",
}


class BadValue(ValueError):  # noqa: N818  says what is wrong
    """A value that cannot be read, or that the chart does not know."""


def parse_set(text: str) -> list[tuple[list[str | int], Any]]:
    """
    Return what one ``--set`` says: paths and values.

    Raises:
        BadValue: naming what cannot be read.
    """
    return [_assignment(part, text) for part in _split(text, ",") if part]


def lay_over(values: dict[str, Any], stated: dict[str, Any]) -> None:
    """
    Lay what a file of values states over `values`.

    Raises:
        BadValue: naming a value that the chart does not know.
    """
    _check(stated, "")
    _merge(values, stated)


def put(values: dict[str, Any], path: list[str | int], value: Any) -> None:
    """
    Set one value.

    Raises:
        BadValue: the chart does not know it, or it is not where that path leads.
    """
    words = [word for word in path if isinstance(word, str)]
    _check_path(words)
    level: Any = values
    for word, after in itertools.pairwise(path):
        level = _step(level, word, [] if isinstance(after, int) else {}, path)
    last = path[-1]
    if isinstance(last, int):
        _step(level, last, None, path)
        level[last] = value
    elif not isinstance(level, dict):
        raise BadValue(f"{_spell(path)}: there is no mapping to put {last} in")
    elif value is None:
        level.pop(last, None)
    else:
        level[last] = value


def values_of(files: list[dict[str, Any]], sets: list[str]) -> dict[str, Any]:
    """
    Return the values in force: defaults, then files, then what was set, the later over the earlier.

    Raises:
        BadValue: naming what cannot be used.
    """
    values = default_values()
    for stated in files:
        lay_over(values, stated)
    for text in sets:
        for path, value in parse_set(text):
            put(values, path, value)
    _check_sorts(values)
    return values


def retired_values(values: dict[str, Any]) -> list[str]:
    """Return a sentence for every value that charts once had and that is accepted without effect."""
    found = []
    for path, about in RETIRED.items():
        level: Any = values
        for word in path.split("."):
            level = level.get(word) if isinstance(level, dict) else None
        if level is not None:
            found.append(without_effect(path, about))
    return found


def without_effect(path: str, about: str) -> str:
    """Return the sentence about a value of older charts."""
    return f"{path} has no effect: {about}."


def _step(level: Any, word: str | int, empty: Any, path: list[str | int]) -> Any:
    if isinstance(word, int):
        if not isinstance(level, list) or word > _LONGEST_LIST:
            raise BadValue(f"{_spell(path)}: there is no list with an item {word}")
        level += [None] * (word + 1 - len(level))
        if level[word] is None:
            level[word] = empty
        return level[word]
    if not isinstance(level, dict):
        raise BadValue(f"{_spell(path)}: there is no mapping to find {word} in")
    if level.get(word) is None:
        level[word] = empty
    return level[word]


def _assignment(part: str, text: str) -> tuple[list[str | int], Any]:
    name, equals, value = part.partition("=")
    if not equals:
        raise BadValue(f"{text!r} is not NAME=VALUE")
    path: list[str | int] = []
    at = 0
    while at <= len(name):
        found = _WORD.match(name, at)
        if found is None:
            raise BadValue(f"{name!r} is not the name of a value, such as controller.image.tag")
        path.append(_plain(found[1]))
        path += [int(number) for number in re.findall(r"\d+", found[2])]
        at = found.end()
        if at < len(name) and name[at] != ".":
            raise BadValue(f"{name!r} is not the name of a value, such as controller.image.tag")
        at += 1
    if value.startswith("{") and value.endswith("}"):
        return path, [_typed(each) for each in _split(value[1:-1], ",") if each]
    return path, _typed(value)


def _split(text: str, mark: str) -> list[str]:
    """Split at a mark that is neither escaped nor in braces."""
    parts, depth, current = [], 0, ""
    escaped = False
    for letter in text:
        depth += 0 if escaped else (letter == "{") - (letter == "}")
        if letter == mark and not escaped and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += letter
        escaped = letter == "\\" and not escaped
    return [*parts, current]


def _typed(text: str) -> Any:
    match text:
        case "true" | "false":
            return text == "true"
        case "null":
            return None
        case _ if _WHOLE.fullmatch(text):
            return int(text)
        case _:
            return _plain(text)


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _merge(values: dict[str, Any], stated: dict[str, Any]) -> None:
    for key, value in stated.items():
        if value is None:
            values.pop(key, None)
        elif isinstance(value, dict) and isinstance(values.get(key), dict):
            _merge(values[key], value)
        else:
            values[key] = value


def _check(stated: dict[str, Any], above: str) -> None:
    for key, value in stated.items():
        path = f"{above}{key}"
        _check_path(path.split("."))
        if isinstance(value, dict) and not _is_open(path):
            _check(value, f"{path}.")


def _check_path(words: list[str]) -> None:
    path = ".".join(words)
    known = {chart_value.path for chart_value in VALUES}
    inner = any(each.startswith(f"{path}.") for each in known)
    if path not in known and not inner and not _is_open(path):
        close = difflib.get_close_matches(path, known, n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        raise BadValue(f"the chart has no value {path}{meant}")


def _is_open(path: str) -> bool:
    known = [chart_value.path for chart_value in VALUES if chart_value.open] + [*RETIRED, *SHARED]
    return any(path == each or path.startswith(f"{each}.") for each in known)


def _check_sorts(values: dict[str, Any]) -> None:
    """Refuse what the chart's schema refuses: a mapping for a number, or a word that is none of a few."""
    for chart_value in VALUES:
        found: Any = values
        for word in chart_value.path.split("."):
            if found is not None and not isinstance(found, dict):
                raise BadValue(
                    f"{chart_value.path.rpartition('.')[0]}: a mapping is wanted, not {_sort(found)}"
                )
            found = found.get(word) if found else None
        sort = _sort(found)
        if sort not in chart_value.allowed() and not (
            sort == "integer" and "number" in chart_value.allowed()
        ):
            raise BadValue(f"{chart_value.path}: {_wanted(chart_value.allowed())} is wanted, not {sort}")
        if chart_value.choices and found not in {*chart_value.choices, "", None}:
            raise BadValue(f"{chart_value.path}: {found!r} is not {' or '.join(chart_value.choices)}")


def _sort(value: Any) -> str:
    """Return what a value is, in the words of JSON schemas."""
    sorts = {
        type(None): "null",
        bool: "boolean",
        int: "integer",
        float: "number",
        str: "string",
        dict: "object",
    }
    return sorts.get(type(value), "array")


def _wanted(sorts: tuple[str, ...]) -> str:
    return " or ".join(each for each in sorts if each != "null")


def _spell(path: list[str | int]) -> str:
    return ".".join(str(word) for word in path)
