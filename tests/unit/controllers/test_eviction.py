"""Pods that have to leave: each once, asked first, deleted when time is up."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from karpenter.api.labels import DO_NOT_DISRUPT
from karpenter.api.pod import Pod
from karpenter.base.queue import WorkQueue
from karpenter.controllers.controller import Requeue
from karpenter.controllers.eviction import EvictionController, EvictionQueue
from karpenter.core.effects import Announce, Count, Evict
from karpenter.kube.errors import KubeError, ServerFailed, Unreachable, status_error
from karpenter.kube.rest import Selection, named
from karpenter.kube.targets import Page
from karpenter.kube.transport import Request, Response
from tests.unit.controllers.harness import Shell
from tests.unit.core.lifecycle.objects import NOW, at, pod

KEY = "default/pod-1/pod-1-uid"
REQUEST = Request(method="POST", path="/")


def wish(by: float | None = None) -> Evict:
    """Return that the pod has to leave, perhaps within so many seconds."""
    moment = NOW + timedelta(seconds=by) if by is not None else None
    return Evict(pod="default/pod-1", uid="pod-1-uid", node="node-1", by=moment, because="Empty")


def refused(code: int, reason: str, message: str = "no") -> KubeError:
    """Return a refusal of the API server."""
    body = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return status_error(REQUEST, Response(status=code, body=json.dumps(body).encode()))


class Server:
    """Takes evictions and deletions, or refuses them."""

    def __init__(self, error: Exception | None = None, *pods: Pod) -> None:
        self.error = error
        self.pods = pods or (pod(),)
        self.asked: list[tuple[str, Any]] = []

    async def list(self, kind: Any, selection: Selection) -> Page[Any]:
        assert (kind, selection) == (Pod, named("pod-1", namespace="default"))
        return Page(items=self.pods, version="1")

    async def evict(self, name: str, *, namespace: str, only_if: Any) -> None:
        self.asked.append(("evict", (namespace, name, only_if.uid)))
        if self.error is not None:
            raise self.error

    async def delete(self, kind: Any, name: str, *, namespace: str, only_if: Any, grace: int) -> None:
        del kind
        self.asked.append(("delete", (namespace, name, only_if.uid, grace)))
        if self.error is not None:
            raise self.error


def evict(server: Server, item: Any, wanted: Evict) -> tuple[Shell, EvictionQueue, Exception | None]:
    """Let a pod leave, and return what came of it."""

    async def main() -> tuple[Shell, EvictionQueue, Exception | None]:
        shell, departures = Shell(*([item] if item is not None else [])), EvictionQueue(WorkQueue[str]())
        departures.add(wanted)
        evictor = EvictionController(departures, shell.store, server, shell.performer, shell.clock)  # type: ignore[arg-type]
        try:
            await evictor.reconcile(KEY)
            await evictor.reconcile(KEY)  # there is nothing left to be done
        except (Requeue, KubeError) as error:
            return shell, departures, error
        return shell, departures, None

    return asyncio.run(main())


def code(shell: Shell) -> str:
    """Return the code by which a request was counted."""
    return next(
        each.labels["code"]
        for each in shell.performer.effects
        if isinstance(each, Count) and each.metric == "karpenter_pods_eviction_requests_total"
    )


def told(shell: Shell) -> list[str]:
    return [each.reason for each in shell.performer.effects if isinstance(each, Announce)]


def test_a_pod_is_asked_to_leave() -> None:
    """An eviction is asked for, counted and told, once."""
    server = Server()
    shell, departures, error = evict(server, pod(), wish())

    assert error is None
    assert server.asked == [("evict", ("default", "pod-1", "pod-1-uid"))]
    assert (code(shell), told(shell)) == ("200", ["Evicted"])
    assert departures.get(KEY) is None


@pytest.mark.parametrize(
    ("error", "counted"),
    [
        pytest.param(refused(404, "NotFound"), "404", id="it is gone"),
        pytest.param(refused(409, "Conflict"), "409", id="it is another by now"),
    ],
)
def test_pods_that_are_gone(error: KubeError, counted: str) -> None:
    """A pod that is not there any longer has left."""
    shell, departures, raised = evict(Server(error), pod(), wish())

    assert raised is None
    assert (code(shell), told(shell)) == (counted, [])
    assert departures.get(KEY) is None


@pytest.mark.parametrize(
    ("error", "counted", "expected"),
    [
        pytest.param(refused(429, "TooManyRequests"), "429", Requeue, id="a budget holds it"),
        pytest.param(
            refused(
                500, "InternalError", "This pod has more than one PodDisruptionBudget, which is not supported"
            ),
            "500",
            Requeue,
            id="several budgets cover it",
        ),
        pytest.param(refused(500, "InternalError"), "500", ServerFailed, id="the server fails"),
        pytest.param(Unreachable("no", request=REQUEST), "0", Unreachable, id="nobody answers"),
    ],
)
def test_pods_that_are_held(error: KubeError, counted: str, expected: type[Exception]) -> None:
    """A pod that may not leave now is asked again later; a budget that holds it is told on the node."""
    shell, departures, raised = evict(Server(error), pod(), wish())

    assert type(raised) is expected
    assert code(shell) == counted
    assert told(shell) == (["FailedDraining"] if expected is Requeue else [])
    assert departures.get(KEY) is not None


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        pytest.param(pod(meta={"annotations": {DO_NOT_DISRUPT: "true"}}), Requeue, id="do-not-disrupt"),
        pytest.param(pod(meta={"uid": "another"}), None, id="another pod of the name"),
        pytest.param(pod(meta={"deletionTimestamp": at(NOW)}), None, id="it goes already"),
    ],
)
def test_the_pod_is_read_before_it_is_asked_to_leave(there: Pod, expected: type[Exception] | None) -> None:
    """What the API server knows of a pod counts, not what the state knows; nothing is asked of the server."""
    server = Server(None, there)
    _, departures, error = evict(server, pod(), wish())

    assert server.asked == []
    assert type(error) is (expected or type(None))
    assert (departures.get(KEY) is None) == (expected is None)


def test_a_pod_that_the_server_does_not_have() -> None:
    """It is gone, and there is nothing to do."""
    server = Server()
    server.pods = ()
    _, departures, error = evict(server, pod(), wish())

    assert (server.asked, error, departures.get(KEY)) == ([], None, None)


def test_time_is_up() -> None:
    """A pod that would be too late is deleted with what is left of the time, and told so."""
    server = Server()
    item = pod(spec={"terminationGracePeriodSeconds": 60})
    shell, departures, error = evict(server, item, wish(by=20))

    assert error is None
    assert server.asked == [("delete", ("default", "pod-1", "pod-1-uid", 20))]
    assert told(shell) == ["Disrupted"]
    assert departures.get(KEY) is None


def test_a_deletion_of_what_is_gone() -> None:
    """A pod that is gone when its time is up needs no deletion."""
    shell, departures, error = evict(Server(refused(404, "NotFound")), pod(), wish(by=1))

    assert error is None
    assert told(shell) == []
    assert departures.get(KEY) is None


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(None, None, id="it was never seen"),
        pytest.param(pod(meta={"deletionTimestamp": at(NOW)}), None, id="it leaves already"),
        pytest.param(
            pod(meta={"annotations": {"karpenter.sh/do-not-disrupt": "true"}}), Requeue, id="it must not"
        ),
    ],
)
def test_pods_that_are_not_asked(item: Any, expected: type[Exception] | None) -> None:
    """Nobody asks for the eviction of a pod that leaves, or of one that must stay for now."""
    server = Server()
    _, departures, error = evict(server, item, wish())

    assert server.asked == []
    assert (type(error) if error is not None else None) is expected
    assert (departures.get(KEY) is None) == (expected is None)


def test_the_earliest_time_counts() -> None:
    """A pod that is to leave twice leaves once, by the earlier time; only a change of it wakes anybody."""

    async def main() -> None:
        departures = EvictionQueue(WorkQueue[str]())
        departures.add(wish(by=50))
        assert await departures.queue.get() == KEY
        departures.queue.done(KEY)
        departures.add(wish(by=90))
        departures.add(wish())
        assert len(departures.queue) == 0
        departures.add(wish(by=10))
        assert len(departures.queue) == 1
        found = departures.get(KEY)
        assert found is not None
        assert found.by == NOW + timedelta(seconds=10)

    asyncio.run(main())
