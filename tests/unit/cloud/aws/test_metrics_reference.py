"""The page of the provider's metrics."""

from pathlib import Path

from tools.metrics_reference import aws_page

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "metrics-aws.md"


def test_the_page_is_what_the_declarations_say() -> None:
    """The page is what the declarations say; hint: make metrics."""
    assert PAGE.read_text(encoding="utf-8") == aws_page()
