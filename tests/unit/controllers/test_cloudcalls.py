"""Asking the cloud: what it sells, what it will take away, and for how long we wait for an answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.kwoknodeclass import KWOKNodeClass
from karpenter.api.meta import convert
from karpenter.cloud.cloudprovider import Interruption, ProviderId
from karpenter.cloud.errors import CloudUnreachable, NodeClassNotReady
from karpenter.controllers.catalogs import PoolCatalogs
from karpenter.controllers.cloudcalls import call_cloud
from karpenter.controllers.executor import InlineExecutor, ThreadExecutor
from karpenter.controllers.interruption import InterruptionReconciler
from karpenter.core.model.catalog import Catalog
from karpenter.core.state.cluster import node_class
from karpenter_local.testing.builders import instance_type
from karpenter_local.virtual import START, VirtualClock, run_virtual
from tests.unit.controllers.harness import Shell
from tests.unit.core.lifecycle.objects import ID, NOW, claim, complete, launched, node, pool

if TYPE_CHECKING:
    from karpenter.api.nodepool import NodePool

SMALL = Catalog(types=(instance_type("small", cpu=2),))


class Shop:
    """A cloud that sells what a test wants."""

    def __init__(self, *answers: Catalog | Exception) -> None:
        self.answers = list(answers)

    async def catalog(self, item: NodePool) -> Catalog:
        """Return what is sold, or fail; the last answer is given again."""
        del item
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(found, Exception):
            raise found
        return found


def test_the_same_answers_give_the_same_value() -> None:
    """Nothing is worked out anew while the cloud sells the same."""

    async def main() -> None:
        found = PoolCatalogs(Shop(SMALL))  # type: ignore[arg-type]
        first = await found.of([pool()])
        assert await found.of([pool()]) is first is found.latest
        assert [kind.name for kind in first.types_of("default")] == ["small"]

    asyncio.run(main())


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(NodeClassNotReady(node_class="default"), id="the class is not ready"),
        pytest.param(CloudUnreachable("no"), id="nobody answers"),
    ],
)
def test_a_pool_that_the_cloud_cannot_answer_for_may_buy_nothing(error: Exception) -> None:
    """The others may; and once there is an answer, so may it."""

    async def main() -> None:
        assert PoolCatalogs(Shop(SMALL)).latest is None  # type: ignore[arg-type]
        found = PoolCatalogs(Shop(error, SMALL))  # type: ignore[arg-type]
        assert (await found.of([pool()])).types_of("default") == ()
        assert len((await found.of([pool()])).types_of("default")) == 1

        found = PoolCatalogs(Shop(error, SMALL))  # type: ignore[arg-type]
        both = await found.of([pool(), pool(meta={"name": "other"})])
        assert (both.types_of("default"), len(both.types_of("other"))) == ((), 1)

    asyncio.run(main())


class Herald:
    """A cloud that tells of interruptions, in turn, and then nothing."""

    def __init__(self, *told: tuple[Interruption, ...] | Exception) -> None:
        self.told = list(told)
        self.acknowledged: list[str] = []

    async def interruptions(self) -> tuple[Interruption, ...]:
        """Tell the next, or wait for ever."""
        if not self.told:
            await asyncio.Future[None]()
        found = self.told.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    async def acknowledge(self, interruption: Interruption) -> None:
        self.acknowledged.append(interruption.id)


def news(number: str, **more: Any) -> Interruption:
    return Interruption(provider_id=ID, kind="spot_interrupted", id=number, at=NOW, **more)


def heard(shell: Shell, herald: Herald) -> None:
    async def main() -> None:
        listening = InterruptionReconciler(shell.store, shell.performer, herald, VirtualClock())
        task = asyncio.get_running_loop().create_task(listening.run())
        await asyncio.sleep(60)
        task.cancel()
        await asyncio.wait([task])

    run_virtual(main())


def test_interruptions_remove_the_claim() -> None:
    """The claim and its node are told, the claim is deleted, and the cloud is told that we know."""
    shell, herald = Shell(complete(), node()), Herald((news("1"),))
    heard(shell, herald)

    assert {"Announce", "DeleteObject", "Count"} <= set(shell.performer.kinds)
    assert herald.acknowledged == ["1"]


def test_news_that_cannot_be_acted_on_are_not_acknowledged() -> None:
    """What failed is told again; a cloud that cannot be heard is asked again; strangers are acknowledged."""
    shell = Shell(complete())
    shell.performer.error = CloudUnreachable("no")
    stranger = Interruption(provider_id="kwok://stranger", kind="x", id="2", at=NOW)
    herald = Herald(CloudUnreachable("no"), (news("1"), stranger))
    heard(shell, herald)

    assert herald.acknowledged == ["2"]
    assert herald.told == []


@pytest.mark.parametrize("provider_id", ["", ID])
def test_an_interruption_before_the_provider_id_is_written_is_not_lost(provider_id: str) -> None:
    """It is not acknowledged while a claim has no machine, and acted on once that claim has got this one."""
    early = Interruption(provider_id=ProviderId(provider_id), kind="spot_interrupted", id="1", at=START)
    shell, herald = Shell(claim()), Herald((early,))
    heard(shell, herald)

    assert herald.acknowledged == []
    assert shell.performer.kinds == []

    herald.told.append((msgspec.structs.replace(early, provider_id=ProviderId(ID)),))
    shell.put(launched())
    heard(shell, herald)

    assert "DeleteObject" in shell.performer.kinds
    assert herald.acknowledged == ["1"]


def test_patience() -> None:
    """An answer that does not come in time is one that will not come."""

    async def main() -> None:
        assert await call_cloud(asyncio.sleep(5, "yes")) == "yes"
        with pytest.raises(CloudUnreachable, match="no answer within 10 s"):
            await call_cloud(asyncio.sleep(50), within=10.0)

    run_virtual(main())


def test_workers() -> None:
    """Both compute the same, beside the loop or in it."""

    async def main() -> None:
        for worker in (ThreadExecutor(), InlineExecutor()):
            assert await worker.run(lambda: 6 * 7) == 42

    asyncio.run(main())


@pytest.mark.parametrize(
    ("item", "ready", "reason", "deleting"),
    [
        pytest.param({"metadata": {"name": "c"}}, None, "", False, id="nobody has said"),
        pytest.param(
            {"metadata": {"name": "c"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            True,
            "",
            False,
            id="ready",
        ),
        pytest.param(
            {
                "metadata": {"name": "c", "deletionTimestamp": "2026-01-01T00:00:00Z"},
                "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "NoSubnets"}]},
            },
            False,
            "NoSubnets",
            True,
            id="not ready, and leaving",
        ),
        pytest.param(
            convert({"metadata": {"name": "c"}}, KWOKNodeClass), True, "", False, id="ready from birth"
        ),
    ],
)
def test_node_classes(item: Any, ready: bool | None, reason: str, deleting: bool) -> None:
    """As much of any class is read as is needed, from plain data and from structs."""
    found = node_class(item, "g", "K")

    assert (found.group, found.kind, found.name) == ("g", "K", "c")
    assert (found.ready, found.reason, found.deleting) == (ready, reason, deleting)
