"""Pages about installing and replaying: up to date, and their commands work."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from tools.settings_reference import page

from karpenter.cli import main
from karpenter.replay import record

DOCS = Path(__file__).parents[3] / "docs"
INSTALL = (DOCS / "guides" / "install.md").read_text(encoding="utf-8")
REPLAY = (DOCS / "guides" / "replay.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ karpenter (manifests .*?)(?: \| .*)?$", INSTALL, re.MULTILINE)


def test_the_reference_of_settings_is_up_to_date() -> None:
    """The page is what the declarations say; hint: make settings."""
    assert (DOCS / "reference" / "settings.md").read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_guide_work(command: str) -> None:
    """What the guide tells people to type prints manifests."""
    done = CliRunner().invoke(main, shlex.split(command))

    assert done.exit_code == 0, done.stderr
    assert "kind: Deployment" in done.stdout


def test_the_guide_names_every_line() -> None:
    """Every sort of line that a record can hold is explained."""
    sorts = {each.__struct_config__.tag for each in record.Line.__args__}

    assert {word for word in re.findall(r"`(\w+)`", REPLAY) if word in sorts} == sorts
