"""
Metrics as Prometheus reads them: its text format, version 0.0.4.

Written by hand because a cluster of 20,000 pods has that many series of 13 labels, and building and sorting a
dictionary for each of them would stop the event loop for most of a second at every scrape.
"""

import math
from collections.abc import Iterator
from itertools import islice

from karpenter.telemetry.metrics.declaring import Declared
from karpenter.telemetry.metrics.instruments import Instrument

PIECE = 1000
"""Lines per piece of text, so that others get a turn between pieces."""

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})
_SPECIAL = frozenset('\\"\n')


def render(declared: Declared[Instrument], instrument: Instrument) -> Iterator[str]:
    """Yield the text of one metric, in pieces; nothing when it has no series."""
    lines = _lines(declared.name, instrument)
    first = next(lines, None)
    if first is None:
        return
    yield f"# HELP {declared.name} {declared.help.translate(_HELP_ESCAPES)}\n"
    yield f"# TYPE {declared.name} {declared.kind}\n{first}"
    while piece := "".join(islice(lines, PIECE)):
        yield piece


def _lines(name: str, instrument: Instrument) -> Iterator[str]:
    template = ",".join(f'{label}="%s"' for label in instrument.labels)
    for sample in list(instrument.samples()):  # others may count while we are halfway through
        labels = template % _escaped(sample.values)
        if sample.last:
            labels = f'{labels}{"," if labels else ""}{instrument.last_label}="{sample.last}"'
        braced = f"{{{labels}}}" if labels else ""
        yield f"{name}{sample.suffix}{braced} {_number(sample.value)}\n"


def _escaped(values: tuple[str, ...]) -> tuple[str, ...]:
    if _SPECIAL.isdisjoint("".join(values)):
        return values
    return tuple(value.translate(_ESCAPES) for value in values)


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else f"{value:+}".replace("inf", "Inf")
