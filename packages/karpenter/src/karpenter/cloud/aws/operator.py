"""
Connects the provider ``aws`` when the operator runs.

Instance types, the cluster and prices are asked for before the provider is ready; controllers keep them
current afterwards (:mod:`.refresh`). Prices that AWS does not return are those that ship with the product.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import boto3
import structlog

from karpenter.cloud.aws.cloudprovider import AwsProvider
from karpenter.cloud.aws.errors import DRY_RUN, AwsApiError
from karpenter.cloud.aws.options import read_settings
from karpenter.cloud.aws.refresh import refresh_prices
from karpenter.cloud.aws.sdk import AwsApi, open_clients
from karpenter.cloud.aws.services import Services, new_services

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from karpenter.cloud.cloudprovider import ProviderContext

log = structlog.stdlib.get_logger(__name__)

LAST_CALLS_SECONDS: Final = 10.0


@asynccontextmanager
async def connect(context: ProviderContext) -> AsyncIterator[AwsProvider]:
    """
    Begin to use AWS for one cluster.

    Raises:
        BadAwsSetting: a setting cannot be used.
        NoRegion: the region is not known.
        CloudError: EC2 does not list its instance types, or EKS does not describe the cluster.
    """
    settings = read_settings(context.cluster, context.settings)
    session = boto3.Session()
    clients = open_clients(session, region=settings.region, endpoint=settings.endpoint or None)
    aws = AwsApi(clients, fence=context.fence)
    try:
        await _check_credentials(aws)
        services = new_services(
            aws,
            settings,
            objects=context.objects,
            clock=context.clock,
            chance=context.chance,
            version=context.version,
            ca_bundle=context.ca_bundle,
        )
        await prepare(services)
        yield AwsProvider(services)
    finally:
        # The lease is released after this, so that no call of ours arrives while another replica leads. A
        # pod that is told to end has 30 s in all, and the lease must still be released within them:
        # https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination
        try:
            await asyncio.wait_for(asyncio.to_thread(aws.close), LAST_CALLS_SECONDS)
        except TimeoutError:
            log.warning("aws.calls_unfinished", waited=LAST_CALLS_SECONDS)
        clients.close()


async def prepare(services: Services) -> None:
    """
    Ask AWS for what the provider needs before its first call.

    Raises:
        CloudError: AWS does not answer.
    """
    await services.instance_types.refresh()
    await services.cluster.joining()
    await services.cluster.version()
    if services.settings.zonal_shift:
        await services.zonal_shifts.refresh()
    await refresh_prices(services.pricing, services.clock)


async def _check_credentials(aws: AwsApi) -> None:
    """
    Call EC2 once with DryRun, so that missing credentials or permissions are reported before anything else.

    Raises:
        CloudError: EC2 does not accept the call.
    """
    try:
        await aws.call("ec2", "DescribeInstanceTypes", DryRun=True, MaxResults=5)
    except AwsApiError as error:
        # A dry run that would have succeeded is answered with this error code:
        # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/CommonParameters.html
        if error.code != DRY_RUN:
            raise
