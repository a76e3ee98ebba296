"""``karpenter plan``: see every decision before it happens, offline."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NoReturn

import click
import msgspec
import yaml

from karpenter.cli.planning.decision import decide
from karpenter.cli.planning.reading import read_input
from karpenter.cli.planning.rendering import plan_data, verdict_data
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.cloud.catalogs.problems import InvalidCatalog
from karpenter.operator.settings import SettingError, parse_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.operator.settings import Settings

_WRONG = 2


@click.command(epilog="Example:\n\n  karpenter plan -f cluster/ -f new-deployment.yaml --catalog aws")
@click.option(
    "-f", "--filename", "paths", multiple=True, required=True, metavar="PATH",
    help="A YAML or JSON file, a folder, or - for standard input. May be repeated.",
)  # fmt: skip
@click.option(
    "--catalog",
    default="kwok",
    show_default=True,
    metavar="FILE|NAME",
    help="Instance types that may be bought.",
)
@click.option("--now", metavar="RFC3339", help="The moment of the decision. Default: this one.")
@click.option(
    "--set",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting or feature gate of the operator. May be repeated.",
)
@click.option(
    "--disruption",
    is_flag=True,
    help="Also show which machines would be removed or replaced, and what keeps the others.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 if a pod stays without a place.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="How to print the plan.",
)
def plan(  # noqa: PLR0917  click hands over options by name
    paths: tuple[str, ...],
    catalog: str,
    now: str | None,
    given: tuple[str, ...],
    disruption: bool,
    strict: bool,
    output: str,
) -> None:
    """
    Show which machines would be launched for these pods, offline.

    Reads manifests, runs the solver that the operator runs, changes nothing, and prints
    the decision: new machines with their price, where every pod would land, which pods have
    no place and why, and how far the bill is from the cheapest possible.

    Exits 0 when the plan was made, 1 with --strict if a pod stays without a place, and 2
    when the input cannot be used.
    """
    moment = _moment(now)
    settings = _settings(given)
    try:
        types = load_catalog(catalog)
    except InvalidCatalog as error:
        _refuse(str(error).splitlines())
    found = read_input(paths)
    if found.problems:
        _refuse(found.problems)
    for line in found.skipped:
        click.echo(line, err=True)
    decision = decide(found.view, types, settings, moment, disruption=disruption)
    if output == "text":
        from karpenter.cli.planning.page import show  # noqa: PLC0415  only who reads text pays for rich

        show(decision)
    else:
        data = plan_data(decision.plan, decision.names)
        if decision.verdict is not None:
            data |= verdict_data(decision.verdict, decision.names)
        click.echo(_text(data, output))
    sys.exit(1 if strict and decision.plan.refusals else 0)


def _text(data: object, output: str) -> str:
    if output == "yaml":
        return yaml.safe_dump(data, sort_keys=False).rstrip()
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode()


def _moment(text: str | None) -> datetime:
    if text is None:
        return datetime.now(UTC)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        _refuse([f"--now: {text!r} is not a time such as 2026-01-31T09:00:00Z"])
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _settings(given: tuple[str, ...]) -> Settings:
    values: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            _refuse([f"--set: {each!r} is not NAME=VALUE"])
        joined = f"{values[name]},{value}" if name == "feature-gates" and name in values else value
        values[name] = joined
    try:
        return parse_settings(values)
    except SettingError as error:
        _refuse([f"--set: {error}"])


def _refuse(lines: Iterable[str]) -> NoReturn:
    for line in lines:
        click.echo(line, err=True)
    sys.exit(_WRONG)
