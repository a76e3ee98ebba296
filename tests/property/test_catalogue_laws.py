"""Catalogues: what is read can be written and read again, and nothing but a refusal comes of nonsense."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.api.labels import CAPACITY_TYPE, ZONE
from karpenter.cloud.catalogs.kwok_format import CatalogProblem, InvalidCatalog, parse_catalog, render_json

words = st.from_regex(r"[a-z][a-z0-9]{0,5}([-.][a-z0-9]{1,4})?", fullmatch=True)
prices = st.floats(0, 1000, allow_nan=False)
quantities = st.one_of(
    st.integers(0, 10**6).map(str),
    st.builds("{}{}".format, st.integers(0, 999), st.sampled_from(["m", "Ki", "Mi", "Gi", "M", "G"])),
)
amounts = st.dictionaries(st.sampled_from(["pods", "x/gpu", "hugepages-2Mi"]), quantities, max_size=2)


def required(key: str, values: list[str]) -> dict[str, Any]:
    """Return a requirement as the format spells it."""
    return {"key": key, "operator": "In", "values": values}


@st.composite
def labels(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return requirements for a few labels of the user's own."""
    keys = draw(st.sets(st.sampled_from(["rack", "tier", "example.com/size"]), max_size=3))
    return [required(key, draw(st.lists(words, min_size=1, max_size=3))) for key in sorted(keys)]


@st.composite
def offerings(draw: st.DrawFn) -> dict[str, Any]:
    """Return an offering as the format spells it."""
    kind = draw(st.sampled_from(["spot", "on-demand", "reserved"]))
    sold = [required(ZONE, [draw(words)]), required(CAPACITY_TYPE, [kind]), *draw(labels())]
    entry: dict[str, Any] = {"Price": draw(prices), "Available": draw(st.booleans())}
    if kind == "reserved":
        entry["ReservationCapacity"] = draw(st.integers(0, 5))
        sold.append(required("karpenter.kwok.sh/reservation-id", [draw(words)]))
    return {**entry, "Requirements": sold}


@st.composite
def catalogues(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return a valid catalogue as the format spells it."""
    entries = []
    for name in sorted(draw(st.sets(words, min_size=1, max_size=4))):
        entry: dict[str, Any] = {
            "name": name,
            "architecture": draw(st.sampled_from(["amd64", "arm64"])),
            "operatingSystems": draw(st.lists(st.sampled_from(["linux", "windows"]), min_size=1)),
            "resources": {"cpu": draw(quantities), "memory": draw(quantities), **draw(amounts)},
            "offerings": draw(st.lists(offerings(), min_size=1, max_size=4)),
        }
        if draw(st.booleans()):
            entry["overhead"] = draw(amounts)
        stated = draw(labels())
        if stated:
            entry["requirements"] = stated
        entries.append(entry)
    return entries


@settings(max_examples=60, deadline=None)
@given(catalogues())
def test_a_catalogue_survives_being_written(entries: list[dict[str, Any]]) -> None:
    """Writing settles the spelling; from then on, reading and writing change nothing."""
    written = "\n".join(render_json(parse_catalog(json.dumps(entries), file="c.json")))
    read = parse_catalog(written, file="c.json")

    assert "\n".join(render_json(read)) == written
    assert [kind.name for kind in read.types] == [entry["name"] for entry in entries]


@settings(max_examples=60, deadline=None)
@given(catalogues())
def test_every_type_says_something_about_every_stated_label(entries: list[dict[str, Any]]) -> None:
    """Every type answers for every label of the catalogue."""
    catalog = parse_catalog(json.dumps(entries), file="c.json")
    stated = {
        required["key"]
        for entry in entries
        for listed in (entry.get("requirements", []), *(o["Requirements"] for o in entry["offerings"]))
        for required in listed
    }

    assert all(kind.requirements.keys() >= stated for kind in catalog.types)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def damaged(draw: st.DrawFn) -> object:
    """Return a valid catalogue in which one value somewhere was replaced by anything at all."""
    entries: Any = draw(catalogues())
    at = entries
    while True:
        key = draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        if not at[key] or not isinstance(at[key], dict | list) or draw(st.booleans()):
            at[key] = draw(json_values)
            return entries
        at = at[key]


def refusals(entries: object) -> tuple[CatalogProblem, ...]:
    """Return the problems of a catalogue; none if it has types to offer."""
    try:
        assert parse_catalog(json.dumps(entries), file="c.json").types
    except InvalidCatalog as refused:
        return refused.problems
    return ()


@settings(max_examples=120, deadline=None)
@given(damaged() | json_values)
def test_nonsense_is_refused_in_lines(entries: object) -> None:
    """Any JSON is a catalogue or is refused with lines that name the file; nothing else ever happens."""
    lines = [str(problem) for problem in refusals(entries)]

    assert all(line.startswith("c.json: ") and len(line.splitlines()) == 1 for line in lines)
