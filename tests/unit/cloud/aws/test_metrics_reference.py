"""The page of the provider's metrics."""

from pathlib import Path

from karpenter.cloud.aws.metrics import page

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "metrics-aws.md"


def test_the_page_is_what_the_declarations_say() -> None:
    """``python -m karpenter.cloud.aws.metrics > docs/reference/metrics-aws.md`` writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == page()
