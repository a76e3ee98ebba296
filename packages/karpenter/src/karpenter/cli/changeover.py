"""``karpenter changeover``: what the switch from Karpenter to this operator would bring, and how to do it."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from random import Random
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from karpenter.api.labels import ZONE
from karpenter.api.manifests import documents_or_refusals, render_documents
from karpenter.api.meta import InvalidObject
from karpenter.changeover.drift import first_hour, switch_over
from karpenter.changeover.facts import Installation, ReadObjects, find_installation, of_kind
from karpenter.changeover.report import make_report, report_markdown, report_text
from karpenter.cli.errors import CommandError, note, notes, progress
from karpenter.cli.files import SourceText, files_option, read_texts
from karpenter.cli.output import Output, echo, output_option_with, render
from karpenter.cli.plan import catalog_named, moment_of
from karpenter.cli.planning.decision import decide
from karpenter.cli.planning.input import read_input
from karpenter.cloud.aws.labels import DOMAIN
from karpenter.cloud.catalogs.load import AWS, KWOK, built_in_names
from karpenter.operator.options import SettingError, Settings, parse_settings

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.core.disruption.disrupt import DisruptionDecision
    from karpenter.core.state.cluster import ClusterView

_ZONE_LETTER: Final = re.compile(r"[a-z]$")
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
@click.option("--context", default="", metavar="NAME", help="The cluster of this context of the kubeconfig.")
@click.option("--kubeconfig", default="", metavar="FILE", help="The kubeconfig to use.")
@click.option(
    "--catalog",
    default="",
    metavar="FILE|NAME",
    help="The instance types on sale.  [default: those of EC2 in the region of the nodes]",
)
@click.option(
    "--ca-bundle",
    default=None,
    metavar="BASE64",
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
        view, read, trusted = _from_files(paths) if paths else _from_cluster(kubeconfig, context)
    notes(read.unread)
    installation = find_installation(read.objects)
    bundle = (
        ca_bundle if ca_bundle is not None else installation.environment.get("CLUSTER_CA_BUNDLE") or trusted
    )
    on_aws = any(p.spec.template.spec.node_class_ref.group == DOMAIN for p in view.pools.values())
    types = catalog_named(catalog or _catalog_of(view, on_aws=on_aws))
    classes = of_kind(read.objects, "EC2NodeClass")
    switched = switch_over(view, classes, types, moment, ca_bundle=bundle)
    settings = _settings(installation)

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


def _settings(installation: Installation) -> Settings:
    """Return the settings that Karpenter runs with, as far as they can be read."""
    try:
        return parse_settings({}, installation.environment)
    except SettingError:
        return parse_settings({})


def _catalog_of(view: ClusterView, *, on_aws: bool) -> str:
    """Return the catalogue of the one region that nodes are in, where EC2 is used."""
    if not on_aws:
        return KWOK
    labels = [each.metadata.labels for each in (*view.nodes.values(), *view.claims.values())]
    regions = {_ZONE_LETTER.sub("", each[ZONE]) for each in labels if ZONE in each}
    named = [name for name in built_in_names() if name.removeprefix(f"{AWS}:") in regions]
    return named[0] if len(regions) == 1 and named else AWS


def _from_files(paths: tuple[str, ...]) -> tuple[ClusterView, ReadObjects, str | None]:
    """Return the cluster of some files, as it is: workloads have the pods that are given, and no more."""
    objects: list[dict[str, Any]] = []
    texts: list[SourceText] = []
    for text in read_texts(paths):
        for found in documents_or_refusals(text.content, text.source):
            if isinstance(found, InvalidObject):
                raise CommandError(str(found))
            objects.append(dict(found.plain))
            if found.plain.get("kind") not in _NOT_READ:
                texts.append(SourceText(found.source, render_documents([found.plain])))
    read = read_input((), texts=texts)
    if read.problems:
        raise CommandError(*read.problems)
    return read.view, ReadObjects(objects=tuple(objects)), None


def _from_cluster(kubeconfig: str, context: str) -> tuple[ClusterView, ReadObjects, str | None]:
    """Return a live cluster, and what its API server is trusted by."""
    from karpenter.cli.planning.live import read_cluster  # noqa: PLC0415  files need no client
    from karpenter.kube.errors import KubeError  # noqa: PLC0415  as above

    note(f"reading the cluster of {f'context {context}' if context else 'the current context'} ...")
    live = read_cluster(kubeconfig=kubeconfig, context=context)
    try:
        read, trusted = asyncio.run(_read(kubeconfig, context))
    except KubeError as error:
        raise CommandError(str(error)) from error
    found = read_input((), live)
    return found.view, msgspec.structs.replace(read, unread=(*found.skipped, *read.unread)), trusted


async def _read(kubeconfig: str, context: str) -> tuple[ReadObjects, str | None]:
    from karpenter.base.clock import SystemClock  # noqa: PLC0415  as above
    from karpenter.changeover.facts import read_objects  # noqa: PLC0415  as above
    from karpenter.kube.client import Client  # noqa: PLC0415  as above
    from karpenter.kube.http import HttpTransport  # noqa: PLC0415  as above
    from karpenter.kube.kubeconfig import find_cluster  # noqa: PLC0415  as above

    cluster = await find_cluster(
        environ=os.environ, clock=SystemClock(), kubeconfig=kubeconfig, context=context
    )
    client = Client(HttpTransport(cluster.endpoint, cluster.credentials), chance=Random())  # noqa: S311  retries
    try:
        return await read_objects(client), cluster.endpoint.trust.bundle()
    finally:
        await client.close()
