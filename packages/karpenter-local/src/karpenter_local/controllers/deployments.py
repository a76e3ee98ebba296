"""
Deployments: one replica set per template, and a gradual move from the old ones to the new one.

:mod:`.rollout` decides how large each set is next, :mod:`.deployment_status` what the status is. Here the
sets are found, made, sized and, when there are too many old ones, deleted. A rollback is nothing special:
it brings back a template whose set is still there.
"""

from collections.abc import Sequence

from karpenter.api.pod import Pod
from karpenter.base.clock import Clock
from karpenter.base.queue import WorkQueue
from karpenter.kube.errors import AlreadyExists
from karpenter.kube.patches import MergePatch
from karpenter.kube.targets import Plain
from karpenter_local.controllers import deployment_status, plain, pods, rollout, templates
from karpenter_local.controllers.deployment_sets import (
    DESIRED,
    HISTORY,
    MOST,
    REVISION,
    as_replicas,
    copied_annotations,
    expendable,
    find_new,
    new_set,
    next_revision,
    revision_of,
)
from karpenter_local.controllers.informers import (
    BY_NAMESPACE,
    BY_OWNER,
    DEPLOYMENTS,
    REPLICA_SETS,
    Informers,
    unowned,
)
from karpenter_local.controllers.loop import wake
from karpenter_local.controllers.ownership import ControllerRefManager, sort_plain
from karpenter_local.controllers.rollout import RolloutLimits, Sizes
from karpenter_local.controllers.status import write_status
from karpenter_local.controllers.writer import Writer


class DeploymentController:
    """Rolls deployments out."""

    name = "deployment"

    def __init__(self, informers: Informers, writer: Writer, clock: Clock) -> None:
        self._deployments = informers.deployments
        self._sets = informers.replica_sets
        self._pods = informers.pods
        self._predicate = informers.pod_predicate
        self._writer = writer
        self._custody = ControllerRefManager(writer)
        self._clock = clock

    def watch(self, queue: WorkQueue[str]) -> None:
        """Look at a deployment when it, one of its sets, or (for Recreate) the last of its pods changes."""
        wake(self._deployments, queue, lambda value: [plain.key_of(value)])
        wake(self._sets, queue, self._interested)
        wake(self._pods, queue, self._recreating, predicate=self._predicate)

    def _interested(self, value: Plain) -> list[str]:
        owner = next((each for each in plain.owners_of(value) if each.get("controller")), None)
        namespace = plain.namespace_of(value)
        if owner is not None:
            return [f"{namespace}/{owner['name']}"] if owner["kind"] == "Deployment" else []
        return [
            plain.key_of(each)
            for each in self._deployments.store.find(BY_NAMESPACE, namespace)
            if plain.selector_of(each).matches(plain.labels_of(value))
        ]

    def _recreating(self, pod: Pod) -> list[str]:
        owner = plain.managing_owner(pod.metadata.owner_references)
        if owner is None or owner.kind != "ReplicaSet":
            return []
        parent = self._sets.store.get(f"{pod.namespace}/{owner.name}")
        found = self._interested(parent) if parent is not None else []
        return [key for key in found if self._is_recreate(self._deployments.store.get(key))]

    def _is_recreate(self, deployment: Plain | None) -> bool:
        return deployment is not None and _strategy(deployment) == "Recreate"

    async def reconcile(self, key: str) -> float | None:
        """Move one step towards the wanted template and count."""
        deployment = self._deployments.store.get(key)
        if deployment is None:
            return None
        namespace = plain.namespace_of(deployment)
        owned = self._sets.store.find(BY_OWNER, plain.uid_of(deployment))
        orphans = self._sets.store.find(BY_OWNER, unowned(namespace))
        found = sort_plain(deployment, plain.selector_of(deployment), [*owned, *orphans])
        sets = await self._custody.settle_plain(deployment, REPLICA_SETS, found)
        if not plain.is_leaving(deployment):
            deployment = await self._note_pause(deployment)
            sets = await self._step(deployment, sets)
        return await self._finish(deployment, sets)

    async def _step(self, deployment: Plain, sets: list[Plain]) -> list[Plain]:
        new = find_new(deployment, sets)
        old = [each for each in sets if each is not new]
        bounds = _limits(deployment)
        if plain.spec_of(deployment).get("paused") or self._was_resized(sets, bounds):
            present = as_replicas(new) if new is not None else None
            sizes = rollout.share(
                bounds,
                present,
                [as_replicas(each) for each in old],
                rolling=_strategy(deployment) != "Recreate",
            )
            return await self._resize(deployment, sets, sizes, bounds, mark=True)
        if _strategy(deployment) == "Recreate":
            return await self._recreate(deployment, new, old, bounds)
        return await self._roll(deployment, new, old, bounds)

    async def _roll(
        self, deployment: Plain, new: Plain | None, old: list[Plain], bounds: RolloutLimits
    ) -> list[Plain]:
        standing = [as_replicas(each) for each in old]
        if new is None:
            size = rollout.first_size(bounds, standing)
            return [*old, await self._make(deployment, old, size, bounds)]
        new = await self._mark_newest(deployment, new, old, bounds)
        sets = [*old, new]
        sizes = rollout.grow(bounds, as_replicas(new), standing) or rollout.shrink(
            bounds, as_replicas(new), standing
        )
        return await self._resize(deployment, sets, sizes, bounds)

    async def _recreate(
        self, deployment: Plain, new: Plain | None, old: list[Plain], bounds: RolloutLimits
    ) -> list[Plain]:
        standing = {plain.name_of(each): 0 for each in old if plain.spec_of(each).get("replicas", 0)}
        if standing:
            sets = [*old, *([new] if new is not None else [])]
            return await self._resize(deployment, sets, standing, bounds)
        if self._still_running(old):
            return [*old, *([new] if new is not None else [])]
        if new is None:
            return [*old, await self._make(deployment, old, bounds.wanted, bounds)]
        new = await self._mark_newest(deployment, new, old, bounds)
        sizes = rollout.grow(bounds, as_replicas(new), ())
        return await self._resize(deployment, [*old, new], sizes, bounds)

    def _still_running(self, old: Sequence[Plain]) -> bool:
        return any(
            not pods.is_finished(pod)
            for each in old
            for pod in self._pods.store.find(BY_OWNER, plain.uid_of(each))
        )

    def _was_resized(self, sets: Sequence[Plain], bounds: RolloutLimits) -> bool:
        return any(
            plain.annotations_of(each).get(DESIRED, str(bounds.wanted)) != str(bounds.wanted)
            for each in sets
            if plain.spec_of(each).get("replicas", 0)
        )

    async def _make(self, deployment: Plain, old: Sequence[Plain], size: int, bounds: RolloutLimits) -> Plain:
        collisions = int(plain.status_of(deployment).get("collisionCount", 0))
        name_hash = templates.short_hash(plain.spec_of(deployment)["template"], collisions)
        revision = next_revision(None, old)
        body = new_set(deployment, name_hash=name_hash, size=size, revision=revision, bounds=bounds)
        namespace = plain.namespace_of(deployment)
        try:
            made = await self._writer.create(REPLICA_SETS, body, namespace=namespace)
        except AlreadyExists:
            # A set of that name with another template, or one our copy has not seen: another name next time.
            await self._writer.set_status(
                DEPLOYMENTS,
                plain.name_of(deployment),
                {"collisionCount": collisions + 1},
                namespace=namespace,
            )
            raise
        if size:
            self._record(deployment, "up", plain.name_of(made), 0, size)
        message = f'Created new replica set "{plain.name_of(made)}"'
        await self._note(deployment, "True", "NewReplicaSetCreated", message)
        await self._set_revision(deployment, revision)
        return made

    async def _mark_newest(
        self, deployment: Plain, new: Plain, old: Sequence[Plain], bounds: RolloutLimits
    ) -> Plain:
        """Give the present set the highest revision, and what else it takes over from the deployment."""
        revision = next_revision(new, old)
        known = plain.annotations_of(new)
        wanted = {**copied_annotations(deployment, new), REVISION: str(revision)}
        wanted |= {DESIRED: str(bounds.wanted), MOST: str(bounds.wanted + bounds.surge)}
        if known.get(REVISION) not in {None, str(revision)}:
            past = [each for each in (known.get(HISTORY), known[REVISION]) if each]
            wanted[HISTORY] = ",".join(past)
        changes: Plain = {} if wanted == known else {"metadata": {"annotations": wanted}}
        least = plain.spec_of(deployment).get("minReadySeconds", 0)
        if least != plain.spec_of(new).get("minReadySeconds", 0):
            changes["spec"] = {"minReadySeconds": least}
        if changes:
            changed = await self._writer.merge(
                REPLICA_SETS, plain.name_of(new), changes, namespace=plain.namespace_of(new)
            )
            new = changed or new
        if deployment_status.deadline(deployment) is not None and not _progress_reason(deployment):
            message = f'Found new replica set "{plain.name_of(new)}"'
            await self._note(deployment, "True", "FoundNewReplicaSet", message)
        await self._set_revision(deployment, revision)
        return new

    async def _resize(
        self,
        deployment: Plain,
        sets: Sequence[Plain],
        sizes: Sizes,
        bounds: RolloutLimits,
        *,
        mark: bool = False,
    ) -> list[Plain]:
        """Give the sets new sizes; `mark` notes the wanted count on every standing set, resized or not."""
        result = []
        for each in sets:
            before = int(plain.spec_of(each).get("replicas", 0))
            size = sizes.get(plain.name_of(each), before)
            noted = {DESIRED: str(bounds.wanted), MOST: str(bounds.wanted + bounds.surge)}
            stale = not noted.items() <= plain.annotations_of(each).items()
            if size == before and not (mark and stale and size):
                result.append(each)
                continue
            changes = {"spec": {"replicas": size}, "metadata": {"annotations": noted}}
            changed = await self._writer.merge(
                REPLICA_SETS, plain.name_of(each), changes, namespace=plain.namespace_of(each)
            )
            if size != before:
                self._record(deployment, "up" if size > before else "down", plain.name_of(each), before, size)
            result.append(changed or each)
        return result

    async def _finish(self, deployment: Plain, sets: list[Plain]) -> float | None:
        now = self._clock.now()
        deployment = self._deployments.store.get(plain.key_of(deployment)) or deployment
        new = find_new(deployment, sets)
        found = deployment_status.status(deployment, new, sets, bounds=_limits(deployment), now=now)
        await write_status(self._writer, DEPLOYMENTS, deployment, found)
        done = deployment_status.is_complete(deployment, deployment_status.counts(deployment, new, sets))
        if (done or plain.spec_of(deployment).get("paused")) and not plain.is_leaving(deployment):
            for each in expendable(deployment, [item for item in sets if item is not new]):
                await self._writer.delete(
                    REPLICA_SETS,
                    plain.name_of(each),
                    namespace=plain.namespace_of(each),
                    uid=plain.uid_of(each),
                    propagation="Background",
                )
        return None if done else deployment_status.seconds_to_timeout(deployment, found, now)

    async def _note_pause(self, deployment: Plain) -> Plain:
        """Say in the conditions that a rollout was paused or resumed."""
        if deployment_status.deadline(deployment) is None:
            return deployment
        paused = bool(plain.spec_of(deployment).get("paused"))
        reason = _progress_reason(deployment)
        if reason == deployment_status.TIMED_OUT:
            return deployment
        if paused and reason != deployment_status.PAUSED:
            return await self._note(deployment, "Unknown", deployment_status.PAUSED, "Deployment is paused")
        if not paused and reason == deployment_status.PAUSED:
            return await self._note(deployment, "Unknown", deployment_status.RESUMED, "Deployment is resumed")
        return deployment

    async def _note(self, deployment: Plain, status: str, reason: str, message: str) -> Plain:
        if deployment_status.deadline(deployment) is None:
            return deployment
        newest = self._deployments.store.get(plain.key_of(deployment)) or deployment
        known = list(plain.status_of(newest).get("conditions") or [])
        told = deployment_status.noted(known, status, reason, message, self._clock.now())
        changed = await self._writer.set_status(
            DEPLOYMENTS,
            plain.name_of(deployment),
            {"conditions": told},
            namespace=plain.namespace_of(deployment),
        )
        return changed or deployment

    async def _set_revision(self, deployment: Plain, revision: int) -> None:
        if revision_of(deployment) != revision:
            # By way of the status, because this is no change of what the user wants.
            await self._writer.patch(
                DEPLOYMENTS,
                plain.name_of(deployment),
                MergePatch({"metadata": {"annotations": {REVISION: str(revision)}}}),
                namespace=plain.namespace_of(deployment),
                subresource="status",
            )

    def _record(self, deployment: Plain, way: str, name: str, before: int, after: int) -> None:
        message = f"Scaled {way} replica set {name} from {before} to {after}"
        self._writer.record_event(deployment, "Normal", "ScalingReplicaSet", message)


def _limits(deployment: Plain) -> RolloutLimits:
    spec = plain.spec_of(deployment)
    return rollout.limits(int(spec.get("replicas", 1)), spec.get("strategy") or {})


def _strategy(deployment: Plain) -> str:
    return str((plain.spec_of(deployment).get("strategy") or {}).get("type", "RollingUpdate"))


def _progress_reason(deployment: Plain) -> str:
    known = plain.status_of(deployment).get("conditions") or []
    return next((str(each["reason"]) for each in known if each["type"] == deployment_status.PROGRESSING), "")
