"""
``karpenter catalog``: lists instance types with their offerings and prices, and exports and refreshes
catalogues.
"""

from __future__ import annotations

from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from karpenter.api.labels import ARCH, ON_DEMAND, OS, RESERVED, SPOT
from karpenter.cli.errors import CommandError, note, telling
from karpenter.cli.files import write_files
from karpenter.cli.option_values import aws_region
from karpenter.cli.output import Output, echo, output_option, output_option_with, render, table
from karpenter.cloud.catalogs.ec2.instancetypes import DEFAULT_REGION
from karpenter.cloud.catalogs.kwok_format import InvalidCatalog, render_entries, render_json
from karpenter.cloud.catalogs.load import AWS, KWOK, load_catalog
from karpenter.core.model.resources import CPU, MEMORY, PODS, render_amount, render_resources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from karpenter.core.model.catalog import Catalog, InstanceType, Offering


_NOT_SOLD: Final = "-"
_SOLD_AS: Final = (ON_DEMAND, SPOT, RESERVED)
_HAVE_COLUMNS: Final = frozenset({CPU, MEMORY, PODS, "ephemeral-storage", "vpc.amazonaws.com/pod-eni"})
"""Resources that need no mention among the special ones."""


class CatalogSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One line about a built-in catalogue."""

    name: str
    types: int
    offerings: int
    zones: int
    about: str


def summary_text(summaries: Iterable[CatalogSummary]) -> str:
    """Return the built-in catalogues as a table."""
    rows = [(s.name, f"{s.types:,}", f"{s.offerings:,}", str(s.zones), s.about) for s in summaries]
    return table([("NAME", "TYPES", "OFFERINGS", "ZONES", "ABOUT"), *rows])


def catalog_data(catalog: Catalog) -> list[dict[str, Any]]:
    """Return the types of a catalogue in brief."""
    return [
        {
            "name": kind.name,
            "architecture": _values(kind, ARCH),
            "operatingSystems": _values(kind, OS),
            "capacity": render_resources(kind.capacity),
            "allocatable": render_resources(kind.allocatable),
            "cheapest": [_offering_data(sold) for sold in _cheapest(kind).values()],
        }
        for kind in catalog.types
    ]


def catalog_text(catalog: Catalog) -> str:
    """Return the types of a catalogue as a table, with their lowest prices per hour."""
    heading = ("NAME", "ARCH", "CPU", "MEMORY", "PODS", "ON-DEMAND", "SPOT", "RESERVED", "OTHER")
    return table(_used_columns([heading, *(_row(kind) for kind in catalog.types)]))


def type_data(kind: InstanceType) -> dict[str, Any]:
    ordered = sorted(kind.requirements, key=lambda each: each.key)
    return {
        "name": kind.name,
        "labels": {each.key: sorted(each.values) for each in ordered if each.values},
        "absentLabels": [each.key for each in ordered if not each.values],
        "capacity": render_resources(kind.capacity),
        "overhead": render_resources(kind.overhead),
        "allocatable": render_resources(kind.allocatable),
        "offerings": [_offering_data(sold) for sold in kind.offerings],
    }


def type_text(data: dict[str, Any]) -> str:
    """Return everything about one type as three tables: labels, resources, offerings."""
    labels = [(key, " or ".join(value or '""' for value in values)) for key, values in data["labels"].items()]
    resources = [
        (name, amount, data["overhead"].get(name, "0"), data["allocatable"][name])
        for name, amount in data["capacity"].items()
    ]
    offerings = [
        (
            sold["zone"],
            sold["capacityType"],
            dollars(sold["price"]),
            "yes" if sold["available"] else "no",
            f"{sold['reservation']['id']} ({sold['reservation']['left']} left)"
            if "reservation" in sold
            else "-",
        )
        for sold in data["offerings"]
    ]
    return "\n\n".join(
        (
            data["name"],
            table([("LABEL", "VALUE"), *labels]),
            table([("RESOURCE", "CAPACITY", "OVERHEAD", "ALLOCATABLE"), *resources]),
            table(
                _used_columns([("ZONE", "CAPACITY TYPE", "PRICE/H", "AVAILABLE", "RESERVATION"), *offerings])
            ),
        )
    )


def dollars(price: float) -> str:
    """Return a price with as many digits as it has, but no more than five behind the point."""
    return f"{price:.5f}".rstrip("0").rstrip(".") if price >= 10**-5 or price == 0 else f"{price:.2g}"


def _row(kind: InstanceType) -> Sequence[str]:
    cheapest = _cheapest(kind)
    prices = (dollars(cheapest[way].price) if way in cheapest else _NOT_SOLD for way in _SOLD_AS)
    special = (f"{name} {amount}" for name, amount in kind.capacity.items() if name not in _HAVE_COLUMNS)
    return (
        kind.name,
        ",".join(_values(kind, ARCH)),
        render_amount(CPU, kind.capacity[CPU]),
        render_amount(MEMORY, kind.capacity[MEMORY]),
        str(kind.capacity.get(PODS, 0)),
        *prices,
        ", ".join(special) or _NOT_SOLD,
    )


def _used_columns(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the rows without columns in which no row has anything to say."""
    used = [any(row[i] != _NOT_SOLD for row in rows[1:]) for i in range(len(rows[0]))]
    return [[cell for cell, keep in zip(row, used, strict=True) if keep] for row in rows]


def _cheapest(kind: InstanceType) -> dict[str, Offering]:
    best: dict[str, Offering] = {}
    for sold in sorted(kind.available, key=lambda each: each.price):
        best.setdefault(sold.capacity_type, sold)
    return best


def _offering_data(sold: Offering) -> dict[str, Any]:
    data: dict[str, Any] = {
        "zone": sold.zone,
        "capacityType": sold.capacity_type,
        "price": sold.price,
        "available": sold.available,
    }
    if sold.reservation_id:
        data["reservation"] = {"id": sold.reservation_id, "left": sold.reservation_capacity}
    return data


def _values(kind: InstanceType, key: str) -> list[str]:
    return sorted(kind.requirements[key].values)


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
@telling("reading the catalogue")
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
        echo(catalog_text(found))
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
@telling("reading the catalogue")
def show(kind: str, name: str | None, output: Output) -> None:
    """Show one instance type: its labels, its resources, and every offering with its price."""
    names = (KWOK, AWS) if name is None else (name,)
    catalogues = [_load(each) for each in names]
    for each in catalogues:
        if kind in each.by_name:
            output.write(type_data(each.by_name[kind]), text=type_text)
            return
    close = get_close_matches(kind, [known for each in catalogues for known in each.by_name], n=3)
    raise CommandError(
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
@telling("writing the catalogue")
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
    callback=aws_region,
    help="The region to ask about.",
)
@click.option(
    "--out",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write to this file instead of standard output.",
)
@click.option(
    "--commitments",
    "committed",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the Reserved Instances and Savings Plans of the account to this file.",
)
@telling("asking AWS")
def refresh(region: str, path: Path | None, committed: Path | None) -> None:
    """
    Make a catalogue of EC2 from what AWS says now, with real spot prices.

    Needs credentials that may describe instance types, their offerings, zones and spot prices, and
    read the price list. The result is for `karpenter plan --catalog FILE`; commitments are for
    `--set commitments=FILE`.
    """
    if not region:
        raise CommandError("--region is empty", hint="name one, such as --region eu-west-1")
    for option, file in (("--out", path), ("--commitments", committed)):
        if file is not None and not file.parent.is_dir():  # said before AWS is asked for a minute
            raise CommandError(f"{option}: {file} cannot be written: No such file or directory")
    from karpenter.cloud.catalogs.ec2.refresh import RefreshFailed  # noqa: PLC0415  as above
    from karpenter.cloud.catalogs.ec2.refresh import refresh as ask  # noqa: PLC0415  only who asks AWS loads it

    try:
        found = ask(region, now=datetime.now(UTC), tell=lambda what: note(f"{region}: {what}"))
    except RefreshFailed as error:
        raise CommandError(str(error), hint=error.hint) from error
    if committed is not None:
        _write_commitments(region, committed)
    text = "\n".join(render_json(found))
    if path is None:
        click.echo(text)
        return
    write_files({path: f"{text}\n"}, option="--out")
    note(f"wrote {path}: {len(found.types)} instance types; use it with --catalog {path}")


def _write_commitments(region: str, path: Path) -> None:
    """Write what the account has committed to; an account that does not tell gets a note."""
    from karpenter.cloud.catalogs.ec2.commitments import (  # noqa: PLC0415  as above
        read_commitments,
        render_commitments,
    )

    found = read_commitments(region, tell=lambda what: note(f"{region}: {what}"))
    if found is None:
        return
    write_files({path: render(render_commitments(found), "yaml")}, option="--commitments")
    note(f"wrote {path}: {len(found)} commitments; use it with --set commitments={path}")


def _load(name: str) -> Catalog:
    try:
        return load_catalog(name)
    except InvalidCatalog as error:
        raise CommandError(*(str(problem) for problem in error.problems)) from error


def _summaries() -> Iterator[CatalogSummary]:
    from karpenter.cloud.catalogs.ec2.data import load_data  # noqa: PLC0415  only this list needs the raw facts

    made_up = load_catalog(KWOK)
    yield CatalogSummary(
        name=KWOK,
        types=len(made_up.types),
        offerings=sum(len(kind.offerings) for kind in made_up.types),
        zones=len({sold.zone for kind in made_up.types for sold in kind.offerings}),
        about="made-up types for trying things out; the default",
    )
    data = load_data()
    for name, region in ((AWS, DEFAULT_REGION), *((f"{AWS}:{each}", each) for each in sorted(data.regions))):
        sold = list(data.sold_in(region))
        yield CatalogSummary(
            name=name,
            types=len(sold),
            offerings=sum(len(facts.capacity_types) * len(zones) for facts, _, zones in sold),
            zones=len(data.regions[region].zones),
            about=f"EC2 in {region}",
        )
