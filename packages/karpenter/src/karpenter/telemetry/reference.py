"""
The reference page of the metrics, written from their declarations.

    python -m karpenter.telemetry.reference > docs/reference/metrics.md
"""

import sys
from collections.abc import Iterator

from karpenter.api.labels import WELL_KNOWN_LABELS
from karpenter.telemetry.metrics.store import MetricSpec, Instrument, render_bound, short_label
from karpenter.telemetry.metrics.table import GROUPS, METRICS

_HEAD = f"""\
# Metrics

This page is written by `python -m karpenter.telemetry.reference`; a test fails when it is out of date.

The operator shows {len(METRICS)} metrics of its own on the port `METRICS_PORT` (8080).
They are in the text format of Prometheus, beside those of the process itself (`process_*`).
Names, types and labels are those that dashboards and alerts made for Karpenter expect.

- `<well-known labels>` stands for one label for each label that every node has, without its domain:
  {", ".join(f"`{short_label(key)}`" for key in sorted(WELL_KNOWN_LABELS))}, and those of the cloud provider.
- `<node class labels>` stands for one label for each kind of node class of the cloud provider,
  such as `karpenter_kwok_sh_kwoknodeclass`.
- Summaries show the quantiles 0, 0.5, 0.9, 0.99 and 1 over the last ten minutes.
- A metric marked † has a name that `promtool check metrics` would rather see end differently;
  it is kept because dashboards know it.
"""


def page() -> str:
    """Return the whole page."""
    return "\n".join([_HEAD, *(line for title, group in GROUPS for line in section(title, group))])


def section(title: str, group: tuple[MetricSpec[Instrument], ...]) -> Iterator[str]:
    """Yield the lines of a section about some metrics."""
    yield f"## {title}\n"
    yield "| metric | type | labels | meaning |"
    yield "|---|---|---|---|"
    yield from (_row(each) for each in group)
    yield ""


def _row(metric: MetricSpec[Instrument]) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    mark = " †" if metric.unlike_its_type else ""
    return f"| `{metric.name}`{mark} | {_kind(metric)} | {labels} | {metric.help} |"


def _kind(metric: MetricSpec[Instrument]) -> str:
    if not metric.buckets:
        return metric.kind
    first, last = (render_bound(bound) for bound in (metric.buckets[0], metric.buckets[-1]))
    return f"{metric.kind}, {len(metric.buckets)} buckets from {first} to {last}"


if __name__ == "__main__":
    sys.stdout.write(page())
