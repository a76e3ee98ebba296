"""A pool whose nodes Karpenter 1.14.1 has launched: the same hash here, and no node is replaced."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api.labels import NODEPOOL_HASH, NODEPOOL_HASH_VERSION
from karpenter.api.nodepool import NodePool
from karpenter.kube.rest import MergePatch
from tests.integration.sandboxes import in_sandbox

if TYPE_CHECKING:
    from karpenter_local.sandbox.sandbox import Sandbox

SHAPES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "hashes" / "shapes.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape["name"])
def test_no_node_is_replaced_at_the_switch(shape: dict[str, Any]) -> None:
    """Pool and claim carry what Karpenter wrote, and ten minutes later still do, on the same node."""

    @in_sandbox()
    async def switch(sandbox: Sandbox) -> None:
        template = {**shape["template"], "spec": {**shape["template"]["spec"]}}
        del template["spec"]["requirements"]  # it does not count, and the sandbox has one of its own
        await sandbox.create_node_pool(template=template)
        await sandbox.deploy(replicas=1)
        await sandbox.until_running(1)
        await sandbox.stop_operator()
        stamp = {NODEPOOL_HASH: shape["hash"], NODEPOOL_HASH_VERSION: "v3"}
        (claim,) = await sandbox.node_claims()
        await sandbox.client.patch(NodePool, "default", MergePatch({"metadata": {"annotations": stamp}}))
        await sandbox.client.patch(type(claim), claim.name, MergePatch({"metadata": {"annotations": stamp}}))
        await sandbox.start_operator()
        await asyncio.sleep(600)

        pool = await sandbox.client.get(NodePool, "default")
        assert {key: pool.metadata.annotations[key] for key in stamp} == stamp
        assert [each.name for each in await sandbox.node_claims()] == [claim.name]

    switch()
