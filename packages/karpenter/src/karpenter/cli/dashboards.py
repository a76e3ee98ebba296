"""``karpenter dashboards``: dashboards for Grafana and alerts for Prometheus, as objects or as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec

from karpenter.api.manifests import render_documents
from karpenter.cli.aws_options import cluster_api, in_our_words, kubernetes_name
from karpenter.cli.cluster import run_quietly
from karpenter.cli.errors import note, notes, telling
from karpenter.cli.files import write_files
from karpenter.cli.option_values import label_pairs, page_url, release_name
from karpenter.cli.options import cluster_options
from karpenter.cli.output import Output, echo, output_option_with, render
from karpenter.dashboards.boards import DASHBOARDS
from karpenter.dashboards.objects import (
    MONITORING,
    MonitoringPlace,
    dashboard_text,
    groups,
    monitoring_objects,
    scrape_config,
)
from karpenter.kube.errors import NotFound
from karpenter.kube.targets import Untyped, untyped

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter.install.kubernetes import ClusterApi

F = TypeVar("F", bound="Callable[..., Any]")

_PLURALS: Final = {
    "ConfigMap": "configmaps",
    "PrometheusRule": "prometheusrules",
    "ServiceMonitor": "servicemonitors",
}


class AppliedObject(msgspec.Struct, frozen=True, rename="camel"):
    """What became of one object."""

    kind: str
    namespace: str
    name: str
    result: str
    """created, changed, unchanged, or skipped where the cluster does not serve its kind."""


def _place_options(command: F) -> F:
    for option in reversed(
        (
            click.option(
                "-n",
                "--namespace",
                default="monitoring",
                show_default=True,
                metavar="NAME",
                callback=kubernetes_name,
                help="Where Prometheus and Grafana look for objects.",
            ),
            click.option(
                "--karpenter-namespace",
                default="kube-system",
                show_default=True,
                metavar="NAME",
                callback=kubernetes_name,
                help="Where the operator runs.",
            ),
            click.option(
                "--release",
                default="karpenter",
                show_default=True,
                metavar="NAME",
                callback=release_name,
                help="The Helm release of the operator.",
            ),
            click.option(
                "--label",
                "labels",
                multiple=True,
                metavar="KEY=VALUE",
                callback=label_pairs,
                help="A label by which Prometheus selects objects. May be repeated.",
            ),
            click.option(
                "--runbook-url",
                default="",
                metavar="URL",
                callback=page_url,
                help="Where your docs/guides/runbooks.md is published, for alerts to name.",
            ),
        )
    ):
        command = option(command)
    return command


@click.group(epilog="Example:\n\n  karpenter dashboards render | kubectl apply --server-side -f -")
def dashboards() -> None:
    """
    Dashboards for Grafana and alerts for Prometheus.

    Four dashboards: capacity, performance, costs and decisions. The alerts name their runbooks. The
    chart makes the same objects with grafanaDashboards.enabled, prometheusRule.enabled and
    serviceMonitor.enabled.
    """


@dashboards.command(
    "render",
    epilog="Examples:\n\n"
    "  karpenter dashboards render | kubectl apply --server-side -f -\n\n"
    "  karpenter dashboards render --write out",
)
@_place_options
@click.option(
    "--write",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write files instead: dashboards to import, rules and a scrape config for Prometheus.",
)
@output_option_with("yaml", "json")
@telling("rendering the dashboards")
def render_command(folder: Path | None, output: Output, **place: Any) -> None:
    """
    Print the objects: ServiceMonitor, PrometheusRule and ConfigMaps.

    With --write, plain files are written for a Grafana and a Prometheus that no operator runs.
    """
    where = _place(**place)
    if folder is not None:
        _write(folder, where)
        return
    bodies = monitoring_objects(where)
    if output.form == "yaml":
        click.echo(render_documents(bodies), nl=False)
    else:
        click.echo(render({"apiVersion": "v1", "kind": "List", "items": bodies}, "json"), nl=False)


@dashboards.command(
    "install",
    epilog="Examples:\n\n"
    "  karpenter dashboards install --namespace monitoring --dry-run\n\n"
    "  karpenter dashboards install --label release=kube-prometheus-stack",
)
@_place_options
@click.option("--dry-run", is_flag=True, help="Let the API server check everything and change nothing.")
@cluster_options
@output_option_with("text", "json")
@telling("applying the dashboards")
def install_command(*, dry_run: bool, kubeconfig: str, context: str, output: Output, **place: Any) -> None:
    """
    Apply the objects to a cluster, with server-side apply; again, it changes nothing.

    Where the cluster does not serve ServiceMonitor and PrometheusRule, which the Prometheus
    operator brings, only the dashboards are applied. The namespace must exist.
    """
    where = _place(**place)
    with in_our_words():
        found = run_quietly(_install(where, dry_run=dry_run, kubeconfig=kubeconfig, context=context))
    if output.form == "json":
        click.echo(render(found, "json"), nl=False)
    else:
        for each in found:
            told = f"{each.result} (dry run)" if dry_run else each.result
            echo(f"{each.kind.lower()}/{each.name} {told}")
    if any(each.result == "skipped" for each in found):
        note(f"note: the cluster does not serve {MONITORING}: metrics are not scraped and no alert fires")
        note("hint: karpenter dashboards render --write DIR writes a scrape config and a rule file")


def _place(
    *, namespace: str, karpenter_namespace: str, release: str, labels: dict[str, str], runbook_url: str
) -> MonitoringPlace:
    if not runbook_url:
        note("note: alerts name no page of runbooks; --runbook-url says where yours are published")
    return MonitoringPlace(
        namespace=namespace,
        karpenter_namespace=karpenter_namespace,
        release=release,
        labels=labels,
        runbooks=runbook_url,
    )


def _write(folder: Path, place: MonitoringPlace) -> None:
    texts = {f"{each.name}.json": dashboard_text(each) for each in DASHBOARDS}
    texts["karpenter-rules.yaml"] = render_documents([groups(place.runbooks)])
    texts["karpenter-scrape.yaml"] = render_documents([scrape_config(place)])
    write_files({folder / name: text for name, text in texts.items()}, option="--write")
    notes(f"wrote {folder / name}" for name in texts)


async def _install(
    place: MonitoringPlace, *, dry_run: bool, kubeconfig: str, context: str
) -> list[AppliedObject]:
    async with cluster_api(kubeconfig=kubeconfig, context=context) as cluster:
        return [await _apply(cluster, body, dry_run=dry_run) for body in monitoring_objects(place)]


async def _apply(cluster: ClusterApi, body: dict[str, Any], *, dry_run: bool) -> AppliedObject:
    target, meta = _target(body), body["metadata"]
    before = await _version(cluster, target, meta)
    try:
        after = await cluster.client.apply(target, body, dry_run=dry_run)
    except NotFound:
        if body["apiVersion"] != MONITORING:
            raise
        result = "skipped"
    else:
        now = after["metadata"].get("resourceVersion", "")
        result = "created" if before is None else "unchanged" if now == before else "changed"
    return AppliedObject(body["kind"], meta["namespace"], meta["name"], result)


async def _version(cluster: ClusterApi, target: Untyped, meta: dict[str, Any]) -> str | None:
    try:
        found = await cluster.client.get(target, meta["name"], namespace=meta["namespace"])
    except NotFound:
        return None
    return str(found["metadata"].get("resourceVersion", ""))


def _target(body: dict[str, Any]) -> Untyped:
    return untyped(body["apiVersion"], _PLURALS[body["kind"]], kind=body["kind"], namespaced=True)
