"""``karpenter uninstall``: everything that install made goes, and the proof that it is gone."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Any

import click

from karpenter.base.clock import SystemClock
from karpenter.cli.aws_options import (
    application_argument,
    aws_options,
    cluster_api,
    connect_aws,
    eks_name,
    in_our_words,
    kubernetes_name,
)
from karpenter.cli.cluster import run_quietly
from karpenter.cli.errors import note, progress
from karpenter.cli.options import cluster_options
from karpenter.cli.output import Output, echo, output_option_with, render

if TYPE_CHECKING:
    from karpenter.install.account import AccountApi
    from karpenter.install.kubernetes import ClusterApi
    from karpenter.install.plan import InstallationPlan
    from karpenter.install.uninstall import Uninstaller

_WIDTH = 80


@click.command(
    epilog="Examples:\n\n"
    "  karpenter uninstall -c blue\n\n"
    "  karpenter uninstall -c blue --keep-nodes --yes\n\n"
    "  karpenter uninstall -c blue --naming eksdemo -n karpenter --yes -o json"
)
@application_argument
@click.option(
    "-c",
    "--cluster",
    required=True,
    metavar="NAME",
    callback=eks_name,
    help="The cluster, as EKS calls it.",
)
@click.option(
    "-n",
    "--namespace",
    default="",
    metavar="NAME",
    callback=kubernetes_name,
    help="Where the operator runs.  [default: found]",
)
@click.option(
    "--naming",
    type=click.Choice(["karpenter", "eksdemo"]),
    default=None,
    help="How things are called.  [default: found]",
)
@click.option("--keep-nodes", is_flag=True, help="Leave the machines and their nodes as they are.")
@click.option("--force", is_flag=True, help="End machines even if no operator runs that drains them first.")
@click.option(
    "--untagged", is_flag=True, help="Also delete what others made under the names that install uses."
)
@click.option(
    "--wait-seconds",
    type=click.FloatRange(min=0),
    default=900.0,
    show_default=True,
    metavar="SECONDS",
    help="How long machines have to go.",
)
@aws_options
@cluster_options
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option_with("text", "json")
def uninstall(  # noqa: PLR0917  one parameter per option
    cluster: str,
    namespace: str,
    naming: str | None,
    keep_nodes: bool,
    force: bool,
    untagged: bool,
    wait_seconds: float,
    region: str,
    profile: str,
    kubeconfig: str,
    context: str,
    yes: bool,
    output: Output,
) -> None:
    """
    Remove what `karpenter install` made, in the order that leaves no orphan.

    NodePools go first, and the operator ends their machines; then classes, the operator,
    and its parts in the account. Only what carries install's tag is deleted. It ends by
    asking AWS and the cluster anew: "nothing of ours is left", or the list of what is.

    Exits 0 if nothing is left, 1 if something is, 2 if it could not be done.
    """
    choices = {"keep_nodes": keep_nodes, "force": force, "untagged": untagged, "within": wait_seconds}
    with in_our_words():
        aws, region = connect_aws(region, profile)
        where = {"kubeconfig": kubeconfig, "context": context}
        asked = (cluster, namespace, naming)
        sys.exit(run_quietly(_run(aws, region, asked, where, choices, yes=yes, output=output)))


async def _run(
    aws: AccountApi,
    region: str,
    asked: tuple[str, str, str | None],
    where: dict[str, Any],
    choices: dict[str, Any],
    *,
    yes: bool,
    output: Output,
) -> int:
    from karpenter.kube.errors import NotConfigured  # noqa: PLC0415  loads much

    endpoint = _endpoint(aws, asked[0])
    if not endpoint:
        from karpenter.install.account import clusters_there_are  # noqa: PLC0415  loads the SDK

        note(f"note: EKS has no cluster {asked[0]} in {region} ({clusters_there_are(aws)})")
        note("note: what is left of it in the account goes")
        return await _take_away(aws, region, asked, None, choices, yes=yes, output=output)
    try:
        async with cluster_api(**where, endpoint=endpoint) as cluster:
            return await _take_away(aws, region, asked, cluster, choices, yes=yes, output=output)
    except NotConfigured as error:
        from karpenter.cli.errors import CommandError  # noqa: PLC0415  only here

        raise CommandError(
            f'cluster "{asked[0]}" not found in Kubeconfig: {error}',
            hint=f"aws eks update-kubeconfig --name {asked[0]} --region {region}",
        ) from error


async def _take_away(
    aws: AccountApi,
    region: str,
    asked: tuple[str, str, str | None],
    cluster: ClusterApi | None,
    choices: dict[str, Any],
    *,
    yes: bool,
    output: Output,
) -> int:
    from karpenter.install.uninstall import Uninstaller  # noqa: PLC0415  loads much

    with progress(f"reading the account, {region}, cluster {asked[0]}"):
        plan = await _plan(aws, region, asked, cluster)
    if not yes:
        machines = "its machines stay" if choices["keep_nodes"] else "its machines end"
        click.confirm(
            f"Remove karpenter from {plan.facts.cluster} in {plan.facts.account}; {machines}?",
            abort=True,
            err=True,
        )
    work = Uninstaller(plan, aws, cluster, clock=SystemClock(), **choices)
    return await _follow(work, output)


async def _plan(
    aws: AccountApi, region: str, asked: tuple[str, str, str | None], cluster: ClusterApi | None
) -> InstallationPlan:
    """Return the plan of what was installed, as far as the release in the cluster tells."""
    from karpenter.install.account import read_facts  # noqa: PLC0415  loads the SDK
    from karpenter.install.options import InstallationOptions  # noqa: PLC0415  likewise
    from karpenter.install.plan import make_plan  # noqa: PLC0415  likewise
    from karpenter.install.uninstall import found_options  # noqa: PLC0415  likewise

    name, namespace, naming = asked
    options = InstallationOptions(cluster=name, namespace=namespace, naming=naming or "karpenter")  # type: ignore[arg-type]  # a choice
    records = await cluster.releases("karpenter") if cluster is not None else []
    options = found_options(options, records, stated=naming is not None)
    facts = read_facts(aws, options, region=region, must_exist=False)
    return make_plan(options, facts)


def _endpoint(aws: AccountApi, cluster: str) -> str:
    found = aws.find("eks", "DescribeCluster", name=cluster)
    return str(found["cluster"].get("endpoint") or "") if found else ""


async def _follow(work: Uninstaller, output: Output) -> int:
    from karpenter.install.uninstall import NOTHING_LEFT  # noqa: PLC0415  loads much

    events: list[dict[str, str]] = []
    quiet = output.form == "json"
    async for event in work.run():
        if event.outcome != "waits":
            events.append({"outcome": event.outcome, "what": event.what, "because": event.because})
        said = f"{event.what}: {event.because}" if event.because else event.what
        for line in textwrap.wrap(
            said,
            _WIDTH,
            initial_indent=event.outcome.ljust(9),
            subsequent_indent=" " * 9,
            break_long_words=False,
            break_on_hyphens=False,
        ):
            echo(line, err=quiet)
    with progress("asking AWS and the cluster what is left"):
        left, kept = await work.left()
    if quiet:
        click.echo(render({"done": events, "left": left, "kept": kept}, "json"), nl=False)
        return 1 if left else 0
    for each in kept:
        echo(f"stays    {each}")
    for each in left:
        echo(f"left     {each}")
    said = f"{NOTHING_LEFT} but what stays" if kept else NOTHING_LEFT
    echo(f"\n{said}" if not left else f"\n{len(left)} things of ours are left")
    return 1 if left else 0
