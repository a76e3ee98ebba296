"""Write the chart: ``python -m karpenter.chart charts/karpenter``."""

import sys
from pathlib import Path

from karpenter.chart.chart import files

if __name__ == "__main__":
    for name, text in files().items():
        path = Path(sys.argv[1]) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
