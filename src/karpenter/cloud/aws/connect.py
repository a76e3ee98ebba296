"""
How the provider ``aws`` begins when the operator runs.

It asks EC2 what there is to buy before it is ready; the operator keeps that current, see :mod:`.chores`.
Prices that cannot be asked for are those that ship with the product.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import boto3

from karpenter.cloud.aws.assembly import assemble
from karpenter.cloud.aws.calls import Aws
from karpenter.cloud.aws.chores.refreshing import refresh_prices
from karpenter.cloud.aws.refusals import DRY_RUN, Refused
from karpenter.cloud.aws.session import open_clients
from karpenter.cloud.aws.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from karpenter.cloud.aws.provider import AwsProvider
    from karpenter.cloud.surroundings import Surroundings


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
