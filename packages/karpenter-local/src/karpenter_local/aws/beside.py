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
from karpenter_local.aws.room import MachineRoom, Pace, Reach
from karpenter_local.aws.server import EmbeddedAws
from karpenter_local.aws.site import Site

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from karpenter.kube.client import Client
    from karpenter_local.aws.location import Location
    from karpenter_local.serving import Standing


BRISK = Pace(pending=1.0, boot=4.0, shutdown=2.0)
"""Faster than real machines: somebody is watching."""


@asynccontextmanager
async def aws_beside(standing: Standing, location: Location) -> AsyncIterator[Site]:
    """Run an AWS for a cluster for as long as the context lasts."""
    version = await server_version(standing.client)
    with EmbeddedAws() as server:
        site = await asyncio.to_thread(
            Site,
            server,
            cluster=location.cluster,
            region=location.region,
            kubernetes=version,
            types=location.types or None,
        )
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
                yield site
        finally:
            site.close()


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
