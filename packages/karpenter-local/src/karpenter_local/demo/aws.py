"""
The demo on the embedded AWS: the provider of production, against an AWS on loopback.

Machines boot from the user data that the provider generated for them. Besides what the demo always shows, a
newer image is released, the NodePool turns to spot, and EC2 takes a machine back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.api.labels import SPOT
from karpenter.api.nodepool import NodePool
from karpenter.kube.patches import MergePatch
from karpenter_local.aws.commands import Interrupt, ReleaseAmi
from karpenter_local.aws.room import InstanceTimings
from karpenter_local.demo.scenes import SCENES, Picture, Scene, cheaper, requirements, settled
from karpenter_local.sandbox.options import AwsOptions

if TYPE_CHECKING:
    from karpenter_local.sandbox.sandbox import Sandbox

_ROUNDING: Final = 1e-9
_FAMILIES: Final = ("c5", "c6i", "c7i", "m5", "m6i", "m7i", "r5", "r6i", "r7i")
_SIZES: Final = ("large", "xlarge", "2xlarge", "4xlarge")
TYPES: Final = (*(f"{family}.{size}" for family in _FAMILIES for size in _SIZES), "m5.metal")
"""The instance types that are sold: enough to choose from, and few enough to start fast."""

_PACE: Final = InstanceTimings(pending=2.0, boot=8.0, shutdown=4.0)
_PODS: Final = 5


def aws_options() -> AwsOptions:
    return AwsOptions(types=TYPES, pace=_PACE)


def aws_scenes() -> tuple[Scene, ...]:

    async def release(sandbox: Sandbox) -> None:
        sandbox.aws.control.perform(ReleaseAmi())

    async def buy_spot(sandbox: Sandbox) -> None:
        change = {"spec": {"template": {"spec": {"requirements": requirements(SPOT)}}}}
        await sandbox.client.patch(NodePool, "default", MergePatch(change))

    async def interrupt(sandbox: Sandbox) -> None:
        control = sandbox.aws.control
        control.perform(Interrupt(instance=control.instances()[0].id))

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
            "every machine was replaced by one of the newer image, and the bill is no higher",
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
    cheap = now.hourly <= before.hourly * (1 + _ROUNDING)
    return settled(now, _PODS) and cheap and not old & {machine.name for machine in now.machines}


def _all_spot(now: Picture, before: Picture) -> bool:
    spot = all(machine.capacity_type == SPOT for machine in now.machines)
    return settled(now, _PODS) and spot and now.hourly < 0.75 * before.hourly


def _one_new(now: Picture, before: Picture) -> bool:
    old = {machine.name for machine in before.machines}
    return settled(now, _PODS) and not old <= {machine.name for machine in now.machines}
