"""Keeping current what was learned of AWS: what is sold, for how much, which images and version there are."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from karpenter.cloud.aws.instancetype.instancetype import REFRESHED_EVERY
from karpenter.cloud.errors import CloudError
from karpenter.core.effects import Step

if TYPE_CHECKING:
    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.amifamily.ami import AMIProvider
    from karpenter.cloud.aws.amifamily.ssm import SSMProvider
    from karpenter.cloud.aws.cluster import EksCluster
    from karpenter.cloud.aws.instancetype.instancetype import InstanceTypeStore
    from karpenter.cloud.aws.pricing import PricingProvider

log = structlog.stdlib.get_logger(__name__)

PARAMETERS_EVERY: Final = 30 * 60.0
VERSION_EVERY: Final = 5 * 60.0


class PricingController:
    """Asks what instance types cost. It was asked once before the operator began."""

    name = "providers.pricing"

    def __init__(self, prices: PricingProvider, *, clock: Clock) -> None:
        self._prices = prices
        self._clock = clock
        self._began = False

    async def look(self) -> Step:
        """Ask for both kinds of prices; if one cannot be had, the other is still noted."""
        if not self._began:
            self._began = True
            return Step(again=REFRESHED_EVERY)
        found = await asyncio.gather(
            self._prices.refresh_on_demand(),
            self._prices.refresh_spot(self._clock.now()),
            return_exceptions=True,
        )
        for error in found:
            if isinstance(error, BaseException):
                raise error
        return Step(again=REFRESHED_EVERY)


class InstanceTypeController:
    """Asks which instance types there are, and where. It was asked once before the operator began."""

    name = "providers.instancetype"

    def __init__(self, shop: InstanceTypeStore) -> None:
        self._shop = shop
        self._began = False

    async def look(self) -> Step:
        """Ask once."""
        if not self._began:
            self._began = True
            return Step(again=REFRESHED_EVERY)
        await self._shop.refresh()
        return Step(again=REFRESHED_EVERY)


class SSMInvalidationController:
    """Forgets published parameters whose image was deprecated since they were read."""

    name = "providers.ssm.invalidation"

    def __init__(self, parameters: SSMProvider, images: AMIProvider) -> None:
        self._parameters = parameters
        self._images = images

    async def look(self) -> Step:
        """Look at every parameter that may have changed."""
        for each in self._parameters.mutable():
            if await self._images.deprecated(each.value):
                log.info("image.superseded", parameter=each.name, image=each.value)
                self._parameters.forget(each.name)
        return Step(again=PARAMETERS_EVERY)


class VersionController:
    """Asks for the version of Kubernetes, which images depend on."""

    name = "providers.version"

    def __init__(self, cluster: EksCluster) -> None:
        self._cluster = cluster

    async def look(self) -> Step:
        """Ask once; a version that this provider was not tried with is logged when it comes up."""
        await self._cluster.version()
        return Step(again=VERSION_EVERY)


async def refresh_prices(prices: PricingProvider, clock: Clock) -> None:
    """Ask for prices before anything else; those that cannot be had are those that ship with the product."""
    found = await asyncio.gather(
        prices.refresh_on_demand(), prices.refresh_spot(clock.now()), return_exceptions=True
    )
    for error in found:
        if isinstance(error, CloudError):
            log.warning("prices.not_refreshed", error=str(error))
        elif isinstance(error, BaseException):
            raise error
