"""
Runtime validation of NodePools: labels, taints and requirements of the template.

Problems set the condition ValidationSucceeded to False; a pool with problems gets no nodes.
"""

from collections.abc import Iterator

from karpenter.api import labels
from karpenter.api.labels import LabelRules
from karpenter.api.node import Taint
from karpenter.api.nodepool import NodePool
from karpenter.api.schema import field
from karpenter.api.schema.field import FieldProblem, duplicate, forbidden, invalid, not_supported, required
from karpenter.api.validation.nodeclaim_validation import (
    KEY_RULE,
    VALUE_RULE,
    check_requirements,
    is_label_value,
    is_qualified_name,
    restriction,
)

_TEMPLATE = "spec.template"


def validate_nodepool(pool: NodePool, *, rules: LabelRules) -> tuple[FieldProblem, ...]:
    """Return what is wrong with a pool."""
    spec = pool.spec.template.spec
    return (
        *_check_labels(pool, rules),
        *check_taints(spec.taints, spec.startup_taints, f"{_TEMPLATE}.spec"),
        *check_requirements(spec.requirements, f"{_TEMPLATE}.spec.requirements", rules=rules),
        *_check_pool_label(pool),
    )


def _check_labels(pool: NodePool, rules: LabelRules) -> Iterator[FieldProblem]:
    for key, value in pool.spec.template.metadata.labels.items():
        place = field.key(f"{_TEMPLATE}.metadata.labels", key)
        if key == labels.NODEPOOL:
            yield forbidden(place, f"label {key} is set by us, to the pool's name")
        elif rules.is_restricted(key):
            yield forbidden(place, restriction(key, rules))
        if not is_qualified_name(key):
            yield invalid(place, key, KEY_RULE)
        if not is_label_value(value):
            yield invalid(place, value, VALUE_RULE)


def _check_pool_label(pool: NodePool) -> Iterator[FieldProblem]:
    for i, requirement in enumerate(pool.spec.template.spec.requirements):
        if requirement.key == labels.NODEPOOL:
            place = f"{_TEMPLATE}.spec.requirements[{i}].key"
            yield forbidden(place, f"label {labels.NODEPOOL} is set by us, to the pool's name")


def check_taints(
    taints: tuple[Taint, ...], startup_taints: tuple[Taint, ...], path: str
) -> Iterator[FieldProblem]:
    """Find what is wrong with taints; no key and effect may occur twice, not even across both lists."""
    seen: set[tuple[str, str]] = set()
    for name, listed in (("taints", taints), ("startupTaints", startup_taints)):
        for i, taint in enumerate(listed):
            place = field.index(field.child(path, name), i)
            yield from _check_taint(taint, place)
            if (taint.key, taint.effect) in seen:
                yield duplicate(place, f"{taint.key}:{taint.effect}")
            seen.add((taint.key, taint.effect))


def _check_taint(taint: Taint, path: str) -> Iterator[FieldProblem]:
    if not taint.key:
        yield required(field.child(path, "key"), "a taint needs a key")
    elif not is_qualified_name(taint.key):
        yield invalid(field.child(path, "key"), taint.key, KEY_RULE)
    if taint.value and not is_qualified_name(taint.value):
        yield invalid(field.child(path, "value"), taint.value, KEY_RULE)
    if taint.effect and taint.effect not in labels.TAINT_EFFECTS:
        yield not_supported(field.child(path, "effect"), taint.effect, sorted(labels.TAINT_EFFECTS))
