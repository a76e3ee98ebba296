import asyncio
from itertools import pairwise

import pytest

from karpenter.api import labels
from karpenter.api.meta import Resource
from karpenter.api.node import Taint
from karpenter.base.ratelimiting import LeaseNotHeld
from karpenter.cloud.errors import MachineNotFound
from karpenter.cloud.kwok import Behaviour
from tests.unit.cloud.kwok.world import World, claim, need, node_class


async def test_a_machine_becomes_a_node() -> None:
    """The node carries the labels of machine and claim, kwok's own, the taint, and the size of its type."""
    world = World()
    machine = await world.provider.launch(
        claim("one", need(labels.ZONE, "zone-1"), own={"team": "web"}, requests={"cpu": "500m"})
    )
    await asyncio.sleep(0.001)
    (node,) = world.objects.nodes

    assert node.name == machine.provider_id.removeprefix("kwok://")
    assert node.spec.provider_id == machine.provider_id
    assert node.spec.taints == (Taint(key="karpenter.sh/unregistered", effect="NoExecute"),)
    assert node.metadata.annotations == {"note": "kept", "kwok.x-k8s.io/node": "fake"}
    assert node.metadata.labels == {
        **machine.labels,
        "karpenter.sh/nodepool": "default",
        "team": "web",
        "kubernetes.io/hostname": "one",
        "kwok.x-k8s.io/node": "fake",
        "eks-node-viewer/instance-price": "0.100000",
        "kwok-partition": "a",
    }
    assert node.status.capacity == {"cpu": "2", "memory": "4Gi", "pods": "110"}
    assert node.status.allocatable == {"cpu": "1900m", "memory": "4086Mi", "pods": "110"}
    assert node.status.phase == "Pending"


async def test_registration_takes_as_long_as_the_class_says() -> None:
    """A node appears when the class's delay is over, not before."""
    world = World(objects=[node_class(delay="1m30s")])
    await world.provider.launch(claim())
    await world.clock.sleep(89.9)
    before = len(world.objects.nodes)
    await world.clock.sleep(0.2)

    assert (before, len(world.objects.nodes)) == (0, 1)


async def test_the_cloud_insists() -> None:
    """A node that could not be created is tried again, with growing waits."""
    world = World()
    world.objects.failures = 3
    await world.provider.launch(claim())
    await world.clock.sleep(60.0)
    times = [when for when, verb, _ in world.objects.log if verb == "create"]
    waits = [later - sooner for sooner, later in pairwise(times)]

    assert len(world.objects.nodes) == 1
    assert len(times) == 4
    assert waits == sorted(waits)


async def test_a_replica_that_does_not_lead_makes_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node whose creation was refused in this process is not tried again."""
    world, tried = World(), []

    async def create(made: Resource) -> None:
        tried.append(made.name)
        raise LeaseNotHeld("POST /api/v1/nodes")

    monkeypatch.setattr(world.objects, "create", create)
    await world.provider.launch(claim())
    await world.clock.sleep(60.0)

    assert len(tried) == 1


async def test_a_machine_that_ends_before_it_joins() -> None:
    """A machine that is gone does not become a node any more."""
    world = World(objects=[node_class(delay="1m")])
    machine = await world.provider.launch(claim())
    await world.clock.sleep(30.0)
    await world.provider.terminate(machine.provider_id)
    await world.clock.sleep(60.0)

    assert [verb for _, verb, _ in world.objects.log] == ["delete", "delete"]
    assert world.objects.nodes == ()


async def test_a_machine_that_ends_while_it_joins() -> None:
    """A node that was created a moment too late is taken back."""
    world = World()
    world.objects.failures = 1
    machine = await world.provider.launch(claim())
    await asyncio.sleep(0.001)
    world.control.kill(machine.provider_id, noticed_after=1000.0)
    await world.clock.sleep(60.0)

    assert world.objects.nodes == ()


async def test_the_end_of_a_machine() -> None:
    """A machine takes time to end, is marked meanwhile, and takes its node along when it is gone."""
    world = World(behaviour=Behaviour(shutdown=30.0))
    machine = await world.provider.launch(claim())
    await world.clock.sleep(1.0)
    await world.provider.terminate(machine.provider_id)
    await world.provider.terminate(machine.provider_id)
    await world.clock.sleep(29.0)
    marked = [each.deleting for each in await world.provider.list()]
    nodes_before = len(world.objects.nodes)
    await world.clock.sleep(2.0)

    assert (marked, nodes_before) == ([True], 1)
    assert (await world.provider.list(), world.objects.nodes) == ((), ())


async def test_a_machine_dies_without_a_word() -> None:
    """A killed machine is gone at once; its node goes when the cluster notices."""
    world = World()
    machine = await world.provider.launch(claim())
    await world.clock.sleep(1.0)
    world.control.kill(machine.provider_id)
    listed = await world.provider.list()
    await world.clock.sleep(59.0)
    before = len(world.objects.nodes)
    await world.clock.sleep(2.0)

    assert (listed, before, len(world.objects.nodes)) == ((), 1, 0)


async def test_closing_stops_what_is_under_way() -> None:
    """After closing nothing happens any more, and machines stay as they are."""
    world = World(objects=[node_class(delay="1m")])
    await world.provider.launch(claim())
    await world.cloud.close()
    await world.clock.sleep(3600.0)

    assert world.objects.nodes == ()
    assert len(await world.provider.list()) == 1


async def test_long_names_stay_names() -> None:
    """The name of a node is never longer than Kubernetes allows."""
    world = World()
    machine = await world.provider.launch(claim("x" * 253))

    assert len(machine.provider_id.removeprefix("kwok://")) == 253


async def test_the_same_seed_gives_the_same_history() -> None:
    """Names, zones and times are the same for the same seed, and differ for another."""

    async def history(seed: int) -> list[tuple[str, str]]:
        world = World(behaviour=Behaviour(launch=5.0, jitter=0.3), seed=seed)
        machines = await asyncio.gather(*(world.provider.launch(claim(f"c{number}")) for number in range(20)))
        return [(each.provider_id, each.labels[labels.ZONE]) for each in machines]

    first, again, other = [await history(seed) for seed in (1, 1, 2)]

    assert first == again != other


async def test_an_interruption() -> None:
    """News come at once, name the machine, and two minutes later the machine is gone, node and all."""
    world = World()
    machine = await world.provider.launch(claim())
    waiting = asyncio.ensure_future(world.provider.interruptions())
    await world.clock.sleep(5.0)
    world.control.interrupt(machine.provider_id)
    (news,) = await waiting
    await world.clock.sleep(119.0)
    before = await world.provider.list()
    await world.clock.sleep(2.0)

    assert (news.provider_id, news.kind, news.drains) == (machine.provider_id, "spot_interrupted", True)
    assert (news.at.timestamp() - machine.created.timestamp() if machine.created else 0) == 5.0
    assert (len(before), await world.provider.list(), world.objects.nodes) == (1, (), ())


async def test_a_recommendation_only_informs() -> None:
    """A recommendation to rebalance is news after which nothing happens."""
    world = World()
    machine = await world.provider.launch(claim())
    world.control.recommend_rebalance(machine.provider_id)
    (news,) = await world.provider.interruptions()
    await world.clock.sleep(3600.0)

    assert (news.kind, news.drains) == ("rebalance_recommendation", False)
    assert len(await world.provider.list()) == 1


async def test_ending_an_interrupted_machine() -> None:
    """A machine that the operator ends before the cloud takes it is gone once, and nothing breaks later."""
    world = World()
    machine = await world.provider.launch(claim())
    world.control.interrupt(machine.provider_id)
    await world.provider.terminate(machine.provider_id)
    replacement = await world.provider.launch(claim("two"))
    await world.clock.sleep(300.0)

    assert [each.provider_id for each in await world.provider.list()] == [replacement.provider_id]
    with pytest.raises(MachineNotFound):
        await world.provider.get(machine.provider_id)
