"""All duties of the provider, made from its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.cloud.aws.arczonalshift import ZonalShiftController
from karpenter.cloud.aws.capacityreservation_controllers import (
    CapacityTypeController,
    ReservationExpirationController,
)
from karpenter.cloud.aws.garbagecollection import (
    InstanceGarbageCollection,
    InstanceProfileGarbageCollection,
    LaunchTemplateGarbageCollection,
)
from karpenter.cloud.aws.instancetype.metrics import InstanceTypeMetricsController
from karpenter.cloud.aws.interruption.instancestatus import InstanceStatusController
from karpenter.cloud.aws.nodeclass.controller import NodeClassController
from karpenter.cloud.aws.nodeclass.hash import NodeClassHashController
from karpenter.cloud.aws.nodeclass.metrics import NodeClassConditionMetrics
from karpenter.cloud.aws.refresh import (
    InstanceTypeController,
    PricingController,
    SSMInvalidationController,
    VersionController,
)
from karpenter.cloud.aws.tagging import DiscoveredCapacityController, PartitionController, TaggingController

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.cloud.aws.interruption.controller import InstanceClaims
    from karpenter.cloud.aws.operator import Assembled
    from karpenter.cloud.cloudprovider import ControllerContext, ProviderController


def new_controllers(made: Assembled, office: ControllerContext, roster: InstanceClaims) -> Iterator[ProviderController]:
    """Yield all of them, as the settings want it."""
    view, objects, clock, settings = office.view, made.objects, made.clock, made.settings
    reachable = None if settings.isolated_vpc else made.profiles
    yield NodeClassController(
        objects=objects,
        classes=made.classes,
        view=view,
        resolver=made.resolver,
        rehearsal=made.rehearsal,
        profiles=reachable,
        templates=made.templates,
        meters=made.meters,
        gauges=NodeClassConditionMetrics(made.meters, clock),
    )
    yield NodeClassHashController(objects=objects, view=view, cluster=made.cluster)
    yield TaggingController(view=view, instances=made.instances, cluster=settings.cluster, clock=clock)
    yield PartitionController(view=view, instances=made.instances)
    yield DiscoveredCapacityController(objects=objects, view=view, discovered=made.discovered)
    yield InstanceGarbageCollection(provider=made.provider, view=view, clock=clock)
    if reachable is not None:
        yield InstanceProfileGarbageCollection(profiles=reachable, objects=objects, view=view)
    yield LaunchTemplateGarbageCollection(made.templates)
    yield PricingController(made.prices, clock=clock)
    yield InstanceTypeController(made.shop)
    yield SSMInvalidationController(made.parameters, made.images)
    yield VersionController(made.cluster)
    if settings.reserved_capacity:
        yield CapacityTypeController(view=view, instances=made.instances)
        yield ReservationExpirationController(view=view, reservations=made.reservations)
    if settings.zonal_shift:
        yield ZonalShiftController(shifts=made.shifts, objects=objects, view=view)
    yield InstanceStatusController(made.aws, roster=roster, clock=clock, meters=made.meters)
    yield InstanceTypeMetricsController(
        provider=made.provider,
        view=view,
        shop=made.shop,
        meters=made.meters,
        reserved_capacity=settings.reserved_capacity,
    )
