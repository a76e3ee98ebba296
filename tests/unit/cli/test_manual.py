"""Help, man pages and the reference of commands: from the commands themselves, readable at 80 columns."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from karpenter.cli.manual import CommandManual, man_page, man_pages, manuals, page
from tests.docs.commands import every_command  # noqa: F401  a fixture

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "commands.md"
PACKAGES = Path(__file__).parents[3] / "packages"
WIDTH = 80

pytestmark = pytest.mark.usefixtures("every_command")


def help_of(manual: CommandManual, width: int = WIDTH) -> str:
    """Return the help of a command for a terminal of some width."""
    manual.context.terminal_width = width
    manual.context.max_content_width = 110
    formatter = manual.context.make_formatter()
    manual.command.format_help(manual.context, formatter)
    return formatter.getvalue()


@pytest.mark.parametrize("width", [60, WIDTH, 110])
def test_examples_can_be_pasted(width: int) -> None:
    """No command of an example is broken inside a word: joined again, each is as it was written."""
    for manual in manuals():
        shown = re.sub(r" \\\n +", " ", help_of(manual, width))
        lines = [line.strip() for line in shown.splitlines()]
        assert [each for each in manual.examples if each not in lines] == [], manual.title


def test_help_fits_eighty_columns() -> None:
    """No line of any help is wider than a terminal, and no option is broken at its hyphens."""
    for manual in manuals():
        shown = help_of(manual)
        wide = [line.split() for line in shown.splitlines() if len(line) > WIDTH]
        assert [words for words in wide if len(words) > 1] == [], manual.title  # one word may be longer
        assert re.findall(r"\w-\n", shown) == [], manual.title


def test_every_command_has_a_manual() -> None:
    """Commands of both distributions are there, and those below groups."""
    titles = {manual.title for manual in manuals()}

    assert {"karpenter", "karpenter plan", "karpenter local up", "karpenter dashboards install"} <= titles
    assert [manual.title for manual in manuals() if not manual.about] == []


def test_the_page_is_up_to_date() -> None:
    """The reference of commands is what the commands say; hint: make commands."""
    assert PAGE.read_text("utf-8") == page()


def test_the_man_pages_of_the_distributions_are_up_to_date() -> None:
    """What a wheel brings is what the commands say; hint: make man."""
    there = {
        str(each.relative_to(PACKAGES)): each.read_text("utf-8") for each in PACKAGES.glob("*/man/man1/*.1")
    }

    assert there == man_pages()


def test_man_pages_are_read_without_complaint(tmp_path: Path) -> None:
    """Roff finds nothing wrong, and what is typed can be copied."""
    every = [man_page(manual) for manual in manuals()]

    assert all(text.isascii() and text.startswith(".TH ") for text in every)
    plan = next(text for text in every if text.startswith('.TH "KARPENTER-PLAN"'))
    assert "\\-\\-disruption" in plan
    if shutil.which("groff"):
        (tmp_path / "page.1").write_text("".join(every), "utf-8")
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww", "-z", "page.1"],  # noqa: S607  where the system has it
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
