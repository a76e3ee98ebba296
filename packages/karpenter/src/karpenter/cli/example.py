"""``karpenter example``: a NodePool to begin with, and workloads that make the operator do something."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import click

from karpenter.api.labels import ARCH, CAPACITY_TYPE, ON_DEMAND, ZONE
from karpenter.api.manifests import render_documents
from karpenter.base.clock import SystemClock
from karpenter.base.quantity import QuantityError, parse_quantity
from karpenter.cli.aws_options import (
    aws_options,
    cluster_api,
    connect_aws,
    eks_name,
    in_our_words,
    kubernetes_name,
)
from karpenter.cli.cluster import run_quietly
from karpenter.cli.errors import CommandError, telling
from karpenter.cli.options import cluster_options
from karpenter.cli.output import Output, output_option_with

if TYPE_CHECKING:
    from karpenter.install.resources import HelmRelease

RELEASE: Final = "example-inflate"
IMAGE: Final = "public.ecr.aws/eks-distro/kubernetes/pause:3.7"
NO_VERSION: Final = "n/a"
"""A manifest has none."""


@click.group(
    epilog="Examples:\n\n"
    "  karpenter example nodepool -c green | kubectl apply -f -\n\n"
    "  karpenter example inflate --replicas 10 --spread"
)
def example() -> None:
    """A NodePool and workloads to try the operator with."""


@example.command(epilog="Example:\n\n  karpenter example nodepool -c green | kubectl apply -f -")
@click.option(
    "-c", "--cluster", required=True, metavar="NAME", callback=eks_name, help="The cluster, as EKS calls it."
)
@telling("rendering the NodePool")
def nodepool(cluster: str) -> None:
    """Print a NodePool and an EC2NodeClass for a cluster in AWS.

    They are those of examples/aws/quickstart.yaml, with the tags and the role of this cluster.
    """
    from karpenter.install.documents import default_nodeclass, default_nodepool  # noqa: PLC0415  only who asks
    from karpenter.install.options import DISCOVERY, InstallationOptions, names_of  # noqa: PLC0415  likewise

    pool = default_nodepool(
        capacity_types=("spot", "on-demand"), expire_after="720h", consolidate_after="1m", drift=True
    )
    tagged = {DISCOVERY: cluster}
    node_class = default_nodeclass(
        family="AL2023",
        role=names_of(InstallationOptions(cluster=cluster)).node_role,
        subnets=tagged,
        security_groups=tagged,
        tags={},
        images=[{"alias": "al2023@latest"}],
    )
    click.echo(render_documents([pool, node_class]), nl=False)


@example.command(
    epilog="Examples:\n\n"
    "  karpenter example inflate --replicas 10 --spread --dry-run\n\n"
    "  karpenter example inflate --replicas 10 --spread\n\n"
    "  kubectl -n inflate scale deploy/inflate --replicas 5\n\n"
    "  karpenter example inflate --delete"
)
@click.option(
    "-c",
    "--cluster",
    default="",
    metavar="NAME",
    callback=eks_name,
    help="The cluster, as EKS calls it.  [default: the current]",
)
@click.option(
    "-n",
    "--namespace",
    default="inflate",
    show_default=True,
    metavar="NAME",
    callback=kubernetes_name,
    help="Where it runs.",
)
@click.option(
    "--replicas", type=click.IntRange(min=0), default=0, show_default=True, help="How many pods there are."
)
@click.option("--cpu", default="1", show_default=True, metavar="AMOUNT", help="What each pod asks for.")
@click.option("--memory", default="", metavar="AMOUNT", help="Memory that each pod asks for.")
@click.option("--spread", is_flag=True, help="Spread the pods over zones.")
@click.option("--on-demand", is_flag=True, help="Only on machines that are bought on demand.")
@click.option("--arch", type=click.Choice(["amd64", "arm64"]), default=None, help="Only on such machines.")
@click.option("--dry-run", is_flag=True, help="Only print the manifest.")
@click.option("--delete", is_flag=True, help="Take it away.")
@aws_options
@cluster_options
@output_option_with("text", "json")
@telling("applying the example")
def inflate(
    *,
    cluster: str,
    namespace: str,
    dry_run: bool,
    delete: bool,
    region: str,
    profile: str,
    kubeconfig: str,
    context: str,
    output: Output,
    **shape: Any,
) -> None:
    """Install pods that do nothing but ask for room."""
    body = inflate_deployment(namespace=namespace, **shape)
    if dry_run:
        text = render_documents([body])
        click.echo(
            json.dumps(body, indent=2)
            if output.form == "json"
            else f"\nManifest Installer Dry Run:\n---\n{text}".rstrip()
        )
        return
    with in_our_words():
        endpoint = _endpoint(cluster, region, profile) if cluster and not context else ""
        where = {"kubeconfig": kubeconfig, "context": context, "endpoint": endpoint}
        quiet = output.form == "json"
        run_quietly((_take_away if delete else _install)(body, where, quiet=quiet))
    if quiet:
        outcome = "removed" if delete else "installed"
        click.echo(json.dumps({"release": RELEASE, "namespace": namespace, "outcome": outcome}, indent=2))


def inflate_deployment(
    *,
    namespace: str,
    replicas: int,
    cpu: str,
    memory: str = "",
    spread: bool = False,
    on_demand: bool = False,
    arch: str | None = None,
) -> dict[str, Any]:
    """
    Return the Deployment.

    Raises:
        CommandError: an amount cannot be read.
    """
    requests: dict[str, Any] = {"cpu": _amount("--cpu", cpu)}
    if memory:
        requests["memory"] = _amount("--memory", memory)
    selector = {**({CAPACITY_TYPE: ON_DEMAND} if on_demand else {}), **({ARCH: arch} if arch else {})}
    labels = {"app": "inflate"}
    pod: dict[str, Any] = {
        "terminationGracePeriodSeconds": 0,
        "securityContext": {"runAsUser": 1000, "runAsGroup": 3000, "fsGroup": 2000},
        **({"nodeSelector": selector} if selector else {}),
        "containers": [
            {
                "name": "inflate",
                "image": IMAGE,
                "resources": {"requests": requests},
                "securityContext": {"allowPrivilegeEscalation": False},
            }
        ],
    }
    if spread:
        pod["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels},
            }
        ]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "inflate", "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _amount(option: str, text: str) -> int | str:
    try:
        parse_quantity(text)
    except QuantityError as error:
        raise CommandError(f"{option}: {error}", hint="such as 1, 500m or 512Mi") from error
    return int(text) if text.isdigit() else text


def _release(body: dict[str, Any]) -> HelmRelease:
    from karpenter.install.resources import HelmRelease  # noqa: PLC0415  only who installs

    return HelmRelease(
        name=RELEASE,
        namespace=body["metadata"]["namespace"],
        chart=RELEASE,
        chart_version=NO_VERSION,
        app_version=NO_VERSION,
        values={},
        objects=(body,),
    )


async def _install(body: dict[str, Any], where: dict[str, Any], *, quiet: bool) -> None:
    release = _release(body)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": release.namespace}}

    def begin() -> None:
        moment = f"{SystemClock().now().astimezone():%Y/%m/%d %H:%M:%S}"
        click.echo(f"{moment} creating 1 resource(s)", err=quiet)

    async with cluster_api(**where) as cluster:
        click.echo("Helm installing...", err=quiet)
        begin()
        await cluster.apply(namespace)
        begin()
        await cluster.make(release)
    click.echo(
        f'Using chart version "{NO_VERSION}", installed "{RELEASE}" version "{NO_VERSION}" in namespace'
        f' "{release.namespace}"',
        err=quiet,
    )


async def _take_away(body: dict[str, Any], where: dict[str, Any], *, quiet: bool) -> None:
    release = _release(body)
    async with cluster_api(**where) as cluster:
        said = f"Checking status of application: {RELEASE}, in namespace: {release.namespace}"
        click.echo(said, err=quiet)
        if not await cluster.releases(RELEASE):
            raise CommandError(f"{RELEASE} is not installed")
        click.echo("Status validated. Uninstalling...", err=quiet)
        await cluster.remove_release(release)
        others = [
            each
            for each in await cluster.every("apps/v1", "Deployment")
            if each["metadata"]["namespace"] == release.namespace and each["metadata"]["name"] != "inflate"
        ]
        if release.namespace == "inflate" and not others:
            await cluster.delete(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": release.namespace}}
            )


def _endpoint(cluster: str, region: str, profile: str) -> str:
    aws, _ = connect_aws(region, profile)
    found = aws.find("eks", "DescribeCluster", name=cluster)
    if found is None:
        from karpenter.install.account import clusters_there_are  # noqa: PLC0415  loads the SDK

        raise CommandError(f'cluster "{cluster}" not found', hint=clusters_there_are(aws))
    return str(found["cluster"]["endpoint"])
