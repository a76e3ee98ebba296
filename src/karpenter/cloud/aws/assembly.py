"""Putting the provider together: the only place where its parts are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.base.clock import Clock
from karpenter.cloud.aws.calls import Aws
from karpenter.cloud.aws.chores.every import every_chore
from karpenter.cloud.aws.classes.book import ClassBook
from karpenter.cloud.aws.classes.rehearsing import Rehearsal, Stage
from karpenter.cloud.aws.classes.resolver import Finders, Resolver
from karpenter.cloud.aws.cluster import Cluster
from karpenter.cloud.aws.images.finding import Images
from karpenter.cloud.aws.images.parameters import Parameters
from karpenter.cloud.aws.instances import Instances
from karpenter.cloud.aws.interruption.queue import LONG_POLL, Queue
from karpenter.cloud.aws.launch.fleets import Fleets
from karpenter.cloud.aws.launch.launcher import Launcher, Workshop
from karpenter.cloud.aws.launch.ledger import Ledger
from karpenter.cloud.aws.launch.templates import Templates
from karpenter.cloud.aws.metering import Meters
from karpenter.cloud.aws.provider import AwsProvider, Parts
from karpenter.cloud.aws.resolving.placement_groups import PlacementGroups
from karpenter.cloud.aws.resolving.profiles import Profiles
from karpenter.cloud.aws.resolving.reservations import Reservations
from karpenter.cloud.aws.resolving.security_groups import SecurityGroups
from karpenter.cloud.aws.resolving.shifts import Shifts
from karpenter.cloud.aws.resolving.subnets import Subnets
from karpenter.cloud.aws.settings import AwsSettings
from karpenter.cloud.aws.types.catalogs import Catalogs
from karpenter.cloud.aws.types.discovered import Discovered
from karpenter.cloud.aws.types.prices import Prices
from karpenter.cloud.aws.types.shop import Shop
from karpenter.cloud.aws.types.unavailable import Unavailable
from karpenter.cloud.surroundings import ClusterObjects

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from random import Random


class Assembled(msgspec.Struct, frozen=True, kw_only=True):
    """Everything, for whoever runs it."""

    aws: Aws
    settings: AwsSettings
    objects: ClusterObjects
    classes: ClassBook
    clock: Clock
    meters: Meters
    provider: AwsProvider
    rehearsal: Rehearsal
    shifts: Shifts
    resolver: Resolver
    shop: Shop
    prices: Prices
    templates: Templates
    profiles: Profiles
    images: Images
    parameters: Parameters
    instances: Instances
    reservations: Reservations
    unavailable: Unavailable
    discovered: Discovered
    cluster: Cluster


def assemble(
    aws: Aws,
    settings: AwsSettings,
    *,
    objects: ClusterObjects,
    clock: Clock,
    chance: Random,
    long_poll: int = LONG_POLL,
    version: Callable[[], Awaitable[str]] | None = None,
) -> Assembled:
    """
    Return the parts, put together; nothing has been asked of AWS yet.

    A simulation passes a `long_poll` of zero: its time stands still while AWS is waited for. `version` asks
    the API server for its version; without it, EKS is asked.
    """
    monotonic, meters, classes = clock.monotonic, Meters(), ClassBook(objects)
    aws.note = meters.note_call
    cluster = Cluster(aws, settings, objects, monotonic=monotonic, version=version)
    shifts = Shifts(aws, cluster, clock=clock)
    shop, prices = Shop(aws), Prices(aws, isolated=settings.isolated_vpc)
    subnets = Subnets(aws, seconds=settings.subnet_refresh, monotonic=monotonic)
    reservations = Reservations(aws, clock=clock)
    placement_groups = PlacementGroups(aws, monotonic=monotonic)
    parameters = Parameters(aws, monotonic=monotonic)
    images = Images(aws, parameters, clock=clock, seconds=settings.ami_refresh)
    profiles = Profiles(aws, cluster=settings.cluster, chance=chance, monotonic=monotonic)
    unavailable = Unavailable(monotonic=monotonic, shifted=shifts.active)
    discovered = Discovered(monotonic=monotonic)
    templates = Templates(aws, cluster=settings.cluster, meters=meters, monotonic=monotonic)
    instances = Instances(
        aws,
        cluster=settings.cluster,
        clock=clock,
        meters=meters,
        reserved_capacity=settings.reserved_capacity,
        zone_id=lambda zone: subnets.zone_ids.get(zone, ""),
        shifted=shifts.active,
    )
    catalogs = Catalogs(
        shop, prices, unavailable=unavailable, reservations=reservations, discovered=discovered
    )
    finders = Finders(
        subnets=subnets,
        security_groups=SecurityGroups(aws, monotonic=monotonic),
        images=images,
        profiles=profiles,
        reservations=reservations,
        placement_groups=placement_groups,
        cluster=cluster,
        shop=shop,
    )
    workshop = Workshop(
        settings=settings,
        clock=clock,
        cluster=cluster,
        shop=shop,
        subnets=subnets,
        reservations=reservations,
        templates=templates,
        fleets=Fleets(aws, meters=meters),
        instances=instances,
        unavailable=unavailable,
        meters=meters,
    )
    stage = Stage(
        settings=settings,
        region=aws.region,
        objects=objects,
        cluster=cluster,
        shop=shop,
        catalogs=catalogs,
        templates=templates,
        placement_groups=placement_groups,
    )
    rehearsal = Rehearsal(aws, stage, monotonic=monotonic)
    queue = None
    if settings.interruption_queue:
        queue = Queue(
            aws,
            settings.interruption_queue,
            clock=clock,
            meters=meters,
            unavailable=unavailable,
            reservations=reservations,
            long_poll=long_poll,
        )
    parts = Parts(
        settings=settings,
        region=aws.region,
        objects=objects,
        classes=classes,
        cluster=cluster,
        shop=shop,
        prices=prices,
        catalogs=catalogs,
        instances=instances,
        reservations=reservations,
        placement_groups=placement_groups,
        ledger=Ledger(instances, objects, monotonic=monotonic),
        launcher=Launcher(workshop),
        meters=meters,
        queue=queue,
    )
    made = Assembled(
        aws=aws,
        settings=settings,
        objects=objects,
        classes=classes,
        clock=clock,
        meters=meters,
        provider=AwsProvider(parts, duties=lambda office, roster: every_chore(made, office, roster)),
        rehearsal=rehearsal,
        shifts=shifts,
        resolver=Resolver(finders, settings, region=aws.region, clock=clock, rehearse=rehearsal),
        shop=shop,
        prices=prices,
        templates=templates,
        profiles=profiles,
        images=images,
        parameters=parameters,
        instances=instances,
        reservations=reservations,
        unavailable=unavailable,
        discovered=discovered,
        cluster=cluster,
    )
    return made
