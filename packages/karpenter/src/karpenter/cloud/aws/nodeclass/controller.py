"""
Keeps the status of EC2NodeClasses current, and deletes what was created for them when they are deleted.

A class that is deleted waits until no NodeClaim refers to it. Then the instance profiles and launch templates
that were created for it are deleted, and its finalizer is removed.

The conditions of classes are shown as metrics and Events: their status, since when, and each transition. The
operator itself only sees whether a class is ready; its other conditions are known here. A transition counts
when both its sides were seen: the conditions of a class that is seen for the first time, after a start, are
no transition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import structlog

from karpenter.api.ec2nodeclass import EC2NodeClass, names_class
from karpenter.api.meta import Resource, to_plain
from karpenter.api.nodeclaim import NodeClaim
from karpenter.base.queue import Backoff
from karpenter.cloud.aws.labels import TERMINATION_FINALIZER
from karpenter.cloud.aws.metrics import CLASS_CONDITIONS, USER_DATA_BYTES, ProviderMetrics
from karpenter.core.effects import NOTHING, Amend, Announce, Effect, Step, about
from karpenter.core.events import condition_changed, listing
from karpenter.core.lifecycle.conditions import conditions_differ, render_conditions
from karpenter.core.state.cluster import ClusterView, NodeClass, ObjectDeleted, StateEvent
from karpenter.telemetry.metrics.table.conditions import EVERY_KIND, ConditionMetrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from karpenter.api.ec2nodeclass_status import EC2NodeClassStatus
    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.nodeclass.status import NodeClassStatusResolver
    from karpenter.cloud.aws.nodeclass.validation import DryRunValidator
    from karpenter.cloud.aws.services import Services

_BOTH: Final[tuple[tuple[ConditionMetrics, dict[str, str]], ...]] = (
    (CLASS_CONDITIONS, {}),
    (EVERY_KIND, {"kind": EC2NodeClass.kind, "group": EC2NodeClass.api_version.rpartition("/")[0]}),
)
"""The metrics of node classes, and the deprecated ones of all kinds with the labels that tell kinds apart."""


class NodeClassConditionMetrics:
    """Publishes the conditions of every class, and returns an Event for each transition."""

    def __init__(self, metrics: ProviderMetrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._seen: dict[str, EC2NodeClass] = {}

    def seen(self, node_class: EC2NodeClass) -> tuple[Announce, ...]:
        """Publish the conditions of a class, count its transitions, and return the Events about them."""
        before = self._seen.get(node_class.name)
        self._seen[node_class.name] = node_class
        name, place = node_class.name, {"namespace": "", "name": node_class.name}
        conditions = [
            (each, {**place, "type": each.type, "status": each.status, "reason": each.reason})
            for each in node_class.status.conditions
        ]
        self._publish("count", name, [(1.0, labels) for _, labels in conditions])
        since = [
            (each.last_transition_time.timestamp(), labels)
            for each, labels in conditions
            if each.last_transition_time is not None
        ]
        self._publish("current_status", name, since)
        asked = node_class.metadata.deletion_timestamp
        leaving = [(asked.timestamp(), place)] if asked is not None else []
        self._publish("termination_current_time", name, leaving)
        return tuple(self._changes(before, node_class)) if before is not None else ()

    def gone(self, name: str) -> None:
        """Remove the series of a deleted class, and observe how long its deletion took."""
        held = self._seen.pop(name, None)
        asked = held.metadata.deletion_timestamp if held is not None else None
        if asked is not None:
            took = (self._clock.now() - asked).total_seconds()
            for metrics, more in _BOTH:
                self._metrics.observe(metrics.termination_duration, max(0.0, took), **more)
        self._publish("count", name, ())
        self._publish("current_status", name, ())
        self._publish("termination_current_time", name, ())

    def _publish(self, which: str, name: str, rows: Sequence[tuple[float, Mapping[str, str]]]) -> None:
        """Publish rows of a class, in place of those that were published of it before."""
        for metrics, more in _BOTH:
            labelled = [(value, {**labels, **more}) for value, labels in rows]
            self._metrics.show(getattr(metrics, which), (EC2NodeClass.kind, name), labelled)

    def _changes(self, before: EC2NodeClass, after: EC2NodeClass) -> Iterator[Announce]:
        held = {each.type: each for each in before.status.conditions}
        for each in after.status.conditions:
            old = held.get(each.type)
            if old is not None and old.status == each.status:
                continue
            for metrics, more in _BOTH:
                self._metrics.count(
                    metrics.transitions, type=each.type, status=each.status, reason=each.reason, **more
                )
                if old is not None and old.last_transition_time and each.last_transition_time:
                    took = (each.last_transition_time - old.last_transition_time).total_seconds()
                    self._metrics.observe(
                        metrics.transition, max(0.0, took), type=each.type, status=old.status, **more
                    )
            # A new class begins with Unknown conditions; what it waits for is no transition.
            if old is not None or each.status != "Unknown":
                yield condition_changed(after, old.status if old is not None else "", each)


log = structlog.stdlib.get_logger(__name__)

FINALIZER_RETRY_SECONDS: Final = 600.0
"""Seconds after which a deleted class is looked at again, if no event about its claims comes."""

# Most failures are permissions or eventual consistency, which a minute resolves or shows to be lasting:
# https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html
_RETRIES: Final = Backoff(first=1.0, cap=60.0)


class NodeClassController:
    """Reconciles EC2NodeClasses."""

    name = "nodeclass"
    kinds: ClassVar = (NodeClass, NodeClaim)
    workers = 10

    def __init__(
        self,
        services: Services,
        *,
        view: Callable[[], ClusterView],
        resolver: NodeClassStatusResolver,
        validation: DryRunValidator,
        gauges: NodeClassConditionMetrics,
    ) -> None:
        self._services = services
        self._view = view
        self._resolver = resolver
        self._validation = validation
        self._gauges = gauges
        self._failures: dict[str, int] = {}

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the class that an event is about; the deletion of a claim is about its class, too."""
        del before
        item = event.object
        if isinstance(item, NodeClass):
            self._services.node_classes.changed(item.name)
            yield item.name
        elif isinstance(item, NodeClaim) and isinstance(event, ObjectDeleted):
            yield item.spec.node_class_ref.name

    async def reconcile(self, key: str) -> Step:
        node_class = await self._services.objects.get(EC2NodeClass, key)
        if node_class is None:
            self._failures.pop(key, None)
            self._gauges.gone(key)
            return NOTHING
        events = self._gauges.seen(node_class)
        step = await self._reconcile(node_class)
        return Step(effects=(*events, *step.effects), again=step.again) if events else step

    async def _reconcile(self, node_class: EC2NodeClass) -> Step:
        if node_class.metadata.deletion_timestamp is not None:
            return await self._finalize(node_class)
        if TERMINATION_FINALIZER not in node_class.metadata.finalizers:
            held = [*node_class.metadata.finalizers, TERMINATION_FINALIZER]
            return Step(
                effects=(_finalizers(node_class, held, "what is created for it has to be deleted with it"),),
                again=0.0,
            )
        return await self._resolve(node_class)

    async def _resolve(self, node_class: EC2NodeClass) -> Step:
        name = node_class.name
        resolved = await self._resolver.resolve(node_class)
        changed = changes(node_class.status, resolved.status)
        effects: tuple[Effect, ...] = ()
        if changed:
            effects = (
                Amend(
                    kind=node_class.kind,
                    name=name,
                    status=changed,
                    version=node_class.metadata.resource_version,
                    because="what it selects was resolved",
                ),
            )
        again = resolved.again
        if resolved.errors:
            self._failures[name] = self._failures.get(name, 0) + 1
            again = min(again, _RETRIES.delay(self._failures[name]))
            for error in resolved.errors:
                log.warning("nodeclass.not_resolved", nodeclass=name, error=str(error), again=again)
        else:
            self._failures.pop(name, None)
        return Step(effects=effects, again=again)

    async def _finalize(self, node_class: EC2NodeClass) -> Step:
        if TERMINATION_FINALIZER not in node_class.metadata.finalizers:
            return NOTHING
        name = node_class.name
        claims = sorted(
            each.name for each in self._view().claims.values() if names_class(each.spec.node_class_ref, name)
        )
        if claims:
            return Step(
                effects=(
                    Announce(
                        about=about(node_class),
                        reason="WaitingOnNodeClaimTermination",
                        message=f"The class stays until its claims are gone: {listing(claims)}.",
                        same_as=(node_class.metadata.uid,),
                    ),
                ),
                again=FINALIZER_RETRY_SECONDS,
            )
        if not self._services.settings.isolated_vpc:  # from there, IAM is not reachable
            await self._services.instance_profiles.delete_all(node_class)
        await self._services.launch_templates.delete_all(name)
        self._validation.forget(name)
        self._services.metrics.show(USER_DATA_BYTES, name, ())
        log.info("nodeclass.finished", nodeclass=name)
        left = [each for each in node_class.metadata.finalizers if each != TERMINATION_FINALIZER]
        return Step(effects=(_finalizers(node_class, left, "everything that was created for it is deleted"),))


def changes(before: EC2NodeClassStatus, after: EC2NodeClassStatus) -> dict[str, Any]:
    """Return the merge patch from one status to another; a field that is removed is None."""
    old, new = to_plain(before), to_plain(after)
    for plain in (old, new):
        plain.pop("conditions", None)
    found = {key: new.get(key) for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)}
    if conditions_differ(before.conditions, after.conditions):
        found["conditions"] = render_conditions(after.conditions)
    return found


def _finalizers(node_class: EC2NodeClass, finalizers: list[str], because: str) -> Amend:
    return Amend(
        kind=node_class.kind,
        name=node_class.name,
        changes={"metadata": {"finalizers": finalizers}},
        version=node_class.metadata.resource_version,
        because=because,
    )
