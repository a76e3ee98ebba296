"""
The annotations of NodePools and pods that say what machines cost, and what is kept on demand.

An annotation has no schema, so an API server takes any text. Text that cannot be read is told wherever it is
read, of a manifest before a cluster sees it, and by the condition ValidationSucceeded of a NodePool.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from karpenter.api.labels import NODE_PRICE, ON_DEMAND_FLOOR, PREFERRED_POOL_PRICE, VCPU_PRICE
from karpenter.base.pretty import excerpt

_AMOUNT: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_FLOOR: Final = re.compile(r"(?P<nodes>[0-9]{1,6})|(?P<share>0{0,3}(100|[0-9]{1,2}))%")
_WHOLE_PERCENT: Final = 100
_DOLLARS: Final = "expected dollars per hour such as 0.01"
_RULES: Final[Mapping[str, tuple[re.Pattern[str], str]]] = MappingProxyType(
    {
        NODE_PRICE: (_AMOUNT, _DOLLARS),
        VCPU_PRICE: (_AMOUNT, _DOLLARS),
        PREFERRED_POOL_PRICE: (_AMOUNT, "expected a share such as 0.1"),
        ON_DEMAND_FLOOR: (_FLOOR, "expected nodes such as 3, or 20%"),
    }
)
OF_NODEPOOLS: Final = tuple(_RULES)
OF_PODS: Final = (ON_DEMAND_FLOOR,)


class Floor(msgspec.Struct, frozen=True):
    """Part of a NodePool that is kept on demand: a number of nodes, or a share in percent."""

    amount: int
    percent: bool = False

    def nodes(self, total: int) -> int:
        """Return how many of `total` nodes have to be on demand."""
        return -(-total * self.amount // _WHOLE_PERCENT) if self.percent else min(self.amount, total)

    def __str__(self) -> str:
        return f"{self.amount} %" if self.percent else f"{self.amount}"


def annotated_price(annotations: Mapping[str, str], key: str, default: float) -> tuple[float, str]:
    """Return the price that an annotation of a NodePool states, or the default, and what is wrong with it."""
    wrong = dict(unreadable_annotations(annotations, (key,)))
    if wrong or not annotations.get(key):
        return default, _sentence(annotations, wrong)
    return float(annotations[key]), ""


def annotated_preference(annotations: Mapping[str, str], default: float) -> tuple[float, str]:
    """Return what moving pods back to a NodePool is worth, and what is wrong with its annotation."""
    return annotated_price(annotations, PREFERRED_POOL_PRICE, default)


def annotated_floor(annotations: Mapping[str, str]) -> tuple[Floor | None, str]:
    """Return how much of a NodePool is kept on demand, and what is wrong with its annotation."""
    match = _FLOOR.fullmatch(annotations.get(ON_DEMAND_FLOOR, ""))
    if match is None:
        return None, _sentence(annotations, dict(unreadable_annotations(annotations, OF_PODS)))
    return Floor(int(match["nodes"] or match["share"]), match["share"] is not None), ""


def unreadable_annotations(annotations: Mapping[str, str], keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield which of these annotations cannot be read, and what is allowed."""
    for key in keys:
        pattern, expected = _RULES[key]
        if annotations.get(key) and not pattern.fullmatch(annotations[key]):
            yield key, expected


def _sentence(annotations: Mapping[str, str], wrong: Mapping[str, str]) -> str:
    return "".join(
        f"annotation {key} is {excerpt(annotations[key])}: {expected}" for key, expected in wrong.items()
    )
