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
    from karpenter.api.schema.correlation import ABSENT
    from karpenter.api.schema.defaulting import fill_in
    from karpenter.api.schema.judging import check
    from karpenter.api.schema.lists import check_lists
    from karpenter.api.schema.problems import FieldProblem
    from karpenter.api.schema.pruning import take_out_unknown
    from karpenter.api.schema.rules import check_rules, find_bad_rules
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

_HOMES = {
    "ABSENT": "correlation",
    "FieldProblem": "problems",
    "Rule": "structural",
    "Schema": "structural",
    "check": "judging",
    "check_lists": "lists",
    "check_rules": "rules",
    "check_value": "values",
    "fill_in": "defaulting",
    "find_bad_rules": "rules",
    "load": "structural",
    "take_out_unknown": "pruning",
}


def __getattr__(name: str) -> Any:
    """Return one of the names above from the module that it lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
