"""Values that people have mean to our chart what they mean to Karpenter's, but for what is listed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from karpenter.chart.chart import manifests
from karpenter.chart.known_values import VALUES
from karpenter.chart.tree import Release
from karpenter.chart.values import parse_set, values_of
from tests.unit.chart.corpus import (
    CASES,
    DATA,
    DIFFERENCES,
    Facts,
    ValuesCase,
    differing,
    facts,
    recorded,
    section,
)
from tests.unit.chart.record import PAGE

RECORDED = recorded()


def stated(case: ValuesCase) -> Facts:
    values = values_of(case.files, case.sets)
    release = Release(name=case.release, namespace=case.namespace, values=values)
    return facts(manifests(release, definitions=False))


def leaves(values: dict[str, Any], above: str = "") -> set[str]:
    """Return the paths of values, as far down as the chart knows them."""
    found: set[str] = set()
    for key, value in values.items():
        path = f"{above}{key}"
        inner = isinstance(value, dict) and path not in {chart_value.path for chart_value in VALUES}
        found |= leaves(value, f"{path}.") if inner else {path}
    return found


def test_the_corpus_is_whole() -> None:
    """Every value of Karpenter's chart is one of ours and is in some file; every file has recorded facts."""
    known = {chart_value.path for chart_value in VALUES}
    upstream = leaves(msgspec.json.decode((DATA / "upstream-values.json").read_bytes()))
    used: set[str] = set()
    for case in CASES.values():
        for values in case.files:
            used |= leaves(values)
        for text in case.sets:
            for path, _ in parse_set(text):
                spelled = ".".join(str(word) for word in path)
                used |= {each for each in known if f"{spelled}.".startswith(f"{each}.")}

    assert upstream - known == set()
    assert upstream - used == set()
    assert RECORDED.keys() == CASES.keys()
    assert len(CASES) >= 40


@pytest.mark.parametrize("name", CASES)
def test_values_mean_what_they_mean_to_karpenter(name: str) -> None:
    """What is stated is what Karpenter's chart states, but for the differences that are listed."""
    found = differing(RECORDED[name], stated(CASES[name]))
    unlisted = {
        fact: values
        for fact, values in found.items()
        if not any(each.covers(name, fact, *values) for each in DIFFERENCES)
    }

    assert unlisted == {}


def test_every_difference_is_met() -> None:
    """A difference that no file of values shows any more is not listed any more."""
    met = {
        each
        for name, case in CASES.items()
        for fact, values in differing(RECORDED[name], stated(case)).items()
        for each in DIFFERENCES
        if each.covers(name, fact, *values)
    }

    assert [each for each in DIFFERENCES if each not in met] == []


def test_the_page_lists_them() -> None:
    """The page of differences is up to date; hint: python -m tests.unit.chart.record --docs."""
    assert section().strip() in PAGE.read_text(encoding="utf-8")
