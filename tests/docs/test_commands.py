"""Commands in the documentation can be typed: they exist, and so do their options."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from pathlib import Path

import click
import pytest

from karpenter.cli.group import main
from tests.docs.commands import every_command  # noqa: F401  a fixture

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
FENCE = re.compile(r"^( *)```(?P<language>\w*)\n(?P<body>.*?)^ *```$", re.DOTALL | re.MULTILINE)
SHELL = {"console", "sh", "bash", "shell"}
STARTS = re.compile(r"(?:^|[|&;(]\s*|\$\(\s*)karpenter (?P<words>.*)")
SUBSTITUTED = re.compile(r"\$\([^()]*(?:\([^()]*\)[^()]*)*\)")
ENDS = {"|", "||", "&&", "&", ";", ">", ">>", "<", "2>", "2>&1", ")"}

pytestmark = pytest.mark.usefixtures("every_command")


def lines(page: Path) -> list[str]:
    """Return what is typed in the shell blocks of a page, continued lines joined, and within sentences."""
    found = []
    for block in FENCE.finditer(page.read_text("utf-8")):
        if block["language"] not in SHELL:
            continue
        text = block["body"].replace("\\\n", " ")
        prompted = "\n$ " in f"\n{text}"
        for line in text.splitlines():
            typed = line.strip()
            if prompted and not typed.startswith("$ "):
                continue  # what a command prints
            found.append(typed.removeprefix("$ "))
    outside = FENCE.sub("", page.read_text("utf-8"))
    return found + re.findall(r"`(karpenter [^`\n]+)`", outside)


def typed_commands(page: Path) -> list[list[str]]:
    """Return the words of every ``karpenter`` command on a page, without the command's own name."""
    found = []
    for line in lines(page):
        inner = [each.removeprefix("$(").removesuffix(")") for each in SUBSTITUTED.findall(line)]
        for match in (
            each for text in (SUBSTITUTED.sub("VALUE", line), *inner) for each in STARTS.finditer(text)
        ):
            lexer = shlex.shlex(match["words"], posix=True, punctuation_chars="();<>|&")
            lexer.whitespace_split = True
            words: list[str] = []
            for word in lexer:
                if word in ENDS or word.startswith((">", "<", "|", "&", ";", ")")):
                    break
                words.append(word)
            found.append(words)
    return found


CASES = [(page, words) for page in PAGES for words in typed_commands(page)]


def resolve(words: list[str]) -> tuple[click.Command, click.Context, list[str]]:
    """Return the command that some words call, and what is left for it to parse."""
    command: click.Command = main
    context = click.Context(main, info_name="karpenter", **main.context_settings)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        if command.invoke_without_command and words[0] not in command.list_commands(context):
            break
        name, below, words = command.resolve_command(context, words)  # raises where there is none
        assert below is not None
        command, context = below, click.Context(below, info_name=name, parent=context)
    return command, context, words


def test_there_are_commands() -> None:
    """The pages hold many, so the rule is not empty."""
    assert len(CASES) > 150


@pytest.mark.parametrize(
    ("page", "words"), [pytest.param(*case, id=f"{case[0].name}: {' '.join(case[1])[:60]}") for case in CASES]
)
def test_a_command_of_the_docs_parses(page: Path, words: list[str]) -> None:
    """Click knows every command and option that a page types; values may be anything."""
    command, context, left = resolve([word for word in words if word != "..."])
    if isinstance(command, click.Group) and not left:
        return
    parser = command.make_parser(context)
    with suppress(click.MissingParameter):
        try:
            parser.parse_args(args=list(left))
        except click.UsageError as error:
            if "requires an argument" in error.message and left[-1].startswith("-"):
                return  # a sentence names the option alone
            raise AssertionError(f"{page.name}: karpenter {' '.join(words)}: {error.message}") from error
