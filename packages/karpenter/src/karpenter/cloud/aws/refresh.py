"""
Keeps current what was asked of AWS at the start: instance types, prices, AMIs of SSM parameters, the version.

Each controller is named after the one of Karpenter that does the same.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from karpenter.cloud.aws.instancetype.instancetype import REFRESH_SECONDS, InstanceTypeStore
from karpenter.cloud.aws.metrics import PRICE_DATA_AGE, ProviderMetrics
from karpenter.cloud.errors import CloudError
from karpenter.core.effects import Step

if TYPE_CHECKING:
    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.amifamily.ami import AMIProvider
    from karpenter.cloud.aws.amifamily.ssm import SSMProvider
    from karpenter.cloud.aws.cluster import EksCluster
    from karpenter.cloud.aws.pricing import PricingProvider

log = structlog.stdlib.get_logger(__name__)

# The intervals of Karpenter's controllers of the same names.
PARAMETERS_SECONDS: Final = 30 * 60.0
VERSION_SECONDS: Final = 5 * 60.0


class PricingController:
    """Updates prices. They were asked for once before the operator started."""

    name = "providers.pricing"

    def __init__(self, prices: PricingProvider, *, clock: Clock, metrics: ProviderMetrics) -> None:
        self._prices = prices
        self._clock = clock
        self._metrics = metrics
        self._started = False

    async def look(self) -> Step:
        """Ask for on-demand and spot prices; if one fails, the other is still updated."""
        if not self._started:
            self._started = True
            self._show_age()
            return Step(again=REFRESH_SECONDS)
        found = await asyncio.gather(
            self._prices.refresh_on_demand(self._clock.now()),
            self._prices.refresh_spot(self._clock.now()),
            return_exceptions=True,
        )
        self._show_age()
        for error in found:
            if isinstance(error, BaseException):
                raise error
        return Step(again=REFRESH_SECONDS)

    def _show_age(self) -> None:
        rows = [(at.timestamp(), {"capacity_type": each}) for each, at in self._prices.read_at.items()]
        self._metrics.show(PRICE_DATA_AGE, "prices", rows)


class InstanceTypeController:
    """Updates instance types and offerings. They were asked for once before the operator started."""

    name = "providers.instancetype"

    def __init__(self, instance_types: InstanceTypeStore) -> None:
        self._instance_types = instance_types
        self._started = False

    async def look(self) -> Step:
        if not self._started:
            self._started = True
            return Step(again=REFRESH_SECONDS)
        await self._instance_types.refresh()
        return Step(again=REFRESH_SECONDS)


class SSMInvalidationController:
    """Drops SSM parameters from the cache whose AMI was deprecated since they were read."""

    name = "providers.ssm.invalidation"

    def __init__(self, ssm: SSMProvider, amis: AMIProvider) -> None:
        self._ssm = ssm
        self._amis = amis

    async def look(self) -> Step:
        """Check the AMI of every parameter that may have changed."""
        for each in self._ssm.mutable():
            if await self._amis.deprecated(each.value):
                log.info("image.superseded", parameter=each.name, image=each.value)
                self._ssm.forget(each.name)
        return Step(again=PARAMETERS_SECONDS)


class VersionController:
    """Updates the version of Kubernetes, which AMIs depend on."""

    name = "providers.version"

    def __init__(self, cluster: EksCluster) -> None:
        self._cluster = cluster

    async def look(self) -> Step:
        """Update once; a version that this provider is not known to work with is logged."""
        await self._cluster.version()
        return Step(again=VERSION_SECONDS)


async def refresh_prices(prices: PricingProvider, clock: Clock) -> None:
    """Ask for prices at the start; without an answer, those that ship with the product are used."""
    found = await asyncio.gather(
        prices.refresh_on_demand(clock.now()), prices.refresh_spot(clock.now()), return_exceptions=True
    )
    for error in found:
        if isinstance(error, CloudError):
            log.warning("prices.not_refreshed", error=str(error))
        elif isinstance(error, BaseException):
            raise error
