import asyncio

import msgspec
import pytest

from karpenter.api import labels
from karpenter.api.kwoknodeclass import KWOKNodeClass
from karpenter.cloud.errors import (
    CloudError,
    CloudUnreachable,
    InsufficientCapacity,
    LaunchFailed,
    LaunchRefused,
    MachineNotFound,
    NodeClassNotReady,
    Throttled,
)
from karpenter.cloud.kwok import Behaviour, Fail, Fault, Hang, LoseResponse, NeverJoin, ProviderCall, Slow
from karpenter.cloud.kwok.cloudprovider import ObjectClasses
from karpenter.core.model.catalog import OfferingName
from tests.unit.cloud.kwok.world import POOL, Objects, R, World, catalog, claim, need, node_class


async def test_the_cheapest_is_launched() -> None:
    """A machine is of the cheapest offering, with the labels, the size and the uid that follow."""
    world = World()
    machine = await world.provider.launch(claim("one", need(labels.ZONE, "zone-1")))

    assert (machine.labels[labels.INSTANCE_TYPE], machine.labels[labels.CAPACITY_TYPE]) == ("small", "spot")
    assert machine.capacity == {"cpu": 2000, "memory": 4 * 2**30, "pods": 110}
    assert machine.allocatable == {"cpu": 1900, "memory": 4 * 2**30 - 10 * 2**20, "pods": 110}
    assert (machine.claim_uid, machine.created) == ("uid-one", world.clock.now())
    assert machine.provider_id.startswith("kwok://kwok-one-")


async def test_time_passes() -> None:
    """A launch takes as long as the cloud is slow, and the machine exists halfway through."""
    world = World(behaviour=Behaviour(launch=10.0))
    launching = asyncio.ensure_future(world.provider.launch(claim()))
    await world.clock.sleep(4.9)
    early = world.control.machines()
    await world.clock.sleep(0.2)
    late = world.control.machines()
    await launching

    assert (len(early), len(late), world.clock.monotonic()) == (0, 1, 10.0)


async def test_jitter_is_by_chance_and_repeatable() -> None:
    """Delays vary within their share, the same way for the same seed."""

    async def seconds(seed: int) -> float:
        world = World(behaviour=Behaviour(launch=10.0, jitter=0.5), seed=seed)
        began = world.clock.monotonic()
        await world.provider.launch(claim())
        return round(world.clock.monotonic() - began, 3)

    taken = [await seconds(seed) for seed in (1, 2, 3, 1)]

    assert all(5.0 <= each <= 15.0 for each in taken)
    assert len(set(taken)) == 3


@pytest.mark.parametrize(
    ("found", "error", "text"),
    [
        pytest.param(None, InsufficientCapacity, "node class default does not exist", id="missing"),
        pytest.param({"deleting": True}, InsufficientCapacity, "does not exist", id="on its way out"),
        pytest.param({"ready": "False"}, NodeClassNotReady, "not ready: on purpose", id="not ready"),
        pytest.param({"ready": "Unknown"}, LaunchRefused, "does not say yet", id="unknown"),
        pytest.param({"ready": ""}, LaunchRefused, "does not say yet", id="silent"),
        pytest.param({"delay": "soon"}, NodeClassNotReady, "nodeRegistrationDelay: 'soon'", id="no duration"),
    ],
)
async def test_a_class_that_cannot_launch(
    found: dict[str, str] | None, error: type[CloudError], text: str
) -> None:
    """Each way in which a class is of no use has its error, which says so."""
    world = World(objects=[] if found is None else [node_class(**found)])  # type: ignore[arg-type]
    with pytest.raises(error, match=text):
        await world.provider.launch(claim())

    assert world.control.machines() == ()


async def test_a_class_that_cannot_be_read() -> None:
    """When the API server is away, the launch fails and can be repeated; what exists is found even so."""
    world = World()
    machine = await world.provider.launch(claim())
    world.objects.unreadable = True
    with pytest.raises(LaunchFailed, match="node class default cannot be read: the API server is away"):
        await world.provider.launch(claim("two"))

    assert (await world.provider.launch(claim())).provider_id == machine.provider_id


async def test_a_claim_that_cannot_be_read_is_refused() -> None:
    """The user is told what is wrong with the claim, with a reason for its condition."""
    with pytest.raises(LaunchRefused, match="operator Gt") as caught:
        await World().provider.launch(claim("one", need("x", "y", operator="Gt")))

    assert caught.value.reason == "InvalidClaim"


async def test_what_was_sold_out_is_skipped_for_a_while() -> None:
    """An offering that failed is not tried again and marked, until three minutes have passed."""
    world = World()
    world.control.sell_out(capacity_type="spot")
    machine = await world.provider.launch(claim("a", need(labels.INSTANCE_TYPE, "small")))
    marked = (await world.provider.catalog(POOL)).by_name["small"]
    world.control.restock()
    again = await world.provider.launch(claim("b", need(labels.INSTANCE_TYPE, "small")))
    await world.clock.sleep(180.0)
    later = await world.provider.launch(claim("c", need(labels.INSTANCE_TYPE, "small")))

    assert [each.labels[labels.CAPACITY_TYPE] for each in (machine, again, later)] == [
        "on-demand",
        "on-demand",
        "spot",
    ]
    assert [each.capacity_type for each in marked.available] == ["on-demand"]
    assert marked.requirements[labels.CAPACITY_TYPE].values == {"on-demand"}
    assert marked.requirements[labels.ZONE].values == {"zone-1"}
    assert (await world.provider.catalog(POOL)).by_name["small"] == catalog().by_name["small"]


async def test_what_is_skipped_is_named() -> None:
    """When all that would do was sold out lately, the error still names it."""
    world = World()
    world.control.sell_out(zone="zone-1", instance_type="small")
    wanted = [need(labels.INSTANCE_TYPE, "small"), need(labels.ZONE, "zone-1")]
    for name in ("a", "b"):
        with pytest.raises(InsufficientCapacity, match="2 offerings are sold out") as caught:
            await world.provider.launch(claim(name, *wanted))
        assert set(caught.value.offerings) == {
            OfferingName("small", "zone-1", "spot"),
            OfferingName("small", "zone-1", "on-demand"),
        }


async def test_a_restart_forgets_what_was_sold_out() -> None:
    """What was sold out is remembered by the operator, not by the cloud."""
    world = World()
    world.control.sell_out(capacity_type="spot")
    await world.provider.launch(claim())

    assert await world.restart().catalog(POOL) == catalog()


async def test_reservations_are_used_up_and_given_back() -> None:
    """A reservation sells as many machines as it holds, and what is left can be seen in the catalogue."""
    world = World()
    reserved = need(labels.CAPACITY_TYPE, "reserved")

    async def left() -> tuple[int | None, bool]:
        offerings = (await world.provider.catalog(POOL)).by_name["large"].offerings
        return next((each.reservation_capacity, each.available) for each in offerings if each.reservation_id)

    seen = [await left()]
    machines = []
    for name in ("a", "b"):
        machines.append(await world.provider.launch(claim(name, reserved)))
        seen.append(await left())
    with pytest.raises(InsufficientCapacity):
        await world.provider.launch(claim("c", reserved))
    await world.provider.terminate(machines[0].provider_id)
    seen.append(await left())

    assert seen == [(2, True), (1, True), (0, False), (1, True)]
    assert machines[0].labels["karpenter.kwok.sh/reservation-id"] == "res-1"


async def test_other_prices() -> None:
    """The cloud can sell something else from one moment to the next."""
    world = World()
    world.control.sell(catalog().__class__(types=()))
    with pytest.raises(InsufficientCapacity, match="no offering satisfies the claim"):
        await world.provider.launch(claim())

    assert (await world.provider.catalog(POOL)).types == ()


@pytest.mark.parametrize(
    ("fault", "error", "machines"),
    [
        pytest.param(Fail(Throttled(retry_after=3.0)), Throttled, 0, id="a failure leaves nothing behind"),
        pytest.param(LoseResponse(), LaunchFailed, 1, id="a lost answer leaves a machine"),
        pytest.param(Hang(), TimeoutError, 0, id="a hang leaves nothing behind"),
        pytest.param(LoseResponse(hangs=True), TimeoutError, 1, id="a hang after the fact leaves a machine"),
        pytest.param(Slow(61.0), TimeoutError, 0, id="slower than the caller's timeout"),
    ],
)
async def test_faults(fault: Fault, error: type[Exception], machines: int) -> None:
    """A launch that goes wrong does so once, and launching again gives exactly one machine."""
    world = World()
    world.control.next("launch", fault)
    with pytest.raises(error):
        await asyncio.wait_for(world.provider.launch(claim()), 60.0)
    assert len(world.control.machines()) == machines

    await world.provider.launch(claim())

    assert len(world.control.machines()) == 1


async def test_a_killed_operator_loses_only_the_answer() -> None:
    """A launch that is cancelled on its way back has made a machine, which the next operator finds."""
    world = World(behaviour=Behaviour(launch=10.0))
    launching = asyncio.ensure_future(world.provider.launch(claim()))
    await world.clock.sleep(7.0)
    launching.cancel()
    (lost,) = world.control.machines()

    assert (await world.restart().launch(claim())).provider_id == lost.provider_id


async def test_a_rule_sees_every_call() -> None:
    """A rule decides about each call for which nothing is scripted, until everything is to go well."""
    world = World()
    seen: list[ProviderCall] = []

    def rule(call: ProviderCall) -> Fault | None:
        seen.append(call)
        return Fail(Throttled()) if call.method == "list" else None

    world.control.follow(rule)
    world.control.next("list", None)
    await world.provider.list()
    with pytest.raises(Throttled):
        await world.provider.list()
    world.control.behave()
    await world.provider.list()

    assert seen == [ProviderCall(method="list", subject="", cluster="ours")]


async def test_a_machine_that_never_joins() -> None:
    """A machine can exist without ever becoming a node."""
    world = World()
    world.control.next("launch", NeverJoin())
    machine = await world.provider.launch(claim())
    await world.clock.sleep(3600.0)

    assert world.objects.nodes == ()
    assert (await world.provider.get(machine.provider_id)).provider_id == machine.provider_id


async def test_drift_on_request() -> None:
    """A machine drifts for the reason that was said, until it does not."""
    world = World()
    machine = await world.provider.launch(claim())
    launched = msgspec.structs.replace(
        claim(), status=msgspec.structs.replace(claim().status, provider_id=machine.provider_id)
    )
    told = [await world.provider.drift(launched)]
    for reason in ("ImageDrift", ""):
        world.control.drift(machine.provider_id, reason)
        told.append(await world.provider.drift(launched))

    assert told == ["", "ImageDrift", ""]


@pytest.mark.parametrize("act", ["interrupt", "recommend_rebalance", "kill", "drift"])
async def test_nothing_can_be_done_to_what_is_not_there(act: str) -> None:
    """The hand that makes machines misbehave says when there is no such machine."""
    with pytest.raises(MachineNotFound, match="there is no machine kwok://gone"):
        getattr(World().control, act)("kwok://gone")


async def test_who_it_is() -> None:
    """It is called kwok, knows KWOKNodeClasses, and replaces nodes that are not ready for ten minutes."""
    provider = World().provider

    assert provider.name == "kwok"
    assert provider.node_classes[0].label == "karpenter.kwok.sh/kwoknodeclass"
    assert KWOKNodeClass.api_version.startswith(provider.node_classes[0].group)
    assert [
        (p.condition_type, p.condition_status, p.toleration.total_seconds()) for p in provider.repair_policies
    ] == [
        ("Ready", "False", 600.0),
        ("Ready", "Unknown", 600.0),
    ]


class _CountedReads(Objects):
    """Objects whose reads take a while and are counted."""

    reads = 0

    async def get(self, kind: type[R], name: str, *, namespace: str = "") -> R | None:
        """Return an object, after others had a turn."""
        self.reads += 1
        await asyncio.sleep(0)
        return await super().get(kind, name, namespace=namespace)


async def test_launches_at_the_same_time_read_their_class_once() -> None:
    """The class is read as it is now, and not again while that read is under way."""
    objects = _CountedReads(node_class())
    classes = ObjectClasses(objects)

    found = await asyncio.gather(*(classes.node_class("default") for _ in range(3)))
    assert (objects.reads, [each is not None for each in found]) == (1, [True] * 3)

    objects.unreadable = True
    for result in await asyncio.gather(
        *(classes.node_class("default") for _ in range(2)), return_exceptions=True
    ):
        assert isinstance(result, CloudUnreachable)
    assert objects.reads == 2
