"""
Instances of the cluster: looked up, tagged and terminated.

EC2 is eventually consistent: an instance that CreateFleet returned may be unknown to DescribeInstances for a
while. So an instance that this process launched counts as existing until EC2 has shown it once, or for a
minute. In a zone that a zonal shift is active for, what EC2 reports may be wrong: instances there are
returned as they were seen last, and are neither terminated nor tagged.

How instances are launched is in :mod:`.launch`; the calls are batched in :mod:`.describeinstances` and
:mod:`.terminateinstances`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.api.labels import NODEPOOL
from karpenter.cloud.aws.cache import TTLCache
from karpenter.cloud.aws.errors import ResourceNotFound
from karpenter.cloud.aws.instance.describeinstances import DescribeInstancesBatcher
from karpenter.cloud.aws.instance.terminateinstances import TerminateInstancesBatcher
from karpenter.cloud.aws.instance.types import ALIVE, Instance
from karpenter.cloud.aws.labels import CLUSTER_TAG, NODE_CLASS_LABEL
from karpenter.cloud.aws.metrics import TERMINATION_FAILURES, ProviderMetrics
from karpenter.cloud.aws.subnet import where
from karpenter.cloud.errors import CloudError, CloudUnreachable, MachineNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.sdk import AwsApi

# https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html
_FRESH_SECONDS: Final = 60.0
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstances.html
_PAGE_SIZE: Final = 1000


class InstanceProvider:
    """Looks instances up, and terminates them."""

    def __init__(
        self,
        aws: AwsApi,
        *,
        cluster: str,
        clock: Clock,
        metrics: ProviderMetrics,
        reserved_capacity: bool = True,
        zone_id: Callable[[str], str] = lambda _: "",
        shifted: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        """`zone_id` returns the id of a zone, `shifted` the ids of zones with an active zonal shift."""
        self._aws = aws
        self._cluster = cluster
        self._metrics = metrics
        self._zone_id = zone_id
        self._shifted = shifted
        self._seen: dict[str, Instance] = {}
        self._fresh: TTLCache[str, Instance] = TTLCache(seconds=_FRESH_SECONDS, monotonic=clock.monotonic)
        self._describe = DescribeInstancesBatcher(aws, metrics=metrics, reserved_capacity=reserved_capacity)
        self._terminate = TerminateInstancesBatcher(aws, metrics=metrics)

    async def get(self, instance: str) -> Instance:
        """
        Return an instance as it is now.

        Raises:
            MachineNotFound: it is terminated, never existed, or belongs to another cluster.
        """
        seen = self._seen.get(instance)
        if seen is not None and self._is_shifted(seen):
            return seen
        try:
            found = await self._describe.describe(instance)
        except MachineNotFound:
            self._seen.pop(instance, None)
            fresh = self._fresh.peek(instance)
            if fresh is None:
                raise
            return fresh
        except CloudError:
            self._seen.pop(instance, None)
            raise
        self._fresh.forget(instance)
        self._seen[instance] = found
        # Instances of Karpenter before 1.0 have no such tag until the tagging controller has added it.
        if found.tags.get(CLUSTER_TAG, self._cluster) != self._cluster:
            raise MachineNotFound(instance)
        return found

    async def all(self) -> tuple[Instance, ...]:
        """Return every instance of the cluster that is not terminated."""
        described = await self._describe.find(
            Filters=[
                where("tag-key", NODEPOOL),
                where("tag-key", NODE_CLASS_LABEL),
                where(f"tag:{CLUSTER_TAG}", self._cluster),
                where("instance-state-name", *ALIVE),
            ],
            MaxResults=_PAGE_SIZE,
        )
        found = {each.id: each for each in described if _is_managed(each)}
        for instance in found:
            self._fresh.forget(instance)
        found |= dict(self._fresh.items())
        found |= {each.id: each for each in self._seen.values() if self._is_shifted(each)}
        self._seen = dict(found)
        return tuple(found[instance] for instance in sorted(found))

    async def terminate(self, instance: Instance) -> None:
        """
        Terminate an instance, unless it is shutting down already.

        Raises:
            MachineNotFound: it is terminated.
            CloudUnreachable: a zonal shift is active for its zone, or EC2 does not terminate it.
        """
        self._refuse_shifted(instance)
        if not instance.leaving:
            try:
                await self._terminate.terminate(instance.id)
            except MachineNotFound:
                raise
            except CloudError:
                self._metrics.count(
                    TERMINATION_FAILURES, zone=instance.zone, zone_id=self._zone_id(instance.zone)
                )
                raise
        self._fresh.forget(instance.id)

    async def tag(self, instance: Instance, tags: Mapping[str, str]) -> None:
        """
        Put tags on an instance.

        Raises:
            MachineNotFound: it is terminated.
            CloudUnreachable: a zonal shift is active for its zone, or EC2 does not do it.
        """
        self._refuse_shifted(instance)
        wanted = [{"Key": key, "Value": tags[key]} for key in sorted(tags)]
        try:
            await self._aws.call("ec2", "CreateTags", Resources=[instance.id], Tags=wanted)
        except ResourceNotFound:
            raise MachineNotFound(instance.provider_id) from None

    def note(self, instance: Instance) -> None:
        """Remember an instance that was just launched, until EC2 shows it."""
        self._fresh.put(instance.id, instance)

    def _is_shifted(self, instance: Instance) -> bool:
        shifted = self._shifted()
        return bool(shifted) and self._zone_id(instance.zone) in shifted

    def _refuse_shifted(self, instance: Instance) -> None:
        if self._is_shifted(instance):
            raise CloudUnreachable(
                f"instance {instance.id} is left alone while a zonal shift is active for {instance.zone}"
            )


def _is_managed(instance: Instance) -> bool:
    # Whether EC2 combines two filters of one name with AND is not documented, so both keys are checked here.
    return NODEPOOL in instance.tags and NODE_CLASS_LABEL in instance.tags
