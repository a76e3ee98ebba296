"""
A lock among processes, kept as a Lease object.

One attempt at a time: look who holds it, decide, write with the version that was looked at, so that of two
who try, one fails. Whether a holder is still alive is judged by our own clock, from when we last saw the
lease change: clocks of other machines are never compared with ours.

When to try, and what to do while holding it, is :mod:`.election`'s.
"""

from datetime import datetime

import msgspec

from karpenter.api.cluster import Lease, LeaseSpec
from karpenter.base.clock import Clock
from karpenter.kube.client import Client
from karpenter.kube.errors import AlreadyExists, Conflict, NotFound
from karpenter.kube.patch import MergePatch


class LockName(msgspec.Struct, frozen=True, kw_only=True):
    """Which lock, and who we are among those who want it."""

    namespace: str
    name: str
    identity: str


class LeaseLock:
    """Our view of one lease."""

    def __init__(self, client: Client, lock: LockName, *, clock: Clock, duration: float) -> None:
        self._client = client
        self._lock = lock
        self._clock = clock
        self._duration = duration
        self._seen: Lease | None = None
        self._seen_at = 0.0

    @property
    def holder(self) -> str:
        """Who held the lease when we last looked; empty if nobody did."""
        return self._seen.spec.holder_identity if self._seen else ""

    async def take(self) -> bool:
        """Take the lease or renew it; return whether it is ours now.

        Raises: KubeError: the server could not be asked, or refused for another reason than that we were too
            late.
        """
        try:
            if self._seen is None or self.holder != self._lock.identity:
                self._see(await self._read())
                if not self._is_free():
                    return False
            self._see(await self._write(self._claim()))
        except (AlreadyExists, Conflict, NotFound):
            # Someone was faster, or removed it; look again next time.
            self._seen = None
            return False
        return True

    async def release(self) -> None:
        """Give the lease back, so that the next holder need not wait for its end."""
        now = _micro(self._clock.now())
        freed = {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now}
        try:
            # Read again: a renewal may have been under way when we were told to stop.
            self._see(await self._client.get(Lease, self._lock.name, namespace=self._lock.namespace))
            if self.holder == self._lock.identity:
                self._see(await self._write(freed))
        except (Conflict, NotFound):
            self._seen = None  # it is someone else's already

    async def _read(self) -> Lease:
        try:
            return await self._client.get(Lease, self._lock.name, namespace=self._lock.namespace)
        except NotFound:
            body = {"metadata": {"name": self._lock.name, "namespace": self._lock.namespace}}
            return await self._client.create(Lease, body, namespace=self._lock.namespace)

    async def _write(self, spec: dict[str, object]) -> Lease:
        assert self._seen is not None
        change = MergePatch({"spec": spec}, version=self._seen.metadata.resource_version)
        return await self._client.patch(Lease, self._lock.name, change, namespace=self._lock.namespace)

    def _see(self, lease: Lease) -> None:
        if self._seen is None or self._seen.spec != lease.spec:
            self._seen_at = self._clock.monotonic()
        self._seen = lease

    def _is_free(self) -> bool:
        if self.holder in {"", self._lock.identity}:
            return True
        return self._clock.monotonic() >= self._seen_at + self._duration

    def _claim(self) -> dict[str, object]:
        now = self._clock.now()
        spec = self._seen.spec if self._seen else LeaseSpec()
        claim: dict[str, object] = {
            "holderIdentity": self._lock.identity,
            "leaseDurationSeconds": round(self._duration),
            "renewTime": _micro(now),
        }
        if spec.holder_identity != self._lock.identity:
            claim["acquireTime"] = _micro(now)
            claim["leaseTransitions"] = (spec.lease_transitions or 0) + 1
        return claim


def _micro(when: datetime) -> str:
    """Write a time as Leases want it."""
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
