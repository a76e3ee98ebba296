"""
The objects of an installed operator, for the one that runs in the process of a local cluster.

Tools and people look for the operator in ``kube-system``: a Deployment with a pod that is ready, the Service
of its metrics, and the lease of its leader. The first two are made of our own chart. The pod is bound to no
node: it must neither need a worker nor make the operator launch one. No scheduler looks at it, and its status
is written here. When the operator stops, its objects go.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import structlog

from karpenter.api.cluster import Lease
from karpenter.api.pod import Pod
from karpenter.chart.chart import manifests
from karpenter.chart.tree import Release
from karpenter.chart.values import values_of
from karpenter.kube.errors import AlreadyExists, KubeError, NotFound
from karpenter.kube.patches import MergePatch, StrategicPatch
from karpenter.kube.rest import Selection
from karpenter.kube.targets import Target, untyped
from karpenter_local.kubelet import status
from karpenter_local.kubelet.machine import render_micro

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from karpenter.base.clock import Clock
    from karpenter.kube.client import Client

log = structlog.stdlib.get_logger(__name__)

NAMESPACE: Final = "kube-system"
NAME_LABEL: Final = "app.kubernetes.io/name"
LEASE: Final = "karpenter-leader-election"
_NAME: Final = "karpenter"
_SELECTOR: Final = f"{NAME_LABEL}={_NAME}"
_SCHEDULER: Final = "karpenter-local"
"""A scheduler that does not exist, so that the pod is left alone."""

_POLL_SECONDS: Final = 1.0
_FIRST_POLL_SECONDS: Final = 0.05
_SHOWN_WITHIN: Final = 5.0
"""Seconds for which the start waits until the Deployment has its pod."""
_RENEW_SECONDS: Final = 10.0
_LEASE_SECONDS: Final = 15
_ADDRESS: Final = status.PodAddresses("127.0.0.1", "127.0.0.1")
_KINDS: Final[Mapping[str, Target[dict[str, Any]]]] = {
    "ServiceAccount": untyped("v1", "serviceaccounts", kind="ServiceAccount", namespaced=True),
    "Service": untyped("v1", "services", kind="Service", namespaced=True),
    "Deployment": untyped("apps/v1", "deployments", kind="Deployment", namespaced=True),
}
_REPLICA_SETS: Final = untyped("apps/v1", "replicasets", kind="ReplicaSet", namespaced=True)


def is_operator(pod: Mapping[str, Any]) -> bool:
    """Say whether a pod is one of the operator, by the label that every installation gives it."""
    labels = (pod.get("metadata") or {}).get("labels") or {}
    return bool(labels.get(NAME_LABEL) == _NAME)


def log_of(path: Path) -> Any:
    """Return which file is the log of a pod: that of the operator's, and none for others."""
    return lambda pod: path if is_operator(pod) else None


def objects(cluster: str, provider: str) -> list[dict[str, Any]]:
    """Return the service account, the Service and the Deployment of the operator of a cluster."""
    queue = {"interruptionQueue": cluster} if provider == "aws" else {}
    stated = {
        "replicas": 1,
        "schedulerName": _SCHEDULER,
        "settings": {"clusterName": cluster, "cloudProvider": provider, **queue},
    }
    release = Release(
        name=_NAME, namespace=NAMESPACE, service="karpenter-local", values=values_of([stated], [])
    )
    return [each for each in manifests(release, definitions=False) if each["kind"] in _KINDS]


@asynccontextmanager
async def installed(client: Client, *, cluster: str, provider: str, clock: Clock) -> AsyncIterator[None]:
    """Show the operator as an installed one for as long as the context is open."""
    for body in objects(cluster, provider):
        with suppress(AlreadyExists):
            await client.create(_KINDS[body["kind"]], body, namespace=NAMESPACE)
    shown = _Shown(client, clock)
    with suppress(TimeoutError):
        async with asyncio.timeout(_SHOWN_WITHIN):
            while not await shown.look():  # noqa: ASYNC110  a pod that another part makes
                await asyncio.sleep(_FIRST_POLL_SECONDS)
    task = asyncio.create_task(shown.follow(), name="operator's objects")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await _remove(client)


class _Shown:
    """Keeps the pod running and its lease fresh."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._renewed: float | None = None

    async def follow(self) -> None:
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            try:
                await self.look()
            except KubeError as error:
                log.debug("operator.not_shown", error=str(error))

    async def look(self) -> bool:
        """Let pods of the Deployment run, and renew the lease in the name of the first, if there is one."""
        page = await self._client.list(Pod, Selection(namespace=NAMESPACE, labels=_SELECTOR))
        mine = sorted(
            (pod for pod in page.items if pod.spec.scheduler_name == _SCHEDULER), key=lambda pod: pod.name
        )
        for pod in mine:
            if pod.status.phase in {"", "Pending"} and pod.metadata.deletion_timestamp is None:
                change = status.running(pod, _ADDRESS, self._clock.now(), ready=True)
                await self._client.patch(
                    Pod,
                    pod.name,
                    StrategicPatch({"status": change}),
                    namespace=NAMESPACE,
                    subresource="status",
                )
        now = self._clock.monotonic()
        if mine and (self._renewed is None or now - self._renewed >= _RENEW_SECONDS):
            await self._renew(mine[0])
            self._renewed = now
        return bool(mine)

    async def _renew(self, pod: Pod) -> None:
        moment = render_micro(self._clock.now())
        spec = {
            "holderIdentity": f"{pod.name}_{pod.metadata.uid}",
            "leaseDurationSeconds": _LEASE_SECONDS,
            "renewTime": moment,
        }
        try:
            await self._client.patch(Lease, LEASE, MergePatch({"spec": spec}), namespace=NAMESPACE)
        except NotFound:
            body = {
                "metadata": {"name": LEASE},
                "spec": {**spec, "acquireTime": moment, "leaseTransitions": 0},
            }
            await self._client.create(Lease, body, namespace=NAMESPACE)


async def _remove(client: Client) -> None:
    """Remove the objects; the garbage collector may not run long enough to do it."""
    found: list[tuple[Target[Any] | type[Any], str]] = [(each, _NAME) for each in _KINDS.values()]
    try:
        for kind in (_REPLICA_SETS, untyped("v1", "pods", kind="Pod", namespaced=True)):
            page = await client.list(kind, Selection(namespace=NAMESPACE, labels=_SELECTOR))
            found += [(kind, each["metadata"]["name"]) for each in page.items]
        found.append((Lease, LEASE))
        for kind_, name in found:
            with suppress(NotFound):
                await client.delete(kind_, name, namespace=NAMESPACE, grace=0)
    except KubeError as error:
        log.warning("operator.objects_remain", error=str(error))
