"""
Everything that the CloudProvider and the controllers of AWS work with, as one value.

:func:`new_services` creates it. Nothing in it depends on the CloudProvider or on a controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.base.clock import Clock
from karpenter.cloud.aws.amifamily.ami import AMIProvider
from karpenter.cloud.aws.amifamily.ssm import SSMProvider
from karpenter.cloud.aws.arczonalshift import ZonalShiftProvider
from karpenter.cloud.aws.capacityreservation import CapacityReservationProvider
from karpenter.cloud.aws.cluster import EksCluster
from karpenter.cloud.aws.instance.createfleet import CreateFleetBatcher
from karpenter.cloud.aws.instance.instance import InstanceProvider
from karpenter.cloud.aws.instanceprofile import InstanceProfileProvider
from karpenter.cloud.aws.instancetype.capacity import DiscoveredCapacity
from karpenter.cloud.aws.instancetype.instancetype import InstanceTypeProvider, InstanceTypeStore
from karpenter.cloud.aws.launchtemplate import LaunchTemplateProvider
from karpenter.cloud.aws.metrics import ProviderMetrics
from karpenter.cloud.aws.nodeclass.status import NodeClassCache
from karpenter.cloud.aws.options import AwsSettings
from karpenter.cloud.aws.placementgroup import PlacementGroupProvider
from karpenter.cloud.aws.pricing import PricingProvider
from karpenter.cloud.aws.sdk import AwsApi
from karpenter.cloud.aws.securitygroup import SecurityGroupProvider
from karpenter.cloud.aws.sqs import LONG_POLL_SECONDS, SQSProvider
from karpenter.cloud.aws.subnet import SubnetProvider
from karpenter.cloud.aws.unavailableofferings import UnavailableOfferings
from karpenter.cloud.cloudprovider import ClusterObjects

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from random import Random


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """The clients, providers and caches of one cluster on AWS."""

    aws: AwsApi
    settings: AwsSettings
    objects: ClusterObjects
    clock: Clock
    metrics: ProviderMetrics
    cluster: EksCluster
    node_classes: NodeClassCache
    zonal_shifts: ZonalShiftProvider
    instance_types: InstanceTypeStore
    """What EC2 describes; :attr:`catalogs` has it as NodePools see it."""

    pricing: PricingProvider
    subnets: SubnetProvider
    security_groups: SecurityGroupProvider
    reservations: CapacityReservationProvider
    placement_groups: PlacementGroupProvider
    ssm: SSMProvider
    amis: AMIProvider
    instance_profiles: InstanceProfileProvider
    unavailable: UnavailableOfferings
    discovered: DiscoveredCapacity
    launch_templates: LaunchTemplateProvider
    instances: InstanceProvider
    fleets: CreateFleetBatcher
    catalogs: InstanceTypeProvider
    sqs: SQSProvider | None = None
    """None when no interruption queue is set."""


def new_services(
    aws: AwsApi,
    settings: AwsSettings,
    *,
    objects: ClusterObjects,
    clock: Clock,
    chance: Random,
    long_poll: int = LONG_POLL_SECONDS,
    version: Callable[[], Awaitable[str]] | None = None,
    ca_bundle: str | None = None,
) -> Services:
    """
    Return the services; nothing has been asked of AWS yet.

    A simulation passes a `long_poll` of zero: its virtual time stands still while AWS is waited for.
    `version` asks the API server for its version, and `ca_bundle` is what our client trusts; without them,
    EKS is asked.
    """
    monotonic = clock.monotonic
    metrics = ProviderMetrics()
    aws.on_call = metrics.note_call
    cluster = EksCluster(aws, settings, objects, monotonic=monotonic, version=version, ca_bundle=ca_bundle)
    zonal_shifts = ZonalShiftProvider(aws, cluster, clock=clock)
    instance_types, pricing = InstanceTypeStore(aws), PricingProvider(aws, isolated=settings.isolated_vpc)
    subnets = SubnetProvider(aws, seconds=settings.subnet_refresh, monotonic=monotonic)
    reservations = CapacityReservationProvider(aws, clock=clock)
    ssm = SSMProvider(aws, monotonic=monotonic)
    unavailable = UnavailableOfferings(monotonic=monotonic, shifted=zonal_shifts.active)
    discovered = DiscoveredCapacity(monotonic=monotonic)
    queue = settings.interruption_queue
    return Services(
        aws=aws,
        settings=settings,
        objects=objects,
        clock=clock,
        metrics=metrics,
        cluster=cluster,
        node_classes=NodeClassCache(objects),
        zonal_shifts=zonal_shifts,
        instance_types=instance_types,
        pricing=pricing,
        subnets=subnets,
        security_groups=SecurityGroupProvider(aws, monotonic=monotonic),
        reservations=reservations,
        placement_groups=PlacementGroupProvider(aws, monotonic=monotonic),
        ssm=ssm,
        amis=AMIProvider(aws, ssm, clock=clock, seconds=settings.ami_refresh),
        instance_profiles=InstanceProfileProvider(
            aws, cluster=settings.cluster, chance=chance, monotonic=monotonic
        ),
        unavailable=unavailable,
        discovered=discovered,
        launch_templates=LaunchTemplateProvider(
            aws, cluster=settings.cluster, metrics=metrics, monotonic=monotonic
        ),
        instances=InstanceProvider(
            aws,
            cluster=settings.cluster,
            clock=clock,
            metrics=metrics,
            reserved_capacity=settings.reserved_capacity,
            zone_id=lambda zone: subnets.zone_ids.get(zone, ""),
            shifted=zonal_shifts.active,
        ),
        fleets=CreateFleetBatcher(aws, metrics=metrics),
        catalogs=InstanceTypeProvider(
            instance_types,
            pricing,
            unavailable=unavailable,
            reservations=reservations,
            discovered=discovered,
        ),
        sqs=SQSProvider(aws, queue, clock=clock, metrics=metrics, long_poll=long_poll) if queue else None,
    )
