"""Machines without a claim are terminated, whatever the cloud is."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api.meta import InvalidObject
from karpenter.cloud.cloudprovider import Machine
from karpenter.cloud.errors import CloudUnreachable
from karpenter.controllers.nodeclaim import InstanceGarbageCollection
from karpenter.core.effects import DeleteObject, Effect, Terminate
from karpenter.kube.errors import KubeError, Unreachable
from karpenter.kube.transport import Request
from karpenter.telemetry.metrics import Metrics, runtime
from tests.unit.controllers.harness import Noted, Shell
from tests.unit.core.lifecycle.objects import ID, NOW, at, claim, launched, node

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.nodeclaim import NodeClaim

STRAY = "kwok://stray"


class Listing:
    """A cloud that lists machines."""

    name = "sky"

    def __init__(self, *machines: Machine) -> None:
        self.machines = machines

    async def list(self) -> tuple[Machine, ...]:
        return self.machines


class Failing(Noted):
    """Cannot terminate one machine."""

    async def perform(self, effects: Iterable[Effect]) -> None:
        """Note effects, but for the termination of the stray machine."""
        for effect in effects:
            if isinstance(effect, Terminate) and effect.provider_id == STRAY:
                raise CloudUnreachable("no answer")
            await super().perform([effect])


def collection(shell: Shell, *machines: Machine, performer: Noted | None = None) -> InstanceGarbageCollection:
    """Return the controller in a cloud with these machines."""
    cloud: Any = Listing(*machines)
    metrics = Metrics(clock=shell.clock)
    return InstanceGarbageCollection(
        shell.store, performer or shell.performer, cloud, shell.reader, clock=shell.clock, metrics=metrics
    )


def test_machines_without_a_claim_are_counted() -> None:
    """How many there were at the last look is a metric."""
    shell = Shell()
    metrics, cloud = Metrics(clock=shell.clock), Listing(machine())
    found = InstanceGarbageCollection(
        shell.store,
        shell.performer,
        cloud,  # type: ignore[arg-type]
        shell.reader,
        clock=shell.clock,
        metrics=metrics,
    )

    asyncio.run(found.look())

    assert metrics[runtime.ORPHANED].value(provider="sky") == 1.0


def machine(name: str = STRAY, *, age: float = 60.0, uid: str = "", deleting: bool = False) -> Machine:
    """Return a machine that was launched so many seconds ago."""
    created = Shell().clock.now() - timedelta(seconds=age)
    return Machine(provider_id=name, claim_uid=uid, created=created, deleting=deleting)


@pytest.mark.parametrize(
    ("found", "claims", "ended"),
    [
        pytest.param([machine()], [], [STRAY], id="one without a claim goes"),
        pytest.param([machine(ID)], [launched()], [], id="that of a claim stays"),
        pytest.param([machine(age=29)], [], [], id="a young one stays"),
        pytest.param([machine(age=30)], [], [STRAY], id="after half a minute it goes"),
        pytest.param([machine(deleting=True)], [], [], id="one that goes is left alone"),
        pytest.param(
            [machine(uid=claim().metadata.uid)],
            [claim()],
            [],
            id="that of a claim which does not know yet stays",
        ),
        pytest.param(
            [machine("kwok://a"), machine(ID), machine("kwok://b")],
            [launched()],
            ["kwok://a", "kwok://b"],
            id="of many only those without a claim",
        ),
        pytest.param([], [launched()], [], id="a claim without a machine is left alone"),
    ],
)
def test_machines_without_a_claim_end(
    found: list[Machine], claims: list[NodeClaim], ended: list[str]
) -> None:
    """A machine without a claim costs money."""
    shell = Shell(*claims)

    asyncio.run(collection(shell, *found).look())

    assert [each.provider_id for each in shell.performer.effects if isinstance(each, Terminate)] == ended


@pytest.mark.parametrize(
    ("held", "there", "ended", "reads"),
    [
        pytest.param(
            [], [launched()], [], ["NodeClaim"], id="a claim that the state lacks keeps its machine"
        ),
        pytest.param([], [], [ID], ["NodeClaim"], id="the machine of a claim that is in neither goes"),
        pytest.param([launched()], [], [], [], id="the server is not asked about a claim that the state has"),
    ],
)
def test_the_server_is_asked_before_a_machine_ends(
    held: list[NodeClaim], there: list[NodeClaim], ended: list[str], reads: list[str]
) -> None:
    """A cluster state that is behind, or has an older history, ends no machine with pods."""
    shell = Shell(*held)
    shell.reader.objects = (*there,)

    asyncio.run(collection(shell, machine(ID)).look())

    assert [each.provider_id for each in shell.performer.effects if isinstance(each, Terminate)] == ended
    assert shell.reader.reads == reads


def test_a_claim_that_the_server_forgot_and_the_state_has_keeps_its_machine() -> None:
    """A server with an older history is not enough, as long as the state has the claim."""
    shell = Shell(launched())

    asyncio.run(collection(shell, machine(ID), machine()).look())

    assert [each.provider_id for each in shell.performer.effects if isinstance(each, Terminate)] == [STRAY]


def test_nothing_ends_when_the_claims_cannot_be_listed() -> None:
    """The next round asks again."""
    shell = Shell(node())
    shell.reader.error = Unreachable("no answer", request=Request(method="GET", path="/"))

    with pytest.raises(Unreachable):
        asyncio.run(collection(shell, machine(ID)).look())

    assert shell.performer.effects == []


def test_nothing_ends_when_a_claim_cannot_be_decoded() -> None:
    """Any machine may be that of the claim."""
    shell = Shell()
    shell.reader.undecodable = (InvalidObject(subject="NodeClaim/a", problem="not an object"),)

    with pytest.raises(KubeError, match="no machine is collected: NodeClaim/a: not an object"):
        asyncio.run(collection(shell, machine(ID)).look())

    assert shell.performer.effects == []


@pytest.mark.parametrize(
    ("meta", "deleted"),
    [
        pytest.param({}, ["node-1"], id="the node of such a machine goes with it"),
        pytest.param(
            {"deletionTimestamp": at(NOW), "finalizers": ["karpenter.sh/termination"]},
            [],
            id="a node that goes already is left alone",
        ),
    ],
)
def test_nodes_of_such_machines(meta: dict[str, Any], deleted: list[str]) -> None:
    """A Node is deleted once; Nodes of other machines stay."""
    shell = Shell(node(meta=meta))

    asyncio.run(collection(shell, machine(ID), machine()).look())

    assert [each.name for each in shell.performer.effects if isinstance(each, DeleteObject)] == deleted


def test_one_that_fails_does_not_keep_the_others() -> None:
    """It is tried again in the next round, which comes soon however many rounds there were."""
    shell = Shell()
    performer = Failing(shell.store)
    controller = collection(shell, machine(), machine("kwok://b"), performer=performer)

    waits = [asyncio.run(controller.look()) for _ in range(22)]

    assert set(waits) == {10.0}
    assert {each.provider_id for each in performer.effects if isinstance(each, Terminate)} == {"kwok://b"}


def test_rounds_are_frequent_at_first() -> None:
    """Ten seconds apart for twenty rounds, two minutes later on."""
    controller = collection(Shell())

    assert [asyncio.run(controller.look()) for _ in range(22)] == [10.0] * 20 + [120.0] * 2
