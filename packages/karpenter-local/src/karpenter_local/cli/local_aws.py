"""
``karpenter local aws``: lets things happen in the embedded AWS.

Each command is one of :mod:`karpenter_local.aws.commands`, sent to the control interface of the cluster that
runs on this machine. Nothing here needs the libraries that imitate AWS: they are in the other process.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import click
import msgspec

from karpenter.cli.errors import CommandError
from karpenter.cli.output import Output, output_option, table
from karpenter_local.apiserver.notice import ClusterDirectory, default_directory
from karpenter_local.aws import commands

F = TypeVar("F", bound=Callable[..., Any])

_PREFIX = "/_karpenter/"
_TIMEOUT = 30.0
_CELL_WIDTH = 24


def offering_options(command: F) -> F:
    """Give a command the options that say which offerings it is about."""
    for option in (
        click.option("--capacity-type", default="", metavar="NAME", help="Bought as spot or on-demand."),
        click.option("--zone", default="", metavar="NAME", help="Sold in that zone."),
        click.option("--type", "instance_type", default="", metavar="NAME", help="Of that instance type."),
    ):
        command = option(command)
    return command


@click.group(epilog="Example:\n\n  karpenter local aws sell-out --type m5.large --zone us-west-2a")
def aws() -> None:
    """Let things happen in the embedded AWS of `karpenter local up --provider aws`."""


@aws.command(epilog="Example:\n\n  karpenter local aws instances -o json")
@output_option
def instances(output: Output) -> None:
    """List the instances that are not gone."""
    output.write(_ask("instances"), text=_listed)


@aws.command(epilog="Example:\n\n  karpenter local aws calls --changes -o json")
@click.option("--changes", is_flag=True, help="Only calls that changed something.")
@output_option
def calls(changes: bool, output: Output) -> None:
    """List the calls that were made to AWS, as CloudTrail tells them."""
    output.write(_ask("calls?changes=1" if changes else "calls"), text=_called)


@aws.command(epilog="Example:\n\n  karpenter local aws console ip-10-0-0-4.us-west-2.compute.internal")
@click.argument("instance")
def console(instance: str) -> None:
    """Show what INSTANCE wrote to its console, such as why it did not join.

    It is named by its id or by its node.
    """
    click.echo(_ask(f"console/{instance}")["console"])


@aws.command("sell-out", epilog="Example:\n\n  karpenter local aws sell-out --capacity-type spot")
@offering_options
@click.option(
    "--code", default="InsufficientInstanceCapacity", show_default=True, help="The error that fleets get."
)
def sell_out(code: str, **offerings: str) -> None:
    """Let some offerings be sold out; without options, all of them."""
    _perform(commands.SellOutOfferings(code=code, **offerings))


@aws.command(epilog="Example:\n\n  karpenter local aws limit 2 --type m5.large")
@click.argument("count", type=int)
@offering_options
def limit(count: int, **offerings: str) -> None:
    """Let no more than COUNT instances of some offerings run at a time."""
    _perform(commands.Limit(count=count, **offerings))


@aws.command(epilog="Example:\n\n  karpenter local aws quota 16 --type m5.large --capacity-type spot")
@click.argument("vcpus", type=click.IntRange(min=0))
@click.option("--type", "instance_type", required=True, metavar="NAME", help="A type that counts against it.")
@click.option(
    "--capacity-type",
    type=click.Choice(["on-demand", "spot"]),
    default="on-demand",
    show_default=True,
    help="How machines are bought that count against it.",
)
def quota(vcpus: int, instance_type: str, capacity_type: str) -> None:
    """Let the account run no more than VCPUS of the families in the quota of a type."""
    _perform(commands.SetQuota(vcpus=vcpus, instance_type=instance_type, capacity_type=capacity_type))


@aws.command(epilog="Example:\n\n  karpenter local aws restock")
@offering_options
def restock(**offerings: str) -> None:
    """Undo what was said of the same offerings; without options, of all and of quotas."""
    _perform(commands.Restock(**offerings))


@aws.command(epilog="Example:\n\n  karpenter local aws interrupt i-0123456789abcdef0")
@click.argument("instance")
@click.option(
    "--notice",
    type=click.FloatRange(min=0),
    default=commands.NOTICE_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long it still runs.",
)
def interrupt(instance: str, notice: float) -> None:
    """Warn that INSTANCE will be taken away, and take it away after the notice."""
    _perform(commands.Interrupt(instance=instance, notice=notice))


@aws.command(epilog="Example:\n\n  karpenter local aws rebalance i-0123456789abcdef0")
@click.argument("instance")
def rebalance(instance: str) -> None:
    """Say that INSTANCE may be interrupted some time; nothing follows."""
    _perform(commands.Rebalance(instance=instance))


@aws.command(epilog="Example:\n\n  karpenter local aws retire i-0123456789abcdef0")
@click.argument("instance")
def retire(instance: str) -> None:
    """Say that the hardware under INSTANCE will be retired; nothing follows."""
    _perform(commands.Retire(instance=instance))


@aws.command(epilog="Example:\n\n  karpenter local aws kill i-0123456789abcdef0")
@click.argument("instance")
def kill(instance: str) -> None:
    """Let INSTANCE end at once, without a warning."""
    _perform(commands.Kill(instance=instance))


@aws.command(epilog="Example:\n\n  karpenter local aws impair i-0123456789abcdef0 --what system")
@click.argument("instance")
@click.option(
    "--what",
    default="instance",
    show_default=True,
    metavar="CHECK",
    help="The check that fails: instance or system; or the code of an event, such as instance-retirement.",
)
def impair(instance: str, what: str) -> None:
    """Let a check of INSTANCE fail, or schedule an event for it."""
    _perform(commands.Impair(instance=instance, what=what))


@aws.command(epilog="Example:\n\n  karpenter local aws heal i-0123456789abcdef0")
@click.argument("instance")
def heal(instance: str) -> None:
    """Let INSTANCE be well again."""
    _perform(commands.Heal(instance=instance))


@aws.command(epilog="Example:\n\n  karpenter local aws lag 10")
@click.argument("seconds", type=float)
def lag(seconds: float) -> None:
    """Let EC2 not show what it has just launched, for SECONDS."""
    _perform(commands.Lag(seconds=seconds))


@aws.command("shift-zone", epilog="Example:\n\n  karpenter local aws shift-zone usw2-az1 --for 600")
@click.argument("zone_id")
@click.option(
    "--for",
    "seconds",
    type=float,
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="How long; 0 ends it.",
)
def shift_zone(zone_id: str, seconds: float) -> None:
    """Shift traffic away from the zone with the id ZONE_ID, as Application Recovery Controller does."""
    _perform(commands.ShiftZone(zone_id=zone_id, seconds=seconds))


@aws.command("release-ami", epilog="Example:\n\n  karpenter local aws release-ami")
def release_ami() -> None:
    """Publish newer images of every family."""
    _perform(commands.ReleaseAmi())


@aws.command("publish-ami", epilog="Example:\n\n  karpenter local aws publish-ami mine --id ami-0123")
@click.argument("name")
@click.option(
    "--arch",
    type=click.Choice(["x86_64", "arm64"]),
    default="x86_64",
    help="What it runs on.",
    show_default=True,
)
@click.option("--id", "number", default="", metavar="AMI", help="Its id; the next one by default.")
def publish_ami(name: str, arch: str, number: str) -> None:
    """Publish one image called NAME.

    Its name says which system is in it, as those of AWS do: it contains al2023, amazon-eks, bottlerocket or
    Windows_Server. Machines of any other image do not join.
    """
    _perform(commands.PublishAmi(name=name, arch=arch, id=number))


@aws.command("set-price", epilog="Example:\n\n  karpenter local aws set-price m5.large 0.02")
@click.argument("instance_type")
@click.argument("price", type=float)
@click.option("--zone", default="", metavar="NAME", help="Its spot price in that zone.  [default: on demand]")
def set_price(instance_type: str, price: float, zone: str) -> None:
    """Change what INSTANCE_TYPE costs per hour."""
    _perform(commands.SetPrice(instance_type=instance_type, price=price, zone=zone))


@aws.command("move-prices", epilog="Example:\n\n  karpenter local aws move-prices --spread 0.3")
@click.option("--spread", type=float, default=0.2, show_default=True, help="By up to which share of each.")
@click.option("--seed", type=int, default=0, show_default=True, help="Chance.")
def move_prices(spread: float, seed: int) -> None:
    """Let every spot price move, up or down."""
    _perform(commands.MovePrices(spread=spread, seed=seed))


@aws.command(epilog="Example:\n\n  karpenter local aws refuse CreateFleet --code UnauthorizedOperation")
@click.argument("operation")
@click.option("--code", default="RequestLimitExceeded", show_default=True, help="The error of AWS.")
@click.option("--count", type=click.IntRange(min=0), default=0, help="How many calls.  [default: all]")
def refuse(operation: str, code: str, count: int) -> None:
    """Let calls of OPERATION be refused."""
    _perform(commands.RefuseCalls(operation=operation, code=code, count=count))


@aws.command(epilog="Example:\n\n  karpenter local aws allow CreateFleet")
@click.argument("operation")
def allow(operation: str) -> None:
    """Let calls of OPERATION go well again."""
    _perform(commands.Allow(operation=operation))


def _perform(command: commands.Command) -> None:
    click.echo(_ask("commands", msgspec.json.encode(command))["done"])


def _ask(path: str, body: bytes | None = None) -> Any:
    request = Request(  # noqa: S310  the notice of our own cluster names it
        f"{_endpoint()}{_PREFIX}{path}", data=body, headers={"Content-Type": "application/json"}
    )
    try:
        with urlopen(request, timeout=_TIMEOUT) as response:  # noqa: S310  as above
            return msgspec.json.decode(response.read())
    except HTTPError as error:
        with error:
            raise CommandError(str(msgspec.json.decode(error.read())["error"])) from error
    except (URLError, OSError) as error:
        raise CommandError(f"the embedded AWS does not answer: {error}") from error


def _endpoint() -> str:
    facts = ClusterDirectory(default_directory(os.environ)).read()
    endpoint = facts.environment.get("AWS_ENDPOINT_URL", "") if facts is not None else ""
    # A cluster that is kept elsewhere has left its address in the environment.
    endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL", "")
    if not endpoint.startswith("http://127.0.0.1:"):
        raise CommandError(
            "no embedded AWS runs here", hint="karpenter local up --provider aws --with-karpenter"
        )
    return endpoint


def _called(found: list[dict[str, Any]]) -> str:
    if not found:
        return "No calls were made."
    heading = ("TIME", "ACTION", "OF", "ENDED")
    rows = (
        (
            each["eventTime"][11:19],
            f"{each['eventSource'].partition('.')[0]}:{each['eventName']}",
            # The last parts of ARNs and addresses; -o json has all.
            _shortened(" ".join(one.rpartition("/")[2] for one in each["resources"])),
            each["errorCode"] or "well",
        )
        for each in found
    )
    return table([heading, *rows])


def _shortened(text: str) -> str:
    return text if len(text) <= _CELL_WIDTH else f"{text[: _CELL_WIDTH - 1]}…"


def _listed(found: list[dict[str, str]]) -> str:
    if not found:
        return "No instance runs."
    columns = ("id", "instanceType", "zone", "capacityType", "state", "node", "image")
    heading = ("INSTANCE", "TYPE", "ZONE", "BOUGHT", "STATE", "NODE", "IMAGE")
    return table([heading, *([each[name] for name in columns] for each in found)])
