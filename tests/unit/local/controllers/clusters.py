"""A small cluster in virtual time for controllers' tests, and words for looking at it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from karpenter.api.cluster import Event
from karpenter.api.pod import Pod
from karpenter.kube.errors import NotFound
from karpenter.kube.patches import MergePatch
from karpenter.kube.rest import Selection
from karpenter.kube.targets import Plain
from karpenter_local.cluster import LocalCluster
from karpenter_local.virtual import VirtualClock

HERE = Selection(namespace="default")


class Small:
    """A cluster of two nodes, and everything in the namespace ``default``."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.client = cluster.client

    async def make(self, kind: Any, body: Mapping[str, Any]) -> Any:
        """Make an object and let its controllers work for three seconds."""
        made = await self.client.create(kind, body, namespace="default")
        await asyncio.sleep(3)
        return made

    async def get(self, kind: Any, name: str) -> Any:
        """Return an object; None if it is gone."""
        try:
            return await self.client.get(kind, name, namespace="default")
        except NotFound:
            return None

    async def change(self, kind: Any, name: str, **changes: Any) -> None:
        """Merge changes into an object and let its controllers work for three seconds."""
        await self.client.patch(kind, name, MergePatch(changes), namespace="default")
        await asyncio.sleep(3)

    async def delete(self, kind: Any, name: str, **options: Any) -> None:
        """Delete an object and let its controllers work for three seconds."""
        await self.client.delete(kind, name, namespace="default", **options)
        await asyncio.sleep(3)

    async def names(self, kind: Any) -> list[str]:
        found = (await self.client.list(kind, HERE)).items
        return sorted(each["metadata"]["name"] if isinstance(each, dict) else each.name for each in found)

    async def pods(self) -> tuple[Pod, ...]:
        return (await self.client.list(Pod, HERE)).items

    async def told(self, reason: str) -> list[str]:
        """Return the messages of all events with a reason."""
        await asyncio.sleep(0.1)
        return [each.message for each in (await self.client.list(Event)).items if each.reason == reason]


@asynccontextmanager
async def small_cluster() -> AsyncIterator[Small]:
    async with LocalCluster(VirtualClock(), seed=1) as cluster:
        await cluster.add_nodes(2)
        await asyncio.sleep(1)
        yield Small(cluster)


def template(app: str, **spec: Any) -> Plain:
    """Return a pod template that stops quickly."""
    notes = spec.pop("notes", {})
    return {
        "metadata": {"labels": {"app": app}, "annotations": notes},
        "spec": {
            "containers": [{"name": "main", "image": "pause"}],
            "terminationGracePeriodSeconds": 1,
            **spec,
        },
    }


def workload(app: str, **spec: Any) -> Plain:
    """Return a workload that manages the pods of an app."""
    body = {"selector": {"matchLabels": {"app": app}}, "template": template(app), **spec}
    return {"metadata": {"name": app}, "spec": body}
