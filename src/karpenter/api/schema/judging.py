"""Everything wrong with one object: its values, its lists, and the rules it breaks, in that order."""

from typing import Any

from karpenter.api.schema.correlation import ABSENT
from karpenter.api.schema.lists import check_lists
from karpenter.api.schema.problems import (
    NOT_SUPPORTED,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    TYPE_INVALID,
    FieldProblem,
    invalid,
)
from karpenter.api.schema.rules import check_rules, has_rules
from karpenter.api.schema.structural import Schema
from karpenter.api.schema.values import check_value

_BLOCKING = frozenset({NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID})
_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


def check(schema: Schema, value: dict[str, Any], *, old: object = ABSENT) -> tuple[FieldProblem, ...]:
    """
    Return everything wrong with an object: its values, its lists, and the rules it breaks.

    `old` is what an update replaces. Rules are not asked about an object whose shape is wrong, since
    their answers would be about something else; the last problem then says so.
    """
    found = tuple(dict.fromkeys((*check_value(schema, value, old=old), *check_lists(schema, value))))
    if any(problem.reason in _BLOCKING for problem in found):
        return (*found, invalid("", None, _NOT_CHECKED)) if has_rules(schema) else found
    return (*found, *check_rules(schema, value, old=old, root=True))
