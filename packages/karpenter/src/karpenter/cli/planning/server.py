"""
What an API server would hold against the manifests of a plan, as far as a plan holds it against them, too.

Manifests of a plan may be shortened: a field that is missing is not held against them, nor what follows
from its absence. An object that a server has stored was judged by that server. A field that no server knows
decides nothing, and is told as that.

Pods that differ in their names alone are judged once.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.schema.field import NOT_FOUND, REQUIRED, FieldProblem
from karpenter.api.validation.nodeclaim_validation import is_subdomain
from karpenter.api.validation.objects import UNKNOWN_FIELD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from karpenter.api.manifests import Document
    from karpenter.api.validation.documents import ServerRules

_STEP: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
_NOTHING: Final = re.compile(r'(?:Invalid value: (?:0|"")|Unsupported value: (?:null|"")): ')
"""A message about what a server takes for the value of an absent field."""

_MISSING: Final = frozenset({REQUIRED, NOT_FOUND})
_UNSELECTED: Final = "spec.template.metadata.labels"
"""What is wrong with labels that the selector does not select, also where there is no selector."""


class Judgement(msgspec.Struct, frozen=True):
    """What is wrong with a manifest, and which of its fields no server knows."""

    problems: tuple[FieldProblem, ...] = ()
    unknown: tuple[FieldProblem, ...] = ()


_RIGHT: Final = Judgement()


class ManifestJudge:
    """Judges manifests by the rules of a server, which are looked for when there is one to judge."""

    def __init__(self, find: Callable[[], ServerRules | None]) -> None:
        self._find: Callable[[], ServerRules | None] | None = find
        self._rules: ServerRules | None = None
        self._right: set[bytes] = set()

    def judge(self, document: Document) -> Judgement | None:
        """Return what is wrong with a manifest; None for a stored object, or where no rules are known."""
        if document.stored:
            return None
        if self._find is not None:
            self._rules, self._find = self._find(), None
        if self._rules is None:
            return None
        key = _key(document)
        if key is not None and key in self._right:
            return _RIGHT
        found = self._rules(document.plain)
        if found is None:
            return None
        if not found and key is not None:
            self._right.add(key)
        return Judgement(
            problems=tuple(each for each in found if _held(document.plain, each)),
            unknown=tuple(each for each in found if each.reason == UNKNOWN_FIELD),
        )


def _key(document: Document) -> bytes | None:
    """Return what pods have in common whose names alone differ; None for what has to be judged."""
    plain, name = document.plain, document.names[1]
    if document.identity != ("v1", "Pod") or not isinstance(name, str) or not is_subdomain(name):
        return None
    try:
        text = msgspec.json.encode({**plain, "metadata": {**plain["metadata"], "name": ""}})
    except (TypeError, UnicodeError, RecursionError):
        return None
    return blake2b(text, digest_size=16).digest()


def _held(plain: Mapping[str, Any], problem: FieldProblem) -> bool:
    """Return whether a problem is held against a manifest that may be shortened."""
    if problem.reason in _MISSING or problem.reason == UNKNOWN_FIELD:
        return False
    if problem.field == _UNSELECTED:
        return not _is_absent(plain, "spec.selector")
    return not (_NOTHING.match(problem.message) and _is_absent(plain, problem.field))


def _is_absent(plain: Mapping[str, Any], path: str) -> bool:
    """Return whether an object lacks a field, while it has what the field is in."""
    steps = [key or name for key, name in _STEP.findall(path)]
    found: Any = plain
    for step in steps[:-1]:
        found = _member(found, step)
    # The path of an owner reference has no index.
    holders = found if isinstance(found, list) else [found]
    return bool(steps) and any(isinstance(each, dict) and each.get(steps[-1]) is None for each in holders)


def _member(found: Any, step: str) -> Any:
    if isinstance(found, dict):
        return found.get(step)
    held: Sequence[Any] = found if isinstance(found, list) else ()
    return held[int(step)] if step.isdecimal() and int(step) < len(held) else None
