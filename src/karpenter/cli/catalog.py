"""``karpenter catalog``: which machines there are, what they cost, and catalogues of one's own."""

from __future__ import annotations

from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import click

from karpenter.cli.catalog_views import (
    Summary,
    catalog_data,
    catalog_text,
    summary_text,
    type_data,
    type_text,
)
from karpenter.cli.errors import Refused, note
from karpenter.cli.output import output_option, output_option_with, render
from karpenter.cloud.catalogs.ec2.catalog import DEFAULT_REGION
from karpenter.cloud.catalogs.kwok_render import render_entries, render_json
from karpenter.cloud.catalogs.load import AWS, KWOK, load_catalog
from karpenter.cloud.catalogs.problems import InvalidCatalog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.cli.output import Output
    from karpenter.core.model.catalog import Catalog

_NAMES = "kwok, aws, aws:REGION or the path of a file"


@click.group(epilog="Example:\n\n  karpenter catalog show m7g.large")
def catalog() -> None:
    """Look at instance types and their prices, and make catalogues for `karpenter plan --catalog`."""


@catalog.command(
    "list",
    epilog="Example:\n\n  karpenter catalog list\n\n  karpenter catalog list aws:eu-west-1",
)
@click.argument("name", metavar="[CATALOG]", required=False)
@output_option
def list_(name: str | None, output: Output) -> None:
    """
    List the built-in catalogues, or the instance types of one.

    CATALOG is kwok, aws, aws:REGION or the path of a file. Prices are per hour, the lowest of all
    zones, and only of what can be bought now.
    """
    if name is None:
        output.write(list(_summaries()), text=summary_text)
        return
    found = _load(name)
    if output.for_people:
        click.echo(catalog_text(found))
    else:
        click.echo(render(catalog_data(found), output.form), nl=False)


@catalog.command(epilog="Example:\n\n  karpenter catalog show s-4x-amd64-linux -o json")
@click.argument("kind", metavar="TYPE")
@click.option(
    "--catalog",
    "name",
    metavar="FILE|NAME",
    help=f"Where to look: {_NAMES}. Default: kwok, then aws.",
)
@output_option
def show(kind: str, name: str | None, output: Output) -> None:
    """Show one instance type: its labels, its resources, and every offering with its price."""
    names = (KWOK, AWS) if name is None else (name,)
    catalogues = [_load(each) for each in names]
    for each in catalogues:
        if kind in each.by_name:
            output.write(type_data(each.by_name[kind]), text=type_text)
            return
    close = get_close_matches(kind, [known for each in catalogues for known in each.by_name], n=3)
    raise Refused(
        f"there is no instance type {kind!r} in {' or '.join(names)}",
        hint=f"did you mean {', '.join(close)}?"
        if close
        else "karpenter catalog list CATALOG lists them all",
    )


@catalog.command(
    epilog="Example:\n\n"
    "  karpenter catalog export aws > types.json\n\n"
    "  karpenter plan -f cluster/ --catalog types.json",
)
@click.argument("name", metavar="CATALOG")
@output_option_with("json", "yaml")
def export(name: str, output: Output) -> None:
    """
    Print a catalogue in the format that `karpenter plan --catalog` reads, to be edited.

    CATALOG is kwok, aws, aws:REGION or the path of a file. In JSON every offering has a line.
    """
    found = _load(name)
    if output.form == "json":
        click.echo("\n".join(render_json(found)))
    else:
        click.echo(render(render_entries(found), output.form), nl=False)


@catalog.command(epilog="Example:\n\n  karpenter catalog refresh --region eu-west-1 --out eu-west-1.json")
@click.option(
    "--region",
    envvar=["AWS_REGION", "AWS_DEFAULT_REGION"],
    default=DEFAULT_REGION,
    show_default=True,
    show_envvar=True,
    help="The region to ask about.",
)
@click.option(
    "--out",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write to this file instead of standard output.",
)
def refresh(region: str, path: Path | None) -> None:
    """
    Make a catalogue of EC2 from what AWS says now, with real spot prices.

    Needs credentials that may describe instance types, their offerings, zones and spot prices, and
    read the price list. The result is for `karpenter plan --catalog FILE`.
    """
    from karpenter.cloud.catalogs.ec2.refresh import refresh as ask  # noqa: PLC0415  only who asks AWS loads it
    from karpenter.cloud.catalogs.ec2.session import RefreshFailed  # noqa: PLC0415  as above

    try:
        found = ask(region, now=datetime.now(UTC), tell=lambda what: note(f"{region}: {what}"))
    except RefreshFailed as error:
        raise Refused(str(error), hint=error.hint) from error
    text = "\n".join(render_json(found))
    if path is None:
        click.echo(text)
        return
    try:
        path.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise Refused(f"--out: {path} cannot be written: {error.strerror}") from error
    note(f"wrote {path}: {len(found.types)} instance types; use it with --catalog {path}")


def _load(name: str) -> Catalog:
    try:
        return load_catalog(name)
    except InvalidCatalog as error:
        raise Refused(*(str(problem) for problem in error.problems)) from error


def _summaries() -> Iterator[Summary]:
    from karpenter.cloud.catalogs.ec2.data import load_data  # noqa: PLC0415  only this list needs the raw facts

    made_up = load_catalog(KWOK)
    yield Summary(
        name=KWOK,
        types=len(made_up.types),
        offerings=sum(len(kind.offerings) for kind in made_up.types),
        zones=len({sold.zone for kind in made_up.types for sold in kind.offerings}),
        about="made-up types for trying things out; the default",
    )
    data = load_data()
    for name, region in ((AWS, DEFAULT_REGION), *((f"{AWS}:{each}", each) for each in sorted(data.regions))):
        sold = list(data.sold_in(region))
        yield Summary(
            name=name,
            types=len(sold),
            offerings=sum(len(facts.capacity_types) * len(zones) for facts, _, zones in sold),
            zones=len(data.regions[region].zones),
            about=f"EC2 in {region}",
        )
