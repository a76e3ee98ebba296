"""Versions in selectors."""

from __future__ import annotations

import pytest

from karpenter.api.schema.cel import quantity
from karpenter.core.scheduling.dynamicresources.selectors import (
    compare_to,
    is_greater_than,
    is_less_than,
    is_semver,
    major,
    minor,
    patch,
    semver,
    version,
)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        pytest.param("1.0.0", "1.0.0", 0, id="the same"),
        pytest.param("1.9.0", "1.10.0", -1, id="numbers, not texts"),
        pytest.param("2.0.0", "1.99.99", 1, id="the first number weighs most"),
        pytest.param("1.0.0-rc.1", "1.0.0", -1, id="before the release"),
        pytest.param("1.0.0-alpha", "1.0.0-alpha.1", -1, id="more words come later"),
        pytest.param("1.0.0-2", "1.0.0-10", -1, id="words that are numbers"),
        pytest.param("1.0.0-9", "1.0.0-a", -1, id="numbers before texts"),
        pytest.param("1.0.0+a", "1.0.0+b", 0, id="build metadata says nothing"),
    ],
)
def test_order(left: str, right: str, expected: int) -> None:
    """Versions are ordered as semantic versions are."""
    a, b = version(left), semver(right)

    assert (compare_to(a, b), is_less_than(a, b), is_greater_than(a, b)) == (
        expected,
        expected < 0,
        expected > 0,
    )


def test_quantities_are_compared_as_ever() -> None:
    """The functions for versions have the names of those for quantities, and do both."""
    assert compare_to(quantity("1Gi"), quantity("1G")) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("1.2.3", True, id="three numbers"),
        pytest.param("1.2.3-rc.1+b.2", True, id="everything"),
        pytest.param("1.2", False, id="two numbers"),
        pytest.param("v1.2.3", False, id="a letter before it"),
        pytest.param("01.2.3", False, id="a leading zero"),
        pytest.param("", False, id="nothing"),
        pytest.param(7, False, id="not a text"),
    ],
)
def test_what_a_version_is(text: object, expected: bool) -> None:
    """A version has three numbers, and may have words before its release."""
    assert is_semver(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("v1", "1.0.0", id="one number and a letter"),
        pytest.param("1.2", "1.2.0", id="two numbers"),
        pytest.param("01.02.03-rc", "1.2.3-rc", id="leading zeros"),
    ],
)
def test_loosely_written(text: str, expected: str) -> None:
    """A version that is written loosely is put in order if so asked."""
    assert (semver(text, True), is_semver(text, True)) == (version(expected), True)


def test_what_cannot_be_put_in_order() -> None:
    """Some texts are no versions, however loosely one looks."""
    assert not is_semver("latest", True)


def test_numbers_of_a_version() -> None:
    """Each number can be asked for."""
    found = semver("1.22.333-rc")

    assert (major(found), minor(found), patch(found)) == (1, 22, 333)
