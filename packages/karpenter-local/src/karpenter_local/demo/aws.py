"""
The tour on the embedded AWS: the provider of production, against an AWS on loopback.

Machines boot from the user data that the provider wrote for them. Besides what every tour shows, a newer
image comes out, the pool turns to spot, and EC2 takes a machine back.
"""

from __future__ import annotations

from contextlib import ExitStack, asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Final

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, SPOT, ZONE
from karpenter.api.nodepool import NodePool
from karpenter.cloud.cloudprovider import ProviderContext
from karpenter.kube.rest import MergePatch
from karpenter.operator.run import Objects
from karpenter_local.aws.commands import Interrupt, ReleaseAmi
from karpenter_local.aws.room import MachineRoom, Pace, Reach
from karpenter_local.aws.server import EmbeddedAws
from karpenter_local.aws.site import Site
from karpenter_local.demo.cloud import CLASS, CLUSTER
from karpenter_local.demo.scenes import SCENES, Scene, cheaper, settled
from karpenter_local.demo.stage import requirements

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from karpenter.base.clock import Clock
    from karpenter.cloud.cloudprovider import CloudProvider
    from karpenter.kube.client import Client
    from karpenter_local.cluster import LocalCluster
    from karpenter_local.demo.scenes import Picture
    from karpenter_local.demo.stage import Stage

_FAMILIES: Final = ("c5", "c6i", "c7i", "m5", "m6i", "m7i", "r5", "r6i", "r7i")
_SIZES: Final = ("large", "xlarge", "2xlarge", "4xlarge")
TYPES: Final = (*(f"{family}.{size}" for family in _FAMILIES for size in _SIZES), "m5.metal")
"""What is sold: enough to choose from, and little enough to be looked at in no time."""

_PACE: Final = Pace(pending=2.0, boot=8.0, shutdown=4.0)
_PODS: Final = 5


class AwsSky:
    """The embedded AWS. Made, it runs; it ends with the tour."""

    node_class: Mapping[str, str] = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": CLASS}

    def __init__(self) -> None:
        self._stack = ExitStack()
        server = self._stack.enter_context(EmbeddedAws())
        self.site = Site(server, cluster=CLUSTER, types=TYPES)
        self._stack.callback(self.site.close)

    @asynccontextmanager
    async def begin(
        self, cluster: LocalCluster, client: Client, *, clock: Clock, seed: int
    ) -> AsyncIterator[CloudProvider]:
        """Let the cloud begin."""
        reach = Reach(cluster=CLUSTER, endpoint=f"https://{CLUSTER}.example", authority="ZGVtbw==")
        self.site.serve(reach)
        await cluster.client.create(
            EC2NodeClass, {"metadata": {"name": CLASS}, "spec": self.site.estate.node_class()}
        )
        room = MachineRoom(
            self.site.account,
            reach,
            client=cluster.connect("kubelet"),
            kubelets=cluster.fleet,
            clock=clock,
            pace=_PACE,
        )
        around = ProviderContext(
            clock=clock,
            chance=Random(seed),  # noqa: S311  the demo's dice, not a secret
            cluster=CLUSTER,
            objects=Objects(client),
        )
        with self._stack:
            async with room, self.site.provider(around, long_poll=0) as provider:
                yield provider

    def machines(self) -> int:
        """Return how many machines really exist."""
        return len(self.site.control.instances())

    def price(self, labels: Mapping[str, str]) -> float:
        """Return what a machine with these labels costs per hour."""
        place = labels.get(CAPACITY_TYPE, ""), labels[INSTANCE_TYPE], labels.get(ZONE, "")
        return self.site.account.price(*place) or 0.0


def aws_scenes(sky: AwsSky) -> tuple[Scene, ...]:
    """Return the scenes of a tour on the embedded AWS."""

    async def release(_: Stage) -> None:
        sky.site.control.perform(ReleaseAmi())

    async def buy_spot(stage: Stage) -> None:
        change = {"spec": {"template": {"spec": {"requirements": requirements(SPOT)}}}}
        await stage.client.patch(NodePool, "default", MergePatch(change))

    async def interrupt(_: Stage) -> None:
        sky.site.control.perform(Interrupt(instance=sky.site.control.instances()[0].id))

    first, grown, shrunk, last = SCENES
    return (
        first,
        grown,
        # Two zones have two pods, which take the same machine there as three did.
        shrunk._replace(
            expect=cheaper(_PODS, 0.75),
            expectation="five pods run on machines that cost a quarter less at least",
        ),
        Scene(
            "karpenter local aws release-ami",
            release,
            _all_new,
            "every machine was replaced by one of the newer image",
            900.0,
        ),
        Scene(
            "From now on, the NodePool buys spot",
            buy_spot,
            _all_spot,
            "five pods run on spot machines that cost a quarter less at least",
            600.0,
        ),
        Scene(
            "karpenter local aws interrupt",
            interrupt,
            _one_new,
            "its pods run elsewhere before EC2 takes the machine away",
            120.0,
        ),
        last,
    )


def _all_new(now: Picture, before: Picture) -> bool:
    old = {machine.name for machine in before.machines}
    return settled(now, _PODS) and not old & {machine.name for machine in now.machines}


def _all_spot(now: Picture, before: Picture) -> bool:
    spot = all(machine.bought == SPOT for machine in now.machines)
    return settled(now, _PODS) and spot and now.hourly < 0.75 * before.hourly


def _one_new(now: Picture, before: Picture) -> bool:
    old = {machine.name for machine in before.machines}
    return settled(now, _PODS) and not old <= {machine.name for machine in now.machines}
