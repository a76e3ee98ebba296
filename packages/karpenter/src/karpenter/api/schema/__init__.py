"""
Structural schemas: what a CustomResourceDefinition says about its objects, enforced.

Works on plain data and a plain schema, for any definition, ours or not. The usual order is
:func:`take_out_unknown` (or report), :func:`fill_in`, then :func:`check`; texts and order of the
problems are those of a Kubernetes API server.

Knows nothing of our kinds, of storage or of HTTP. Metadata other than names is left to the caller.

Names are loaded when they are asked for, since whoever only wants to state a problem
(:mod:`.problems`, :mod:`.paths`) has no use for the parts that evaluate rules.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from karpenter.api.schema.defaulting import fill_in, take_out_unknown
    from karpenter.api.schema.field import FieldProblem
    from karpenter.api.schema.rules import check_rules, find_bad_rules
    from karpenter.api.schema.structural import ABSENT, Rule, Schema, load
    from karpenter.api.schema.validation import check, check_lists, check_value

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

_HOMES = {
    "ABSENT": "structural",
    "FieldProblem": "field",
    "Rule": "structural",
    "Schema": "structural",
    "check": "validation",
    "check_lists": "validation",
    "check_rules": "rules",
    "check_value": "validation",
    "fill_in": "defaulting",
    "find_bad_rules": "rules",
    "load": "structural",
    "take_out_unknown": "defaulting",
}


def __getattr__(name: str) -> Any:
    """Return one of the names above from the module that it lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
