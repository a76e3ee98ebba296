"""
Carries out effects, and nothing else.

Effects are carried out in order; the first that fails ends the rest, and the controller looks again later.
Every reply of the API server is applied to the state as its watches are, so that the next decision sees
what this one did, however late the watch is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, assert_never

import msgspec
import structlog

from karpenter.api.kinds import ALL_KINDS
from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, MIN_VALUES_RELAXED, NODEPOOL, ZONE
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.pod import Pod
from karpenter.cloud.errors import (
    CloudError,
    InsufficientCapacity,
    LaunchRefused,
    MachineNotFound,
    NodeClassNotReady,
)
from karpenter.controllers.cloudcalls import LAUNCH_CALL_TIMEOUT, call_cloud
from karpenter.controllers.controller import Requeue
from karpenter.core.effects import (
    Amend,
    Announce,
    Count,
    CreateClaim,
    DeleteObject,
    Effect,
    Evict,
    Launch,
    Measure,
    Nominate,
    NominatePod,
    RegistrationOutcome,
    Terminate,
    filled,
)
from karpenter.core.lifecycle.launch import failure_facts, launch_facts
from karpenter.kube import rest
from karpenter.kube.errors import Conflict, Invalid, NotFound
from karpenter.kube.patches import MergePatch
from karpenter.kube.recorder import RecordedEvent, Recorder
from karpenter.kube.rest import Preconditions, named
from karpenter.kube.targets import target_of
from karpenter.telemetry.metrics import (
    METRICS,
    CounterMetric,
    HistogramMetric,
    Metrics,
    SummaryMetric,
    claims,
)
from karpenter.telemetry.tracing import note, traced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractAsyncContextManager

    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.cloud.cloudprovider import CloudProvider
    from karpenter.controllers.informer import Watches
    from karpenter.core.state.cluster import ClusterState
    from karpenter.kube.client import Client

log = structlog.stdlib.get_logger(__name__)

_STRUCTS: Final[dict[str, type[Resource]]] = {kind.name: kind.struct for kind in ALL_KINDS}
_DECLARED: Final = {declared.name: declared for declared in METRICS}


class EvictionSink(Protocol):
    """Pods that have to leave."""

    def add(self, eviction: Evict) -> None: ...


class OutcomeSink(Protocol):
    """News of machines that became nodes, or did not."""

    def add(self, outcome: RegistrationOutcome) -> None: ...


class Performer:
    """Carries out effects."""

    def __init__(
        self,
        *,
        client: Client,
        watches: Watches,
        store: ClusterState,
        cloud: CloudProvider,
        recorder: Recorder,
        metrics: Metrics,
        clock: Clock,
        evictions: EvictionSink,
        outcomes: OutcomeSink,
        nominations: Client | None = None,
    ) -> None:
        """`nominations` nominates pods, with a rate limit and a field manager of its own."""
        self._client = client
        self._nominations = nominations if nominations is not None else client
        self._watches = watches
        self._store = store
        self._cloud = cloud
        self._recorder = recorder
        self._metrics = metrics
        self._clock = clock
        self._evictions = evictions
        self._outcomes = outcomes
        self._listeners: list[Callable[[Effect], None]] = []

    def subscribe(self, listener: Callable[[Effect], None]) -> None:
        """Tell `listener` of every effect that was carried out."""
        self._listeners.append(listener)

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Wait for the rate limit of the API server before what is written is decided; see `Client.turn`."""
        return self._client.turn()

    async def perform(self, effects: Iterable[Effect]) -> None:
        """
        Carry out effects, one after the other.

        Raises:
            KubeError, CloudError, NotYet: the rest was not done; look again later.
        """
        for effect in effects:
            if not await self._perform(effect):
                return

    async def create_claim(self, effect: CreateClaim) -> NodeClaim:
        """Create a claim, and return it as the server has named it."""
        made = await self._client.create(NodeClaim, effect.claim)
        self._watches.observe(NodeClaim, made)
        self._metrics[claims.CREATED].add(
            reason=effect.reason,
            nodepool=made.metadata.labels.get(NODEPOOL, ""),
            min_values_relaxed=made.metadata.annotations.get(MIN_VALUES_RELAXED, "false"),
        )
        log.info(
            "nodeclaim.created",
            summary="created nodeclaim",
            nodeclaim=made.name,
            pods=len(effect.pods),
            because=effect.because,
        )
        self._tell(effect)
        return made

    async def _perform(self, effect: Effect) -> bool:
        """Carry out one effect; return whether it still made sense."""
        done = True
        match effect:
            case CreateClaim():
                await self.create_claim(effect)
                return True
            case DeleteObject():
                done = await self._delete(effect)
            case Amend():
                done = await self._amend(effect)
            case Evict():
                self._evictions.add(effect)
            case Launch():
                await self._launch(effect)
            case Terminate():
                await self._terminate(effect)
            case Nominate():
                self._store.nominate(effect.node, effect.until)
            case NominatePod():
                done = await self._nominate_pod(effect)
            case Announce():
                self.announce(effect)
            case Count():
                self._count(effect)
            case Measure():
                self._measure(effect)
            case RegistrationOutcome():
                self._outcomes.add(effect)
            case _:
                assert_never(effect)
        if done:
            self._tell(effect)
        return done

    async def _delete(self, effect: DeleteObject) -> bool:
        target = target_of(_STRUCTS[effect.kind])
        request = rest.delete(
            target,
            effect.name,
            namespace=effect.namespace,
            only_if=Preconditions(uid=effect.uid),
            grace=effect.grace,
        )
        try:
            response = await self._client.send(request)
        # It is what was asked for.
        except NotFound:
            return True
        except Conflict:
            # The uid of the precondition differs when an object of the same name was created anew.
            if await self._is_still(effect):
                raise
            log.info("object.not_deleted", kind=effect.kind, name=effect.name, because="it is another by now")
            return True
        # The answer is a Status when the object is gone at once, and the object while finalizers keep it:
        # https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-deletion
        if msgspec.json.decode(response.body, type=_AnswerKind).kind == effect.kind:
            self._watches.observe(target, target.read(response.body))
        log.info(
            "object.deleted",
            summary=f"deleted {effect.kind.lower()}",
            kind=effect.kind,
            name=effect.name,
            because=effect.because,
        )
        return True

    async def _is_still(self, effect: DeleteObject) -> bool:
        """Whether an object that could not be deleted is the one that was meant, as the server has it now."""
        which = named(effect.name, namespace=effect.namespace)
        found = await self._client.list(_STRUCTS[effect.kind], which)
        return any(each.metadata.uid == effect.uid for each in found.items)

    async def _amend(self, effect: Amend) -> bool:
        kind = _STRUCTS[effect.kind]
        version = effect.version
        # A kind with a status subresource ignores the status of a write to the object, and vice versa:
        # https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#status-subresource
        parts = (("", effect.changes), ("status", {"status": effect.status} if effect.status else {}))
        for subresource, changes in parts:
            if not changes:
                continue
            try:
                changed = await self._client.patch(
                    kind,
                    effect.name,
                    MergePatch(changes, version),
                    namespace=effect.namespace,
                    subresource=subresource,
                )
            except NotFound:
                return False
            self._watches.observe(kind, changed)
            if version:
                # The status is written by a second request, against the version that the first one made:
                # https://kubernetes.io/docs/reference/using-api/api-concepts/
                version = changed.metadata.resource_version
        log.debug("object.amended", kind=effect.kind, name=effect.name, because=effect.because)
        return True

    async def _nominate_pod(self, effect: NominatePod) -> bool:
        namespace, _, name = effect.pod.partition("/")
        meta = {"name": name, "namespace": namespace, "uid": effect.uid}
        status = {"nominatedNodeName": effect.node} if effect.node else {}
        try:
            # Server-side apply: kube-scheduler writes to the status of pods that wait all the time, so that a
            # write to one version of it often comes too late; and what another client has set is a conflict.
            changed = await self._nominations.apply(
                Pod, {"metadata": meta, "status": status}, subresource="status", force=False
            )
        # It is gone, is another by now, or was bound meanwhile.
        except (NotFound, Invalid):
            return False
        self._watches.observe(Pod, changed)
        log.debug("pod.nominated", pod=effect.pod, node=effect.node, because=effect.because)
        return True

    @traced("launch")
    async def _launch(self, effect: Launch) -> None:
        claim = effect.claim
        note(nodeclaim=claim.name, nodepool=claim.metadata.labels.get(NODEPOOL, ""))
        try:
            machine = await call_cloud(self._cloud.launch(claim), within=LAUNCH_CALL_TIMEOUT)
        except CloudError as error:
            log.warning(
                "machine.not_launched",
                summary="failed to launch nodeclaim",
                nodeclaim=claim.name,
                error=str(error),
            )
            note(failed=str(error))
            await self._launch_failed(effect, error)
            return
        labels = machine.labels
        note(
            provider_id=machine.provider_id,
            instance_type=labels.get(INSTANCE_TYPE, ""),
            zone=labels.get(ZONE, ""),
            capacity_type=labels.get(CAPACITY_TYPE, ""),
        )
        log.info(
            "machine.launched",
            summary="launched nodeclaim",
            nodeclaim=claim.name,
            provider_id=machine.provider_id,
            labels=dict(machine.labels),
        )
        await self.perform(filled(effect.launched, launch_facts(machine, self._clock.now())))

    async def _launch_failed(self, effect: Launch, error: CloudError) -> None:
        reason = error.reason if isinstance(error, LaunchRefused) else "LaunchFailed"
        sold_out = error.offerings if isinstance(error, InsufficientCapacity) else ()
        facts = failure_facts(
            str(error), self._clock.now(), reason=reason, sold_out=[str(each) for each in sold_out]
        )
        match error:
            case InsufficientCapacity():
                await self.perform(filled(effect.insufficient_capacity, facts))
            case NodeClassNotReady():
                await self.perform(filled(effect.nodeclass_not_ready, facts))
            # An error that may pass: the claim stays, and the launch is tried again until liveness deletes
            # the claim: https://karpenter.sh/docs/concepts/nodeclaims/
            case _:
                await self.perform(filled(effect.failed, facts))
                problem = f"the machine of claim {effect.claim.name} was not launched: {error}"
                raise Requeue(problem) from error

    async def _terminate(self, effect: Terminate) -> None:
        try:
            await call_cloud(self._cloud.terminate(effect.provider_id))
        except MachineNotFound:
            log.info("machine.gone", provider_id=effect.provider_id, because=effect.because)
            await self.perform(effect.gone)
        else:
            await self.perform(effect.going)

    def announce(self, effect: Announce) -> None:
        self._recorder.publish(
            RecordedEvent(
                about=effect.about,
                type=effect.type,
                reason=effect.reason,
                message=effect.message,
                annotations=effect.annotations,
                same_as=effect.same_as,
                quiet_for=effect.quiet_for,
                minor=effect.minor,
            )
        )

    def _count(self, effect: Count) -> None:
        counter = self._metrics[_DECLARED[effect.metric]]
        assert isinstance(counter, CounterMetric)
        counter.add(effect.amount, **effect.labels)

    def _measure(self, effect: Measure) -> None:
        instrument = self._metrics[_DECLARED[effect.metric]]
        assert isinstance(instrument, HistogramMetric | SummaryMetric)
        instrument.observe(max(effect.value, 0.0), **effect.labels)

    def _tell(self, effect: Effect) -> None:
        for listener in self._listeners:
            listener(effect)


class _AnswerKind(msgspec.Struct, frozen=True):
    kind: str = ""
