import subprocess
import sys
from pathlib import Path

from tools.metrics_reference import page

from karpenter.telemetry.metrics import METRICS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"


def test_the_page_is_up_to_date() -> None:
    """The reference of the metrics says what is declared; write it anew when this fails."""
    written = subprocess.run(
        [sys.executable, "-m", "tools.metrics_reference"], capture_output=True, check=True, text=True
    ).stdout

    assert PAGE.read_text("utf-8") == written == page()


def test_every_metric_has_a_row() -> None:
    """No metric is left out."""
    assert [name for name in (metric.name for metric in METRICS) if f"| `{name}`" not in page()] == []
