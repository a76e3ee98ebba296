"""
Values of the chart and settings of the Deployment: which of them mean something else to this operator.

The values of the release are given to our chart, and the environment that it renders is held against the one
of the Deployment that runs. So what was set by hand, beside the release, is found too. Values that our chart
refuses are named with its own sentence.

Alerts and dashboards: PrometheusRules, Grafana dashboards in ConfigMaps and rules of Loki are searched for
the names of metrics, the labels that are selected by, and the texts that log lines are filtered for. An
expression is not parsed: names are found as words, so one in a comment counts too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from karpenter.chart.chart import manifests
from karpenter.chart.gotemplate import TemplateError
from karpenter.chart.tree import MissingValue, Release
from karpenter.chart.values import BadValue, retired_values, values_of
from karpenter.cloud.aws import metrics as aws
from karpenter.cloud.aws.options import AWS_SETTINGS
from karpenter.convert.metrics import RENAMED
from karpenter.operator.options import SETTINGS, SettingError, parse_settings
from karpenter.session.installation import Installation, of_kind
from karpenter.telemetry.metrics.instruments import NODE_CLASSES, WELL_KNOWN, ProviderLabels
from karpenter.telemetry.metrics.table import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


Area = Literal["value", "setting", "metric", "log"]

_IMAGE: Final = "controller.image"
_OTHERS: Final = frozenset({
    "AWS_FEATURE_GATES",
    "CLOUD_PROVIDER",
    "CLUSTER_NAME",
    "KUBERNETES_MIN_VERSION",
    "SYSTEM_NAMESPACE",
})  # fmt: skip
"""Variables that the operator or its charts read beside the settings."""

_SDK: Final = ("AWS_", "KUBERNETES_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "TZ", "SSL_CERT_")
"""How variables begin that libraries read, there as here."""

_GO: Final = ("GOMEMLIMIT", "GOMAXPROCS", "GODEBUG", "GOGC")


_DEFAULTS: Final = {each.variable: each.default for each in (*SETTINGS, *AWS_SETTINGS)}
_PARSERS: Final = {each.variable: each.parse for each in SETTINGS}


class ChangeoverDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not the same after the switch."""

    area: Area
    subject: str
    """The value, variable, metric or alert."""

    message: str
    help: str = ""
    blocks: bool = False
    """Whether the switch fails as long as it stays."""


def value_differences(found: Installation) -> Iterator[ChangeoverDifference]:
    """Yield values of the release that our chart refuses, or that have no effect."""
    if not found.release:
        return
    for path, value in _leaves(found.values):
        if path.startswith(f"{_IMAGE}.") and value:
            yield ChangeoverDifference(
                area="value",
                subject=path,
                message=f"{value} names Karpenter's image, which our chart cannot run",
                help="the switch sets it anew",
            )
    for sentence in retired_values(found.values):
        subject, _, rest = sentence.partition(" ")
        yield ChangeoverDifference(area="value", subject=subject, message=rest)
    for subject, problem in _refusals(found.values):
        yield ChangeoverDifference(
            area="value",
            subject=subject,
            message=problem,
            help="take it out of the values before the switch",
            blocks=True,
        )


def setting_differences(found: Installation) -> Iterator[ChangeoverDifference]:
    """Yield variables and arguments of the Deployment that mean something else here, or are lost."""
    known = {each.variable for each in (*SETTINGS, *AWS_SETTINGS)} | _OTHERS
    stated = {**found.environment, **_flags(found.arguments)}
    for name in sorted(stated):
        if name in _GO:
            yield ChangeoverDifference(area="setting", subject=name, message="is read by Go programs only")
        elif name not in known and not name.startswith(_SDK):
            message = "is no setting here, and has no effect"
            yield ChangeoverDifference(area="setting", subject=name, message=message)
    try:
        ignored = parse_settings({}, stated).ignored
    except SettingError as error:
        yield ChangeoverDifference(area="setting", subject="environment", message=str(error), blocks=True)
        ignored = ()
    for sentence in ignored:
        subject, _, rest = sentence.partition(": ")
        yield ChangeoverDifference(
            area="setting", subject=subject, message=f"{rest}, for Karpenter as for us"
        )
    if found.release and found.deployment:
        yield from _beside_release(found, known)


def _beside_release(found: Installation, known: set[str]) -> Iterator[ChangeoverDifference]:
    """Yield settings that the Deployment has and that the values of its release do not give ours."""
    ours = rendered_environment(found)
    if ours is None:
        return  # the values are refused, which is told already
    for name, value in sorted(found.environment.items()):
        if name not in known or name in _OTHERS - {"CLUSTER_NAME"}:
            continue
        # Karpenter's chart states its defaults; one that is not stated here is in force all the same.
        if _meaning(name, value) == _meaning(name, ours.get(name, _DEFAULTS.get(name, ""))):
            continue
        was = f"{ours[name]!r}" if name in ours else "not set"
        yield ChangeoverDifference(
            area="setting",
            subject=name,
            message=f"is {value!r} in the Deployment, and {was} by the values of release {found.release}",
            help="state it in the values (controller.env), or it is lost with the next helm upgrade",
        )


def rendered_environment(found: Installation) -> dict[str, str] | None:
    """Return the environment that our chart renders from the release's values; None where it refuses them."""
    try:
        values = values_of([without_image(found.values)], [])
        release = Release(name=found.release, namespace=found.namespace, values=values)
        objects = manifests(release, definitions=False)
    except (BadValue, MissingValue, TemplateError):
        return None
    deployment = next(each for each in objects if each["kind"] == "Deployment")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    return {each["name"]: str(each["value"]) for each in container["env"] if "value" in each}


def without_image(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values without the image, which the switch sets."""
    controller = {key: value for key, value in (values.get("controller") or {}).items() if key != "image"}
    return {**values, **({"controller": controller} if "controller" in values else {})}


def _refusals(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the values that our chart refuses, one after the other."""
    left = without_image(values)
    for _ in range(_MOST):
        try:
            filled = values_of([left], [])
            manifests(Release(values=filled), definitions=False)
        except (BadValue, MissingValue, TemplateError) as error:
            path = _named_in(str(error), left)
            yield path or "values", str(error)
            if not path:
                return
            left = _without(left, path.split("."))
        else:
            return


_MOST: Final = 50
"""Refusals after which the rest is not looked for."""


def _named_in(sentence: str, values: Mapping[str, Any]) -> str:
    """Return the value that a sentence of the chart is about."""
    paths = [path for path, _ in _leaves(values, inner=True) if path in sentence]
    return max(paths, key=len, default="")


def _without(values: Mapping[str, Any], words: list[str]) -> dict[str, Any]:
    first, rest = words[0], words[1:]
    if not rest:
        return {key: value for key, value in values.items() if key != first}
    return {**values, first: _without(values[first], rest)}


def _leaves(values: Mapping[str, Any], above: str = "", *, inner: bool = False) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        path = f"{above}{key}"
        if isinstance(value, dict) and value:
            if inner:
                yield path, value
            yield from _leaves(value, f"{path}.", inner=inner)
        else:
            yield path, value


def _flags(arguments: tuple[str, ...]) -> dict[str, str]:
    """Return arguments such as ``--log-level=debug`` by the variables that they stand for."""
    found = {}
    for each in arguments:
        if each.startswith("-"):
            name, _, value = each.lstrip("-").partition("=")
            found[name.upper().replace("-", "_")] = value or "true"
    return found


def _meaning(name: str, text: str) -> object:
    """Return what a setting means; a text that cannot be read means itself."""
    try:
        return _PARSERS[name](text) if name in _PARSERS else text
    except SettingError:
        return text


LOGGED: Final = (
    "computed new nodeclaim(s) to fit pod(s)",
    "created nodeclaim",
    "deleted node",
    "deleted nodeclaim",
    "deleted pod",
    "disrupting node(s)",
    "evicted pod",
    "failed to launch nodeclaim",
    "found provisionable pod(s)",
    "initialized nodeclaim",
    "launched nodeclaim",
    "registered nodeclaim",
    "removed disrupted taint from node",
)
"""Messages that this operator logs in the words of Karpenter."""

_OWN: Final = r"karpenter_\w+"
_SHARED: Final = r"(?:controller_runtime|client_go|leader_election|workqueue|operator|go|aws_sdk_go)_\w+"
_METRIC: Final = re.compile(rf"(?<![\w:.$-])({_OWN}|{_SHARED})(?!\w)\s*(\{{[^}}]*\}})?")
_LABEL: Final = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_SUFFIXES: Final = ("_bucket", "_sum", "_count")
# https://grafana.com/docs/loki/latest/query/log_queries/#line-filter-expression
_LINE_FILTER: Final = re.compile(r'\|[=~]\s*(?:"((?:[^"\\]|\\.)*)"|`([^`]*)`)')
_SCRAPED: Final = frozenset({
    "cluster", "container", "endpoint", "environment", "instance", "job", "le", "namespace", "node", "pod",
    "prometheus", "quantile", "region", "service", "__name__",
})  # fmt: skip
"""Labels that the scrape adds, or that every histogram and summary has."""

_LABELS: Final = ProviderLabels(node_classes=("karpenter.k8s.aws/ec2nodeclass",))
_OURS: Final = {each.name: frozenset(_LABELS.expand(each.labels)) for each in (*METRICS, *aws.METRICS)}
_OPEN: Final = frozenset(
    each.name for each in (*METRICS, *aws.METRICS) if {WELL_KNOWN, NODE_CLASSES} & {*each.labels}
)
"""Metrics with labels that depend on the provider."""


def alert_differences(objects: Iterable[Mapping[str, Any]]) -> Iterator[ChangeoverDifference]:
    """Yield what alerts and dashboards use and this operator does not have; each once per object."""
    for each in of_kind(objects, "PrometheusRule", "AlertingRule", "ConfigMap"):
        meta = each.get("metadata") or {}
        name = f"{each['kind']} {meta.get('namespace', '')}/{meta.get('name', '')}"
        seen: set[tuple[str, str]] = set()
        for text in _texts(each.get("spec") or each.get("data")):
            for area, subject, message, hint in (*_metrics(text), *_logs(text)):
                if (area, subject) not in seen:
                    seen.add((area, subject))
                    yield ChangeoverDifference(
                        area="metric" if area == "metric" else "log",
                        subject=subject,
                        message=f"{message}; used by {name}",
                        help=hint,
                    )


def _metrics(text: str) -> Iterator[tuple[str, str, str, str]]:
    is_ours = "karpenter" in text
    for found in _METRIC.finditer(text):
        name, selected = _base(found[1]), found[2] or ""
        if not name.startswith("karpenter_") and not is_ours:
            continue  # every controller has metrics of these names
        if name not in _OURS:
            new = RENAMED.get(name, "")
            hint = f"it is {new} since Karpenter 1.0; karpenter convert rewrites it" if new else ""
            yield "metric", name, "there is no such metric", hint
            continue
        if name in _OPEN:
            continue
        for label in _LABEL.findall(re.sub(r'"[^"]*"', '""', selected)):
            if label not in _OURS[name] | _SCRAPED:
                has = ", ".join(sorted(_OURS[name])) or "none"
                yield "metric", f"{name}{{{label}}}", f"the metric has no label {label}", f"its labels: {has}"


def _base(name: str) -> str:
    """Return the metric that a series of a histogram or summary belongs to."""
    for suffix in _SUFFIXES:
        if name.endswith(suffix) and name not in _OURS and name.removesuffix(suffix) in _OURS:
            return name.removesuffix(suffix)
    return name


def _logs(text: str) -> Iterator[tuple[str, str, str, str]]:
    if "karpenter" not in text:
        return
    for quoted, ticked in _LINE_FILTER.findall(text):
        wanted = quoted or ticked
        if wanted and not any(_matches(wanted, each) for each in LOGGED) and not _is_field(wanted):
            yield "log", wanted, "no log line of this operator has this text", "see the log of karpenter run"


def _matches(wanted: str, line: str) -> bool:
    try:
        return wanted in line or re.search(wanted, line) is not None
    except re.error:
        return False


def _is_field(wanted: str) -> bool:
    """Whether a filter is about the form of a line, such as its level, and not about a message."""
    return re.fullmatch(r"[\W_]*(level|ERROR|WARN|INFO|DEBUG|error|panic|karpenter)\b.*", wanted) is not None


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from _texts(each)
        case list():
            for each in value:
                yield from _texts(each)
