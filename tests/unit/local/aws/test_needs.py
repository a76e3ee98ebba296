"""What the embedded AWS needs, and what is said where that is missing."""

import importlib.util
import tomllib
from pathlib import Path

import pytest

from karpenter_local.aws import requirements
from karpenter_local.aws.requirements import EXTRA, LIBRARIES, NotInstalled, check_needs

ROOT = Path(__file__).parents[4]
PROJECT = tomllib.loads((ROOT / "packages/karpenter-local/pyproject.toml").read_text())


def test_everything_is_here() -> None:
    """Developers have all of it."""
    check_needs()


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the missing library and the command that installs it."""

    def find(name: str) -> object | None:
        return None if name == "moto" else importlib.util.find_spec(name)

    monkeypatch.setattr(requirements, "find_spec", find)

    with pytest.raises(NotInstalled, match=r"not installed here: moto$") as caught:
        check_needs()
    assert caught.value.hint == NotInstalled.hint


def test_the_hint_installs_the_extra() -> None:
    """The hint installs what the extra has, and none of it is installed without asking."""
    extra = PROJECT["project"]["optional-dependencies"][EXTRA]
    names = {name_of(each) for each in extra}

    assert names == set(LIBRARIES)
    assert {name_of(each.strip("'")) for each in NotInstalled.hint.split()[2:]} == names
    assert not names & {name_of(each) for each in PROJECT["project"]["dependencies"]}


def name_of(requirement: str) -> str:
    return requirement.partition("[")[0].partition(">")[0].replace("-", "_")
