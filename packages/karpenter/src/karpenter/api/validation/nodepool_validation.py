"""
Runtime validation of NodePools: labels, taints and requirements of the template.

Problems set the condition ValidationSucceeded to False; a pool with problems gets no nodes.

A separate check says whether durations, schedules and quantities can be parsed, since the patterns of the
schema are only approximate (one accepts ``99999999h``, ``a b c d e`` and ``1e1.5``), and whether annotations
of prices can, which have no schema.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from karpenter.api import labels
from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.kwoknodeclass import KWOKNodeClass
from karpenter.api.labels import LabelRules
from karpenter.api.meta import Resource
from karpenter.api.node import Taint
from karpenter.api.nodeclaim import NodeClaim, NodeClaimTemplateSpec
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import Disruption, NodePool
from karpenter.api.price_annotations import OF_NODEPOOLS, unreadable_annotations
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
from karpenter.base.cron import CronError, parse_cron
from karpenter.base.duration import DurationError, parse_duration, parse_duration_or_never
from karpenter.base.quantity import QuantityError, parse_quantity

_TEMPLATE = "spec.template"


def validate_nodepool(pool: NodePool, *, rules: LabelRules) -> tuple[FieldProblem, ...]:
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


def check_amounts(resource: Resource) -> tuple[FieldProblem, ...]:
    """Return which durations, schedules, quantities and prices of an object cannot be read."""
    match resource:
        case NodePool(spec=spec, metadata=metadata):
            return (
                *check_annotations(metadata.annotations, OF_NODEPOOLS, "metadata.annotations"),
                *_check_template(spec.template.spec, "spec.template.spec"),
                *_check_disruption(spec.disruption),
                *_check_quantities(spec.limits, "spec.limits"),
            )
        case NodeClaim(spec=spec):
            return (
                *_check_template(spec, "spec"),
                *_check_quantities(spec.resources.requests, "spec.resources.requests"),
            )
        case NodeOverlay(spec=spec):
            return tuple(_check_quantities(spec.capacity, "spec.capacity"))
        case CapacityBuffer(spec=spec):
            return tuple(_check_quantities(spec.limits, "spec.limits"))
        case KWOKNodeClass(spec=spec):
            return tuple(_check(parse_duration, spec.node_registration_delay, "spec.nodeRegistrationDelay"))
        case _:
            return ()


def check_annotations(
    annotations: Mapping[str, str], keys: Iterable[str], path: str
) -> Iterator[FieldProblem]:
    """Find which of our annotations of prices and floors cannot be read."""
    for key, expected in unreadable_annotations(annotations, keys):
        yield invalid(field.key(path, key), annotations[key], expected)


def _check(parse: Callable[[object], object], text: object, path: str) -> Iterator[FieldProblem]:
    if text is None:
        return
    try:
        parse(text)
    except (CronError, DurationError, QuantityError) as error:
        yield invalid(path, text, str(error))


def _check_template(spec: NodeClaimTemplateSpec, path: str) -> Iterator[FieldProblem]:
    yield from _check(parse_duration_or_never, spec.expire_after, field.child(path, "expireAfter"))
    place = field.child(path, "terminationGracePeriod")
    yield from _check(parse_duration, spec.termination_grace_period, place)


def _check_disruption(disruption: Disruption) -> Iterator[FieldProblem]:
    path = "spec.disruption"
    yield from _check(parse_duration_or_never, disruption.consolidate_after, f"{path}.consolidateAfter")
    for i, budget in enumerate(disruption.budgets):
        yield from _check(parse_cron, budget.schedule, f"{path}.budgets[{i}].schedule")
        yield from _check(parse_duration, budget.duration, f"{path}.budgets[{i}].duration")


def _check_quantities(resources: Mapping[str, object], path: str) -> Iterator[FieldProblem]:
    for name, amount in resources.items():
        yield from _check(parse_quantity, amount, field.key(path, name))
