from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from karpenter.cloud.catalogs.kwok import DERIVED_LABELS
from karpenter.cloud.catalogs.kwok_format import parse_catalog, render_entries, render_json
from karpenter.cloud.catalogs.load import load_catalog
from tests.unit.cloud.catalogs.written import RESERVATION_ID, entry, offering, parse, requirement

if TYPE_CHECKING:
    from karpenter.core.model.catalog import Catalog


def again(catalog: Catalog) -> Catalog:
    """Return what reading the written catalogue gives."""
    return parse_catalog("\n".join(render_json(catalog)), file="written.json")


@pytest.mark.parametrize(
    "catalog",
    [
        pytest.param(load_catalog("kwok"), id="the built-in one"),
        pytest.param(
            parse(
                entry("a", overhead={"cpu": "1"}, requirements=[requirement("tier", "gold", "silver")]),
                entry(
                    "b",
                    offering("zone-1", "reserved", requirement(RESERVATION_ID, "r"), ReservationCapacity=3),
                    offering(
                        "zone-2", "spot", requirement("rack", "r1"), Available=False, InterruptionRate=0.2
                    ),
                    resources={"cpu": "500m", "memory": "1000M", "hugepages-2Mi": "1Gi", "x/gpu": "2"},
                ),
            ),
            id="one with everything in it",
        ),
    ],
)
def test_reading_what_was_written_gives_the_same(catalog: Catalog) -> None:
    """A catalogue survives being written, for users to edit."""
    assert again(catalog) == catalog


def test_the_catalogue_of_ec2_keeps_its_facts() -> None:
    """Labels, capacity, overhead and offerings stay; only the labels of the format are added."""
    original, read = load_catalog("aws:us-west-1"), again(load_catalog("aws:us-west-1"))

    assert len(read.types) == len(original.types) > 600
    for before, after in zip(original.types, read.types, strict=True):
        assert after.requirements.without(*DERIVED_LABELS) == before.requirements
        assert (after.capacity, after.overhead) == (before.capacity, before.overhead)
        assert [(o.price, o.zone, o.capacity_type, o.available) for o in after.offerings] == [
            (o.price, o.zone, o.capacity_type, o.available) for o in before.offerings
        ]
    assert read.well_known >= original.well_known
    assert read.restricted_domains > original.restricted_domains


def test_what_follows_from_the_rest_is_not_written() -> None:
    """Defaults and derived labels are not written."""
    assert render_entries(parse(entry()))[0].keys() == {
        "name",
        "architecture",
        "operatingSystems",
        "resources",
        "offerings",
    }


def test_each_offering_has_a_line() -> None:
    """Editing a price, or comparing two files, concerns one line."""
    lines = list(render_json(parse(entry("a", offering("z1"), offering("z2")), entry("b"))))

    assert json.loads("\n".join(lines))
    assert [line[:12] for line in lines] == [
        "[",
        '{"name": "a"',
        '  {"Price": ',
        '  {"Price": ',
        "]},",
        '{"name": "b"',
        '  {"Price": ',
        "]}",
        "]",
    ]
