"""
Putting the provider together: the only place where its parts are made.

How the provider ``aws`` begins when the operator runs.

It asks EC2 what there is to buy before it is ready; the operator keeps that current, see :mod:`.chores`.
Prices that cannot be asked for are those that ship with the product.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import boto3
import msgspec

from karpenter.base.clock import Clock
from karpenter.cloud.aws.amifamily.ami import Images
from karpenter.cloud.aws.amifamily.ssm import Parameters
from karpenter.cloud.aws.arczonalshift import Shifts
from karpenter.cloud.aws.capacityreservation import Reservations
from karpenter.cloud.aws.cloudprovider import AwsProvider, Parts
from karpenter.cloud.aws.cluster import Cluster
from karpenter.cloud.aws.controllers import every_chore
from karpenter.cloud.aws.errors import DRY_RUN, Refused
from karpenter.cloud.aws.instance.createfleet import Fleets
from karpenter.cloud.aws.instance.instance import Instances
from karpenter.cloud.aws.instance.launch import Launcher, Ledger, Workshop
from karpenter.cloud.aws.instanceprofile import Profiles
from karpenter.cloud.aws.instancetype.capacity import Discovered
from karpenter.cloud.aws.instancetype.offering import Catalogs, Shop
from karpenter.cloud.aws.interruption.controller import LONG_POLL, Queue
from karpenter.cloud.aws.launchtemplate import Templates
from karpenter.cloud.aws.metrics import Meters
from karpenter.cloud.aws.nodeclass.status import ClassBook, Finders, Resolver
from karpenter.cloud.aws.nodeclass.validation import Rehearsal, Stage
from karpenter.cloud.aws.options import AwsSettings, read_settings
from karpenter.cloud.aws.placementgroup import PlacementGroups
from karpenter.cloud.aws.pricing import Prices
from karpenter.cloud.aws.refresh import refresh_prices
from karpenter.cloud.aws.sdk import Aws, open_clients
from karpenter.cloud.aws.securitygroup import SecurityGroups
from karpenter.cloud.aws.subnet import Subnets
from karpenter.cloud.aws.unavailableofferings import Unavailable
from karpenter.cloud.cloudprovider import ClusterObjects

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from random import Random

    from karpenter.cloud.cloudprovider import Surroundings


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


class _Tools(msgspec.Struct, frozen=True, kw_only=True):
    """What depends on nothing but AWS, the settings and the clock; the rest is made from it."""

    aws: Aws
    settings: AwsSettings
    objects: ClusterObjects
    clock: Clock
    classes: ClassBook
    meters: Meters
    cluster: Cluster
    shifts: Shifts
    shop: Shop
    prices: Prices
    subnets: Subnets
    reservations: Reservations
    placement_groups: PlacementGroups
    parameters: Parameters
    images: Images
    profiles: Profiles
    unavailable: Unavailable
    discovered: Discovered
    templates: Templates
    instances: Instances
    catalogs: Catalogs


def assemble(
    aws: Aws,
    settings: AwsSettings,
    *,
    objects: ClusterObjects,
    clock: Clock,
    chance: Random,
    long_poll: int = LONG_POLL,
    version: Callable[[], Awaitable[str]] | None = None,
    ca_bundle: str | None = None,
) -> Assembled:
    """
    Return the parts, put together; nothing has been asked of AWS yet.

    A simulation passes a `long_poll` of zero: its time stands still while AWS is waited for. `version` asks
    the API server for its version, and `ca_bundle` is what our client trusts; without them, EKS is asked.
    """
    meters = Meters()
    aws.note = meters.note_call
    cluster = Cluster(aws, settings, objects, monotonic=clock.monotonic, version=version, ca_bundle=ca_bundle)
    tools = _tools(aws, settings, objects, clock, chance, meters, cluster)
    rehearsal = Rehearsal(aws, _stage(tools), monotonic=clock.monotonic)
    queue = _queue(tools, long_poll)
    parts = _parts(tools, queue)
    made = Assembled(
        aws=aws,
        settings=settings,
        objects=objects,
        classes=tools.classes,
        clock=clock,
        meters=meters,
        provider=AwsProvider(parts, duties=lambda office, roster: every_chore(made, office, roster)),
        rehearsal=rehearsal,
        shifts=tools.shifts,
        resolver=Resolver(
            _finders(tools),
            settings,
            region=aws.region,
            clock=clock,
            rehearse=rehearsal,
            trouble=lambda: queue.trouble if queue is not None else None,
        ),
        shop=tools.shop,
        prices=tools.prices,
        templates=tools.templates,
        profiles=tools.profiles,
        images=tools.images,
        parameters=tools.parameters,
        instances=tools.instances,
        reservations=tools.reservations,
        unavailable=tools.unavailable,
        discovered=tools.discovered,
        cluster=cluster,
    )
    return made


def _tools(  # noqa: PLR0917  what the provider is given, and what it has made of it
    aws: Aws,
    settings: AwsSettings,
    objects: ClusterObjects,
    clock: Clock,
    chance: Random,
    meters: Meters,
    cluster: Cluster,
) -> _Tools:
    monotonic = clock.monotonic
    shifts = Shifts(aws, cluster, clock=clock)
    shop, prices = Shop(aws), Prices(aws, isolated=settings.isolated_vpc)
    subnets = Subnets(aws, seconds=settings.subnet_refresh, monotonic=monotonic)
    reservations = Reservations(aws, clock=clock)
    parameters = Parameters(aws, monotonic=monotonic)
    unavailable = Unavailable(monotonic=monotonic, shifted=shifts.active)
    discovered = Discovered(monotonic=monotonic)
    return _Tools(
        aws=aws,
        settings=settings,
        objects=objects,
        clock=clock,
        classes=ClassBook(objects),
        meters=meters,
        cluster=cluster,
        shifts=shifts,
        shop=shop,
        prices=prices,
        subnets=subnets,
        reservations=reservations,
        placement_groups=PlacementGroups(aws, monotonic=monotonic),
        parameters=parameters,
        images=Images(aws, parameters, clock=clock, seconds=settings.ami_refresh),
        profiles=Profiles(aws, cluster=settings.cluster, chance=chance, monotonic=monotonic),
        unavailable=unavailable,
        discovered=discovered,
        templates=Templates(aws, cluster=settings.cluster, meters=meters, monotonic=monotonic),
        instances=Instances(
            aws,
            cluster=settings.cluster,
            clock=clock,
            meters=meters,
            reserved_capacity=settings.reserved_capacity,
            zone_id=lambda zone: subnets.zone_ids.get(zone, ""),
            shifted=shifts.active,
        ),
        catalogs=Catalogs(
            shop, prices, unavailable=unavailable, reservations=reservations, discovered=discovered
        ),
    )


def _finders(tools: _Tools) -> Finders:
    """Return who looks things up for classes."""
    return Finders(
        subnets=tools.subnets,
        security_groups=SecurityGroups(tools.aws, monotonic=tools.clock.monotonic),
        images=tools.images,
        profiles=tools.profiles,
        reservations=tools.reservations,
        placement_groups=tools.placement_groups,
        cluster=tools.cluster,
        shop=tools.shop,
    )


def _stage(tools: _Tools) -> Stage:
    """Return what classes are tried out with."""
    return Stage(
        settings=tools.settings,
        region=tools.aws.region,
        objects=tools.objects,
        cluster=tools.cluster,
        shop=tools.shop,
        catalogs=tools.catalogs,
        templates=tools.templates,
        placement_groups=tools.placement_groups,
    )


def _queue(tools: _Tools, long_poll: int) -> Queue | None:
    """Return the interruption queue, if one is set."""
    if not tools.settings.interruption_queue:
        return None
    return Queue(
        tools.aws,
        tools.settings.interruption_queue,
        clock=tools.clock,
        meters=tools.meters,
        unavailable=tools.unavailable,
        reservations=tools.reservations,
        long_poll=long_poll,
    )


def _parts(tools: _Tools, queue: Queue | None) -> Parts:
    """Return what the provider itself is made of."""
    workshop = Workshop(
        settings=tools.settings,
        clock=tools.clock,
        cluster=tools.cluster,
        shop=tools.shop,
        subnets=tools.subnets,
        reservations=tools.reservations,
        templates=tools.templates,
        fleets=Fleets(tools.aws, meters=tools.meters),
        instances=tools.instances,
        unavailable=tools.unavailable,
        meters=tools.meters,
    )
    return Parts(
        settings=tools.settings,
        region=tools.aws.region,
        objects=tools.objects,
        classes=tools.classes,
        cluster=tools.cluster,
        shop=tools.shop,
        prices=tools.prices,
        catalogs=tools.catalogs,
        instances=tools.instances,
        reservations=tools.reservations,
        placement_groups=tools.placement_groups,
        ledger=Ledger(tools.instances, tools.objects, monotonic=tools.clock.monotonic),
        launcher=Launcher(workshop),
        meters=tools.meters,
        queue=queue,
    )


@asynccontextmanager
async def connect(around: Surroundings) -> AsyncIterator[AwsProvider]:
    """
    Begin to use AWS for one cluster.

    Raises:
        BadSetting: a setting cannot be used.
        NoRegion: nobody knows the region.
        CloudError: EC2 does not tell what it sells, or EKS not what machines need to join.
    """
    settings = read_settings(around.cluster, around.settings)
    session = boto3.Session()
    clients = open_clients(session, region=settings.region, endpoint=settings.endpoint or None)
    aws = Aws(clients)
    try:
        await _check(aws)
        made = assemble(
            aws,
            settings,
            objects=around.objects,
            clock=around.clock,
            chance=around.chance,
            version=around.version,
            ca_bundle=around.ca_bundle,
        )
        await made.shop.refresh()
        await made.cluster.joining()
        await made.cluster.version()
        if settings.zonal_shift:
            await made.shifts.refresh()
        await refresh_prices(made.prices, around.clock)
        yield made.provider
    finally:
        aws.close()
        clients.close()


async def _check(aws: Aws) -> None:
    """
    Find out whether EC2 would answer us, so that whatever is wrong is told before anything else happens.

    Raises:
        CloudError: it would not.
    """
    try:
        await aws.ask("ec2", "DescribeInstanceTypes", DryRun=True, MaxResults=5)
    except Refused as error:
        if error.code != DRY_RUN:
            raise
