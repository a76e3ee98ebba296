"""``karpenter changeover``: what the switch from Karpenter to this operator would bring, and how to do it."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from karpenter.api.manifests import render_documents
from karpenter.changeover.drift import first_hour, switch_over
from karpenter.changeover.facts import ReadObjects
from karpenter.changeover.report import make_report, report_markdown, report_text
from karpenter.cli import option_values
from karpenter.cli.cluster import run_quietly, told_in_one_sentence
from karpenter.cli.errors import CommandError, note, notes, progress
from karpenter.cli.files import SourceText, files_option, objects_in
from karpenter.cli.options import catalog_option, cluster_options
from karpenter.cli.output import Output, echo, output_option_with, render
from karpenter.cli.planning.decision import decide
from karpenter.cli.planning.input import read_input
from karpenter.cli.session import catalog_for, moment_of
from karpenter.cloud.aws.labels import DOMAIN
from karpenter.session.installation import find_installation, of_kind, settings_in_force

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.core.disruption.disrupt import DisruptionDecision
    from karpenter.core.state.cluster import ClusterView

_CHURN: Final = 1
_NOT_READ: Final = frozenset({
    "AlertingRule", "ConfigMap", "CronJob", "Deployment", "Job", "PrometheusRule", "ReplicaSet", "Secret",
    "StatefulSet",
})  # fmt: skip
"""Kinds that are no part of the cluster that decisions are made about: their pods are."""


@click.command(
    epilog="Examples:\n\n"
    "  karpenter changeover --context production\n\n"
    "  karpenter changeover --context production --check -o json\n\n"
    "  kubectl get deployments,secrets,nodepools,ec2nodeclasses,nodeclaims,nodes,pods -A -o yaml"
    " | karpenter changeover -f - -o markdown"
)
@files_option(required=False, text="The objects of the cluster, instead of a live one")
@cluster_options
@catalog_option
@click.option(
    "--ca-bundle",
    default=None,
    metavar="BASE64",
    callback=option_values.ca_bundle,
    help="The CA bundle of the cluster, which counts for hashes.  [default: that of the kubeconfig]",
)
@click.option("--now", metavar="RFC3339", help="The moment of the switch.  [default: this moment]")
@click.option("--check", is_flag=True, help="Exit with 1 if any node would be replaced or removed.")
@output_option_with("text", "json", "markdown")
def changeover(  # noqa: PLR0917  click hands over options by name
    paths: tuple[str, ...],
    context: str,
    kubeconfig: str,
    catalog: str,
    ca_bundle: str | None,
    now: str | None,
    check: bool,
    output: Output,
) -> None:
    """
    Say what the switch from Karpenter to this operator would bring, and how to do it.

    Reads a cluster in which Karpenter runs, with the release of Helm if there is one, and changes
    nothing. Says which values, settings, metrics and log alerts differ, which nodes would drift and
    why, what the first hour would look like, and prints the commands for the switch and the way back.
    Without -f it reads the cluster of the current context.

    Exits 0 when the report was made, 1 with --check if a node would be replaced or removed or the
    switch would fail, and 2 when the input cannot be used.
    """
    moment = moment_of(now)
    with progress("reading the cluster"):
        view, read, trusted, host = _from_files(paths) if paths else _from_cluster(kubeconfig, context)
    notes(read.unread)
    installation = find_installation(read.objects)
    bundle = (
        ca_bundle if ca_bundle is not None else installation.environment.get("CLUSTER_CA_BUNDLE") or trusted
    )
    on_aws = any(p.spec.template.spec.node_class_ref.group == DOMAIN for p in view.pools.values())
    types = catalog_for(view, catalog, live=not paths, host=host)
    classes = of_kind(read.objects, "EC2NodeClass")
    switched = switch_over(view, classes, types, moment, ca_bundle=bundle)
    settings = settings_in_force(installation, {}).settings

    def passing(at: ClusterView, when: datetime) -> DisruptionDecision:
        found = decide(at, types, settings, when, disruption=True).disruption
        assert found is not None
        return found

    with progress("following the first hour") as doing:
        hour = first_hour(
            switched.view, types, moment, passing, lambda n: doing(f"following the first hour: pass {n}")
        )
    chosen = [("--kubeconfig", kubeconfig), ("--context", context)]
    options = " ".join(f"{name} {shlex.quote(value)}" for name, value in chosen if value)
    report = make_report(installation, read.objects, switched, hour, kubectl=options, on_aws=on_aws)
    match output.form:
        case "json":
            click.echo(render({**msgspec.to_builtins(report), "churn": report.churn}, "json"), nl=False)
        case "markdown":
            echo(report_markdown(report))
        case _:
            echo(report_text(report))
    sys.exit(_CHURN if check and (report.churn or report.blocked) else 0)


def _from_files(paths: tuple[str, ...]) -> tuple[ClusterView, ReadObjects, str | None, str]:
    """Return the cluster of some files, as it is: workloads have the pods that are given, and no more."""
    objects: list[dict[str, Any]] = []
    texts: list[SourceText] = []
    for found in objects_in(paths):
        objects.append(dict(found.plain))
        if found.plain.get("kind") not in _NOT_READ:
            texts.append(SourceText(found.source, render_documents([found.plain])))
    read = read_input((), texts=texts)
    if read.problems:
        raise CommandError(*read.problems)
    return read.view, ReadObjects(objects=tuple(objects)), None, ""


def _from_cluster(kubeconfig: str, context: str) -> tuple[ClusterView, ReadObjects, str | None, str]:
    """Return a live cluster, what its API server is trusted by, and where that is."""
    from karpenter.changeover.facts import read_objects  # noqa: PLC0415  files need no client
    from karpenter.session.live import LiveCluster, connected, read_live  # noqa: PLC0415  as above

    async def read() -> tuple[LiveCluster, ReadObjects, str | None]:
        async with connected(kubeconfig=kubeconfig, context=context) as connection:
            note(f"reading {connection.name}")
            plain = await read_objects(connection.client)
            settings = settings_in_force(find_installation(plain.objects), {})
            live = await read_live(connection.client, settings)
            return live, plain, connection.authority

    with told_in_one_sentence():
        live, read_plain, trusted = run_quietly(read())
    found = read_input((), live)
    plain = msgspec.structs.replace(read_plain, unread=(*found.skipped, *read_plain.unread))
    return found.view, plain, trusted, live.host
