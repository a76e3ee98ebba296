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

import yaml

from karpenter.base.clock import SystemClock
from karpenter_local.aws.room import MachineRoom, Pace, Reach
from karpenter_local.aws.server import EmbeddedAws
from karpenter_local.aws.site import Site

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from karpenter_local.aws.location import Location
    from karpenter_local.serving import Standing


BRISK = Pace(pending=1.0, boot=4.0, shutdown=2.0)
"""Faster than real machines: somebody is watching."""


@asynccontextmanager
async def aws_beside(standing: Standing, location: Location) -> AsyncIterator[Site]:
    """Run an AWS for a cluster for as long as the context lasts."""
    version = await standing.client.server_version()
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


def authority_of(kubeconfig: str) -> str:
    """Return what a kubeconfig trusts its server by, in base64."""
    found = yaml.safe_load(kubeconfig)["clusters"][0]["cluster"]["certificate-authority-data"]
    return str(found)
