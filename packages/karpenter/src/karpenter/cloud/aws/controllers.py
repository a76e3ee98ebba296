"""All duties of the provider, made from its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.cloud.aws.arczonalshift import ShiftWatch
from karpenter.cloud.aws.capacityreservation_controllers import Demotion, Expiry
from karpenter.cloud.aws.garbagecollection import InstanceCollection, ProfileCollection, TemplateCollection
from karpenter.cloud.aws.instancetype.metrics import OfferingGauges
from karpenter.cloud.aws.interruption.instancestatus import Health
from karpenter.cloud.aws.nodeclass.controller import NodeClassCare
from karpenter.cloud.aws.nodeclass.hash import HashCare
from karpenter.cloud.aws.nodeclass.metrics import ClassGauges
from karpenter.cloud.aws.refresh import ParameterRefresh, PriceRefresh, TypeRefresh, VersionRefresh
from karpenter.cloud.aws.tagging import MemoryCare, PartitionCare, TaggingCare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.cloud.aws.interruption.controller import Roster
    from karpenter.cloud.aws.operator import Assembled
    from karpenter.cloud.cloudprovider import Duty, Office


def every_chore(made: Assembled, office: Office, roster: Roster) -> Iterator[Duty]:
    """Yield all of them, as the settings want it."""
    view, objects, clock, settings = office.view, made.objects, made.clock, made.settings
    reachable = None if settings.isolated_vpc else made.profiles
    yield NodeClassCare(
        objects=objects,
        classes=made.classes,
        view=view,
        resolver=made.resolver,
        rehearsal=made.rehearsal,
        profiles=reachable,
        templates=made.templates,
        meters=made.meters,
        gauges=ClassGauges(made.meters, clock),
    )
    yield HashCare(objects=objects, view=view, cluster=made.cluster)
    yield TaggingCare(view=view, instances=made.instances, cluster=settings.cluster, clock=clock)
    yield PartitionCare(view=view, instances=made.instances)
    yield MemoryCare(objects=objects, view=view, discovered=made.discovered)
    yield InstanceCollection(provider=made.provider, view=view, clock=clock)
    if reachable is not None:
        yield ProfileCollection(profiles=reachable, objects=objects, view=view)
    yield TemplateCollection(made.templates)
    yield PriceRefresh(made.prices, clock=clock)
    yield TypeRefresh(made.shop)
    yield ParameterRefresh(made.parameters, made.images)
    yield VersionRefresh(made.cluster)
    if settings.reserved_capacity:
        yield Demotion(view=view, instances=made.instances)
        yield Expiry(view=view, reservations=made.reservations)
    if settings.zonal_shift:
        yield ShiftWatch(shifts=made.shifts, objects=objects, view=view)
    yield Health(made.aws, roster=roster, clock=clock, meters=made.meters)
    yield OfferingGauges(
        provider=made.provider,
        view=view,
        shop=made.shop,
        meters=made.meters,
        reserved_capacity=settings.reserved_capacity,
    )
