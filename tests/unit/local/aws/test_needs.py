"""What the embedded AWS needs, and what is said where that is missing."""

import importlib.util
import tomllib
from pathlib import Path

import pytest

from karpenter_local.aws import needs
from karpenter_local.aws.needs import EXTRA, LIBRARIES, NotInstalled, check_needs

PROJECT = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())


def test_everything_is_here() -> None:
    """Developers have all of it."""
    check_needs()


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever lacks a library is told which, and how to get it."""

    def find(name: str) -> object | None:
        return None if name == "moto" else importlib.util.find_spec(name)

    monkeypatch.setattr(needs, "find_spec", find)

    with pytest.raises(NotInstalled, match=r"not installed here: moto$") as caught:
        check_needs()
    assert caught.value.hint == "pip install 'karpenter[local-aws]'"


def test_the_extra_brings_what_developers_have() -> None:
    """Users get the same versions that tests run with, and none of it without asking."""
    extra = set(PROJECT["project"]["optional-dependencies"][EXTRA])
    names = {each.partition("[")[0].partition(">")[0].replace("-", "_") for each in extra}

    assert extra <= set(PROJECT["dependency-groups"]["dev"])
    assert names == set(LIBRARIES)
    assert not any(each.startswith(("moto", "boto3", "flask")) for each in PROJECT["project"]["dependencies"])
