"""Write the charts: ``python -m tools.charts charts/karpenter charts/karpenter-crd``."""

import shutil
import sys
from pathlib import Path

from karpenter.chart.chart import CHARTS

if __name__ == "__main__":
    for folder in map(Path, sys.argv[1:]):
        written = CHARTS[folder.name]()
        for name in ("templates", "crds", "dashboards"):
            shutil.rmtree(folder / name, ignore_errors=True)
        for name, text in written.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
