"""
Calls DescribeInstances, once for all instances that are asked for within a moment.

Requests for all instances within a moment are one call, too: after a storm of launches whose outcome is not
known, every claim looks for its instance.

A call that names an instance which EC2 does not know fails as a whole, so the instances of a failed call are
described one by one. What is cached of instances is in :mod:`.instance`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import structlog

from karpenter.base.batcher import BatchWindow
from karpenter.cloud.aws.batcher import RequestBatcher, measured
from karpenter.cloud.aws.errors import AwsApiError, ResourceNotFound
from karpenter.cloud.aws.instance.types import ALIVE, Instance, instance_from_response
from karpenter.cloud.aws.subnet import where
from karpenter.cloud.errors import CloudError, MachineNotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.cloud.aws.metrics import ProviderMetrics
    from karpenter.cloud.aws.sdk import AwsApi

log = structlog.stdlib.get_logger(__name__)

# Many waiting claims ask about one instance each; one call describes up to 1,000:
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstances.html
_WINDOW: Final = BatchWindow(idle=0.1, longest=1.0, max_items=500, timeout=None)


class DescribeInstancesBatcher:
    """Describes instances."""

    def __init__(self, aws: AwsApi, *, metrics: ProviderMetrics, reserved_capacity: bool) -> None:
        """Without `reserved_capacity`, no instance counts as reserved, whatever EC2 says."""
        self._aws = aws
        self._reserved_capacity = reserved_capacity
        self._requests: RequestBatcher[str, Instance] = RequestBatcher(
            _WINDOW, self._describe_all, measure=measured(metrics, "describe_instances")
        )
        self._lists: RequestBatcher[dict[str, Any], list[Instance]] = RequestBatcher(
            _WINDOW, self._find_all, group_by=repr, measure=measured(metrics, "describe_instances")
        )

    async def describe(self, instance: str) -> Instance:
        """
        Return an instance by its id.

        Raises:
            MachineNotFound: EC2 does not know it, or it is terminated.
            CloudError: EC2 does not answer.
        """
        return await self._requests.add(instance)

    async def find(self, **parameters: Any) -> list[Instance]:
        """
        Return the instances that DescribeInstances finds with these parameters.

        Raises:
            CloudError: EC2 does not answer.
        """
        return await self._lists.add(parameters)

    async def _find_all(self, requests: Sequence[dict[str, Any]]) -> list[list[Instance]]:
        return [await self._find(**requests[0])] * len(requests)

    async def _find(self, **parameters: Any) -> list[Instance]:
        reservations = await self._aws.list_all("ec2", "DescribeInstances", "Reservations", **parameters)
        return [
            instance_from_response(each, reserved_capacity=self._reserved_capacity)
            for reservation in reservations
            for each in reservation.get("Instances", ())
        ]

    async def _describe_all(self, instances: Sequence[str]) -> list[Instance | BaseException]:
        found: dict[str, Instance | BaseException] = {}
        try:
            found |= await self._describe_some(instances)
        except AwsApiError:
            # One id that EC2 does not know (InvalidInstanceID.NotFound) fails the whole call:
            # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstances.html
            log.debug("instances.described_one_by_one", count=len(instances))
        missing = [each for each in dict.fromkeys(instances) if each not in found]
        single = await asyncio.gather(*map(self._describe_one, missing))
        found |= dict(zip(missing, single, strict=True))
        return [found[each] for each in instances]

    async def _describe_one(self, instance: str) -> Instance | BaseException:
        try:
            found = await self._describe_some([instance])
        except ResourceNotFound:
            return MachineNotFound(instance)
        except CloudError as error:
            return error
        return found.get(instance, MachineNotFound(instance))

    async def _describe_some(self, instances: Sequence[str]) -> dict[str, Instance]:
        described = await self._find(
            InstanceIds=[*dict.fromkeys(instances)], Filters=[where("instance-state-name", *ALIVE)]
        )
        return {each.id: each for each in described}
