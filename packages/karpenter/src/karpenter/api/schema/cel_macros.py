"""
CEL expressions of users: macros that the library lacks, and a bound on what an evaluation can cost.

``cel.bind(name, value, expression)`` is rewritten to ``[value].map(name, expression)[0]``.

The API server bounds expressions by an estimate of their cost
(https://kubernetes.io/docs/reference/using-api/cel/#resource-constraints). The CEL library here has no such
estimate and cannot be interrupted, so an expression of 400 characters with ten nested macros would run for
days. Loops are the only way to much work: every macro that loops is rewritten to call :data:`TICK` with its
variable, once for each item. A :class:`CostMeter` counts these calls and the size of the items, and ends the
evaluation when it is too much.

Text in triple quotes and macros that are nested too deep are refused: a loop must not hide in what looks like
text. Whether an expression is CEL at all is for the compiler to say.
"""

from __future__ import annotations

import re
from typing import Any, Final

from karpenter.api.meta import InvalidObject

TICK: Final = "costOfItem"
"""The function that counts; expressions of users cannot call it, because no API server knows it."""

MOST_ITEMS: Final = 20_000
"""Items that the loops of one evaluation may visit. A device has at most 32 attributes and capacities
(https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/resource-slice-v1/)."""

MOST_PARTS: Final = 2_000
"""Characters and members that one item may hold, with everything inside it."""

MOST_NESTED: Final = 16
"""How deep macros may be nested."""

_TOKEN: Final = re.compile(
    r"//[^\n]*"
    r"|\b(?:[rR][bB]?|[bB][rR])(?:'[^'\n]*'|\"[^\"\n]*\")"
    r"|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\""
    r"|\w+|.",
    re.DOTALL,
)
_LOOPS: Final = frozenset({"all", "exists", "exists_one", "existsOne", "filter", "map"})
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")
_BOUND: Final = 3


class TooCostly(ValueError):  # noqa: N818  reads as what is the matter
    """An evaluation did too much."""


class CostMeter:
    """Counts what one evaluation does."""

    def __init__(self) -> None:
        self._items = 0

    def __call__(self, item: Any) -> bool:
        """
        Count an item.

        Raises:
            TooCostly: there were too many, or this one is too large.
        """
        self._items += 1
        if self._items > MOST_ITEMS:
            raise TooCostly(f"its loops visit more than {MOST_ITEMS:,} items")
        if _parts(item, MOST_PARTS) > MOST_PARTS:
            raise TooCostly(f"an item of its loops has more than {MOST_PARTS:,} parts")
        return True


def _parts(item: Any, enough: int) -> int:
    """Return how many characters and members there are, without looking much further than `enough`."""
    found, waiting = 0, [item]
    while waiting and found <= enough:
        each = waiting.pop()
        if isinstance(each, str | bytes):
            found += len(each)
        elif isinstance(each, dict):
            found += 2 * len(each)
            waiting += [*each, *each.values()]
        elif isinstance(each, list):
            found += len(each)
            waiting += each
    return found


def rewrite_macros(source: str) -> str:
    """
    Return an equal expression without ``cel.bind``, in which every loop counts its items.

    Raises:
        InvalidObject: it has text in triple quotes, macros nested too deep, or calls what counts.
    """
    if "'''" in source or '"""' in source:
        raise InvalidObject(subject="rule", field=source, problem="has text in triple quotes")
    tokens = [each for each in _TOKEN.findall(source) if not each.startswith("//")]
    if TICK in tokens:
        raise InvalidObject(subject="rule", field=source, problem=f"calls {TICK}, which is not there")
    try:
        return _rewritten(tokens, 0)
    except RecursionError:
        problem = f"nests macros deeper than {MOST_NESTED}"
        raise InvalidObject(subject="rule", field=source, problem=problem) from None


def _rewritten(tokens: list[str], depth: int) -> str:
    if depth > MOST_NESTED:
        raise RecursionError
    done: list[str] = []
    last: list[int] = []
    """Where in `done` the last words are, blanks left out."""

    at = 0
    while at < len(tokens):
        token = tokens[at]
        at += 1
        if not token.isspace():
            last = [*last[-3:], len(done)]
        done.append(token)
        if token != "(":  # noqa: S105  a bracket is no password
            continue
        words = [done[each] for each in last]
        binds = words == ["cel", ".", "bind", "("]
        if not binds and (words[-3:-2] != ["."] or words[-2] not in _LOOPS):
            continue
        arguments, end = _arguments(tokens, at)
        if not arguments:
            return "".join([*done, *tokens[at:]])  # a bracket that never closes is for the compiler to refuse
        if binds and len(arguments) == _BOUND:
            name, value, body = (_rewritten(each, depth + 1) for each in arguments)
            done[last[0] :] = [f"[{value}].map({_counted(name.strip(), body, 'dyn(false)')})[0]"]
            last, at = [], end
        elif not binds and len(arguments) > 1:
            name, judge, *rest = (_rewritten(each, depth + 1) for each in arguments)
            other = "dyn(false)" if words[-2] == "map" and not rest else "false"
            done.append(f"{','.join([_counted(name.strip(), judge, other), *rest])})")
            at = end
    return "".join(done)


def _counted(name: str, body: str, other: str) -> str:
    """Return the arguments of a loop that counts; `other` is never used, and only there for its type."""
    return f"{name}, {TICK}({name}) ? ({body.strip()}) : {other}"


def _arguments(tokens: list[str], start: int) -> tuple[list[list[str]], int]:
    """Return the arguments of a call from behind its opening bracket, and where the call ends."""
    parts: list[list[str]] = [[]]
    depth = 0
    for at in range(start, len(tokens)):
        token = tokens[at]
        if token in _OPENING:
            depth += 1
        elif token in _CLOSING:
            if depth == 0:
                return parts, at + 1
            depth -= 1
        elif token == "," and depth == 0:  # noqa: S105  a comma is no password
            parts.append([])
            continue
        parts[-1].append(token)
    return [], start
