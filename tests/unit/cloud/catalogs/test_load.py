from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from karpenter.cloud.catalogs.kwok_format import InvalidCatalog
from karpenter.cloud.catalogs.load import built_in_names, load_catalog
from tests.unit.cloud.catalogs.written import entry

if TYPE_CHECKING:
    from pathlib import Path

CHOICE = "a catalogue is kwok, aws, aws:REGION or the path of a file"


@pytest.mark.parametrize(
    ("name", "types"),
    [
        pytest.param("kwok", 144, id="the cloud in memory"),
        pytest.param("aws", 1340, id="EC2 means us-east-1"),
        pytest.param("aws:us-east-1", 1340, id="which may be said"),
        pytest.param("aws:eu-central-1", 1136, id="other regions sell other types"),
    ],
)
def test_built_in_catalogues_have_names(name: str, types: int) -> None:
    """A name is enough to get a catalogue that ships with the product."""
    assert len(load_catalog(name).types) == types


def test_built_in_catalogues_are_made_once() -> None:
    """Asking again costs nothing."""
    assert load_catalog("kwok") is load_catalog("kwok")


def test_every_built_in_name_is_listed() -> None:
    """The names can be listed, the default first."""
    names = built_in_names()

    assert names[:2] == ("kwok", "aws")
    assert "aws:ap-northeast-1" in names
    assert len(names) == 2 + 30


def test_anything_else_is_a_file(tmp_path: Path) -> None:
    """A path is read as a catalogue of the user's own."""
    file = tmp_path / "types.json"
    file.write_text(json.dumps([entry("mine")]))

    assert list(load_catalog(str(file)).by_name) == ["mine"]


def test_problems_of_a_file_name_the_file(tmp_path: Path) -> None:
    """Error lines begin with the path as the user gave it."""
    file = tmp_path / "types.json"
    file.write_text("[]")

    with pytest.raises(InvalidCatalog, match=r"types\.json: must be a list of at least one instance type"):
        load_catalog(str(file))


def test_a_file_that_is_not_there() -> None:
    """A misspelt name is probably not a file, so the choice is told."""
    with pytest.raises(InvalidCatalog) as refused:
        load_catalog("kwock")

    assert (
        str(refused.value)
        == f"kwock: cannot be read: No such file or directory; {CHOICE}; did you mean kwok?"
    )


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are refused with a sentence."""
    file = tmp_path / "types.json"
    file.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(InvalidCatalog) as refused:
        load_catalog(str(file))

    assert str(refused.value) == f"{file}: cannot be read: it is not UTF-8 text; {CHOICE}"


def test_an_unknown_region() -> None:
    """A region without facts is refused, and those with facts are named."""
    with pytest.raises(InvalidCatalog, match=r"aws:mars-1: there is no region 'mars-1'; there are af-"):
        load_catalog("aws:mars-1")
