"""Reading and printing quantities: known texts, as pods repeat them, and texts never seen before."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from benchmarks.measure import Case, compare
from karpenter.base.quantity import parse_quantity
from karpenter.core.model.resources import parse_resources, render_resources

if TYPE_CHECKING:
    from benchmarks.table import Table

KNOWN = ("100m", "250m", "1", "1500m", "128Mi", "1Gi", "1.5Gi", "20Gi", "110", "12e6")
WIRE = {"cpu": "1500m", "memory": "2Gi", "ephemeral-storage": "20Gi", "pods": "110"}
BATCH = 1000


def suite() -> Table:
    fresh = count(1)
    parsed = [parse_quantity(text) for text in KNOWN]
    amounts = parse_resources(WIRE)
    return compare(
        "quantities",
        [
            Case("read a known text", lambda: [parse_quantity(text) for text in KNOWN], len(KNOWN)),
            Case(
                "read a new text", lambda: [parse_quantity(f"{next(fresh)}Ki") for _ in range(BATCH)], BATCH
            ),
            Case("read a number", lambda: [parse_quantity(number) for number in range(BATCH)], BATCH),
            Case("print", lambda: [str(quantity) for quantity in parsed], len(parsed)),
            Case("read a list of four", lambda: parse_resources(WIRE)),
            Case("print a list of four", lambda: render_resources(amounts)),
        ],
        notes=("a new text is a number with the suffix Ki; making the text is included",),
    )
