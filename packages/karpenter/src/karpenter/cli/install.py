"""``karpenter install``: from an account with a cluster to a cluster that scales."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
import msgspec

from karpenter.base.clock import SystemClock
from karpenter.base.duration import DurationError, parse_duration_or_never
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
from karpenter.cli.errors import CommandError, note, progress
from karpenter.cli.files import read_texts
from karpenter.cli.option_values import ami_alias, ec2_ids, version_name
from karpenter.cli.options import cluster_options
from karpenter.cli.output import Output, echo, output_option_with, render

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter.install.account import AccountApi
    from karpenter.install.kubernetes import ClusterApi
    from karpenter.install.options import InstallationOptions
    from karpenter.install.plan import InstallationPlan

_EXAMPLES = (
    "Examples:\n\n"
    "  karpenter install -c blue --dry-run\n\n"
    "  karpenter install -c blue --yes\n\n"
    "  karpenter install -c blue --check\n\n"
    "  karpenter install -c blue -o cloudformation > blue.yaml\n\n"
    "  karpenter install -c blue --naming eksdemo --ami-family AL2023 --yes"
)


def plan_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that decide what an installation consists of."""
    for option in reversed(_PLAN_OPTIONS):
        command = option(command)
    return command


_PLAN_OPTIONS = (
    click.option(
        "-c",
        "--cluster",
        required=True,
        metavar="NAME",
        callback=eks_name,
        help="The cluster, as EKS calls it.",
    ),
    click.option(
        "-n",
        "--namespace",
        default="",
        metavar="NAME",
        callback=kubernetes_name,
        help="Where the operator runs.  [default: kube-system]",
    ),
    click.option(
        "--naming",
        type=click.Choice(["karpenter", "eksdemo"]),
        default="karpenter",
        show_default=True,
        help="How things are called, and what is printed.",
    ),
    click.option(
        "--identity",
        type=click.Choice(["irsa", "pod-identity"]),
        default="irsa",
        show_default=True,
        help="How the operator's pods get their role.",
    ),
    click.option(
        "--auth",
        type=click.Choice(["access-entry", "aws-auth"]),
        default=None,
        help="How nodes are let in.  [default: what the cluster reads]",
    ),
    click.option(
        "--service-account",
        default="karpenter",
        show_default=True,
        metavar="NAME",
        callback=kubernetes_name,
        help="Who the operator is.",
    ),
    click.option(
        "-a",
        "--ami-family",
        default="",
        metavar="NAME",
        help="AL2, AL2023 or Bottlerocket.  [default: AL2023; with eksdemo AL2]",
    ),
    click.option(
        "--ami-alias",
        default="",
        metavar="ALIAS",
        callback=ami_alias,
        help="Images by alias, such as al2023@latest.",
    ),
    click.option(
        "--consolidate-after",
        default="1m",
        show_default=True,
        metavar="DURATION",
        help="Time after the last pod came or went before a node may be consolidated.",
    ),
    click.option(
        "--expire-after",
        default="720h",
        show_default=True,
        metavar="DURATION",
        help="How old a node may get.",
    ),
    click.option("--disable-drift", is_flag=True, help="Keep nodes that no longer match their pool."),
    click.option("--enable-spottospot", is_flag=True, help="Replace spot nodes by cheaper spot nodes."),
    click.option(
        "--replicas",
        type=click.IntRange(min=1),
        default=None,
        help="Replicas of the operator.  [default: 2; with eksdemo 1]",
    ),
    click.option(
        "-v",
        "--version",
        default="",
        metavar="VERSION",
        callback=version_name,
        help="The version of the operator's image.",
    ),
    click.option(
        "--chart-version",
        default="",
        metavar="VERSION",
        callback=version_name,
        help="The version of the chart.",
    ),
    click.option("--use-previous", is_flag=True, help="The versions before: of the chart and of the image."),
    click.option(
        "-f",
        "--values",
        "paths",
        multiple=True,
        metavar="FILE",
        type=click.Path(allow_dash=True),
        help="A file with values of the chart. May be repeated.",
    ),
    click.option(
        "--set",
        "sets",
        multiple=True,
        metavar="NAME=VALUE",
        help="A value of the chart; several with commas. May be repeated.",
    ),
    click.option(
        "--subnet",
        "subnets",
        multiple=True,
        metavar="ID",
        callback=ec2_ids,
        help="A subnet for nodes.  [default: found]",
    ),
    click.option(
        "--security-group",
        "security_groups",
        multiple=True,
        metavar="ID",
        callback=ec2_ids,
        help="A security group for nodes.  [default: found]",
    ),
)


class _SortedCommand(click.Command):
    """A command with so many options that people look them up by their letters."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in the order of their names."""
        options = sorted(self.get_params(ctx), key=lambda each: max(each.opts, key=len))
        rows = [row for each in options if (row := each.get_help_record(ctx)) is not None]
        with formatter.section("Options"):
            formatter.write_dl(rows)


@click.command(cls=_SortedCommand, epilog=_EXAMPLES)
@application_argument
@plan_options
@aws_options
@cluster_options
@click.option("--no-helm", is_flag=True, help="Apply the objects of the chart even if helm is installed.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the operator leads.")
@click.option(
    "--wait-seconds",
    type=click.FloatRange(min=0),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the operator has to lead.",
)
@click.option("--dry-run", is_flag=True, help="Only read, and print what would be done.")
@click.option("--check", is_flag=True, help="Only read, and exit with 1 if anything is not as planned.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option_with("text", "json", "aws-cli", "cloudformation")
def install(
    *,
    output: Output,
    region: str,
    profile: str,
    kubeconfig: str,
    context: str,
    dry_run: bool,
    check: bool,
    **options: Any,
) -> None:
    """
    Install the operator on an EKS cluster: roles, queue, tags, access, chart, default NodePool.

    Every step says what exists, what it makes and what it costs. What exists is left, what
    differs is brought up, nothing is ever deleted; a second run changes nothing, and a run
    that died goes on where it stopped.

    With -o aws-cli it prints a script, with -o cloudformation the templates that make the
    same; neither changes anything. `karpenter render` prints Terraform.
    """
    asked = options.pop("yes"), options.pop("no_wait"), options.pop("wait_seconds"), options.pop("no_helm")
    with in_our_words():
        aws, region = connect_aws(region, profile)
        with progress(f"reading the account, {region}, cluster {options['cluster']}"):
            plan = plan_for(aws, region, options)
        if output.form in {"aws-cli", "cloudformation"}:
            if output.form == "aws-cli":
                run_quietly(_preflight(plan, aws, None, refuse=False))
            click.echo(_printed(plan, output.form), nl=False)
            return
        yes, no_wait, seconds, no_helm = asked
        reading = dry_run or check
        where = {"kubeconfig": kubeconfig, "context": context, "endpoint": plan.facts.endpoint}
        work = (
            _look(plan, aws, where, output, check=check)
            if reading
            else _install(
                plan, aws, {**where, "helm": not no_helm}, output, yes=yes, wait=0 if no_wait else seconds
            )
        )
        sys.exit(run_quietly(work))


def plan_for(aws: AccountApi, region: str, options: dict[str, Any]) -> InstallationPlan:
    """
    Return the plan that the options of the command line ask for.

    Raises:
        CommandError: an option cannot be used.
        InstallationError: it cannot be done there.
    """
    from karpenter.install.account import read_facts  # noqa: PLC0415  loads the SDK
    from karpenter.install.plan import make_plan  # noqa: PLC0415  likewise

    asked = options_of(options)
    facts = read_facts(
        aws, asked, region=region, subnets=options["subnets"], security_groups=options["security_groups"]
    )
    plan = make_plan(asked, facts)
    _check_objects(plan)
    return plan


def options_of(options: dict[str, Any]) -> InstallationOptions:
    """
    Return what the options of the command line ask for.

    Raises:
        CommandError: an option cannot be used.
    """
    from karpenter.install.options import PREVIOUS, InstallationOptions  # noqa: PLC0415  only who installs

    if options["use_previous"]:
        for name in ("version", "chart_version"):
            if options[name]:
                flag = name.replace("_", "-")
                raise CommandError(f'"use-previous" flag cannot be used with "{flag}" flag')
        options["chart_version"], options["version"] = PREVIOUS
    for name in ("consolidate_after", "expire_after"):
        try:
            parse_duration_or_never(options[name])
        except DurationError as error:
            raise CommandError(
                f"--{name.replace('_', '-')}: {error}", hint="such as 30s, 10m, 720h or Never"
            ) from error
    return InstallationOptions(
        cluster=options["cluster"],
        naming=options["naming"],
        namespace=options["namespace"],
        service_account=options["service_account"],
        identity=options["identity"],
        auth=options["auth"] or "",
        ami_family=options["ami_family"],
        ami_alias=options["ami_alias"],
        consolidate_after=options["consolidate_after"],
        expire_after=options["expire_after"],
        disable_drift=options["disable_drift"],
        spot_to_spot=options["enable_spottospot"],
        replicas=options["replicas"] or 0,
        version=options["version"],
        chart_version=options["chart_version"],
        values=tuple(_values(options["paths"])),
        sets=tuple(options["sets"]),
    )


def _check_objects(plan: InstallationPlan) -> None:
    """Refuse a NodePool or EC2NodeClass that the cluster would refuse, before anything is made."""
    from karpenter.api.manifests import Document  # noqa: PLC0415  loads the rules of schemas
    from karpenter.api.validation.documents import Finding, check_document  # noqa: PLC0415  likewise
    from karpenter.install.resources import KubernetesObject  # noqa: PLC0415  likewise

    bodies = [each.body for each in plan.resources if isinstance(each, KubernetesObject) and each.once]
    problems = [
        str(found)
        for body in bodies
        for found in check_document(Document("", dict(body)))
        if isinstance(found, Finding)
    ]
    if problems:
        options = "--ami-alias, --ami-family, --expire-after and --consolidate-after"
        raise CommandError(*problems, hint=f"these fields come from {options}")


def _printed(plan: InstallationPlan, form: str) -> str:
    from karpenter.install.cloudformation import render_cloudformation  # noqa: PLC0415  only who asks for it
    from karpenter.install.script import render_script  # noqa: PLC0415  likewise

    return render_script(plan) if form == "aws-cli" else render_cloudformation(plan)


async def _look(
    plan: InstallationPlan, aws: AccountApi, where: dict[str, Any], output: Output, *, check: bool
) -> int:
    """Print what there is and what would be done; return the exit code."""
    from karpenter.install.apply import survey  # noqa: PLC0415  loads much
    from karpenter.install.text import dry_run_text, eksdemo_dry_run, survey_text  # noqa: PLC0415  likewise
    from karpenter.kube.errors import KubeError  # noqa: PLC0415  likewise

    try:
        async with cluster_api(**where) as cluster:
            with progress("comparing the account and the cluster with the plan"):
                seen = await survey(plan, aws, cluster)
            if not check:
                await _preflight(plan, aws, cluster, refuse=False)
    except KubeError as error:
        if check:
            raise
        note(f"note: {error}; what is in the cluster is taken for missing")
        with progress("comparing the account with the plan"):
            seen = await survey(plan, aws, None)
        await _preflight(plan, aws, None, refuse=False)
    drift = any(each.state != "exists" for _, resource, each in seen if not getattr(resource, "once", False))
    drift = drift or any(not each.present for _, _, each in seen)
    if output.form == "json":
        click.echo(render(_data(plan, seen), "json"), nl=False)
    elif check:
        states = {"missing": "missing", "differs": "differs", "exists": "as planned"}
        echo(survey_text(plan, seen, words=states))
        echo("\nThe account and the cluster differ from the plan." if drift else "\nAll is as planned.")
    elif plan.options.naming == "eksdemo":
        echo(eksdemo_dry_run(plan, seen))
    else:
        echo(dry_run_text(plan, seen))
    return 1 if check and drift else 0


async def _install(
    plan: InstallationPlan, aws: AccountApi, where: dict[str, Any], output: Output, *, yes: bool, wait: float
) -> int:
    from karpenter.install.apply import Installer, survey  # noqa: PLC0415  loads much
    from karpenter.install.text import EksdemoLog, InstallationLog, dry_run_text  # noqa: PLC0415  likewise
    from karpenter.kube.errors import NotConfigured  # noqa: PLC0415  likewise

    try:
        async with cluster_api(**where) as cluster:
            # A cluster that refuses us, or cannot run the operator, leaves the account as it is.
            await _preflight(plan, aws, cluster, refuse=bool(wait))
            if not yes:
                with progress("comparing the account and the cluster with the plan"):
                    seen = await survey(plan, aws, cluster)
                echo(dry_run_text(plan, seen), err=output.form == "json")
                click.confirm("Install this?", abort=True, err=True)
            clock = SystemClock()
            log: Any = InstallationLog(plan)
            if plan.options.naming == "eksdemo":
                log = EksdemoLog(plan, clock.now, within=wait)
            installer = Installer(plan, aws, cluster, clock=clock, leads_within=wait)
            await _follow(installer, log, output)
    except NotConfigured as error:
        raise CommandError(
            f'cluster "{plan.facts.cluster}" not found in Kubeconfig: {error}',
            hint=f"aws eks update-kubeconfig --name {plan.facts.cluster} --region {plan.facts.region}",
        ) from error
    return 0


async def _preflight(
    plan: InstallationPlan, aws: AccountApi, cluster: ClusterApi | None, *, refuse: bool
) -> None:
    """Say what would keep the operator from running; with `refuse`, do not go on where that is certain."""
    from karpenter.install.preflight import as_hint, find_problems  # noqa: PLC0415  loads much

    with progress("looking for nodes and for the image of the operator"):
        problems = await find_problems(plan, aws, cluster)
    certain = [each for each in problems if each.certain and refuse]
    if certain:
        raise CommandError(*(each.problem for each in certain), hint=as_hint(certain))
    for each in problems:
        note(f"note: {each.problem}")
        if each.hint:
            note(f"hint: {each.hint}")


async def _follow(installer: Any, log: Any, output: Output) -> None:
    """Print what happens as it does: to standard output, or as data at the end."""
    from karpenter.install.apply import ResourceDone, StackDone  # noqa: PLC0415  loads much

    done: list[dict[str, Any]] = []
    async for event in installer.run():
        for line in log.lines(event):
            echo(line, err=output.form == "json")
        if isinstance(event, ResourceDone):
            done.append({"step": event.step.name, "resource": event.resource.title, "outcome": event.outcome})
        elif isinstance(event, StackDone):
            done.append(
                {"step": event.step.name, "resource": f"stack {event.step.stack}", "outcome": event.outcome}
            )
    if output.form == "json":
        click.echo(render(done, "json"), nl=False)
    elif said := log.summary():
        echo(f"\n{said}")


def _data(plan: InstallationPlan, seen: Any) -> dict[str, Any]:
    from karpenter.install.permissions import needed_actions  # noqa: PLC0415  loads much

    steps: dict[str, dict[str, Any]] = {
        step.name: {
            "name": step.name,
            "title": step.title,
            "cost": step.cost,
            "stack": step.stack,
            "resources": [],
        }
        for step in plan.steps
    }
    for step, resource, observation in seen:
        steps[step.name]["resources"].append(
            {
                "title": resource.title,
                "state": observation.state,
                "differences": observation.differences,
                "notes": observation.notes,
                "plan": msgspec.to_builtins(resource),
            }
        )
    return {
        "cluster": plan.facts.cluster,
        "region": plan.facts.region,
        "account": plan.facts.account,
        "actions": needed_actions(plan),
        "steps": list(steps.values()),
    }


def _values(paths: tuple[str, ...]) -> list[dict[str, Any]]:
    from karpenter.api.manifests import read_documents  # noqa: PLC0415  only who has files
    from karpenter.chart.values import BadValue  # noqa: PLC0415  likewise

    found = []
    for text in read_texts(paths):
        for document in read_documents(text.content, source=text.source):
            if not isinstance(document, dict):
                raise BadValue(f"{text.source}: not a mapping of values")
            found.append(document)
    return found
