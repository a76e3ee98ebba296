"""The sandbox: which parts it has, how they start and stop, and what its operators pass through."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from karpenter_local.sandbox.operators import DirectSeams
from karpenter_local.sandbox.options import AwsOptions, CloudOptions, ClusterOptions, KwokOptions
from karpenter_local.sandbox.sandbox import Sandbox
from karpenter_local.virtual import run_virtual

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from random import Random

    from karpenter.base.clock import Clock
    from karpenter.kube.transport import Transport

TWO_TYPES = AwsOptions(types=("m5.large", "m5.xlarge"), in_process=True)


def in_sandbox(sandbox: Callable[[], Sandbox], test: Callable[[Sandbox], Awaitable[None]]) -> None:
    """Run a test in a sandbox, in virtual time."""

    async def main() -> None:
        async with sandbox() as made:
            await test(made)

    run_virtual(main())


@pytest.mark.parametrize("cloud", [KwokOptions(), TWO_TYPES], ids=["kwok", "aws"])
def test_pods_get_machines(cloud: CloudOptions) -> None:
    """With either cloud pods run on machines that exist, and each has a price."""

    async def test(sandbox: Sandbox) -> None:
        await sandbox.create_node_pool()
        await sandbox.deploy(replicas=3)
        await sandbox.until_running(3)
        claims = await sandbox.node_claims()
        assert len(claims) == len(await sandbox.nodes()) == sandbox.cloud.count()
        assert all(sandbox.cloud.price(each.metadata.labels) > 0 for each in claims)

    in_sandbox(lambda: Sandbox(cloud=cloud), test)


def test_a_killed_operator_is_replaced_by_one_that_knows_nothing() -> None:
    """What it had begun is finished by its successor, and nothing that it still does reaches the cluster."""

    async def test(sandbox: Sandbox) -> None:
        first = sandbox.leader
        await sandbox.create_node_pool()
        await sandbox.deploy(replicas=10)
        await asyncio.sleep(1.5)
        second = await sandbox.restart_operator()
        assert sandbox.replicas == [second]
        assert second is not first
        await sandbox.until_running(10)
        assert len(await sandbox.node_claims()) == sandbox.cloud.count()

    in_sandbox(Sandbox, test)


def test_a_second_replica_runs_beside_the_first() -> None:
    """Operators start and stop independently of each other; the last one that was started leads."""

    async def test(sandbox: Sandbox) -> None:
        first, second = sandbox.replicas
        assert sandbox.leader is second
        await sandbox.stop_operator(first)
        assert sandbox.replicas == [second]

    in_sandbox(lambda: Sandbox(operators=2), test)


def test_operators_pass_through_their_seams() -> None:
    """Each operator has seams of its own, which see its transport and its clock."""
    made: list[Transport] = []

    def seams(transport: Transport, *, clock: Clock, chance: Random) -> DirectSeams:
        made.append(transport)
        return DirectSeams(transport, clock=clock, chance=chance)

    async def test(sandbox: Sandbox) -> None:
        await sandbox.start_operator()
        assert len(made) == len(sandbox.replicas) == 2

    in_sandbox(lambda: Sandbox(seams=seams), test)


async def test_over_http_in_real_time() -> None:
    """An operator in this process may also reach its cluster over HTTP."""
    http = ClusterOptions(http=True)
    async with Sandbox(clock="real", cluster=http, transport="http") as sandbox:
        assert sandbox.running.url.startswith("https://127.0.0.1:")
        await sandbox.create_node_pool()
        await sandbox.until(sandbox.events, within=20)


def test_an_api_server_alone() -> None:
    """Without controllers nothing moves by itself."""

    async def test(sandbox: Sandbox) -> None:
        await sandbox.deploy(replicas=1)
        await asyncio.sleep(60)
        assert not await sandbox.pods()

    in_sandbox(lambda: Sandbox(cluster=ClusterOptions(controllers=False), operators=0), test)


def test_what_a_sandbox_does_not_have() -> None:
    """A part that is not there is refused, with the option that brings it."""

    async def test(sandbox: Sandbox) -> None:
        with pytest.raises(TypeError, match=r"hint: Sandbox\(cloud=AwsOptions"):
            _ = sandbox.aws
        with pytest.raises(RuntimeError, match=r"hint: use Sandbox\.serve_operator"):
            sandbox.begin_operator()

    in_sandbox(lambda: Sandbox(cloud=KwokOptions(in_operator=True), operators=0), test)


def test_before_it_runs() -> None:
    """A sandbox that was not entered says so."""

    async def main() -> None:
        with pytest.raises(RuntimeError, match="hint: enter it first"):
            _ = Sandbox().running

    run_virtual(main())
