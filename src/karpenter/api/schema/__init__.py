"""
Structural schemas: what a CustomResourceDefinition says about its objects, enforced.

Works on plain data and a plain schema, for any definition, ours or not. The usual order is
:func:`take_out_unknown` (or report), :func:`fill_in`, then :func:`check`; texts and order of the
problems are those of a Kubernetes API server.

Knows nothing of our kinds, of storage or of HTTP. Metadata other than names is left to the caller.
"""

from typing import Any

from karpenter.api.schema.correlation import ABSENT
from karpenter.api.schema.defaulting import fill_in
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
from karpenter.api.schema.pruning import take_out_unknown
from karpenter.api.schema.rules import check_rules, find_bad_rules, has_rules
from karpenter.api.schema.structural import Rule, Schema, load
from karpenter.api.schema.values import check_value

__all__ = [
    "ABSENT",
    "FieldProblem",
    "Rule",
    "Schema",
    "check",
    "check_lists",
    "check_rules",
    "check_value",
    "fill_in",
    "find_bad_rules",
    "load",
    "take_out_unknown",
]

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
