"""
Structural schemas of CustomResourceDefinitions: pruning, defaulting and validation of objects.

Works on plain data and a plain schema, of any definition. The usual order is :func:`prune_unknown_fields`,
:func:`apply_defaults`, then :func:`check`; texts and order of the problems are those of a Kubernetes API
server. Knows nothing of kinds, of storage or of HTTP. The caller checks metadata other than names.

See https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/

Names are imported on first use, so that an importer of :mod:`.field` alone does not load the CEL library.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from karpenter.api.schema.field import FieldProblem
    from karpenter.api.schema.rules import check_rules, find_bad_rules
    from karpenter.api.schema.structural import (
        ABSENT,
        Schema,
        ValidationRule,
        apply_defaults,
        load,
        prune_unknown_fields,
    )
    from karpenter.api.schema.validation import check, check_lists, check_value

__all__ = [
    "ABSENT",
    "FieldProblem",
    "Schema",
    "ValidationRule",
    "apply_defaults",
    "check",
    "check_lists",
    "check_rules",
    "check_value",
    "find_bad_rules",
    "load",
    "prune_unknown_fields",
]

_HOMES = {
    "ABSENT": "structural",
    "FieldProblem": "field",
    "ValidationRule": "structural",
    "Schema": "structural",
    "check": "validation",
    "check_lists": "validation",
    "check_rules": "rules",
    "check_value": "validation",
    "apply_defaults": "structural",
    "find_bad_rules": "rules",
    "load": "structural",
    "prune_unknown_fields": "structural",
}


def __getattr__(name: str) -> Any:
    """Return one of the names above from the module that it lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
