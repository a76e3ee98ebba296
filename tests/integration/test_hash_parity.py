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
from tests.integration.world import in_world

if TYPE_CHECKING:
    from tests.integration.world import World

SHAPES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "hashes" / "shapes.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape["name"])
def test_no_node_is_replaced_at_the_switch(shape: dict[str, Any]) -> None:
    """Pool and claim carry what Karpenter wrote, and ten minutes later still do, on the same node."""

    @in_world()
    async def switch(world: World) -> None:
        template = {**shape["template"], "spec": {**shape["template"]["spec"]}}
        del template["spec"]["requirements"]  # it does not count, and the world has one of its own
        await world.pool(template=template)
        await world.deploy(replicas=1)
        await world.settled(1)
        await world.stop()
        stamp = {NODEPOOL_HASH: shape["hash"], NODEPOOL_HASH_VERSION: "v3"}
        (claim,) = await world.claims()
        await world.client.patch(NodePool, "default", MergePatch({"metadata": {"annotations": stamp}}))
        await world.client.patch(type(claim), claim.name, MergePatch({"metadata": {"annotations": stamp}}))
        await world.start()
        await asyncio.sleep(600)

        pool = await world.client.get(NodePool, "default")
        assert {key: pool.metadata.annotations[key] for key in stamp} == stamp
        assert [each.name for each in await world.claims()] == [claim.name]

    switch()
