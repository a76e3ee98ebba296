"""
The namespace controller: deletes the content of terminating namespaces, kind by kind, then their finalizer.

Also the service account controller: every active namespace has a default service account, also after its
deletion.
"""

import msgspec
import structlog

from karpenter.api.cluster import Namespace
from karpenter.base.clock import Clock
from karpenter.base.queue import WorkQueue
from karpenter.kube.errors import KubeError, NotFound
from karpenter.kube.rest import Selection
from karpenter.kube.targets import Plain, untyped
from karpenter.kube.transport import Request
from karpenter_local.controllers import conditions, plain
from karpenter_local.controllers.discovery import PartialObjects, Served, discover
from karpenter_local.controllers.informers import SERVICE_ACCOUNTS, Informers
from karpenter_local.controllers.loop import wake
from karpenter_local.controllers.writer import Writer

log = structlog.stdlib.get_logger(__name__)

FINALIZER = "kubernetes"
RETRY_SECONDS = 1.0
"""Seconds between two looks at a namespace that is not empty yet."""

_NAMESPACES = untyped("v1", "namespaces", kind="Namespace", namespaced=False)
_HEADERS = (("accept", "application/json"), ("content-type", "application/json"))


def leftover_conditions(known: list[Plain], left: dict[str, int], now: str) -> list[Plain]:
    total = sum(left.values())
    names = ", ".join(f"{kind} has {count} resource instances" for kind, count in sorted(left.items()))
    wanted = (
        (
            "NamespaceDeletionDiscoveryFailure",
            False,
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        (
            "NamespaceContentRemaining",
            bool(total),
            "SomeResourcesRemain" if total else "ContentRemoved",
            f"Some resources are remaining: {names}" if total else "All content successfully removed",
        ),
    )
    result = [each for each in known if each["type"] not in {kind for kind, *_ in wanted}]
    for kind, holds, reason, message in wanted:
        status = "True" if holds else "False"
        before = conditions.find(known, kind)
        since = now if before is None or before["status"] != status else before["lastTransitionTime"]
        result.append(
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "lastTransitionTime": since,
            }
        )
    return result


class NamespaceController:
    """Empties and finalizes terminating namespaces."""

    name = "namespace"

    def __init__(self, informers: Informers, writer: Writer, clock: Clock) -> None:
        self._namespaces = informers.namespaces
        self._writer = writer
        self._client = writer.client
        self._clock = clock

    def watch(self, queue: WorkQueue[str]) -> None:
        wake(self._namespaces, queue, lambda namespace: [namespace.name])

    async def reconcile(self, key: str) -> float | None:
        namespace = self._namespaces.store.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp is None:
            return None
        kinds = [each for each in await discover(self._client) if each.namespaced and "delete" in each.verbs]
        left: dict[str, int] = {}
        for kind in kinds:
            count = await self._clear(kind, key)
            if count:
                left[f"{kind.plural}.{kind.group}".rstrip(".")] = count
        try:
            current = await self._client.get(_NAMESPACES, key)
            if left:
                known = plain.status_of(current).get("conditions") or []
                told = leftover_conditions(known, left, plain.render_time(self._clock.now()))
                if told != known:
                    await self._writer.set_status(Namespace, key, {"conditions": told})
                return RETRY_SECONDS
            kept = [each for each in plain.spec_of(current).get("finalizers") or () if each != FINALIZER]
            body = {**current, "spec": {"finalizers": kept}}
            await self._client.replace(_NAMESPACES, body, subresource="finalize")
            log.info("namespace.removed", namespace=plain.name_of(current))
        except NotFound:
            return None
        return None

    async def _clear(self, kind: Served, namespace: str) -> int:
        """Delete all objects of a kind; return how many are still there."""
        target = PartialObjects.of(kind)
        if not (await self._client.list(target, Selection(namespace=namespace))).items:
            return 0
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        request = Request(
            method="DELETE",
            path=target.path(namespace=namespace),
            headers=_HEADERS,
            body=msgspec.json.encode(options),
        )
        try:
            await self._client.send(request)
        except KubeError as error:
            log.warning("namespace.not_cleared", namespace=namespace, kind=kind.kind, error=str(error))
        return len((await self._client.list(target, Selection(namespace=namespace))).items)


class ServiceAccountController:
    """Keeps a default service account in every namespace."""

    name = "serviceaccount"

    def __init__(self, informers: Informers, writer: Writer) -> None:
        self._namespaces = informers.namespaces
        self._accounts = informers.service_accounts
        self._writer = writer

    def watch(self, queue: WorkQueue[str]) -> None:
        wake(self._namespaces, queue, lambda namespace: [namespace.name])
        wake(self._accounts, queue, lambda account: [plain.namespace_of(account)])

    async def reconcile(self, key: str) -> float | None:
        """Make the account if it is missing."""
        namespace = self._namespaces.store.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp is not None:
            return None
        if self._accounts.store.get(f"{key}/default") is None:
            await self._writer.ensure(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, namespace=key)
        return None
