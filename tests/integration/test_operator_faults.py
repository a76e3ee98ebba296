"""What the simulation has found, each as a short story that must not happen again."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from karpenter.cloud.kwok import Hang, LoseAnswer
from karpenter.kube.client import Client
from karpenter_local.apiserver.inprocess import InProcess
from tests.integration.refusing import Refusing
from tests.integration.world import in_world

if TYPE_CHECKING:
    from tests.integration.world import World


@in_world()
async def test_a_launch_that_is_never_answered_holds_up_nobody(world: World) -> None:
    """A call to the cloud that hangs is given up and made again, whether or not it was carried out."""
    await world.pool()
    world.cloud.control.next("launch", Hang(), LoseAnswer(hangs=True))
    await world.deploy(replicas=1)
    await world.settled(1)
    await world.deploy("other", replicas=1, cpu="30")
    await world.settled(2)

    assert world.machines() == len(await world.claims())


@in_world()
async def test_a_catalogue_that_is_never_sent_holds_up_no_decision(world: World) -> None:
    """Whoever decides asks again."""
    await world.pool()
    world.cloud.control.next("catalog", Hang())
    await world.deploy(replicas=1)
    await world.settled(1)


@in_world()
async def test_a_deletion_that_is_refused_is_made_again(world: World) -> None:
    """A command is not finished before its machines are really being deleted."""
    await world.stop()
    refusing = Refusing(InProcess(world.cluster.server), "DELETE", "nodeclaims")
    await world.start(Client(refusing, chance=Random(1)))  # noqa: S311  jitter
    await world.pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]})
    await world.deploy(replicas=1)
    await world.settled(1)
    refusing.times = 2
    await world.scale("inflate", 0)
    await world.until(world.empty)

    assert refusing.times == 0
