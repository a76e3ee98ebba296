"""The contents of the documentation name every page, and lead somewhere."""

import re
from pathlib import Path

from karpenter.cli.group import COMMANDS

DOCS = Path(__file__).parents[2] / "docs"
LINK = re.compile(r"\]\((?P<target>[^)#]+\.md)[^)]*\)")


def test_every_page_is_in_the_contents() -> None:
    """The contents page links every page."""
    named = {match["target"] for match in LINK.finditer((DOCS / "README.md").read_text("utf-8"))}
    there = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"README.md"}

    assert named == there


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    """The site that ``make docs`` builds leads to every page once, except the contents on GitHub."""
    named = re.findall(
        r"(\S+\.md)$", (DOCS.parent / "mkdocs.yml").read_text("utf-8").partition("nav:")[2], re.MULTILINE
    )
    there = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"README.md"}

    assert sorted(named) == sorted(there)


def test_links_lead_to_pages() -> None:
    """A page that links to another links to one that is there."""
    lost = [
        f"{page.name}: {match['target']}"
        for page in sorted(DOCS.rglob("*.md"))
        for match in LINK.finditer(page.read_text("utf-8"))
        if "://" not in match["target"] and not (page.parent / match["target"]).exists()
    ]

    assert lost == []


def test_the_readme_has_every_command() -> None:
    """The table of the README says what each command does."""
    table = (DOCS.parent / "README.md").read_text("utf-8").partition("## Commands")[2]

    assert [name for name in COMMANDS if f"`karpenter {name}`" not in table] == []
