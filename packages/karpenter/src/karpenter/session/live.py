"""
Reads a live cluster, once, and changes nothing.

What decisions need under the settings of the operator that runs there must be readable; see :mod:`.access`.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.cluster import Event
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.kinds import ALL_KINDS
from karpenter.api.kwoknodeclass import KWOKNodeClass
from karpenter.base.clock import SystemClock
from karpenter.cloud.catalogs.ec2.volumes import node_class_of
from karpenter.core.events import CAPACITY_FAILURE
from karpenter.core.state.cluster import NodeClass, view_field
from karpenter.kube.client import Client
from karpenter.kube.errors import Forbidden, KubeError
from karpenter.kube.http import HttpTransport
from karpenter.kube.kubeconfig import find_cluster
from karpenter.kube.rest import Selection
from karpenter.kube.targets import target_of, untyped
from karpenter.operator.kinds import watched_kinds
from karpenter.session.access import ask_for_each
from karpenter.session.installation import (
    SELECTOR,
    Installation,
    SettingsInForce,
    find_installation,
    settings_in_force,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from karpenter.api.meta import Resource
    from karpenter.kube.targets import Target

CLASSES: Final = (EC2NodeClass, KWOKNodeClass)
"""The node classes that have a catalogue."""

_DEPLOYMENTS: Final = untyped("apps/v1", "deployments", kind="Deployment", namespaced=True)


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster that can be talked to."""

    client: Client
    context: str
    """The kubeconfig's name for it; empty in a pod."""

    cluster: str = ""
    """What the kubeconfig calls the cluster of the context."""

    authority: str | None = None
    """The CA bundle by which its API server is trusted, as a kubeconfig has it."""

    @property
    def name(self) -> str:
        return f"context {self.context}" if self.context else "the cluster of this pod"


class RunningOperator(msgspec.Struct, frozen=True, kw_only=True):
    """The operator that runs in a cluster, and the settings that follow."""

    installation: Installation
    in_force: SettingsInForce
    problem: str = ""
    """Why it could not be looked for."""


class LiveCluster(msgspec.Struct, frozen=True, kw_only=True):
    """What a cluster holds, and what of it could not be read."""

    objects: tuple[Any, ...] = ()
    classes: tuple[NodeClass, ...] = ()
    skipped: tuple[str, ...] = ()
    host: str = ""
    """Where its API server is."""


async def _capacity_failures(client: Client) -> tuple[Event, ...]:
    """Return the Events of launches that failed for want of capacity; none where Events may not be read."""
    try:
        page = await client.list(Event, Selection(fields=f"reason={CAPACITY_FAILURE}"))
    except KubeError:
        return ()  # they only say what the catalogue cannot
    return tuple(page.items)


@asynccontextmanager
async def connected(*, kubeconfig: str, context: str) -> AsyncIterator[Connection]:
    """Connect to a cluster as :func:`connect` does, and close the connection in the end."""
    connection = await connect(kubeconfig=kubeconfig, context=context)
    try:
        yield connection
    finally:
        await connection.client.close()


async def connect(*, kubeconfig: str, context: str) -> Connection:
    """
    Connect to the cluster of a kubeconfig's context, by default the current one.

    Raises:
        NotConfigured: there is none, or what describes it is wrong.
    """
    found = await find_cluster(
        environ=os.environ, clock=SystemClock(), kubeconfig=kubeconfig, context=context
    )
    client = Client(HttpTransport(found.endpoint, found.credentials), chance=Random())  # noqa: S311  retries
    return Connection(
        client=client,
        context=found.context,
        cluster=found.name,
        authority=found.endpoint.trust.bundle(),
    )


async def running_operator(client: Client, given: Mapping[str, str]) -> RunningOperator:
    """
    Return the operator of a cluster, and its settings with those that are `given`.

    Raises:
        KubeError: the cluster does not answer.
        SettingError: a setting that is given cannot be read.
    """
    installation, problem = Installation(), ""
    try:
        page = await client.list(_DEPLOYMENTS, Selection(labels=SELECTOR))
        installation = find_installation(page.items)
    except Forbidden as error:
        problem = str(error)
    in_force = settings_in_force(installation, given)
    return RunningOperator(installation=installation, in_force=in_force, problem=problem)


async def read_live(client: Client, settings: SettingsInForce) -> LiveCluster:
    """
    Return everything that decisions are made from.

    Raises:
        ClusterUnreadable: what decisions need under these settings may not be read.
        KubeError: the cluster does not answer.
    """
    kinds = [each for each in ALL_KINDS if view_field(each.struct) or each.struct in CLASSES]

    async def listed(target: Target[Any]) -> Any:
        return await client.list(target)

    found = await ask_for_each(client, [target_of(each.struct) for each in kinds], listed)
    found.require((*watched_kinds(settings.settings), *CLASSES))
    objects: list[Resource] = []
    classes: list[NodeClass] = []
    broken: list[str] = []
    for kind in kinds:
        page = found.answers.get(kind.name)
        if page is None:
            continue
        broken += [f"{error} (left out)" for error in page.broken]
        if kind.struct in CLASSES:
            classes += [node_class_of(item, kind.group, kind.name) for item in page.items]
        else:
            objects += page.items
    objects += await _capacity_failures(client)
    return LiveCluster(
        objects=tuple(objects),
        classes=tuple(classes),
        skipped=(*found.left_out, *broken),
        host=client.host,
    )
