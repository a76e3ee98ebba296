"""
The status of a node class: everything that it selects, and a condition for each part.

All parts are looked at, even if one fails. A part that AWS does not answer about keeps what was known of it;
the error is returned beside the status, and whoever asked tries again.

Node classes as they stand in Kubernetes, read once for every change of them.

Every launch, every look at drift and every catalogue asks for a class. While somebody tells us of changes,
what was read stays good until the next one; otherwise, each question goes to the API server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.ec2nodeclass import AL2023, EC2NodeClass
from karpenter.api.ec2nodeclass_status import EC2NodeClassStatus, Subnet
from karpenter.cloud.aws.amifamily.alias import UnsupportedAlias
from karpenter.cloud.aws.amifamily.ami import AMIProvider, as_status
from karpenter.cloud.aws.capacityreservation import CapacityReservationProvider
from karpenter.cloud.aws.cluster import EksCluster
from karpenter.cloud.aws.errors import AccessDenied, AwsApiError
from karpenter.cloud.aws.instanceprofile import InstanceProfileProvider, RoleMissing
from karpenter.cloud.aws.instancetype.instancetype import traits_of
from karpenter.cloud.aws.instancetype.offering import InstanceTypeStore
from karpenter.cloud.aws.kubelet.expressions import expressions_of
from karpenter.cloud.aws.nodeclass.validation import ValidationFailure, check_kubelet, check_tags, check_types
from karpenter.cloud.aws.placementgroup import PlacementGroupProvider
from karpenter.cloud.aws.securitygroup import SecurityGroupProvider
from karpenter.cloud.aws.subnet import SubnetProvider
from karpenter.cloud.errors import CloudError, NodeClassNotReady
from karpenter.core.lifecycle.conditions import VALIDATION_SUCCEEDED, board_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.options import AwsSettings
    from karpenter.cloud.cloudprovider import ClusterObjects
    from karpenter.core.lifecycle.conditions import Board


AMIS: Final = "AMIsReady"
SUBNETS: Final = "SubnetsReady"
SECURITY_GROUPS: Final = "SecurityGroupsReady"
PROFILE: Final = "InstanceProfileReady"
PLACEMENT_GROUP: Final = "PlacementGroupReady"
RESERVATIONS: Final = "CapacityReservationsReady"
QUEUE: Final = "InterruptionQueueReady"
"""Only there while the queue cannot be used; machines are launched all the same."""

_REASONS: Final[dict[type[CloudError], str]] = {AccessDenied: "Unauthorized", RoleMissing: "RoleNotFound"}
_NEEDED: Final = (AMIS, PROFILE, SECURITY_GROUPS, SUBNETS)
_MINUTE: Final = 60.0


class ResolvedStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a class."""

    status: EC2NodeClassStatus
    again: float
    """Seconds until it is worth looking again."""

    errors: tuple[CloudError, ...] = ()


class Finders(msgspec.Struct, frozen=True, kw_only=True):
    """Who looks things up."""

    subnets: SubnetProvider
    security_groups: SecurityGroupProvider
    images: AMIProvider
    profiles: InstanceProfileProvider
    reservations: CapacityReservationProvider
    placement_groups: PlacementGroupProvider
    cluster: EksCluster
    shop: InstanceTypeStore


class NodeClassStatusResolver:
    """Works out the status of classes."""

    def __init__(
        self,
        finders: Finders,
        settings: AwsSettings,
        *,
        region: str,
        clock: Clock,
        rehearse: Callable[[EC2NodeClass], Awaitable[ValidationFailure | None]] | None = None,
        trouble: Callable[[], AwsApiError | None] = lambda: None,
    ) -> None:
        """`trouble` tells why the interruption queue cannot be used, if that is so."""
        self._find = finders
        self._settings = settings
        self._region = region
        self._clock = clock
        self._rehearse = rehearse
        self._trouble = trouble

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions that a class has to meet."""
        reserved = (RESERVATIONS,) if self._settings.reserved_capacity else ()
        return (*_NEEDED, VALIDATION_SUCCEEDED, PLACEMENT_GROUP, *reserved)

    async def resolve(self, node_class: EC2NodeClass) -> ResolvedStatus:
        """Return the status that a class should have now."""
        status = node_class.status
        board = board_of(node_class.metadata, status.conditions, self.conditions, self._clock.now())
        work = _Work(node_class, board)
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
                await step(work)
            except CloudError as error:
                work.fail(kind, error)
        work.board = self._heard(work.board)
        return ResolvedStatus(
            status=msgspec.structs.replace(work.node_class.status, conditions=work.board.held),
            again=min(work.waits, default=5 * _MINUTE),
            errors=tuple(work.errors),
        )

    def _heard(self, board: Board) -> Board:
        """Return the board with what keeps us from hearing of interruptions."""
        trouble = self._trouble()
        if trouble is None:
            return board.clear(QUEUE)
        reason = "Unauthorized" if isinstance(trouble, AccessDenied) else "QueueNotFound"
        return board.false(QUEUE, reason, f"interruptions are not heard of: {trouble}")

    async def _images(self, work: _Work) -> None:
        try:
            found = await self._find.images.find(work.node_class, await self._find.cluster.version())
        except UnsupportedAlias as error:
            work.found(amis=())
            work.board = work.board.false(AMIS, "UnsupportedAlias", str(error))
            return
        work.found(amis=as_status(found))
        if found:
            work.settle(AMIS, again=5 * _MINUTE)
        else:
            work.miss(AMIS, "AMINotFound", "the AMI selector matches no image that is available")

    async def _reservations(self, work: _Work) -> None:
        if not self._settings.reserved_capacity:
            return
        found = await self._find.reservations.find(work.node_class.spec.capacity_reservation_selector_terms)
        work.found(capacity_reservations=found)
        ends = [each.end_time for each in found if each.end_time is not None]
        soonest = (min(ends) - self._clock.now()).total_seconds() if ends else _MINUTE
        work.settle(RESERVATIONS, again=max(0.0, min(_MINUTE, soonest)))

    async def _placement_group(self, work: _Work) -> None:
        selector = work.node_class.spec.placement_group_selector
        try:
            found = await self._find.placement_groups.find(selector)
        except CloudError as error:
            work.board = work.board.false(PLACEMENT_GROUP, "PlacementGroupResolutionFailed", str(error))
            raise
        if selector is None or found is not None:
            work.settle(PLACEMENT_GROUP, again=5 * _MINUTE)
            return
        named = f"id {selector.id!r}" if selector.id else f"name {selector.name!r}"
        work.miss(PLACEMENT_GROUP, "PlacementGroupNotFound", f"there is no placement group with {named}")

    async def _subnets(self, work: _Work) -> None:
        found = await self._find.subnets.find(work.node_class.spec.subnet_selector_terms)
        work.found(subnets=tuple(Subnet(id=each.id, zone=each.zone, zone_id=each.zone_id) for each in found))
        if found:
            work.settle(SUBNETS, again=_MINUTE)
        else:
            work.miss(SUBNETS, "SubnetsNotFound", "the subnet selector matches no subnet")

    async def _security_groups(self, work: _Work) -> None:
        found = await self._find.security_groups.find(work.node_class.spec.security_group_selector_terms)
        work.found(security_groups=found)
        if found:
            work.settle(SECURITY_GROUPS, again=5 * _MINUTE)
        else:
            work.miss(
                SECURITY_GROUPS, "SecurityGroupsNotFound", "the security group selector matches no group"
            )

    async def _profile(self, work: _Work) -> None:
        work.found(instance_profile=await self._find.profiles.ensure(work.node_class))
        work.settle(PROFILE, again=5 * _MINUTE)

    async def _validation(self, work: _Work) -> None:
        node_class = work.node_class
        fault = await self._cidr(node_class)
        fault = fault or check_kubelet(node_class, expressions=self._settings.expressions)
        if fault is None and self._waits(work):
            return
        fault = fault or self._expressions(node_class) or check_tags(node_class)
        if fault is None and self._rehearse is not None and not self._settings.disable_dry_run:
            fault = await self._rehearse(node_class)
        if fault is None:
            work.settle(VALIDATION_SUCCEEDED, again=10 * _MINUTE)
        else:
            work.board = work.board.false(VALIDATION_SUCCEEDED, fault.reason, fault.message)

    async def _cidr(self, node_class: EC2NodeClass) -> ValidationFailure | None:
        """Return whether the addresses of services, which AL2023 needs, cannot be found out."""
        if node_class.spec.family != AL2023:
            return None
        try:
            await self._find.cluster.service_cidr()
        except AwsApiError as error:
            if error.is_fault_of_server:
                raise
            return ValidationFailure("ClusterCIDRResolutionFailed", str(error))
        return None

    def _waits(self, work: _Work) -> bool:
        """Say that validation waits for parts that are missing, if any are."""
        for status, change in (("False", work.board.false), ("Unknown", work.board.unknown)):
            missing = [kind for kind in _NEEDED if work.board.status(kind) == status]
            if missing:
                message = f"waiting for {', '.join(missing)}"
                work.board = change(VALIDATION_SUCCEEDED, "DependenciesNotReady", message)
                work.waits.append(10 * _MINUTE)
                return True
        return False

    def _expressions(self, node_class: EC2NodeClass) -> ValidationFailure | None:
        if not expressions_of(node_class.spec.kubelet):
            return None
        try:
            traits = traits_of(node_class, settings=self._settings, region=self._region, group=None)
        except NodeClassNotReady as error:
            return ValidationFailure("InvalidKubeletConfiguration", str(error))
        return check_types(self._find.shop.types.values(), traits)


class _Work:
    """A class whose status is being worked out."""

    def __init__(self, node_class: EC2NodeClass, board: Board) -> None:
        self.node_class = node_class
        self.board = board
        self.waits: list[float] = []
        self.errors: list[CloudError] = []

    def found(self, **changes: object) -> None:
        """Note what was found."""
        status = msgspec.structs.replace(self.node_class.status, **changes)
        self.node_class = msgspec.structs.replace(self.node_class, status=status)

    def settle(self, kind: str, *, again: float) -> None:
        """Note that a part is ready, and when to look at it again."""
        self.board = self.board.true(kind)
        self.waits.append(again)

    def fail(self, kind: str, error: CloudError) -> None:
        """Note that a part could not be looked at; what was known of it stays, or else the reason is told."""
        self.errors.append(error)
        if self.board.status(kind) == "Unknown":
            reason = _REASONS.get(type(error), "LookupFailed")
            self.board = self.board.unknown(kind, reason, str(error))

    def miss(self, kind: str, reason: str, message: str) -> None:
        """Note that a part was not found, and look again soon."""
        self.board = self.board.false(kind, reason, message)
        self.waits.append(_MINUTE)


class NodeClassCache:
    """Looks classes up."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._followed = False
        self._held: dict[str, EC2NodeClass | None] = {}
        self._changes = 0

    def follow(self) -> None:
        """Rely from now on upon being told of every change."""
        self._followed = True

    def changed(self, name: str) -> None:
        """Note that a class has changed, has come or has gone."""
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
        if self._followed and before == self._changes:
            self._held[name] = found
        return found
