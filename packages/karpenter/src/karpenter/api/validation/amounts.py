"""
Whether durations, schedules and quantities can be parsed; the patterns of the schema are only approximate.

A pattern accepts ``99999999h``, ``a b c d e`` and ``1e1.5``. In a cluster such values take no effect where
they are used (a budget with a bad schedule allows no disruption), so these problems are reported for
manifests and do not set conditions.
"""

from collections.abc import Callable, Iterator, Mapping

from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.kwoknodeclass import KWOKNodeClass
from karpenter.api.meta import Resource
from karpenter.api.nodeclaim import NodeClaim, NodeClaimTemplateSpec
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import Disruption, NodePool
from karpenter.api.schema import field
from karpenter.api.schema.field import FieldProblem, invalid
from karpenter.base.cron import CronError, parse_cron
from karpenter.base.duration import DurationError, parse_duration, parse_duration_or_never
from karpenter.base.quantity import QuantityError, parse_quantity


def check_amounts(resource: Resource) -> tuple[FieldProblem, ...]:
    """Return which durations, schedules and quantities of an object cannot be read."""
    match resource:
        case NodePool(spec=spec):
            return (
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
