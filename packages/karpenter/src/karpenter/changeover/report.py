"""
The report of ``karpenter changeover``, and how people read it.

Values in, values and text out. What was found is in the other modules of this package.

The commands of the switch and of the way back are printed as they are typed, and never executed. Karpenter's
replicas end before ours start, so that no two operators decide at once; both use the same Lease, so that a
replica which is left behind waits. Claims, nodes and pods run on meanwhile.
"""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.meta import is_status_condition_true
from karpenter.changeover.drift import DriftedMachine, FirstHour, SwitchedCluster
from karpenter.changeover.settings import (
    ChangeoverDifference,
    alert_differences,
    setting_differences,
    value_differences,
)
from karpenter.core.model.pricing import HOURS_A_MONTH
from karpenter.session.installation import Installation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from karpenter.core.state.cluster import ClusterView

WIDTH: Final = 80
_LISTED: Final = 20
_NAMED: Final = 3
"""Nodes of a command that are named in text."""

_AREAS: Final = {
    "value": "Values of the chart",
    "setting": "Settings",
    "metric": "Metrics in alerts and dashboards",
    "log": "Texts in log alerts",
}


class ClaimProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the claims of the cluster are."""

    running: int = 0
    launching: int = 0
    terminating: int = 0


class ChangeoverReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the switch to this operator would bring."""

    installation: Installation
    differences: tuple[ChangeoverDifference, ...] = ()
    claims: ClaimProgress = ClaimProgress()
    drifted: tuple[DriftedMachine, ...] = ()
    hour: FirstHour = FirstHour()
    remarks: tuple[str, ...] = ()
    switch: tuple[SwitchCommand, ...] = ()
    back: tuple[SwitchCommand, ...] = ()

    @property
    def churn(self) -> tuple[str, ...]:
        """The nodes that would be replaced or removed within the hour, and those that have drifted."""
        going = {name for command in self.hour.commands for name in command.nodes}
        going |= {each.node or each.claim for each in self.drifted}
        return tuple(sorted(name for name in going if not name.startswith("new-")))

    @property
    def blocked(self) -> bool:
        """Whether the switch fails as things are."""
        return any(each.blocks for each in self.differences)


def make_report(
    installation: Installation,
    objects: Iterable[Mapping[str, Any]],
    switched: SwitchedCluster,
    hour: FirstHour,
    *,
    kubectl: str = "",
    on_aws: bool = True,
) -> ChangeoverReport:
    """Return the report about a cluster; `kubectl` are options that choose the cluster."""
    return ChangeoverReport(
        installation=installation,
        differences=(
            *value_differences(installation),
            *setting_differences(installation),
            *alert_differences(objects),
        ),
        claims=count_claims(switched.view),
        drifted=switched.drifted,
        hour=hour,
        remarks=switched.remarks,
        switch=tuple(switch_commands(installation, kubectl=kubectl, on_aws=on_aws)),
        back=tuple(back_commands(installation, kubectl=kubectl)),
    )


def count_claims(view: ClusterView) -> ClaimProgress:
    """Return how many claims run, launch and terminate."""
    terminating = [each for each in view.claims.values() if each.metadata.deletion_timestamp is not None]
    others = [each for each in view.claims.values() if each.metadata.deletion_timestamp is None]
    running = [each for each in others if is_status_condition_true(each.status.conditions, "Initialized")]
    return ClaimProgress(
        running=len(running), launching=len(others) - len(running), terminating=len(terminating)
    )


def report_text(report: ChangeoverReport) -> str:
    """Return the report for a terminal, in 80 columns; commands stay in one line, for copying."""
    lines: list[str] = []
    for title, paragraphs in _sections(report):
        lines += [title, "-" * len(title), *(_filled(each) for each in paragraphs), ""]
    lines += _commands("The switch", report.switch) + _commands("The way back", report.back)
    return "\n".join(lines).rstrip()


def report_markdown(report: ChangeoverReport) -> str:
    lines = ["# Change-over to this operator", ""]
    for title, paragraphs in _sections(report):
        lines += [f"## {title}", "", *(f"- {each}" for each in paragraphs), ""]
    for title, commands in (("The switch", report.switch), ("The way back", report.back)):
        body = [line for each in commands for line in (f"# {each.about}", each.command)]
        lines += [f"## {title}", "", "```sh", *body, "```", ""]
    return "\n".join(lines).rstrip()


def _sections(report: ChangeoverReport) -> Iterator[tuple[str, list[str]]]:
    yield "Karpenter in this cluster", [*_installed(report), *report.remarks]
    for area, title in _AREAS.items():
        found = [each for each in report.differences if each.area == area]
        told = [_difference(each) for each in found[:_LISTED]]
        more = [f"and {len(found) - _LISTED} more; -o json has all"] if len(found) > _LISTED else []
        yield title, [*told, *more] or ["no difference"]
    yield "Nodes that drift", _drift(report) or ["none"]
    yield "The first hour", _hour(report)
    yield "Sum", [_sum(report)]


def _installed(report: ChangeoverReport) -> Iterator[str]:
    found, claims = report.installation, report.claims
    if found.deployment:
        yield f"Deployment {found.namespace}/{found.deployment}, {found.replicas} replicas, {found.image}"
    else:
        yield "no Deployment of Karpenter was found; its settings are not compared"
    if found.release:
        yield f"release {found.release}, revision {found.revision}, chart {found.chart_version}"
    yield f"claims: {claims.running} run, {claims.launching} launch, {claims.terminating} terminate"
    if claims.launching or claims.terminating:
        yield "claims that launch or terminate are carried to their end by ours; none is launched twice"


def _difference(each: ChangeoverDifference) -> str:
    help_text = f" ({each.help})" if each.help else ""
    return f"{'BLOCKS: ' if each.blocks else ''}{each.subject}: {each.message}{help_text}"


def _drift(report: ChangeoverReport) -> list[str]:
    told = []
    for each in report.drifted[:_LISTED]:
        also = "; Karpenter says so too" if each.already else ""
        told.append(f"{each.node or each.claim} ({each.pool}): {each.reason}: {each.message}{also}")
    if len(report.drifted) > _LISTED:
        told.append(f"and {len(report.drifted) - _LISTED} more; -o json has all")
    return told


def _hour(report: ChangeoverReport) -> list[str]:
    hour = report.hour
    told = []
    for each in hour.commands[:_LISTED]:
        more = f" and {len(each.nodes) - _NAMED} more" if len(each.nodes) > _NAMED else ""
        nodes = ", ".join(each.nodes[:_NAMED]) + more
        bought = Counter(each.replacements)
        to = f" by {', '.join(f'{n} x {kind}' for kind, n in bought.items())}" if bought else ""
        told.append(
            f"+{each.after // 60}m{each.after % 60:02d}s {each.reason}: {each.decision} {nodes}{to}; "
            f"{each.pods_moved} pods move; ${each.hourly_before:.4f}/h becomes ${each.hourly_after:.4f}/h"
        )
    if len(hour.commands) > _LISTED:
        told.append(f"and {len(hour.commands) - _LISTED} more; -o json has all")
    saved = (hour.hourly_before - hour.hourly_after) * HOURS_A_MONTH
    word = "less" if saved >= 0 else "more"
    told.append(
        f"${hour.hourly_before:.4f}/h before, ${hour.hourly_after:.4f}/h after: "
        f"${abs(saved):,.2f} a month {word}; {hour.pods_moved} pods move"
    )
    if not hour.complete:
        told.append("the hour was not followed to its end: there are many commands")
    return told


def _sum(report: ChangeoverReport) -> str:
    blocks = sum(each.blocks for each in report.differences)
    hindered = f"{blocks} differences block the switch. " if blocks else ""
    if not report.churn:
        return f"{hindered}No node would be replaced or removed."
    theirs = sum(each.already for each in report.drifted)
    also = f" {theirs} of them Karpenter has marked as drifted itself." if theirs else ""
    return f"{hindered}{len(report.churn)} nodes would be replaced or removed.{also}"


def _commands(title: str, commands: Iterable[SwitchCommand]) -> list[str]:
    body = [line for each in commands for line in (f"# {each.about}", each.command)]
    return [title, "-" * len(title), *body, ""]


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


_BACKUP: Final = "karpenter-before.yaml"
_VALUES: Final = "karpenter-values.yaml"
_KINDS: Final = "nodepools,nodeclaims,nodeoverlays"
_REPOSITORY: Final = "REGISTRY/karpenter"


class SwitchCommand(msgspec.Struct, frozen=True):
    """A line to type, and what it is for."""

    command: str
    about: str


def switch_commands(found: Installation, *, kubectl: str = "", on_aws: bool = True) -> list[SwitchCommand]:
    """Return the switch; `kubectl` are options that choose the cluster, such as ``--context blue``."""
    return [SwitchCommand(command, about) for command, about in _switch(found, kubectl, on_aws=on_aws)]


def back_commands(found: Installation, *, kubectl: str = "") -> list[SwitchCommand]:
    return [SwitchCommand(command, about) for command, about in _back(found, kubectl)]


def _switch(found: Installation, options: str, *, on_aws: bool) -> Iterator[tuple[str, str]]:
    kubectl, helm, namespace = _program("kubectl", options), _helm(options), shlex.quote(found.namespace)
    kinds = f"{_KINDS},ec2nodeclasses" if on_aws else _KINDS
    yield f"{kubectl} get {kinds} -o yaml --ignore-not-found > {_BACKUP}", "keep what is there"
    if found.release:
        release = shlex.quote(found.release)
        yield f"{helm} get values {release} -n {namespace} -o yaml > {_VALUES}", "keep what was set"
    yield (
        f"{_program('karpenter crds |', '')} {kubectl} apply --server-side --force-conflicts -f -",
        ("bring the definitions up to date; no object is changed"),
    )
    if found.deployment:
        name = shlex.quote(found.deployment)
        yield f"{kubectl} -n {namespace} scale deployment/{name} --replicas=0", "end Karpenter; nodes run on"
        yield (
            (
                f"{kubectl} -n {namespace} wait --for=delete pod"
                f" -l app.kubernetes.io/name=karpenter,app.kubernetes.io/instance={found.instance}"
                " --timeout=2m"
            ),
            "until its last replica has released the lease",
        )
    image = f"controller.image.repository={_REPOSITORY},controller.image.tag=,controller.image.digest="
    if found.release:
        yield (
            (
                f"{helm} upgrade {shlex.quote(found.release)} charts/karpenter -n {namespace} --skip-crds"
                f" --reset-then-reuse-values --set {image}"
            ),
            "start ours with the same values",
        )
    else:
        yield from _install_without_release(found, kubectl)
    name = shlex.quote(found.deployment or "karpenter")
    yield f"{kubectl} -n {namespace} rollout status deployment/{name}", "until it runs"
    yield f"{kubectl} get nodeclaims -o wide", "every claim is still there"


def _install_without_release(found: Installation, kubectl: str) -> Iterator[tuple[str, str]]:
    cluster = found.environment.get("CLUSTER_NAME", "CLUSTER")
    more = f" --set settings.interruptionQueue={queue}" if (queue := _queue(found)) else ""
    yield (
        (
            f"karpenter manifests --namespace {shlex.quote(found.namespace)}"
            f" --set settings.clusterName={cluster}"
            f"{more} --set controller.image.repository={_REPOSITORY}"
            f" | {kubectl} apply --server-side --force-conflicts -f -"
        ),
        "start ours; state every other setting of theirs with --set",
    )


def _queue(found: Installation) -> str:
    return found.environment.get("INTERRUPTION_QUEUE", "")


def _back(found: Installation, options: str) -> Iterator[tuple[str, str]]:
    kubectl, helm, namespace = _program("kubectl", options), _helm(options), shlex.quote(found.namespace)
    name = shlex.quote(found.deployment or "karpenter")
    yield f"{kubectl} -n {namespace} scale deployment/{name} --replicas=0", "end ours; nodes run on"
    if found.release:
        yield (
            (f"{helm} rollback {shlex.quote(found.release)} {found.revision} -n {namespace}"),
            f"revision {found.revision} is Karpenter's",
        )
    else:
        yield (
            (f"{kubectl} apply --server-side --force-conflicts -f KARPENTER-MANIFESTS"),
            "what Karpenter was installed from",
        )
    yield (
        f"{kubectl} -n {namespace} rollout status deployment/{name}",
        ("until it runs; the definitions may stay, they admit what Karpenter's admit"),
    )
    yield f"{kubectl} get nodeclaims -o wide", "every claim is still there"


def _program(name: str, options: str) -> str:
    return f"{name} {options}".strip()


def _helm(options: str) -> str:
    return _program("helm", options.replace("--context", "--kube-context"))
