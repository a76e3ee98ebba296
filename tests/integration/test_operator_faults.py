"""Failures that the simulation has found, each as a short test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.cloud.kwok import Hang, LoseResponse
from tests.integration.refusing import Refusing
from tests.integration.sandboxes import in_sandbox, through

if TYPE_CHECKING:
    from karpenter.kube.transport import Transport
    from karpenter_local.sandbox.sandbox import Sandbox


@in_sandbox()
async def test_a_launch_that_is_never_answered_holds_up_nothing(sandbox: Sandbox) -> None:
    """A call to the cloud that hangs is given up and made again, whether or not it was carried out."""
    await sandbox.create_node_pool()
    sandbox.kwok.control.next("launch", Hang(), LoseResponse(hangs=True))
    await sandbox.deploy(replicas=1)
    await sandbox.until_running(1)
    await sandbox.deploy("other", replicas=1, cpu="30")
    await sandbox.until_running(2)

    assert sandbox.cloud.count() == len(await sandbox.node_claims())


@in_sandbox()
async def test_a_catalogue_that_is_never_sent_holds_up_no_decision(sandbox: Sandbox) -> None:
    """The catalogue is asked for again."""
    await sandbox.create_node_pool()
    sandbox.kwok.control.next("catalog", Hang())
    await sandbox.deploy(replicas=1)
    await sandbox.until_running(1)


@in_sandbox()
async def test_a_deletion_that_is_refused_is_made_again(sandbox: Sandbox) -> None:
    """A command is not finished before its machines are really being deleted."""
    made: list[Refusing] = []

    def refuse(inner: Transport) -> Refusing:
        made.append(Refusing(inner, "DELETE", "nodeclaims"))
        return made[-1]

    await sandbox.restart_operator(seams=through(refuse))
    (refusing,) = made
    await sandbox.create_node_pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]})
    await sandbox.deploy(replicas=1)
    await sandbox.until_running(1)
    refusing.times = 2
    await sandbox.scale("inflate", 0)
    await sandbox.until(sandbox.is_empty)

    assert refusing.times == 0
