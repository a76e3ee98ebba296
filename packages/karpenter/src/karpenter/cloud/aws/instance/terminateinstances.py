"""
Calls TerminateInstances, once for all instances that are to end within a moment.

A call that names an instance which EC2 does not know fails as a whole, so the instances of a failed call are
terminated one by one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from karpenter.base.batcher import BatchWindow
from karpenter.cloud.aws.batcher import RequestBatcher, measured
from karpenter.cloud.aws.errors import AwsApiError, ResourceNotFound
from karpenter.cloud.aws.instance.types import LEAVING
from karpenter.cloud.errors import CloudError, MachineNotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.cloud.aws.metrics import ProviderMetrics
    from karpenter.cloud.aws.sdk import AwsApi

log = structlog.stdlib.get_logger(__name__)

# API calls are throttled by account and region, so many terminations become one call:
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/throttling.html
_WINDOW: Final = BatchWindow(idle=0.1, longest=1.0, max_items=500, timeout=None)


class TerminateInstancesBatcher:
    """Terminates instances."""

    def __init__(self, aws: AwsApi, *, metrics: ProviderMetrics) -> None:
        self._aws = aws
        self._requests: RequestBatcher[str, str] = RequestBatcher(
            _WINDOW, self._terminate_all, measure=measured(metrics, "terminate_instances")
        )

    async def terminate(self, instance: str) -> None:
        """
        Terminate an instance by its id; harmless when it is shutting down already.

        Raises:
            MachineNotFound: EC2 does not know it.
            CloudError: EC2 does not terminate it.
        """
        await self._requests.add(instance)

    async def _terminate_all(self, instances: Sequence[str]) -> list[str | BaseException]:
        done: dict[str, str | BaseException] = {}
        try:
            done |= await self._terminate_some(instances)
        except AwsApiError:
            # One id that EC2 does not know fails the call, and no instance of its zone is terminated:
            # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_TerminateInstances.html
            log.debug("instances.terminated_one_by_one", count=len(instances))
        missing = [each for each in dict.fromkeys(instances) if each not in done]
        single = await asyncio.gather(*map(self._terminate_one, missing))
        done |= dict(zip(missing, single, strict=True))
        return [done[each] for each in instances]

    async def _terminate_one(self, instance: str) -> str | BaseException:
        try:
            done = await self._terminate_some([instance])
        except ResourceNotFound:
            return MachineNotFound(instance)
        except CloudError as error:
            return error
        return done.get(instance, "terminating")

    async def _terminate_some(self, instances: Sequence[str]) -> dict[str, str]:
        response = await self._aws.call(
            "ec2", "TerminateInstances", InstanceIds=list(dict.fromkeys(instances))
        )
        states = {
            each["InstanceId"]: each.get("CurrentState", {}).get("Name", "")
            for each in response.get("TerminatingInstances", ())
        }
        return {instance: state for instance, state in states.items() if state in LEAVING}
