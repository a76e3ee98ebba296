"""``karpenter get``: what an installation has in its account, in tables or as the API tells it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click
import yaml

from karpenter.cli.aws_options import (
    aws_options,
    cluster_api,
    connect_aws,
    eks_name,
    in_our_words,
)
from karpenter.cli.cluster import run_quietly
from karpenter.cli.errors import CommandError, progress
from karpenter.cli.options import cluster_options
from karpenter.cli.output import Output, echo, output_option_with
from karpenter.install.table import NOTHING, bordered

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter.inspect.reading import AwsListing
    from karpenter.install.account import AccountApi

ALIASES: Final = {
    "ec2-instance": ("ec2-instances", "ec2", "instances", "instance"),
    "iam-role": ("iam-roles", "iamroles", "iamrole", "roles", "role"),
    "iam-policy": ("iam-policies", "policies", "policy"),
    "sqs-queue": ("sqs-queues", "queues", "queue", "sqs"),
    "event-rule": ("event-rules", "eventrules", "eventrule"),
    "application": ("applications", "apps", "app"),
}
get_output = output_option_with("table", "json", "yaml", "wide")
cluster_option = click.option(
    "-c", "--cluster", default="", metavar="NAME", callback=eks_name, help="Only what belongs to it."
)


class ResourceMissingError(CommandError):
    """What was asked for by name does not exist."""

    exit_code = 1


class AliasedGroup(click.Group):
    """A group whose commands have other names too."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that a name stands for."""
        known = {alias: name for name, aliases in ALIASES.items() for alias in aliases}
        if args and args[0] in known:
            args = [known[args[0]], *args[1:]]
        return super().resolve_command(ctx, args)


@click.group(
    cls=AliasedGroup,
    epilog="Examples:\n\n"
    "  karpenter get ec2-instance -c blue\n\n"
    "  karpenter get iam-role --search karpenter\n\n"
    "  karpenter get event-rule karpenter -o yaml",
)
def get() -> None:
    """Look at what an installation has in its account; nothing is changed."""


@get.command("ec2-instance", epilog="Example:\n\n  karpenter get ec2-instance -c blue --hide-terminated")
@click.argument("instance_id", default="")
@cluster_option
@click.option("--hide-terminated", is_flag=True, help="Leave out instances that have ended.")
@aws_options
@get_output
def ec2_instance(  # noqa: PLR0917  one parameter per option
    instance_id: str, cluster: str, hide_terminated: bool, region: str, profile: str, output: Output
) -> None:
    """List instances: age, state, id, name, type and zone. Also: ec2, instances.

    With -c, only those in the VPC of the cluster.
    """
    from karpenter.inspect.reading import read_instances  # noqa: PLC0415  loads the SDK

    if hide_terminated and instance_id:
        raise CommandError('"hide-terminated" flag cannot be used with ID argument')

    def read(aws: AccountApi) -> AwsListing:
        vpc = _cluster(aws, cluster).get("resourcesVpcConfig", {}).get("vpcId", "") if cluster else ""
        return read_instances(
            aws, now=_now(), name=instance_id, vpc=vpc, living=hide_terminated, wide=output.form == "wide"
        )

    _show(read, region, profile, output)


@get.command("iam-role", epilog="Example:\n\n  karpenter get iam-role --search karpenter")
@click.argument("name", default="")
@cluster_option
@click.option("-L", "--last-used", is_flag=True, help="Also say when each was last used.")
@click.option("--search", default="", metavar="TEXT", help="Only those whose name contains this.")
@aws_options
@get_output
def iam_role(  # noqa: PLR0917  one parameter per option
    name: str, cluster: str, last_used: bool, search: str, region: str, profile: str, output: Output
) -> None:
    """List roles: age and name. Also: roles, role.

    With -c, only those that service accounts of the cluster can assume.
    """
    from karpenter.inspect.reading import read_roles  # noqa: PLC0415  loads the SDK

    if search and name:
        raise CommandError('"search" flag cannot be used with NAME argument')

    def read(aws: AccountApi) -> AwsListing:
        issuer = (
            _cluster(aws, cluster).get("identity", {}).get("oidc", {}).get("issuer", "-") if cluster else ""
        )
        used = last_used or output.form == "wide"
        return read_roles(aws, now=_now(), name=name, search=search, issuer=issuer, last_used=used)

    _show(read, region, profile, output)


@get.command(
    "iam-policy", epilog="Example:\n\n  karpenter get iam-policy --role KarpenterNodeRole-blue -o yaml"
)
@click.argument("policy_arn", default="")
@click.option("-r", "--role", default="", metavar="NAME", help="Only those of this role, with their texts.")
@click.option("--search", default="", metavar="TEXT", help="Only those whose name contains this.")
@aws_options
@get_output
def iam_policy(  # noqa: PLR0917  one parameter per option
    policy_arn: str, role: str, search: str, region: str, profile: str, output: Output
) -> None:
    """List policies of the account, or what a role may do. Also: policies, policy."""
    from karpenter.inspect.reading import read_policies, read_role_policies  # noqa: PLC0415  loads the SDK

    if search and policy_arn:
        raise CommandError('"search" flag cannot be used with NAME argument')

    def read(aws: AccountApi) -> AwsListing:
        if role:
            return read_role_policies(aws, role)
        return read_policies(aws, now=_now(), arn=policy_arn, search=search)

    _show(read, region, profile, output)


@get.command("sqs-queue", epilog="Example:\n\n  karpenter get sqs-queue blue -o yaml")
@click.argument("name", default="")
@aws_options
@get_output
def sqs_queue(name: str, region: str, profile: str, output: Output) -> None:
    """List queues, with how many messages wait and are in flight. Also: queues, sqs."""
    from karpenter.inspect.reading import read_queues  # noqa: PLC0415  loads the SDK

    _show(
        lambda aws: read_queues(aws, now=_now(), name=name, wide=output.form == "wide"),
        region,
        profile,
        output,
    )


@get.command("event-rule", epilog="Example:\n\n  karpenter get event-rule karpenter-blue")
@click.argument("name_prefix", default="")
@aws_options
@get_output
def event_rule(name_prefix: str, region: str, profile: str, output: Output) -> None:
    """List rules of EventBridge whose names begin with NAME_PREFIX. Also: event-rules."""
    from karpenter.inspect.reading import read_rules  # noqa: PLC0415  loads the SDK

    _show(
        lambda aws: read_rules(aws, prefix=name_prefix, wide=output.form == "wide"), region, profile, output
    )


@get.command(epilog="Example:\n\n  karpenter get application -c blue")
@click.option(
    "-c",
    "--cluster",
    required=True,
    metavar="NAME",
    callback=eks_name,
    help="The cluster, as EKS calls it.",
)
@aws_options
@cluster_options
@get_output
def application(  # noqa: PLR0917  one parameter per option
    cluster: str, region: str, profile: str, kubeconfig: str, context: str, output: Output
) -> None:
    """List what is installed in a cluster as releases of Helm. Also: apps, app."""
    from karpenter.inspect.reading import release_listing  # noqa: PLC0415  loads the SDK

    async def read(endpoint: str) -> AwsListing:
        async with cluster_api(kubeconfig=kubeconfig, context=context, endpoint=endpoint) as found:
            return release_listing(await found.releases(), wide=output.form == "wide")

    def ask(aws: AccountApi) -> AwsListing:
        return run_quietly(read(str(_cluster(aws, cluster).get("endpoint", ""))))

    _show(ask, region, profile, output)


def _show(read: Callable[[AccountApi], AwsListing], region: str, profile: str, output: Output) -> None:
    """Read, and print in the form that was asked for."""
    with in_our_words():
        aws, _ = connect_aws(region, profile)
        from karpenter.inspect.reading import NotThereError, plain_data  # noqa: PLC0415  loads the SDK

        try:
            with progress("reading the account"):
                found = read(aws)
        except NotThereError as error:
            raise ResourceMissingError(str(error)) from error
        finally:
            aws.close()
        match output.form:
            case "json":
                click.echo(json.dumps(plain_data(found.data, squeezed=True), indent=4))
            case "yaml":
                click.echo(raw_yaml(plain_data(found.data)), nl=False)
            case _:
                echo(_table(found))


def _table(found: AwsListing) -> str:
    if not found.rows:
        return found.empty or NOTHING
    lines = bordered(found.heading, found.rows, rules=found.rules)
    return f"{lines}\n{found.footer}" if found.footer else lines


def _cluster(aws: AccountApi, name: str) -> dict[str, Any]:
    told = aws.find("eks", "DescribeCluster", name=name)
    if told is None:
        from karpenter.install.account import clusters_there_are  # noqa: PLC0415  loads the SDK

        raise CommandError(f'cluster "{name}" not found', hint=clusters_there_are(aws))
    found: dict[str, Any] = told["cluster"]
    return found


def _now() -> datetime:
    return datetime.now(UTC)


class _RawDumper(yaml.SafeDumper):
    """Prints as programs in Go do: no anchors, blocks for texts of several lines."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = "|" if "\n" in value else None
    resolve: Any = dumper.resolve
    if style is None and resolve(yaml.ScalarNode, value, (True, False)) != "tag:yaml.org,2002:str":
        style = '"'  # what would be read as a number or a truth value
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_RawDumper.add_representer(str, _text)


def raw_yaml(data: Any) -> str:
    """Return data as YAML with its keys in order, every null, and no broken lines."""
    return yaml.dump(data, Dumper=_RawDumper, sort_keys=True, width=float("inf"), allow_unicode=True)
