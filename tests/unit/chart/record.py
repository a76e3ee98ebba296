"""
Write down what Karpenter's own chart states for every file of values.

    python -m tests.unit.chart.record CHART_FOLDER
    python -m tests.unit.chart.record --docs

The first needs Karpenter's chart of 1.14 in a folder and writes facts.json and upstream-values.json (names
and defaults) to tests/data/chart; the second writes the section of docs/reference/differences.md.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import yaml

from tests.helm import Helm
from tests.unit.chart.corpus import BASE, CASES, DATA, ROOT, facts, objects, rendered, section

PAGE = ROOT / "docs" / "reference" / "differences.md"


@click.command()
@click.argument("chart", type=click.Path(path_type=Path, exists=True), required=False)
@click.option("--docs", is_flag=True)
def main(chart: Path | None, docs: bool) -> None:
    """Record the facts of CHART, or write the docs."""
    if docs:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(re.sub(r"^## Chart\n.*?(?=^## |\Z)", section(), text, flags=re.MULTILINE | re.DOTALL))
        return
    if chart is None:
        raise click.UsageError("the folder of a chart is needed")
    helm = Helm(ROOT)
    values = yaml.safe_load((chart / "values.yaml").read_text(encoding="utf-8"))
    (DATA / "upstream-values.json").write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    told = {}
    for name, case in CASES.items():
        done = rendered(helm, chart, case)
        told[name] = facts(objects(done.stdout)) if done.returncode == 0 else {"refused": True}
        if done.returncode:
            click.echo(f"{name}: {done.stderr}", err=True)
    base = told[BASE]
    lines = [f"{json.dumps(BASE)}: {json.dumps(base, sort_keys=True)}"]
    for name in sorted(told.keys() - {BASE}):
        changed = {key: value for key, value in told[name].items() if base.get(key, key) != value}
        gone = sorted(base.keys() - told[name].keys())
        lines.append(f"{json.dumps(name)}: {json.dumps(changed | {'gone': gone}, sort_keys=True)}")
    (DATA / "facts.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
