"""
How the provider ``aws`` begins when the operator runs.

It asks EC2 what there is to buy before it is ready, and then keeps that current: types, offerings and prices
every twelve hours. Prices that cannot be asked for are those that ship with the product.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import boto3
import structlog

from karpenter.base.aio.tasks import Supervisor
from karpenter.cloud.aws.assembly import assemble
from karpenter.cloud.aws.calls import Aws
from karpenter.cloud.aws.session import open_clients
from karpenter.cloud.aws.settings import read_settings
from karpenter.cloud.aws.types.shop import REFRESHED_EVERY
from karpenter.cloud.errors import CloudError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.assembly import Assembled
    from karpenter.cloud.aws.provider import AwsProvider
    from karpenter.cloud.surroundings import Surroundings

log = structlog.stdlib.get_logger(__name__)


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
        made = assemble(aws, settings, objects=around.objects, clock=around.clock, chance=around.chance)
        await made.shop.refresh()
        await made.cluster.joining()
        await made.cluster.version()
        await _refresh_prices(made, around.clock)
        await made.templates.recall()
        async with Supervisor(chance=around.chance) as supervisor:
            supervisor.start("aws.catalogue", lambda: _keep_current(made, around.clock))
            supervisor.start("aws.launch_templates", made.templates.run)
            yield made.provider
    finally:
        aws.close()
        clients.close()


async def _keep_current(made: Assembled, clock: Clock) -> None:
    while True:
        await clock.sleep(REFRESHED_EVERY)
        await made.shop.refresh()
        await _refresh_prices(made, clock)


async def _refresh_prices(made: Assembled, clock: Clock) -> None:
    """Ask for prices; those that cannot be had stay as they are."""
    found = await asyncio.gather(
        made.prices.refresh_on_demand(),
        made.prices.refresh_spot(clock.now()),
        return_exceptions=True,
    )
    for error in found:
        if isinstance(error, CloudError):
            log.warning("prices.not_refreshed", error=str(error))
        elif isinstance(error, BaseException):
            raise error
