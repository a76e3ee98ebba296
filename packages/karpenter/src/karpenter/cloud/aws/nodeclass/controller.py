"""
Node classes: what they select is looked up again and again, and what we made for them goes with them.

A class that is deleted waits until no claim names it. Then the instance profiles and launch templates that
were made for it are taken away, and it may go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import structlog

from karpenter.api.ec2nodeclass import EC2NodeClass, names_class
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.wire import to_plain
from karpenter.base.queue import Backoff
from karpenter.cloud.aws.labels import TERMINATION_FINALIZER
from karpenter.cloud.aws.metrics import USER_DATA_BYTES
from karpenter.core.effects import NOTHING, Amend, Announce, Step, about
from karpenter.core.events import listing
from karpenter.core.lifecycle.conditions import differ, render
from karpenter.core.state.cluster import Gone
from karpenter.core.state.view import NodeClass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from karpenter.api.ec2nodeclass_status import EC2NodeClassStatus
    from karpenter.api.meta import Resource
    from karpenter.cloud.aws.instanceprofile import Profiles
    from karpenter.cloud.aws.launchtemplate import Templates
    from karpenter.cloud.aws.metrics import Meters
    from karpenter.cloud.aws.nodeclass.metrics import ClassGauges
    from karpenter.cloud.aws.nodeclass.status import ClassBook, Resolver
    from karpenter.cloud.aws.nodeclass.validation import Rehearsal
    from karpenter.cloud.cloudprovider import ClusterObjects
    from karpenter.core.effects import Effect
    from karpenter.core.state.cluster import Event
    from karpenter.core.state.view import ClusterView

log = structlog.stdlib.get_logger(__name__)

WAITING: Final = 600.0
"""Seconds after which a class that waits for its claims to go is looked at, should no news of them come."""

_RETRIES: Final = Backoff(first=1.0, cap=60.0)


class NodeClassCare:
    """Works out the status of classes, and sees to their end."""

    name = "nodeclass"
    workers = 10

    def __init__(
        self,
        *,
        objects: ClusterObjects,
        classes: ClassBook,
        view: Callable[[], ClusterView],
        resolver: Resolver,
        rehearsal: Rehearsal,
        profiles: Profiles | None,
        templates: Templates,
        meters: Meters,
        gauges: ClassGauges,
    ) -> None:
        """Without `profiles`, IAM cannot be reached, and what is there stays there."""
        self._objects = objects
        self._classes = classes
        self._view = view
        self._resolver = resolver
        self._rehearsal = rehearsal
        self._profiles = profiles
        self._templates = templates
        self._meters = meters
        self._gauges = gauges
        self._failures: dict[str, int] = {}

    def wakes(self, event: Event, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the class that an event is about, also if only one of its claims is gone."""
        del before
        item = event.object
        if isinstance(item, NodeClass):
            self._classes.changed(item.name)
            yield item.name
        elif isinstance(item, NodeClaim) and isinstance(event, Gone):
            yield item.spec.node_class_ref.name

    async def reconcile(self, key: str) -> Step:
        """Do what is due for one class."""
        node_class = await self._objects.get(EC2NodeClass, key)
        if node_class is None:
            self._failures.pop(key, None)
            self._gauges.gone(key)
            return NOTHING
        news = self._gauges.seen(node_class)
        step = await self._due(node_class)
        return Step(effects=(*news, *step.effects), again=step.again) if news else step

    async def _due(self, node_class: EC2NodeClass) -> Step:
        if node_class.metadata.deletion_timestamp is not None:
            return await self._finish(node_class)
        if TERMINATION_FINALIZER not in node_class.metadata.finalizers:
            held = [*node_class.metadata.finalizers, TERMINATION_FINALIZER]
            return Step(effects=(_finalizers(node_class, held, "something will be made for it"),), again=0.0)
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
                    because="what it selects was looked up",
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

    async def _finish(self, node_class: EC2NodeClass) -> Step:
        if TERMINATION_FINALIZER not in node_class.metadata.finalizers:
            return NOTHING
        name = node_class.name
        claims = sorted(
            each.name for each in self._view().claims.values() if names_class(each.spec.node_class_ref, name)
        )
        if claims:
            return Step(effects=(_waiting(node_class, claims),), again=WAITING)
        if self._profiles is not None:
            await self._profiles.delete_all(node_class)
        await self._templates.delete_all(name)
        self._rehearsal.forget(name)
        self._meters.show(USER_DATA_BYTES, name, ())
        log.info("nodeclass.finished", nodeclass=name)
        left = [each for each in node_class.metadata.finalizers if each != TERMINATION_FINALIZER]
        return Step(effects=(_finalizers(node_class, left, "nothing that was made for it is left"),))


def changes(before: EC2NodeClassStatus, after: EC2NodeClassStatus) -> dict[str, Any]:
    """Return what to write so that one status becomes another; what is to go is None."""
    old, new = to_plain(before), to_plain(after)
    for plain in (old, new):
        plain.pop("conditions", None)
    found = {key: new.get(key) for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)}
    if differ(before.conditions, after.conditions):
        found["conditions"] = render(after.conditions)
    return found


def _finalizers(node_class: EC2NodeClass, finalizers: list[str], because: str) -> Amend:
    return Amend(
        kind=node_class.kind,
        name=node_class.name,
        changes={"metadata": {"finalizers": finalizers}},
        version=node_class.metadata.resource_version,
        because=because,
    )


def _waiting(node_class: EC2NodeClass, claims: list[str]) -> Announce:
    return Announce(
        about=about(node_class),
        reason="WaitingOnNodeClaimTermination",
        message=f"The class stays until its claims are gone: {listing(claims)}.",
        same_as=(node_class.metadata.uid,),
    )
