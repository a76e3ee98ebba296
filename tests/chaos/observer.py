"""
What holds at every moment, judged from outside: by plain requests to the API server and to EC2.

Nothing of the operator is imported here. An object is the JSON that the server sends; an instance is what
DescribeInstances tells. Each rule is slow and obvious on purpose.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.chaos.replicas import ReplicaProcess

Json = dict[str, Any]

POLL = 0.4
CLOUD_EVERY = 2.0
ORPHAN_FOR = 200.0
"""Seconds after which a machine without a claim, or a claim without its machine, counts as leaked: garbage
collection looks every two minutes."""

MOST_RESIDENT = 600 * 1024**2
MOST_FILES = 200
_PATHS = {
    "pods": "/api/v1/namespaces/default/pods",
    "nodes": "/api/v1/nodes",
    "claims": "/apis/karpenter.sh/v1/nodeclaims",
    "deployments": "/apis/apps/v1/namespaces/default/deployments",
}
_TAG = "karpenter.sh/nodeclaim"
_DISRUPTED = "karpenter.sh/disrupted"


class Sight(NamedTuple):
    """What was seen at one moment."""

    pods: list[Json]
    nodes: list[Json]
    claims: list[Json]
    deployments: list[Json]
    nodes_before: list[Json] | None = None
    """The nodes just before the claims were read; `nodes` were read just after."""


class Violation(NamedTuple):
    """What should never be so, and when it was seen first."""

    at: float
    what: str


class Rules(NamedTuple):
    """What the objects of the test promise."""

    budget: int
    """Nodes of the pool that may be disrupted at once."""

    guarded: str
    """The app whose pods a PodDisruptionBudget guards."""

    available: int
    """How many of them are always available, once all were."""


class Observer:
    """Looks all the time, and keeps what it should not have seen."""

    def __init__(
        self,
        *,
        url: str,
        authority: str,
        token: str,
        rules: Rules,
        instances: Callable[[], Iterable[Json]],
        replicas: Callable[[], Iterable[ReplicaProcess]],
    ) -> None:
        self._url, self._token = url, token
        self._trust = ssl.create_default_context(cadata=authority)
        self._rules = rules
        self._instances = instances
        self._replicas = replicas
        self._session: aiohttp.ClientSession | None = None
        self._task: asyncio.Task[None] | None = None
        self.violations: dict[str, Violation] = {}
        self.looks = 0
        self.worst_resident = 0
        self.worst_files = 0
        self.guards = False
        """Whether the guarded pods were all available once."""

        self.judges = True
        self._orphans: dict[str, float] = {}
        self._looked_at_cloud = 0.0

    async def start(self) -> None:
        self._session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {self._token}", "Accept": "application/json"},
            timeout=aiohttp.ClientTimeout(total=10),
        )
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._session is not None:
            await self._session.close()

    async def look(self) -> Sight | None:
        """Return what there is; None when the API server does not answer."""
        assert self._session is not None
        found: dict[str, list[Json]] = {}
        order = [("nodes_before", _PATHS["nodes"]), ("claims", _PATHS["claims"])]
        order += [each for each in _PATHS.items() if each[0] != "claims"]
        try:
            for name, path in order:
                async with self._session.get(self._url + path, ssl=self._trust) as answer:
                    if answer.status != 200:
                        return None
                    found[name] = (await answer.json())["items"]
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None
        return Sight(**found)

    async def live_instances(self) -> list[Json]:
        every = await asyncio.to_thread(lambda: list(self._instances()))
        return [each for each in every if each["State"]["Name"] in {"pending", "running"}]

    async def _watch(self) -> None:
        while True:
            seen = await self.look() if self.judges else None
            if seen is not None:
                self.looks += 1
                self._judge(seen)
                if time.monotonic() - self._looked_at_cloud > CLOUD_EVERY:
                    self._looked_at_cloud = time.monotonic()
                    self._judge_cloud(seen, await self.live_instances())
            self._measure()
            await asyncio.sleep(POLL)

    def _judge(self, seen: Sight) -> None:
        available = sum(map(_is_available, _of(seen.pods, self._rules.guarded)))
        self.guards = self.guards or available > self._rules.available
        if self.guards and available < self._rules.available:
            self._found("PDB", f"{available} of {self._rules.guarded} available, {self._rules.available} due")
        leaving = disrupted(seen)
        if len(leaving) > self._rules.budget:
            self._found("budget", f"{len(leaving)} nodes disrupted, {self._rules.budget} allowed: {leaving}")
        ids = Counter(each.get("status", {}).get("providerID", "") for each in seen.claims)
        for provider_id, times in ids.items():
            if provider_id and times > 1:
                self._found("double", f"{times} claims have {provider_id}")

    def _judge_cloud(self, seen: Sight, live: list[Json]) -> None:
        now = time.monotonic()
        names = Counter(tag for each in live if (tag := tags(each).get(_TAG)))
        for name, times in names.items():
            if times > 1:
                self._found("paid twice", f"{times} instances for the claim {name}")
        strays = {f"instance {each}" for each in orphaned_instances(seen, live)}
        strays |= {f"claim {each}" for each in claims_without_instance(seen, live)}
        self._orphans = {each: self._orphans.get(each, now) for each in strays}
        for each, since in self._orphans.items():
            if now - since > ORPHAN_FOR:
                self._found("leak", f"{each} for {now - since:.0f} s")

    def _measure(self) -> None:
        for each in self._replicas():
            use = each.use()
            if use is None:
                continue
            self.worst_resident = max(self.worst_resident, use.resident)
            self.worst_files = max(self.worst_files, use.files)
            if use.resident > MOST_RESIDENT:
                self._found("RSS", f"replica {each.number} holds more than {MOST_RESIDENT >> 20} MiB")
            if use.files > MOST_FILES:
                self._found("files", f"replica {each.number} has more than {MOST_FILES} files open")
            for line in each.lines:
                self._found(f"crash {each.number}", line[:300])

    def _found(self, rule: str, what: str) -> None:
        key = f"{rule}: {what}"
        self.violations.setdefault(key, Violation(time.monotonic(), key))


def tags(instance: Json) -> dict[str, str]:
    return {each["Key"]: each["Value"] for each in instance.get("Tags", ())}


def orphaned_instances(seen: Sight, live: list[Json]) -> list[str]:
    """Return the instances that no claim names."""
    ids = {each.get("status", {}).get("providerID", "").rpartition("/")[2] for each in seen.claims}
    return sorted(each["InstanceId"] for each in live if each["InstanceId"] not in ids)


def claims_without_instance(seen: Sight, live: list[Json]) -> list[str]:
    ids = {each["InstanceId"] for each in live}
    named = {
        each["metadata"]["name"]: each.get("status", {}).get("providerID", "").rpartition("/")[2]
        for each in seen.claims
    }
    return sorted(name for name, id_ in named.items() if id_ and id_ not in ids)


def disrupted(seen: Sight) -> list[str]:
    """
    Return the nodes that are on their way out, whether by their taint or by their claim's deletion.

    One whose machine was drained and is ending does not count any more, as in Karpenter:
    https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/pkg/controllers/disruption/helpers.go
    """
    # Requests are answered at different times. A taint that was there before the claims were read, and is
    # after, was there with them; one that was taken back meanwhile may not be counted with what began then.
    tainted = _tainted(seen.nodes) & _tainted(seen.nodes if seen.nodes_before is None else seen.nodes_before)
    going = set()
    for claim in seen.claims:
        status = claim.get("status", {})
        true = {each["type"] for each in status.get("conditions", ()) if each["status"] == "True"}
        leaves = status.get("nodeName") in tainted or "deletionTimestamp" in claim["metadata"]
        if leaves and "Initialized" in true and "InstanceTerminating" not in true:
            going.add(status["nodeName"])
    return sorted(going)


def _tainted(nodes: list[Json]) -> set[str]:
    return {
        each["metadata"]["name"]
        for each in nodes
        if any(taint["key"] == _DISRUPTED for taint in each["spec"].get("taints", ()))
    }


def wanted_and_running(seen: Sight) -> tuple[int, int]:
    """Return how many pods the Deployments want, and how many run; -1 while there are others."""
    wanted = sum(each["spec"]["replicas"] for each in seen.deployments)
    pods = [each for each in seen.pods if "deletionTimestamp" not in each["metadata"]]
    running = sum(each.get("status", {}).get("phase") == "Running" for each in pods)
    return wanted, running if len(pods) == wanted else -1


def _of(pods: list[Json], app: str) -> list[Json]:
    return [each for each in pods if each["metadata"].get("labels", {}).get("app") == app]


def _is_available(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]
