"""
The embedded AWS beside a cluster on this machine: an account, its machines, and a hand on loopback.

    async with aws_beside(standing, Location(cluster="blue")) as site:
        ...

The machines join the cluster that stands there, by what their user data says of it.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
import yaml

from karpenter.base.clock import SystemClock
from karpenter.kube.transport import Request
from karpenter_local.apiserver.notice import KUBERNETES
from karpenter_local.aws.inprocess import AwsInProcess
from karpenter_local.aws.room import MachineRoom, Pace, Reach
from karpenter_local.aws.server import EmbeddedAws
from karpenter_local.aws.site import Site
from karpenter_local.cluster import LocalCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from karpenter.base.clock import Clock
    from karpenter.kube.client import Client
    from karpenter_local.aws.location import Location
    from karpenter_local.serving import Standing


BRISK = Pace(pending=1.0, boot=4.0, shutdown=2.0)
"""Faster than real machines: a person is watching."""

_AT_ONCE = Pace(pending=0.0, boot=0.0, initialize=0.0)


class AwsWithCluster(msgspec.Struct, frozen=True):
    """An embedded cluster and an embedded AWS in one process."""

    cluster: LocalCluster
    site: Site
    room: MachineRoom


@asynccontextmanager
async def aws_beside(standing: Standing, location: Location) -> AsyncIterator[Site]:
    """Run an AWS for a cluster for as long as the context lasts."""
    version = await server_version(standing.client)
    with EmbeddedAws() as server:
        site = await asyncio.to_thread(_site, server, location, version)
        reach = Reach(
            cluster=location.cluster,
            endpoint=standing.url,
            authority=authority_of(standing.kubeconfig),
            version=version,
        )
        site.serve(reach)
        server.obey(site.control)
        room = MachineRoom(
            site.account,
            reach,
            client=standing.client,
            kubelets=standing.kubelets,
            clock=SystemClock(),
            pace=BRISK,
        )
        try:
            async with room:
                await _populate(site, location, room)
                yield site
        finally:
            site.close()


@asynccontextmanager
async def aws_with_cluster(
    location: Location,
    *,
    clock: Clock | None = None,
    seed: int = 0,
    http: bool = False,
    kubernetes: str = KUBERNETES,
    pace: Pace | None = None,
) -> AsyncIterator[AwsWithCluster]:
    """
    Run a cluster and its AWS in this process, for as long as the context lasts.

    Without `http` nothing listens: clients of the site's session are answered in process. With it, both do,
    and other programs can use them. In virtual time everything is repeatable.
    """
    cluster = LocalCluster(clock, seed=seed, http=http, kubernetes=kubernetes)
    async with cluster:
        server = EmbeddedAws() if http else AwsInProcess(seed=str(seed))
        with server:
            site = _site(server, location, kubernetes)
            reach = _reach(cluster, location, kubernetes)
            site.serve(reach)
            if isinstance(server, EmbeddedAws):
                server.obey(site.control)
            room = MachineRoom(
                site.account,
                reach,
                client=cluster.connect("kubelet"),
                kubelets=cluster.fleet,
                clock=cluster.clock,
                pace=pace or BRISK,
            )
            try:
                async with room:
                    await _populate(site, location, room)
                    yield AwsWithCluster(cluster, site, room)
            finally:
                site.close()


def _site(server: EmbeddedAws | AwsInProcess, location: Location, version: str) -> Site:
    return Site(
        server,
        cluster=location.cluster,
        region=location.region,
        kubernetes=version,
        types=location.types or None,
        bare=location.bare,
        tagged=location.tagged,
    )


def _reach(cluster: LocalCluster, location: Location, version: str) -> Reach:
    endpoint, authority = f"https://{location.cluster}.example", "Q0E="
    if cluster.front is not None:
        endpoint, authority = cluster.front.url, authority_of(cluster.kubeconfig())
    return Reach(cluster=location.cluster, endpoint=endpoint, authority=authority, version=version)


async def _populate(site: Site, location: Location, room: MachineRoom) -> None:
    """Make the node groups that were asked for, and wait until their machines have joined."""
    if not location.node_groups:
        return
    pace, room.pace = room.pace, _AT_ONCE
    for group in location.node_groups:
        await asyncio.to_thread(site.estate.add_node_group, group)
    await room.joined(sum(group.count for group in location.node_groups))
    room.pace = pace
    site.account.forget_calls()


async def server_version(client: Client) -> str:
    """Return the version of an API server, such as ``1.33``."""
    answer = await client.send(Request(method="GET", path="/version"))
    told = msgspec.json.decode(answer.body, type=_Version)
    return f"{told.major}.{told.minor.rstrip('+')}"


def authority_of(kubeconfig: str) -> str:
    """Return what a kubeconfig trusts its server by, in base64."""
    found = yaml.safe_load(kubeconfig)["clusters"][0]["cluster"]["certificate-authority-data"]
    return str(found)


class _Version(msgspec.Struct):
    major: str
    minor: str
