"""
How the provider ``kwok`` begins when the operator runs by itself: a world of its own, remembered by the
cluster.

Tests, demos and simulations that want the world to outlive the operator, or a hand in it, put the parts
together themselves.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.base.duration import DurationError, parse_duration
from karpenter.cloud.catalogs.load import KWOK, load_catalog
from karpenter.cloud.kwok.behaviour import Behaviour
from karpenter.cloud.kwok.cloud import KwokCloud
from karpenter.cloud.kwok.provider import KwokProvider
from karpenter.cloud.kwok.recalling import recall
from karpenter.cloud.kwok.seams import ObjectClasses, ObjectNodes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from karpenter.cloud.surroundings import Surroundings

CATALOG: Final = "INSTANCE_TYPES_FILE_PATH"
"""The setting that names the catalogue: a file, or one that is built in."""

DEFAULT_CLUSTER: Final = "default"
"""What a cluster is called that has no name: here, nobody else could be meant."""

LATENCIES: Final = {"launch": "KWOK_LAUNCH_LATENCY", "shutdown": "KWOK_SHUTDOWN_LATENCY"}
"""Settings of how long things take, such as ``1s``."""


class BadSetting(ValueError):  # noqa: N818  says what is wrong
    """A setting of the provider cannot be used."""


@asynccontextmanager
async def connect(around: Surroundings) -> AsyncIterator[KwokProvider]:
    """
    Begin a cloud in memory for one cluster.

    Raises:
        InvalidCatalog: the catalogue cannot be read.
        BadSetting: a latency is no duration.
        CloudUnreachable: the cluster cannot be asked for its machines.
    """
    cloud = KwokCloud(
        load_catalog(around.settings.get(CATALOG) or KWOK),
        nodes=ObjectNodes(around.objects),
        clock=around.clock,
        chance=around.chance,
        behaviour=_behaviour(around.settings),
    )
    cluster = around.cluster or DEFAULT_CLUSTER
    recall(cloud, cluster, await around.objects.list(NodeClaim), await around.objects.list(Node))
    try:
        yield KwokProvider(cloud, classes=ObjectClasses(around.objects), cluster=cluster)
    finally:
        await cloud.close()


def _behaviour(settings: Mapping[str, str]) -> Behaviour:
    seconds = {}
    for field, setting in LATENCIES.items():
        try:
            seconds[field] = parse_duration(settings.get(setting) or "0s").total_seconds()
        except DurationError as error:
            raise BadSetting(f"setting {setting}: {error}") from None
    return Behaviour(**seconds)
