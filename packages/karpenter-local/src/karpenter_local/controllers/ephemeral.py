"""Ephemeral volumes: makes the claim that a pod's volume describes, owned by the pod and gone with it."""

import msgspec

from karpenter.api.pod import Pod
from karpenter.api.storage import PersistentVolumeClaim
from karpenter.base.queue import WorkQueue
from karpenter.kube.targets import Plain
from karpenter_local.controllers import pods
from karpenter_local.controllers.informers import Informers
from karpenter_local.controllers.loop import wake
from karpenter_local.controllers.writer import Writer


def claims_for(pod: Pod) -> list[Plain]:
    found = []
    for volume in pod.spec.volumes:
        template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
        if template is None:
            continue
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod.name,
            "uid": pod.metadata.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        found.append(
            {
                "metadata": {
                    "name": f"{pod.name}-{volume.name}",
                    "namespace": pod.namespace,
                    "labels": dict(template.metadata.labels),
                    "annotations": dict(template.metadata.annotations),
                    "ownerReferences": [owner],
                },
                "spec": msgspec.to_builtins(template.spec),
            }
        )
    return found


class EphemeralController:
    """Makes claims for pods."""

    name = "ephemeral-volume"

    def __init__(self, informers: Informers, writer: Writer) -> None:
        self._pods = informers.pods
        self._predicate = informers.pod_predicate
        self._claims = informers.claims
        self._writer = writer

    def watch(self, queue: WorkQueue[str]) -> None:
        """Look at a pod with ephemeral volumes when it changes."""
        wake(
            self._pods,
            queue,
            lambda pod: [pod.key] if any(v.ephemeral for v in pod.spec.volumes) else [],
            predicate=self._predicate,
        )

    async def reconcile(self, key: str) -> float | None:
        pod = self._pods.store.get(key)
        if pod is None or not pods.is_active(pod):
            return None
        for claim in claims_for(pod):
            if self._claims.store.get(f"{pod.namespace}/{claim['metadata']['name']}") is None:
                await self._writer.ensure(PersistentVolumeClaim, claim, namespace=pod.namespace)
        return None
