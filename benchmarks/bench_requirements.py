"""The requirement algebra: sets of ten keys, intersected and compared as the solver does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.measure import Case, compare
from karpenter.core.model.requirement import requirement
from karpenter.core.model.requirements import Requirements

if TYPE_CHECKING:
    from benchmarks.table import Table

KEYS = tuple(f"example.com/key-{number}" for number in range(10))
MANY = tuple(f"type-{number}" for number in range(600))


def a_set(values: tuple[str, ...]) -> Requirements:
    """Return a set of requirements that allows these values for each of ten keys."""
    return Requirements.of([requirement(key, "In", values) for key in KEYS])


def suite() -> Table:
    wide, narrow, other = a_set(("a", "b", "c", "d")), a_set(("b", "c")), a_set(("x",))
    types = requirement("node.kubernetes.io/instance-type", "In", MANY)
    without = requirement("node.kubernetes.io/instance-type", "NotIn", MANY[:100])
    above, below = requirement("cpu", "Gt", ("4",)), requirement("cpu", "Lt", ("64",))
    return compare(
        "requirement algebra",
        [
            Case("intersect two sets of 10 keys", lambda: wide.intersect(narrow)),
            Case("accept a set of 10 keys", lambda: wide.accepts(narrow)),
            Case("refuse a set of 10 keys", lambda: wide.accepts(other)),
            Case("build a set of 10 keys", lambda: a_set(("b", "c"))),
            Case("intersect 600 values with 100 excluded", lambda: types.intersect(without)),
            Case("intersect two bounds", lambda: above.intersect(below)),
            Case("ask one value", lambda: types.allows("type-77")),
        ],
    )
