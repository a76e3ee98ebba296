"""The pages about conversion and definitions: their examples work, and they name what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from karpenter.cli import main
from karpenter.definition.model import ClassDefinition, DefinitionDefaults, PoolDefinition, read_definition

ROOT = Path(__file__).parents[2]
CONVERT = (ROOT / "docs" / "guides" / "convert.md").read_text("utf-8")
DEFINITION = (ROOT / "docs" / "guides" / "definition.md").read_text("utf-8")


def test_the_definition_of_the_page_can_be_read() -> None:
    """It is the example of the repository."""
    found = re.search(r"```yaml\n(.*?)```", DEFINITION, re.DOTALL)
    assert found is not None
    plain = yaml.safe_load(found[1])

    assert read_definition(plain).problems == ()
    assert plain == yaml.safe_load((ROOT / "examples" / "gitops" / "cluster.yaml").read_text("utf-8"))


@pytest.mark.parametrize("part", [PoolDefinition, ClassDefinition, DefinitionDefaults])
def test_every_key_is_on_the_page(part: type) -> None:
    """No key has to be guessed."""
    keys = part.__struct_encode_fields__  # type: ignore[attr-defined]

    assert [key for key in keys if f"`{key}`" not in DEFINITION] == []


def test_every_option_is_on_the_page() -> None:
    """The page about conversion names every option of the command."""
    described = CliRunner().invoke(main, ["convert", "--help"]).output
    options = set(re.findall(r"--[a-z-]+", described)) - {"--help", "--filename", "--output"}

    assert [each for each in options if each not in CONVERT] == []
