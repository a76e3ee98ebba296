"""
Tells kube-scheduler where pods are planned to run, and counts where they do.

What is written is decided in :mod:`karpenter.core.provisioning.nomination`. Decisions of the provisioner and
commands of disruption say where pods are to run; from then on every change of such a pod, and of the node or
claim that it was nominated for, leads to another look at it. Before a node takes pods, its registration waits
for the nominations of its pods, for a moment: the first look of kube-scheduler should find them.

An API server that does not let us write ``status.nominatedNodeName`` is not asked again.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
import structlog

from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.pod import Pod
from karpenter.core.provisioning.nomination import (
    Expected,
    Nomination,
    are_alike,
    expect,
    is_over,
    is_told,
    is_unlaunched,
    nominate,
    origin_of,
    successor,
    withdraw_claim,
)
from karpenter.core.state.cluster import ClusterState, NodeClass, ObjectUpdated, StateEvent
from karpenter.core.state.pod import is_nominated_by_us, is_terminating, may_be_nominated
from karpenter.core.state.statenode import StateNode
from karpenter.kube.errors import Forbidden, KubeError
from karpenter.telemetry.metrics import Metrics, pods

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.base.queue import WorkQueue
    from karpenter.controllers.perform import Performer
    from karpenter.core.provisioning.nomination import PodOrigin
    from karpenter.kube.client import Client

log = structlog.stdlib.get_logger(__name__)

TOGETHER: Final = 0.5
"""Seconds that a node waits at most for others of its decision, and for the nominations of its pods."""

CLOSING: Final = 2.0
"""Seconds for which nominations are withdrawn when the operator ends."""

# Older API servers have no ValidatingAdmissionPolicy, which narrows the right to the one field:
# https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
SINCE: Final = (1, 30)
"""The version of Kubernetes from which on pods are nominated unless the settings say otherwise."""


async def nominates(setting: str, client: Client) -> bool:
    """Whether pods are nominated, by the setting ``nominate-pods`` and the version of the API server."""
    if setting != "auto":
        return setting == "true"
    try:
        version = await client.server_version()
    except KubeError as error:
        log.warning("pods.not_nominated", error=str(error), hint="set nominate-pods to true or false")
        return False
    return tuple(int(part) if part.isdigit() else 0 for part in version.split(".")) >= SINCE


class NodesOfDecision:
    """The claims of one decision, whose nodes take pods together."""

    def __init__(self) -> None:
        self.left: dict[str, None] = {}
        """Those whose node has not joined yet, or has pods that are not nominated yet."""

        self.until: float | None = None
        """Since the first has joined, when the others are waited for no longer."""

        self.complete = asyncio.Event()

    def remove(self, claim: str) -> None:
        self.left.pop(claim, None)
        if not self.left:
            self.complete.set()


class PodNominator:
    """Nominates the nodes that pods are planned to run on."""

    name = "pod.nomination"
    kinds: ClassVar = (Pod, Node, NodeClaim)
    """The kinds of objects whose events wake it."""

    def __init__(
        self,
        queue: WorkQueue[str],
        store: ClusterState,
        performer: Performer,
        clock: Clock,
        metrics: Metrics,
        *,
        on: bool,
    ) -> None:
        self._queue = queue
        self._store = store
        self._performer = performer
        self._clock = clock
        self._metrics = metrics
        self.on = on
        """Whether nodes are nominated; where they are not, it is counted all the same where pods run."""

        self._planned: Mapping[str, Nomination] = {}
        """What the provisioner has decided, by the key of the pod."""

        self._changed: dict[str, Nomination] = {}
        """What has been decided here since: successors of evicted pods, and pods that have changed places."""

        self._successors: dict[str, None] = {}
        """Pods that were created in the stead of evicted ones."""

        self._expected: dict[PodOrigin, list[Expected]] = {}
        self._places: dict[str, dict[str, None]] = {}
        """The pods of each claim, and of each Node without one."""

        self._bought: dict[str, None] = {}
        """Claims without a machine that were created for pods."""

        self._vacated: dict[str, None] = {}
        """Those of them that no pod waits for any more."""

        self._decisions: dict[str, NodesOfDecision] = {}
        """The decision of each claim whose node has not joined yet."""

    @property
    def changed(self) -> Mapping[str, Nomination]:
        """Where pods are to run that have come in the stead of evicted ones, or have changed places."""
        return self._changed

    @property
    def remembered(self) -> int:
        """How many places are remembered: of pods that wait, and of successors that may come."""
        expected = sum(map(len, self._expected.values()))
        maps = (
            self._planned,
            self._changed,
            self._successors,
            self._places,
            self._bought,
            self._vacated,
            self._decisions,
        )
        return expected + sum(len(each) for each in maps)

    def plan(self, nominations: Mapping[str, Nomination]) -> None:
        """Take note of what the provisioner has decided."""
        self._clean_up()
        before, self._planned = self._planned, nominations
        for key in {**before, **nominations}:
            found, known = nominations.get(key), before.get(key)
            if found == known:
                continue
            if known is not None:
                self._leave_place(key, known)
            if found is not None:
                self._changed.pop(key, None)
                self._settle(key, found)
            self._queue.add(key)

    def bought(self, claim: NodeClaim, nodes: NodesOfDecision) -> None:
        """Take note of a claim that was created for nothing but the pods that are planned to run on it."""
        self._bought[claim.name] = None
        self._decisions[claim.name] = nodes
        nodes.left[claim.name] = None

    def move(self, nominations: Mapping[str, Nomination]) -> None:
        """Take note of where the pods of a command are to run once they are evicted."""
        for key, each in nominations.items():
            self._settle(key, each)
            # The provisioner looks for a place for every pod of a node that goes: these have one.
            self._changed[key] = each

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the pods to look at after an event."""
        item, is_there = event.object, isinstance(event, ObjectUpdated)
        if isinstance(item, Pod):
            assert before is None or isinstance(before, Pod)
            return self._hear_pod(item, before, is_there=is_there)
        if isinstance(item, Node):
            known = before if isinstance(before, Node) else None
            if is_there and known is not None and _inputs(known) == _inputs(item):
                return ()
            claims = self._store.claims_of(item.spec.provider_id)
            return tuple(self._pods_of(claims[0].name if claims else item.name))
        if isinstance(item, NodeClaim):
            if not is_there or not is_unlaunched(item):
                self._bought.pop(item.name, None)
            if not is_there or item.metadata.deletion_timestamp is not None:
                self._gone(item.name)
            known_claim = before if isinstance(before, NodeClaim) else None
            if is_there and known_claim is not None and _progress(known_claim) == _progress(item):
                return ()
            return tuple(self._pods_of(item.name))
        return ()

    async def reconcile(self, key: str) -> float | None:
        """Nominate a node for one pod, or withdraw what was nominated."""
        await self._withdraw_claims()
        return await self._nominate(key)

    async def _nominate(self, key: str, *, opens: bool = False) -> float | None:
        pod = self._store.pod(key)
        if pod is None or not self.on:
            return None
        nomination = self.nomination(key)
        node = self._node(nomination) if nomination is not None else None
        beside = self._beside(_place(nomination), key) if nomination is not None else []
        due = nominate(pod, nomination, node, beside, self._clock.now(), opens=opens)
        try:
            await self._performer.perform(due.effects)
        except Forbidden as error:
            self._give_up(error)
        return due.again

    def nomination(self, key: str) -> Nomination | None:
        """Return where a pod is to run."""
        planned, changed = self._planned.get(key), self._changed.get(key)
        if planned is None or changed is None:
            return planned or changed
        return changed if planned.made <= changed.made else planned

    async def before_registration(self, claim: NodeClaim) -> None:
        """
        Nominate a node for its pods before it takes any, and wait for other nodes of the decision.

        A pod whose own node takes no pods yet goes to any other that has room. What takes longer goes on
        meanwhile.
        """
        nodes = self._decisions.pop(claim.name, None) or NodesOfDecision()
        if not self.on:
            return
        now = self._clock.monotonic()
        nodes.until = nodes.until if nodes.until is not None else now + TOGETHER
        with suppress(TimeoutError):
            async with asyncio.timeout(TOGETHER):
                await asyncio.shield(self._nominate_all(claim.name, nodes))
            async with asyncio.timeout(max(0.0, nodes.until - self._clock.monotonic())):
                await nodes.complete.wait()

    async def _nominate_all(self, claim: str, nodes: NodesOfDecision) -> None:
        """Nominate the node of a claim, which is about to take pods, for all of its pods."""
        await asyncio.gather(*(self._try(key, opens=True) for key in self._pods_of(claim)))
        nodes.remove(claim)

    async def close(self) -> None:
        """Withdraw what was nominated for pods that still wait: nothing would do so later."""
        if not self.on:
            return
        self._planned, self._changed = {}, {}
        keys = [key for key, pod in self._store.view().pods.items() if _is_open(pod)]
        if keys:
            await asyncio.wait([asyncio.ensure_future(self._try(key)) for key in keys], timeout=CLOSING)

    async def _try(self, key: str, *, opens: bool = False) -> None:
        try:
            await self._nominate(key, opens=opens)
        except KubeError as error:
            log.debug("pod.not_nominated", pod=key, error=str(error))
            self._queue.retry(key)

    def _hear_pod(self, pod: Pod, before: Pod | None, *, is_there: bool) -> Iterator[str]:
        if (is_there and is_terminating(pod)) or not is_there:
            self._leave(pod)
        if not is_there:
            self._forget(pod.key)
            if self._vacated:
                yield pod.key
            return
        if pod.spec.node_name:
            if before is None or not before.spec.node_name:
                heir = self._count(pod)
                self._forget(pod.key)
                if heir or self._vacated:
                    yield heir or pod.key
                # It may have taken the room of others.
                yield from self._pods_on(pod.spec.node_name)
            return
        if before is None or before.metadata.uid != pod.metadata.uid:
            self._take_over(pod)
        if self.nomination(pod.key) is not None or is_nominated_by_us(pod):
            yield pod.key

    def _gone(self, claim: str) -> None:
        """Let other nodes of the decision wait no longer for that of a claim."""
        if nodes := self._decisions.pop(claim, None):
            nodes.remove(claim)

    def _settle(self, key: str, nomination: Nomination) -> None:
        """Remember the place of a pod; of one that runs elsewhere, for its successor."""
        pod = self._store.pod(key)
        if pod is None or not pod.spec.node_name:
            self._enter_place(key, nomination)
            return
        now = self._clock.now()
        found = expect(pod, nomination, now)
        if found is None:
            return
        others = self._expected.get(found.origin, [])
        kept = [each for each in others if each.uid != found.uid and not is_over(each, now)]
        self._expected[found.origin] = [*kept, found]

    def _clean_up(self) -> None:
        """Forget the places of pods that are gone and have had no successor in time."""
        for key in [key for key in self._changed if self._store.pod(key) is None]:
            del self._changed[key]
        now, waiting = self._clock.now(), self._expected
        self._expected = {}
        for origin, found in waiting.items():
            kept = [each for each in found if self._store.pod(each.pod) is not None or each.left is not None]
            if kept := [each for each in kept if not is_over(each, now)]:
                self._expected[origin] = kept

    def _leave(self, pod: Pod) -> None:
        """Take note that a pod leaves, so that the next of its kind is its successor."""
        origin = origin_of(pod)
        waiting = self._expected.get(origin, []) if origin is not None else []
        for place, each in enumerate(waiting):
            if each.uid == pod.metadata.uid and each.left is None:
                waiting[place] = msgspec.structs.replace(each, left=self._clock.now())

    def _take_over(self, pod: Pod) -> None:
        """Give a new pod the place of the one that it was created for."""
        origin = origin_of(pod)
        waiting = self._expected.get(origin) if origin is not None else None
        if origin is None or not waiting:
            return
        now = self._clock.now()
        found = successor(pod, waiting, now)
        left = [each for each in waiting if each is not found and not is_over(each, now)]
        if left:
            self._expected[origin] = left
        else:
            del self._expected[origin]
        if found is not None:
            nomination = msgspec.structs.replace(found.nomination, made=now)
            self._changed[pod.key] = nomination
            self._successors[pod.key] = None
            self._enter_place(pod.key, nomination)

    def _count(self, pod: Pod) -> str:
        """Count whether a pod that was just bound runs where it was planned; return who has its place now."""
        nomination = self.nomination(pod.key)
        if nomination is None or not may_be_nominated(_unbound(pod)):
            return ""
        node, target = self._node(nomination), self._store.node(pod.spec.node_name)
        there = target is not None and node is not None and node.name == target.name
        other = self._heir(pod, target) if not there and target is not None else None
        reason = "disrupted" if pod.key in self._successors else "provisioned"
        outcome = "planned" if there or other is not None else "elsewhere"
        self._metrics[pods.NOMINATED].add(outcome=outcome, reason=reason)
        if outcome == "elsewhere":
            place = _place(nomination)
            log.debug("pod.elsewhere", pod=pod.key, node=pod.spec.node_name, planned=place, reason=reason)
        if other is None:
            return ""
        self._forget(other)
        self._changed[other] = msgspec.structs.replace(nomination, made=self._clock.now())
        self._enter_place(other, nomination)
        return other

    def _heir(self, pod: Pod, target: Node) -> str | None:
        """Return a pod that is like one that runs elsewhere, and was planned to run where that does."""
        alike = (key for key in self._pods_on(target.name) if are_alike(pod, self._store.pod(key)))
        return next(alike, None)

    def _forget(self, key: str) -> None:
        nomination = self.nomination(key)
        self._changed.pop(key, None)
        self._successors.pop(key, None)
        if nomination is not None:
            self._leave_place(key, nomination)

    def _enter_place(self, key: str, nomination: Nomination) -> None:
        self._places.setdefault(_place(nomination), {})[key] = None

    def _leave_place(self, key: str, nomination: Nomination) -> None:
        place = _place(nomination)
        others = self._places.get(place, {})
        others.pop(key, None)
        if not others:
            self._places.pop(place, None)
            if place in self._bought:
                self._vacated[place] = None

    async def _withdraw_claims(self) -> None:
        """Delete claims that were not launched yet and that no pod waits for any more."""
        while self._vacated:
            name, _ = self._vacated.popitem()
            claim = self._store.claim(name)
            if claim is not None and not self._places.get(name):
                await self._performer.perform(withdraw_claim(claim))

    def _pods_of(self, place: str) -> Iterator[str]:
        """Yield the pods that are to run on the node of a claim, or on a Node without one."""
        for key in tuple(self._places.get(place, ())):
            nomination = self.nomination(key)
            if nomination is not None and place in {nomination.claim, nomination.node}:
                yield key
            else:
                self._places[place].pop(key, None)
        if not self._places.get(place, True):
            del self._places[place]

    def _pods_on(self, node: str) -> Iterator[str]:
        known = self._store.node(node)
        claims = self._store.claims_of(known.spec.provider_id) if known is not None else ()
        yield from self._pods_of(claims[0].name if claims else node)

    def _beside(self, place: str, key: str) -> list[Pod]:
        """Return the other pods that are nominated for the same node."""
        found = (self._store.pod(each) for each in self._pods_of(place) if each != key) if place else ()
        return [pod for pod in found if pod is not None and is_told(pod)]

    def _node(self, nomination: Nomination) -> StateNode | None:
        """Return the node of a nomination; None once it is gone."""
        if not nomination.claim:
            node = self._store.node(nomination.node)
            return StateNode(node=node, pods=self._store.pods_on(node.name)) if node is not None else None
        claim = self._store.claim(nomination.claim)
        if claim is None or claim.metadata.deletion_timestamp is not None:
            return None
        nodes = self._store.nodes_of(claim.status.provider_id) if claim.status.provider_id else ()
        node = nodes[0] if len(nodes) == 1 else None
        return StateNode(
            node=node,
            claim=claim,
            pods=self._store.pods_on(node.name) if node is not None else (),
            marked=claim.name in self._store.marked,
        )

    def _give_up(self, error: KubeError) -> None:
        if self.on:
            self.on = False
            log.warning(
                "pods.not_nominated",
                error=str(error),
                hint="grant patch of pods/status, or set nominate-pods to false",
            )


def _place(nomination: Nomination) -> str:
    return nomination.claim or nomination.node


def _inputs(node: Node) -> tuple[object, ...]:
    """Return the fields of a Node that decide whether pods are nominated for it."""
    return node.metadata.deletion_timestamp, node.spec.taints, node.status.allocatable


def _progress(claim: NodeClaim) -> tuple[object, ...]:
    conditions = [(each.type, each.status) for each in claim.status.conditions]
    return claim.metadata.deletion_timestamp, claim.status.provider_id, conditions


def _is_open(pod: Pod) -> bool:
    return not pod.spec.node_name and is_nominated_by_us(pod)


def _unbound(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
