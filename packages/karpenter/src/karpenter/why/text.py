"""An explanation as text for a terminal."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from karpenter.base.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.why.answer import Explanation

_WIDTH: Final = 80
_HEADINGS: Final = {
    "pod": "One of these changes would let it in:",
    "node": "One of these changes would let it go:",
}
_HEADING: Final = "One of these changes would help:"


def why_text(answer: Explanation) -> str:
    return "".join(f"{_wrapped(line)}\n" for line in _lines(answer))


def _lines(answer: Explanation) -> Iterator[str]:
    kind = answer.object.partition("/")[0]
    yield f"{answer.object}: {answer.answer}"
    yield from (f"  - {each}" for each in answer.because)
    for miss in answer.node_pools:
        near = f" ({miss.nearest})" if miss.nearest else ""
        yield f"  - NodePool {miss.node_pool}: {miss.message}{near}"
    if answer.changes:
        yield _HEADINGS.get(kind, _HEADING)
        yield from (f"  - {each.change}: {_then(kind, each.result)}" for each in answer.changes)
    elif answer.node_pools and kind == "pod":
        yield "No single change that was tried would let it in."


def _then(kind: str, result: str) -> str:
    """Return what follows from a change as a clause: of one pod, only its place is known."""
    return result if kind == "node" or result[0].isdigit() else f"it would go to {result}"


def _wrapped(line: str) -> str:
    indent = "    " if line.startswith("  - ") else ""
    return textwrap.fill(
        printable(line), _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
