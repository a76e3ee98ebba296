"""
A plan, and what becomes of it, as text for people.

Two forms: our own, which lists for every resource what exists and what will be done; and that of eksdemo, for
`--naming eksdemo`, whose lines are those that its tutorial prints. Pure: what exists was looked up before.
"""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from karpenter.api.manifests import render_documents
from karpenter.install.apply import InstallationEvent, ResourceDone, StackDone, StepBegun, StepWaits
from karpenter.install.cloudformation import IN_STACKS, stack_template
from karpenter.install.permissions import by_service, needed_actions
from karpenter.install.resources import (
    AwsAuthMapping,
    HelmRelease,
    InstallationResource,
    KubernetesObject,
    OpenIDConnectProvider,
    ServiceLinkedRole,
)
from karpenter.install.table import bordered

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.install.observe import ResourceState
    from karpenter.install.plan import InstallationPlan, InstallationStep

WIDTH: Final = 80
CHARTS: Final = "charts"
BUILT_IN: Final = "built in"
_INDENT: Final = 6
_STATE: Final = 13
_BARE: Final = re.compile(r"[A-Za-z_/][\w./@:*-]*")
_WORDS_OF_YAML: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_PLAIN: Final = re.compile(r"[\w ./@:*=+-]*")
"""Texts that Helm's ``--set-string`` takes as they are."""

_TYPED: Final = frozenset({"true", "false", "null"})
WOULD: Final = {"missing": "would make", "differs": "would change", "exists": "exists"}


def where(plan: InstallationPlan) -> str:
    facts = plan.facts
    return (
        f"karpenter {plan.release.app_version} on {facts.cluster} ({facts.region}, account"
        f" {facts.account}, Kubernetes {facts.kubernetes})"
    )


def survey_text(plan: InstallationPlan, seen: Sequence[Any], *, words: dict[str, str]) -> str:
    """Return what there is of a plan; `words` say how each state is spelled."""
    lines = [where(plan)]
    steps = {step.name: step for step, _, _ in seen}
    for number, step in enumerate(steps.values(), start=1):
        lines += ["", *step_heading(step, number, len(steps))]
        for other, resource, observation in seen:
            if other.name == step.name:
                state = observation.state
                said = words[state]
                if state == "differs" and getattr(resource, "once", False):
                    said = "kept"
                lines += resource_lines(said, resource, observation)
    return "\n".join(lines)


def dry_run_text(plan: InstallationPlan, seen: Sequence[Any]) -> str:
    states = [observation.state for _, _, observation in seen]
    made, changed = states.count("missing"), states.count("differs")
    summary = f"{made} resources would be made, {changed} changed; {states.count('exists')} exist."
    if not made and not changed:
        summary = f"Nothing to do: all {len(states)} resources are as planned."
    return "\n".join(
        [
            survey_text(plan, seen, words=WOULD),
            "",
            f"The release with Helm, from the directory that holds {CHARTS}:",
            *helm_command(plan.release),
            "",
            "IAM actions that you need:",
            *actions_lines(plan),
            "",
            f"{summary} Nothing was changed.",
        ]
    )


def helm_command(release: HelmRelease) -> list[str]:
    """Return the command that installs or upgrades a release with Helm, in lines that can be pasted."""
    flags = [*_value_flags(release.values, ""), *(("--set", each) for each in release.sets)]
    lines = [
        f"helm upgrade --install {release.name} {CHARTS}/{release.chart}",
        f"  --namespace {release.namespace} --create-namespace --version {release.chart_version}",
        *(f"  {flag} {shlex.quote(text)}" for flag, text in flags),
    ]
    return [f"  {line} \\" for line in lines[:-1]] + [f"  {lines[-1]}"]


def _value_flags(values: Mapping[str, Any], above: str) -> Iterator[tuple[str, str]]:
    """
    Yield the flags that state values.

    What is special in keys is escaped. A text that Helm would take for a number or a boolean needs
    ``--set-string``, and one with commas, braces or the like is safe as JSON only: ``{a`` begins a list also
    there. https://helm.sh/docs/intro/using_helm/#the-format-and-limitations-of---set
    """
    for key, value in values.items():
        path = above + re.sub(r"([.,=\[\]\\])", r"\\\1", key)
        if isinstance(value, Mapping) and value:
            yield from _value_flags(value, f"{path}.")
        elif isinstance(value, str) and _PLAIN.fullmatch(value):
            flag = "--set" if _BARE.fullmatch(value) and value.lower() not in _TYPED else "--set-string"
            yield flag, f"{path}={value}"
        elif isinstance(value, bool | int):
            yield "--set", f"{path}={json.dumps(value)}"
        else:
            yield "--set-json", f"{path}={json.dumps(value)}"


def actions_lines(plan: InstallationPlan) -> list[str]:
    """Return the actions that the person needs, a paragraph for every service."""
    return [
        line
        for service, verbs in by_service(needed_actions(plan)).items()
        for line in textwrap.wrap(
            f"{service}: {', '.join(verbs)}",
            WIDTH,
            initial_indent="  ",
            subsequent_indent="    ",
            break_long_words=False,
        )
    ]


def step_heading(step: InstallationStep, number: int, of: int) -> list[str]:
    lines = [f"[{number}/{of}] {step.title}"]
    cost = textwrap.wrap(f"cost: {step.cost}", WIDTH - _INDENT)
    return lines + [" " * _INDENT + line for line in cost]


def resource_lines(said: str, resource: InstallationResource, seen: ResourceState) -> list[str]:
    """Return one resource, with what is special about it below."""
    lead = " " * _INDENT + said.ljust(_STATE)
    pad = " " * len(lead)
    lines = textwrap.wrap(
        resource.title,
        WIDTH,
        initial_indent=lead,
        subsequent_indent=pad,
        break_long_words=False,
        break_on_hyphens=False,
    )
    notes = [*seen.differences, *(f"note: {each}" for each in seen.notes)]
    for each in notes:
        lines += textwrap.wrap(
            each,
            WIDTH,
            initial_indent=pad + "- ",
            subsequent_indent=pad + "  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


class InstallationLog:
    """Turns what happens into lines, in our own form."""

    def __init__(self, plan: InstallationPlan) -> None:
        self._plan = plan
        self.counts = {"made": 0, "changed": 0, "exists": 0, "kept": 0}

    def lines(self, event: InstallationEvent) -> list[str]:
        match event:
            case StepBegun():
                return step_heading(event.step, event.number, event.of)
            case ResourceDone():
                self.counts[event.outcome] += 1
                return resource_lines(event.outcome, event.resource, event.before)
            case StackDone():
                inside = [each for each in event.step.resources if isinstance(each, IN_STACKS)]
                self.counts[event.outcome] += len(inside)
                return [f"{' ' * _INDENT}{event.outcome.ljust(_STATE)}stack {event.step.stack}"]
            case StepWaits():
                lead = " " * _INDENT + "waits".ljust(_STATE)
                return textwrap.wrap(
                    event.said, WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead)
                )

    def summary(self) -> str:
        made, changed = self.counts["made"], self.counts["changed"]
        there = self.counts["exists"] + self.counts["kept"]
        if not made and not changed:
            return f"Nothing to do: all {there} resources are as planned."
        return f"Installed: {made} resources made, {changed} changed, {there} existed."


class EksdemoLog:
    """Turns what happens into the lines that eksdemo prints."""

    def __init__(self, plan: InstallationPlan, now: Callable[[], datetime], *, within: float = 0.0) -> None:
        """`within` are the seconds that the operator has to lead."""
        self._plan = plan
        self._now = now
        self._within = within
        self._waits = False
        self._phase = ""

    def lines(self, event: InstallationEvent) -> list[str]:
        match event:
            case StepBegun():
                return list(self._begun(event.step))
            case StackDone():
                return [stack_line(event.step.stack, event.outcome)]
            case ResourceDone():
                return list(self._done(event))
            case StepWaits():
                first, self._waits = not self._waits, True
                count = len(self._plan.release.objects)
                said = f"beginning wait for {count} resources with timeout of {self._within:g}s"
                return [f"{self._stamp()} {said}"] if first else []

    def _begun(self, step: InstallationStep) -> Iterator[str]:
        first = step.phase != self._phase
        self._phase = step.phase
        release = self._plan.release
        if step.phase == "dependency":
            if first:
                yield dependencies_line(self._plan)
            yield f"Creating dependency: {step.name}"
        elif step.phase == "chart" and first:
            yield f"Using built-in Chart: {release.chart}:{release.chart_version}"
            yield "Helm installing..."
        elif step.phase == "post-install":
            if first:
                yield installed_line(release)
                yield post_install_line(self._plan)
            yield f"Creating post-install resource: {step.name}"

    def _done(self, event: ResourceDone) -> Iterator[str]:
        resource = event.resource
        if isinstance(resource, HelmRelease):
            count = len(resource.objects)
            yield f"{self._stamp()} creating {count} resource(s)"
        elif event.step.phase == "chart":
            yield f"{self._stamp()} creating 1 resource(s)"
        elif isinstance(resource, KubernetesObject):
            body = resource.body
            exists = "" if event.outcome == "made" else " (exists)"
            yield f'Creating {body["kind"]} "{body["metadata"]["name"]}"{exists}'
        elif event.outcome in {"exists", "kept"}:
            yield exists_line(resource)
        else:
            yield f"{resource.title[0].upper()}{resource.title[1:]} {event.outcome}"

    def _stamp(self) -> str:
        return self._now().strftime("%Y/%m/%d %H:%M:%S")

    @staticmethod
    def summary() -> str:
        """Return nothing: eksdemo ends with its last line."""
        return ""


def dependencies_line(plan: InstallationPlan) -> str:
    return f"Creating {len(plan.phase('dependency'))} dependencies for {plan.release.name}"


def post_install_line(plan: InstallationPlan) -> str:
    """Return how many resources come after the chart."""
    return f"Creating {len(plan.phase('post-install'))} post-install resources for {plan.release.name}"


def installed_line(release: HelmRelease) -> str:
    return (
        f'Using chart version "{release.chart_version}", installed "{release.name}" version'
        f' "{release.app_version}" in namespace "{release.namespace}"'
    )


def stack_line(stack: str, outcome: str) -> str:
    if outcome in {"exists", "kept"}:
        return f'CloudFormation stack "{stack}" already exists'
    verb = "Updating" if outcome == "changed" else "Creating"
    return f'{verb} CloudFormation stack "{stack}" (can take 1+ min)...done'


def exists_line(resource: InstallationResource) -> str:
    if isinstance(resource, ServiceLinkedRole):
        return f'Service Linked Role "{resource.name}" already exists'
    title = resource.title
    return f"{title[0].upper()}{title[1:]} already exists"


def eksdemo_dry_run(plan: InstallationPlan, seen: Sequence[Any]) -> str:
    """Return what eksdemo prints for `--dry-run`."""
    known = {id(resource): observation for _, resource, observation in seen}
    lines = [dependencies_line(plan)]
    for step in plan.phase("dependency"):
        lines.append(f"Creating dependency: {step.name}")
        lines += _dependency(plan, step, known)
        lines.append("")
    lines += ["Helm Installer Dry Run:", helm_table(plan)]
    release = plan.release
    lines += [f"Set Values: [{' '.join(release.sets)}]", "Values File:", "---", values_text(plan), ""]
    lines += [post_install_line(plan)]
    for step in plan.phase("post-install"):
        lines += [f"Creating post-install resource: {step.name}", "", "Kubernetes Resource Manager Dry Run:"]
        for each in step.resources:
            assert isinstance(each, KubernetesObject)
            lines += ["---", "\n".join(yaml_lines(dict(each.body)))]
    return "\n".join(lines)


def _dependency(
    plan: InstallationPlan, step: InstallationStep, known: dict[int, ResourceState]
) -> Iterator[str]:
    stacked = [each for each in step.resources if isinstance(each, IN_STACKS)]
    for each in step.resources:
        if each in stacked and step.stack:
            continue
        if known[id(each)].present:
            yield exists_line(each)
        elif isinstance(each, ServiceLinkedRole):
            yield "Service Linked Role Manager Dry Run:"
            yield 'AWS API Call: "CreateServiceLinkedRole"'
            yield f'AWSServiceName: "{each.service}"'
        elif isinstance(each, OpenIDConnectProvider):
            yield "OIDC Provider Dry Run:"
            yield f'Url: "{each.url}"'
        elif isinstance(each, AwsAuthMapping):
            yield "aws-auth Dry Run:"
            entry = {"rolearn": each.role, "username": each.username, "groups": list(each.groups)}
            yield render_documents([[entry]]).rstrip("\n")
    if step.stack:
        if all(known[id(each)].present for each in stacked):
            yield stack_line(step.stack, "exists")
        else:
            yield "CloudFormation Resource Manager Dry Run:"
            yield f'Stack name "{step.stack}" template:'
            yield render_documents([stack_template(plan, step)]).rstrip("\n")


def helm_table(plan: InstallationPlan) -> str:
    """Return what is installed, as a table without a heading."""
    release = plan.release
    return bordered(
        [],
        [
            ["Application Version", release.app_version],
            ["Chart Version", release.chart_version],
            ["Chart Repository", BUILT_IN],
            ["Chart Name", release.chart],
            ["Release Name", release.name],
            ["Namespace", release.namespace],
            ["Wait", "true"],
        ],
    )


_GATES: Final = """\
  featureGates:
    # -- Alpha, and off by default: true lets spot nodes be replaced by cheaper spot nodes,
    # by single-node and by multi-node consolidation.
    spotToSpotConsolidation: {spot}"""


def values_text(plan: InstallationPlan) -> str:
    """Return the values of the chart as a file; with what files of values add, as plain YAML."""
    release = plan.release
    if plan.options.values or plan.options.naming != "eksdemo":
        return render_documents([dict(release.values)]).rstrip("\n")
    values: Any = release.values
    lines = ["serviceAccount:", f"  name: {values['serviceAccount']['name']}"]
    for key, value in (values["serviceAccount"].get("annotations") or {}).items():
        lines += ["  annotations:", f"    {key}: {value}"]
    requests = values["controller"]["resources"]["requests"]
    lines += [
        f"replicas: {values['replicas']}",
        "controller:",
        "  image:",
        f"    tag: {values['controller']['image']['tag']}",
        "  resources:",
        "    requests:",
        f'      cpu: "{requests["cpu"]}"',
        f'      memory: "{requests["memory"]}"',
        "settings:",
        f"  clusterName: {values['settings']['clusterName']}",
        f"  interruptionQueue: {values['settings']['interruptionQueue']}",
        _GATES.format(spot=json.dumps(values["settings"]["featureGates"]["spotToSpotConsolidation"])),
    ]
    return "\n".join(lines)


def yaml_lines(value: Any, *, indent: int = 0) -> Iterable[str]:
    """Return YAML as tutorials write it: lists below their key and further in, short lists in one line."""
    pad = " " * indent
    for key, each in value.items():
        name = f"{pad}{_scalar(key)}:"
        if isinstance(each, dict):
            yield name
            yield from yaml_lines(each, indent=indent + 2)
        elif isinstance(each, list) and each and isinstance(each[0], dict):
            yield name
            for item in each:
                first, *rest = yaml_lines(item, indent=indent + 4)
                yield f"{pad}  - {first.lstrip()}"
                yield from rest
        elif isinstance(each, list):
            yield f"{name} {json.dumps(each)}"
        else:
            yield f"{name} {_scalar(each)}"


def _scalar(value: Any) -> str:
    if isinstance(value, str) and (
        value.lower() in _WORDS_OF_YAML or not re.fullmatch(r"\d+[smhd]|" + _BARE.pattern, value)
    ):
        return json.dumps(value)
    return value if isinstance(value, str) else json.dumps(value)
