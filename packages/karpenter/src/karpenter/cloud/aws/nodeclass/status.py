"""
The status of an EC2NodeClass: everything that it selects, and a condition for each part.

Every part is resolved, even if another one fails. A part that AWS does not answer about keeps its last
status; the error is returned beside the status, and the controller tries again.

:class:`NodeClassCache` holds node classes as the API server has them, for launches, drift and catalogues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.ec2nodeclass import AL2023, EC2NodeClass
from karpenter.api.ec2nodeclass_status import EC2NodeClassStatus, Subnet
from karpenter.api.meta import to_plain
from karpenter.cloud.aws.amifamily.alias import UnsupportedAlias
from karpenter.cloud.aws.amifamily.ami import as_status
from karpenter.cloud.aws.errors import AccessDenied, AwsApiError
from karpenter.cloud.aws.instanceprofile import RoleMissing
from karpenter.cloud.aws.instancetype.types import traits_of
from karpenter.cloud.aws.kubelet.expressions import expressions_of
from karpenter.cloud.aws.nodeclass.validation import ValidationFailure, check_kubelet, check_tags, check_types
from karpenter.cloud.aws.subnet import ANY
from karpenter.cloud.errors import CloudError, NodeClassNotReady
from karpenter.core.lifecycle.conditions import VALIDATION_SUCCEEDED, ConditionSet, condition_set_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from karpenter.api.meta import Wire
    from karpenter.cloud.aws.services import Services
    from karpenter.cloud.cloudprovider import ClusterObjects


# The conditions are part of the API of Karpenter:
# https://karpenter.sh/docs/concepts/nodeclasses/#statusconditions
AMIS: Final = "AMIsReady"
SUBNETS: Final = "SubnetsReady"
SECURITY_GROUPS: Final = "SecurityGroupsReady"
PROFILE: Final = "InstanceProfileReady"
PLACEMENT_GROUP: Final = "PlacementGroupReady"
RESERVATIONS: Final = "CapacityReservationsReady"
QUEUE: Final = "InterruptionQueueReady"
"""Only there while the queue cannot be used; instances are launched all the same."""

_REASONS: Final[dict[type[CloudError], str]] = {AccessDenied: "Unauthorized", RoleMissing: "RoleNotFound"}
# The parts that a launch needs; https://karpenter.sh/docs/concepts/nodeclasses/ lists all conditions.
_NEEDED: Final = (AMIS, PROFILE, SECURITY_GROUPS, SUBNETS)
_MINUTE: Final = 60.0


class ResolvedStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status that a class should have, and when to resolve it again."""

    status: EC2NodeClassStatus
    again: float
    """Seconds until it should be resolved again."""

    errors: tuple[CloudError, ...] = ()


class NodeClassStatusResolver:
    """Resolves the status of node classes."""

    def __init__(
        self,
        services: Services,
        validate: Callable[[EC2NodeClass], Awaitable[ValidationFailure | None]] | None = None,
    ) -> None:
        """`validate` tries a launch of a class whose parts are all resolved; see :mod:`.validation`."""
        self._services = services
        self._settings = services.settings
        self._clock = services.clock
        self._validate = validate

    @property
    def conditions(self) -> tuple[str, ...]:
        reserved = (RESERVATIONS,) if self._settings.reserved_capacity else ()
        return (*_NEEDED, VALIDATION_SUCCEEDED, PLACEMENT_GROUP, *reserved)

    async def resolve(self, node_class: EC2NodeClass) -> ResolvedStatus:
        status = node_class.status
        condition_set = condition_set_of(
            node_class.metadata, status.conditions, self.conditions, self._clock.now()
        )
        resolution = _Resolution(node_class, condition_set)
        for kind, step in (
            (AMIS, self._images),
            (RESERVATIONS, self._reservations),
            (PLACEMENT_GROUP, self._placement_group),
            (SUBNETS, self._subnets),
            (SECURITY_GROUPS, self._security_groups),
            (PROFILE, self._profile),
            (VALIDATION_SUCCEEDED, self._validation),
        ):
            try:
                await step(resolution)
            except CloudError as error:
                resolution.failed(kind, error)
        resolution.condition_set = self._with_queue(resolution.condition_set)
        return ResolvedStatus(
            status=msgspec.structs.replace(
                resolution.node_class.status, conditions=resolution.condition_set.held
            ),
            again=min(resolution.waits, default=5 * _MINUTE),
            errors=tuple(resolution.errors),
        )

    def _with_queue(self, condition_set: ConditionSet) -> ConditionSet:
        """Return the conditions, with one that says why the interruption queue cannot be used."""
        error = self._services.sqs.error if self._services.sqs is not None else None
        if error is None:
            return condition_set.clear(QUEUE)
        reason = "Unauthorized" if isinstance(error, AccessDenied) else "QueueNotFound"
        return condition_set.set_false(QUEUE, reason, f"interruptions are not heard of: {error}")

    async def _images(self, resolution: _Resolution) -> None:
        try:
            found = await self._services.amis.find(
                resolution.node_class, await self._services.cluster.version()
            )
        except UnsupportedAlias as error:
            resolution.found(amis=())
            resolution.condition_set = resolution.condition_set.set_false(
                AMIS, "UnsupportedAlias", str(error)
            )
            return
        resolution.found(amis=as_status(found))
        if found:
            resolution.ready(AMIS, again=5 * _MINUTE)
        else:
            terms = spell_terms(resolution.node_class.spec.ami_selector_terms)
            resolution.not_found(AMIS, "AMINotFound", f"no available image has {terms}")

    async def _reservations(self, resolution: _Resolution) -> None:
        if not self._settings.reserved_capacity:
            return
        found = await self._services.reservations.find(
            resolution.node_class.spec.capacity_reservation_selector_terms
        )
        resolution.found(capacity_reservations=found)
        ends = [each.end_time for each in found if each.end_time is not None]
        # A reservation that ends must leave the status at once, not with the next minute.
        soonest = (min(ends) - self._clock.now()).total_seconds() if ends else _MINUTE
        resolution.ready(RESERVATIONS, again=max(0.0, min(_MINUTE, soonest)))

    async def _placement_group(self, resolution: _Resolution) -> None:
        selector = resolution.node_class.spec.placement_group_selector
        try:
            found = await self._services.placement_groups.find(selector)
        except CloudError as error:
            resolution.condition_set = resolution.condition_set.set_false(
                PLACEMENT_GROUP, "PlacementGroupResolutionFailed", str(error)
            )
            raise
        if selector is None or found is not None:
            resolution.ready(PLACEMENT_GROUP, again=5 * _MINUTE)
            return
        named = f"id {selector.id!r}" if selector.id else f"name {selector.name!r}"
        resolution.not_found(
            PLACEMENT_GROUP, "PlacementGroupNotFound", f"there is no placement group with {named}"
        )

    async def _subnets(self, resolution: _Resolution) -> None:
        terms = resolution.node_class.spec.subnet_selector_terms
        found = await self._services.subnets.find(terms)
        resolution.found(
            subnets=tuple(Subnet(id=each.id, zone=each.zone, zone_id=each.zone_id) for each in found)
        )
        if found:
            resolution.ready(SUBNETS, again=_MINUTE)
        else:
            resolution.not_found(
                SUBNETS,
                "SubnetsNotFound",
                f"no subnet of {self._services.aws.region} has {spell_terms(terms)}",
            )

    async def _security_groups(self, resolution: _Resolution) -> None:
        terms = resolution.node_class.spec.security_group_selector_terms
        found = await self._services.security_groups.find(terms)
        resolution.found(security_groups=found)
        if found:
            resolution.ready(SECURITY_GROUPS, again=5 * _MINUTE)
        else:
            resolution.not_found(
                SECURITY_GROUPS,
                "SecurityGroupsNotFound",
                f"no security group of {self._services.aws.region} has {spell_terms(terms)}",
            )

    async def _profile(self, resolution: _Resolution) -> None:
        resolution.found(
            instance_profile=await self._services.instance_profiles.ensure(resolution.node_class)
        )
        resolution.ready(PROFILE, again=5 * _MINUTE)

    async def _validation(self, resolution: _Resolution) -> None:
        node_class = resolution.node_class
        failure = await self._check_cidr(node_class)
        failure = failure or check_kubelet(node_class, expressions=self._settings.expressions)
        if failure is None and self._waits(resolution):
            return
        failure = failure or self._check_expressions(node_class) or check_tags(node_class)
        if failure is None and self._validate is not None and not self._settings.disable_dry_run:
            failure = await self._validate(node_class)
        if failure is None:
            resolution.ready(VALIDATION_SUCCEEDED, again=10 * _MINUTE)
        else:
            resolution.condition_set = resolution.condition_set.set_false(
                VALIDATION_SUCCEEDED, failure.reason, failure.message
            )

    async def _check_cidr(self, node_class: EC2NodeClass) -> ValidationFailure | None:
        """Return a failure if the service CIDR, which nodeadm on AL2023 needs, cannot be resolved."""
        if node_class.spec.family != AL2023:
            return None
        try:
            await self._services.cluster.service_cidr()
        except AwsApiError as error:
            if error.is_server_error:
                raise
            return ValidationFailure("ClusterCIDRResolutionFailed", str(error))
        return None

    def _waits(self, resolution: _Resolution) -> bool:
        """Note that validation waits for parts that are not ready; return whether any are."""
        for status, change in (
            ("False", resolution.condition_set.set_false),
            ("Unknown", resolution.condition_set.set_unknown),
        ):
            missing = [kind for kind in _NEEDED if resolution.condition_set.status(kind) == status]
            if missing:
                message = f"waiting for {', '.join(missing)}"
                resolution.condition_set = change(VALIDATION_SUCCEEDED, "DependenciesNotReady", message)
                resolution.waits.append(10 * _MINUTE)
                return True
        return False

    def _check_expressions(self, node_class: EC2NodeClass) -> ValidationFailure | None:
        if not expressions_of(node_class.spec.kubelet):
            return None
        try:
            traits = traits_of(
                node_class, settings=self._settings, region=self._services.aws.region, group=None
            )
        except NodeClassNotReady as error:
            return ValidationFailure("InvalidKubeletConfiguration", str(error))
        return check_types(self._services.instance_types.types.values(), traits)


class _Resolution:
    """A node class whose status is being resolved."""

    def __init__(self, node_class: EC2NodeClass, condition_set: ConditionSet) -> None:
        self.node_class = node_class
        self.condition_set = condition_set
        self.waits: list[float] = []
        self.errors: list[CloudError] = []

    def found(self, **changes: object) -> None:
        status = msgspec.structs.replace(self.node_class.status, **changes)
        self.node_class = msgspec.structs.replace(self.node_class, status=status)

    def ready(self, kind: str, *, again: float) -> None:
        """Note that a part is ready, and when to resolve it again."""
        self.condition_set = self.condition_set.set_true(kind)
        self.waits.append(again)

    def failed(self, kind: str, error: CloudError) -> None:
        """Note an error of AWS about a part: its condition stays, or is Unknown with the reason."""
        self.errors.append(error)
        if self.condition_set.status(kind) == "Unknown":
            reason = _REASONS.get(type(error), "LookupFailed")
            self.condition_set = self.condition_set.set_unknown(kind, reason, str(error))

    def not_found(self, kind: str, reason: str, message: str) -> None:
        """Note that a selector found nothing, and resolve it again soon."""
        self.condition_set = self.condition_set.set_false(kind, reason, message)
        self.waits.append(_MINUTE)


def spell_terms(terms: Sequence[Wire]) -> str:
    """Return selector terms as a phrase, such as ``tag karpenter.sh/discovery=blue, or id subnet-1``."""
    return ", or ".join(" and ".join(_spelled(to_plain(term))) for term in terms)


def _spelled(term: Mapping[str, Any]) -> Iterator[str]:
    for key, value in term.items():
        if isinstance(value, dict):
            yield from (
                f"tag {name}" + (f"={text}" if text != ANY else "") for name, text in sorted(value.items())
            )
        else:
            yield f"{key} {value}"


class NodeClassCache:
    """Node classes as the API server has them."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._followed = False
        self._held: dict[str, EC2NodeClass | None] = {}
        self._changes = 0

    def follow(self) -> None:
        """Cache classes from now on: the caller reports every change."""
        self._followed = True

    def changed(self, name: str) -> None:
        """Drop a class from the cache that was created, changed or deleted."""
        self._changes += 1
        self._held.pop(name, None)

    async def get(self, name: str) -> EC2NodeClass | None:
        """
        Return a class; None when there is none.

        Raises:
            CloudUnreachable: the API server does not answer.
        """
        if name in self._held:
            return self._held[name]
        before = self._changes
        found = await self._objects.get(EC2NodeClass, name)
        # A change that came while the object was read makes the answer stale.
        if self._followed and before == self._changes:
            self._held[name] = found
        return found
