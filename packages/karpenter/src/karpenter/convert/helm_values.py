"""
Helm values of every generation of the Karpenter chart, as values of the chart of today.

Values move by a table of paths; what has no counterpart is dropped with a sentence that says what to do.
Values that are unknown to every generation stay where they are. Also reads HelmRelease (Flux) and
Application (Argo CD) objects and umbrella charts, which hold such values at a place of their own.

Sources: the ``values.yaml`` of charts 0.5 to 1.14 in github.com/aws/karpenter-provider-aws, and
https://karpenter.sh/docs/upgrading/upgrade-guide/
"""

from __future__ import annotations

import copy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.convert.findings import (
    ConversionOutcome,
    Findings,
    NewDocument,
    Path,
    Plain,
    at,
    items,
    mapping,
    spell,
)
from karpenter.convert.workloads import convert_workload

if TYPE_CHECKING:
    from collections.abc import Mapping


_MOVES: Final[Mapping[str, str]] = MappingProxyType(
    {
        # 0.5
        "controller.clusterName": "settings.clusterName",
        "controller.clusterEndpoint": "settings.clusterEndpoint",
        # 0.6 to 0.18
        "clusterName": "settings.clusterName",
        "clusterEndpoint": "settings.clusterEndpoint",
        "aws.isolatedVPC": "settings.isolatedVPC",
        "aws.vmMemoryOverheadPercent": "settings.vmMemoryOverheadPercent",
        "aws.vmMemoryOverhead": "settings.vmMemoryOverheadPercent",
        "controller.batchMaxDuration": "settings.batchMaxDuration",
        "controller.batchIdleDuration": "settings.batchIdleDuration",
        "controller.outputPaths": "logOutputPaths",
        "controller.errorOutputPaths": "logErrorOutputPaths",
        # 0.19 to 0.31
        "settings.aws.clusterName": "settings.clusterName",
        "settings.aws.clusterEndpoint": "settings.clusterEndpoint",
        "settings.aws.clusterCABundle": "settings.clusterCABundle",
        "settings.aws.isolatedVPC": "settings.isolatedVPC",
        "settings.aws.vmMemoryOverheadPercent": "settings.vmMemoryOverheadPercent",
        "settings.aws.interruptionQueueName": "settings.interruptionQueue",
        "settings.aws.reservedENIs": "settings.reservedENIs",
        # 0.28 to 0.37
        "logConfig.outputPaths": "logOutputPaths",
        "logConfig.errorOutputPaths": "logErrorOutputPaths",
        "logConfig.logLevel.controller": "logLevel",
        "logConfig.logLevel.global": "logLevel",
        "controller.logLevel": "logLevel",
    }
)
"""Old path to new path; where several lead to one place the first that is set wins."""

_PROFILE: Final = "every EC2NodeClass names its own role or instanceProfile"
_ASSUME: Final = "the operator takes its credentials from its service account: use IRSA or EKS Pod Identity"
_WEBHOOK: Final = "there are no webhooks any longer: schemas carry the rules"
_ENCODING: Final = "logs are JSON lines"
_DROPPED: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "aws.defaultInstanceProfile": ("DefaultInstanceProfile", _PROFILE),
        "settings.aws.defaultInstanceProfile": ("DefaultInstanceProfile", _PROFILE),
        "aws.enablePodENI": ("PodENI", "pod ENIs are offered wherever an instance type has them"),
        "settings.aws.enablePodENI": ("PodENI", "pod ENIs are offered wherever an instance type has them"),
        "aws.enableENILimitedPodDensity": ("PodDensity", "set spec.kubelet.maxPods of the EC2NodeClass"),
        "settings.aws.enableENILimitedPodDensity": (
            "PodDensity",
            "set spec.kubelet.maxPods of the EC2NodeClass",
        ),
        "aws.nodeNameConvention": ("NodeNames", "nodes are named as EC2 names them"),
        "settings.aws.nodeNameConvention": ("NodeNames", "nodes are named as EC2 names them"),
        "settings.aws.tags": ("Tags", "put them into spec.tags of every EC2NodeClass"),
        "settings.aws.assumeRoleARN": ("AssumeRole", _ASSUME),
        "settings.aws.assumeRoleDuration": ("AssumeRole", _ASSUME),
        "settings.assumeRoleARN": ("AssumeRole", _ASSUME),
        "settings.assumeRoleDuration": ("AssumeRole", _ASSUME),
        "webhook": ("Webhook", _WEBHOOK),
        "postInstallHook": ("Webhook", "there is no conversion of stored objects to wait for"),
        "logEncoding": ("LogEncoding", _ENCODING),
        "controller.logEncoding": ("LogEncoding", _ENCODING),
        "logConfig.logEncoding": ("LogEncoding", _ENCODING),
        "logConfig.enabled": (
            "LogConfig",
            "logging is set by logLevel, logOutputPaths and logErrorOutputPaths",
        ),
        "logConfig.logLevel.webhook": ("Webhook", _WEBHOOK),
    }
)
_SIGNS: Final = (
    "settings.aws",
    "settings.clusterName",
    "settings.interruptionQueue",
    "settings.featureGates",
    "settings.batchMaxDuration",
    "settings.batchIdleDuration",
    "aws.defaultInstanceProfile",
    "aws.enablePodENI",
    "aws.isolatedVPC",
    "logConfig",
    "controller.clusterName",
    "controller.batchMaxDuration",
    "controller.logEncoding",
)
"""Values that no other chart has in this place."""

_CHART: Final = "karpenter"
_OLD_METRICS_PORT: Final = 8000


def _path(text: str) -> Path:
    return tuple(text.split("."))


def is_values(plain: Plain) -> bool:
    if "apiVersion" in plain or "kind" in plain:
        return False
    if {"clusterName", "clusterEndpoint"} <= plain.keys():
        return True
    return any(at(plain, _path(sign)) is not None for sign in _SIGNS)


def places_of_values(plain: Plain) -> list[Path]:
    match plain.get("kind"):
        case "HelmRelease" if _is_release(plain):
            return [("spec", "values")] if isinstance(at(plain, ("spec", "values")), dict) else []
        case "Application" if at(plain, ("spec", "source", "chart")) == _CHART:
            place: Path = ("spec", "source", "helm", "valuesObject")
            return [place] if isinstance(at(plain, place), dict) else []
    if is_values(plain):
        return [()]
    if "kind" not in plain and isinstance(plain.get("karpenter"), dict) and is_values(plain["karpenter"]):
        return [("karpenter",)]
    return []


def _is_release(plain: Plain) -> bool:
    names = (at(plain, ("spec", "chart", "spec", "chart")), at(plain, ("spec", "chartRef", "name")))
    return _CHART in names


def default_profile(plain: Plain) -> str:
    """Return the default instance profile that values or the settings of the past name."""
    for place in places_of_values(plain):
        values = at(plain, place)
        for path in ("settings.aws.defaultInstanceProfile", "aws.defaultInstanceProfile"):
            if found := at(values, _path(path)):
                return str(found)
    if plain.get("kind") == "ConfigMap" and at(plain, ("metadata", "name")) == "karpenter-global-settings":
        return str(mapping(plain.get("data")).get("aws.defaultInstanceProfile") or "")
    return ""


def convert_values(plain: Plain) -> ConversionOutcome | None:
    """Return what becomes of a document with values; None when it holds none or only those of today."""
    places = places_of_values(plain)
    if not places:
        return None
    findings, document = Findings(), copy.deepcopy(plain)
    moves: dict[Path, Path] = {}
    for place in places:
        values = _Values(at(document, place), findings, place)
        values.convert()
        moves |= values.moves
    if document == plain:
        return ConversionOutcome(findings=tuple(findings.found)) if findings.found else None
    return ConversionOutcome(
        documents=(NewDocument(plain=document, moves=moves),), findings=tuple(findings.found)
    )


class _Values:
    """Values that are being changed, in place: they are a copy."""

    def __init__(self, values: Plain, findings: Findings, place: Path) -> None:
        self._values, self._findings, self._place = values, findings, place
        self.moves: dict[Path, Path] = {}

    def convert(self) -> None:
        """Move what moved, drop what is gone, and change what has another shape."""
        self._gates()
        for old, new in _MOVES.items():
            self._move(_path(old), _path(new))
        for old, (code, reason) in _DROPPED.items():
            if self._take(_path(old)) is not None:
                self._findings.warn(code, f"is dropped: {reason}", self._spell(_path(old)))
        self._image()
        self._port()
        self._environment()
        self._affinity()
        for name in ("aws", "logConfig"):
            self._drop_empty((name,))
        self._drop_empty(("settings", "aws"))
        for path in (("settings", "aws"), ("aws",)):
            for key in mapping(at(self._values, path)):
                self._findings.error("UnknownValue", "no chart has this value", self._spell((*path, key)))

    def _spell(self, path: Path) -> str:
        return spell((*self._place, *path))

    def _move(self, old: Path, new: Path) -> None:
        value = self._take(old)
        if value is None:
            return
        if value == "" and "logLevel" in old:
            return  # an empty level meant the one above it
        if at(self._values, new) is not None:
            if at(self._values, new) != value:
                self._findings.warn(
                    "Conflict", f"is dropped: {spell(new)} is set, too, and wins", self._spell(old)
                )
            return
        self._put(new, value, old)
        self._findings.info("Moved", f"is {spell(new)} now", self._spell(old))

    def _take(self, path: Path) -> Any:
        holder = at(self._values, path[:-1])
        if not isinstance(holder, dict) or path[-1] not in holder:
            return None
        found = holder.pop(path[-1])
        if not holder and len(path) > 1:
            self._take_empty(path[:-1])
        return found

    def _take_empty(self, path: Path) -> None:
        holder = at(self._values, path[:-1])
        if isinstance(holder, dict) and holder.get(path[-1]) == {} and path != ("settings",):
            del holder[path[-1]]
            if len(path) > 1:
                self._take_empty(path[:-1])

    def _drop_empty(self, path: Path) -> None:
        if at(self._values, path) == {}:
            self._take(path)

    def _put(self, path: Path, value: Any, old: Path) -> None:
        holder: dict[Any, Any] = self._values
        for step in path[:-1]:
            below = holder.setdefault(step, {})
            if not isinstance(below, dict):
                holder[step] = below = {}
            holder = below
        holder[path[-1]] = value
        self.moves[*self._place, *path] = (*self._place, *old)

    def _gates(self) -> None:
        """Take out gates that are gone, and say so where that changes something."""
        for name in ("driftEnabled", "drift"):
            path: Path = ("settings", "featureGates", name)
            value = at(self._values, path)
            if value is None:
                continue
            self._take(path)
            if str(value).lower() == "false":
                message = (
                    "is dropped: drift is always on; a NodePool holds it back with a budget of nodes "
                    "0 and reasons "
                    "[Drifted]"
                )
                self._findings.warn("Drift", message, self._spell(path))
            else:
                self._findings.info("Drift", "is dropped: drift is always on", self._spell(path))

    def _image(self) -> None:
        """Turn an image that is one text into its parts."""
        path: Path = ("controller", "image")
        image = at(self._values, path)
        if not isinstance(image, str):
            return
        name, _, digest = image.partition("@")
        repository, colon, tag = name.rpartition(":")
        if not colon or "/" in tag:
            repository, tag = name, ""
        parts = {"repository": repository, "tag": tag, "digest": digest}
        self._put(path, {key: value for key, value in parts.items() if value}, path)
        self._findings.warn(
            "Image",
            "is the image of an old version: take it out, so that the chart's own is used",
            self._spell(path),
        )

    def _port(self) -> None:
        path: Path = ("controller", "metrics", "port")
        if at(self._values, path) == _OLD_METRICS_PORT:
            self._findings.warn(
                "MetricsPort",
                "the chart's own port is 8080 now; this one is kept, and scrapers that name a port "
                "have to agree",
                self._spell(path),
            )

    def _environment(self) -> None:
        for number, each in enumerate(items(at(self._values, ("controller", "env")))):
            name = str(mapping(each).get("name", ""))
            if name in _OLD_VARIABLES:
                self._findings.warn(
                    "Environment",
                    f"variable {name} is not read: {_OLD_VARIABLES[name]}",
                    self._spell(("controller", "env", number)),
                )

    def _affinity(self) -> None:
        """Rename labels in what the chart puts into its pods."""
        names = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints")
        spec = {name: self._values[name] for name in names if self._values.get(name)}
        pod = {"kind": "Pod", "metadata": {}, "spec": {**spec, "containers": []}}
        outcome = convert_workload(pod)
        if outcome is None:
            return
        for each in outcome.findings:
            field = each.field.removeprefix("spec.")
            self._findings.found.append(
                msgspec.structs.replace(each, field=f"{spell(self._place)}.{field}" if self._place else field)
            )
        for new in outcome.documents:
            for name in spec:
                self._values[name] = new.plain["spec"][name]


_OLD_VARIABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AWS_DEFAULT_INSTANCE_PROFILE": _PROFILE,
        "AWS_ENABLE_POD_ENI": "pod ENIs are offered wherever an instance type has them",
        "AWS_ENI_LIMITED_POD_DENSITY": "set spec.kubelet.maxPods of the EC2NodeClass",
        "AWS_NODE_NAME_CONVENTION": "nodes are named as EC2 names them",
        "ASSUME_ROLE_ARN": _ASSUME,
        "ASSUME_ROLE_DURATION": _ASSUME,
        "DISABLE_WEBHOOK": _WEBHOOK,
        "WEBHOOK_PORT": _WEBHOOK,
        "WEBHOOK_METRICS_PORT": _WEBHOOK,
    }
)

_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "batchMaxDuration": "BATCH_MAX_DURATION",
        "batchIdleDuration": "BATCH_IDLE_DURATION",
        "aws.clusterName": "CLUSTER_NAME",
        "aws.clusterEndpoint": "CLUSTER_ENDPOINT",
        "aws.clusterCABundle": "CLUSTER_CA_BUNDLE",
        "aws.isolatedVPC": "ISOLATED_VPC",
        "aws.vmMemoryOverheadPercent": "VM_MEMORY_OVERHEAD_PERCENT",
        "aws.interruptionQueueName": "INTERRUPTION_QUEUE",
        "aws.reservedENIs": "RESERVED_ENIS",
    }
)


def convert_settings(plain: Plain) -> ConversionOutcome | None:
    """Say what the settings of a ConfigMap ``karpenter-global-settings`` are today; it stays as it is."""
    if plain.get("kind") != "ConfigMap" or at(plain, ("metadata", "name")) != "karpenter-global-settings":
        return None
    findings = Findings()
    findings.warn(
        "GlobalSettings", "this ConfigMap is not read any longer: settings are environment variables"
    )
    for key, value in mapping(plain.get("data")).items():
        field = f"data.{key}"
        if key in _SETTINGS:
            findings.info("Moved", f"is the environment variable {_SETTINGS[key]}={value}", field)
        elif f"settings.{key}" in _DROPPED:
            code, reason = _DROPPED[f"settings.{key}"]
            findings.warn(code, f"is gone: {reason}", field)
        elif key == "featureGates.driftEnabled":
            findings.warn("Drift", "is gone: drift is always on", field)
        else:
            findings.warn("UnknownValue", "is no setting of today", field)
    return ConversionOutcome(findings=tuple(findings.found))
