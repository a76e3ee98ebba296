"""Creates the controllers of AWS, as the settings ask for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.cloud.aws.arczonalshift import ZonalShiftController
from karpenter.cloud.aws.capacityreservation import (
    CapacityTypeController,
    ReservationExpirationController,
)
from karpenter.cloud.aws.garbagecollection import (
    InstanceProfileGarbageCollection,
    LaunchTemplateGarbageCollection,
)
from karpenter.cloud.aws.instancetype.metrics import InstanceTypeMetricsController
from karpenter.cloud.aws.interruption.instancestatus import InstanceStatusController
from karpenter.cloud.aws.nodeclass.controller import NodeClassConditionMetrics, NodeClassController
from karpenter.cloud.aws.nodeclass.hash import NodeClassHashController
from karpenter.cloud.aws.refresh import (
    InstanceTypeController,
    PricingController,
    SSMInvalidationController,
    VersionController,
)
from karpenter.cloud.aws.tagging import DiscoveredCapacityController, PartitionController, TaggingController

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from karpenter.cloud.aws.cloudprovider import AwsProvider
    from karpenter.cloud.aws.interruption.controller import InstanceClaims
    from karpenter.cloud.cloudprovider import ProviderController
    from karpenter.core.state.cluster import ClusterView


def new_controllers(
    provider: AwsProvider, *, view: Callable[[], ClusterView], claims: InstanceClaims
) -> Iterator[ProviderController]:
    services = provider.services
    objects, clock, settings = services.objects, services.clock, services.settings
    # IAM is not reachable from an isolated VPC, so instance profiles are left alone there:
    # https://karpenter.sh/docs/getting-started/getting-started-with-karpenter/
    profiles = None if settings.isolated_vpc else services.instance_profiles
    yield NodeClassController(
        services,
        view=view,
        resolver=provider.node_class_status,
        validation=provider.validation,
        gauges=NodeClassConditionMetrics(services.metrics, clock),
    )
    yield NodeClassHashController(objects=objects, view=view, cluster=services.cluster)
    yield TaggingController(view=view, instances=services.instances, cluster=settings.cluster, clock=clock)
    yield PartitionController(view=view, instances=services.instances)
    yield DiscoveredCapacityController(objects=objects, view=view, discovered=services.discovered)
    if profiles is not None:
        yield InstanceProfileGarbageCollection(profiles=profiles, objects=objects, view=view)
    yield LaunchTemplateGarbageCollection(services.launch_templates)
    yield PricingController(services.pricing, clock=clock, metrics=services.metrics)
    yield InstanceTypeController(services.instance_types)
    yield SSMInvalidationController(services.ssm, services.amis)
    yield VersionController(services.cluster)
    if settings.reserved_capacity:
        yield CapacityTypeController(view=view, instances=services.instances)
        yield ReservationExpirationController(view=view, reservations=services.reservations)
    if settings.zonal_shift:
        yield ZonalShiftController(shifts=services.zonal_shifts, objects=objects, view=view)
    yield InstanceStatusController(services.aws, claims=claims, clock=clock, metrics=services.metrics)
    yield InstanceTypeMetricsController(
        provider=provider,
        view=view,
        instance_types=services.instance_types,
        metrics=services.metrics,
        reserved_capacity=settings.reserved_capacity,
    )
