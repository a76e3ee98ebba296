"""
Reads the live cluster that ``karpenter plan`` is asked about: once, and nothing is changed.

Of kinds that it does not serve there are none; those that may not be read are named and left out, and the
plan is then made without them. This is apart from :mod:`.input`, because planning from files does not pay
for loading a client.
"""

from __future__ import annotations

import asyncio
import logging
import os
from random import Random
from typing import TYPE_CHECKING, Any, Final

import structlog

from karpenter.api.cluster import Event
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.kinds import ALL_KINDS, Kind
from karpenter.api.kwoknodeclass import KWOKNodeClass
from karpenter.base.clock import SystemClock
from karpenter.cli.errors import CommandError
from karpenter.cli.planning.input import LiveCluster
from karpenter.cloud.catalogs.ec2.volumes import node_class_of
from karpenter.core.events import CAPACITY_FAILURE
from karpenter.core.state.cluster import NodeClass, view_field
from karpenter.kube.client import Client
from karpenter.kube.errors import Forbidden, KubeError, NotFound
from karpenter.kube.http import HttpTransport
from karpenter.kube.kubeconfig import find_cluster
from karpenter.kube.rest import Selection

if TYPE_CHECKING:
    from karpenter.api.meta import Resource

_CLASSES: Final = (EC2NodeClass, KWOKNodeClass)


def read_cluster(*, kubeconfig: str, context: str) -> LiveCluster:
    """
    Return what the cluster of a kubeconfig's context holds.

    Raises:
        CommandError: there is no such cluster, or it does not answer.
    """
    # What goes wrong on the way is told in the end, in one sentence; a log would be taken for the plan.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        return asyncio.run(_read(kubeconfig, context))
    except KubeError as error:
        raise CommandError(str(error)) from error


async def _read(kubeconfig: str, context: str) -> LiveCluster:
    cluster = await find_cluster(
        environ=os.environ, clock=SystemClock(), kubeconfig=kubeconfig, context=context
    )
    client = Client(HttpTransport(cluster.endpoint, cluster.credentials), chance=Random())  # noqa: S311  retries
    try:
        wanted = [each for each in ALL_KINDS if view_field(each.struct) or each.struct in _CLASSES]
        found = [await _listed(client, each) for each in wanted]
        failures = await _capacity_failures(client)
    finally:
        await client.close()
    objects: list[Resource] = [*failures]
    classes: list[NodeClass] = []
    for kind, (items, _) in zip(wanted, found, strict=True):
        if kind.struct in _CLASSES:
            classes += [node_class_of(item, kind.group, kind.name) for item in items]
        else:
            objects += items
    skipped = tuple(problem for _, problems in found for problem in problems)
    return LiveCluster(objects=tuple(objects), classes=tuple(classes), skipped=skipped)


async def _capacity_failures(client: Client) -> tuple[Event, ...]:
    """Return the Events of launches that failed for want of capacity; none where Events may not be read."""
    try:
        page = await client.list(Event, Selection(fields=f"reason={CAPACITY_FAILURE}"))
    except KubeError:
        return ()  # they only say what the catalogue cannot
    return tuple(page.items)


async def _listed(client: Client, kind: Kind) -> tuple[tuple[Any, ...], list[str]]:
    """Return the objects of one kind, and what is wrong with the others."""
    try:
        page = await client.list(kind.struct)
    except NotFound:
        return (), []  # its definition is not installed, so there are none
    except Forbidden as error:
        return (), [f"{kind.name} is left out: {error}"]
    return page.items, [f"{error} (left out)" for error in page.broken]
