"""
An operator in this process: its own client, clock and chance, and no memory of any earlier one.

Whatever it asks or tells passes its :class:`OperatorSeams`: the transport to the API server, the clock, and
the calls to AWS. The simulation injects faults there; others take :class:`DirectSeams`, which change nothing.

Killing an operator is not stopping it: its seams are severed first, so that nothing that it does on its way
out reaches the cluster or the cloud.

With election, replicas compete for a Lease as those of a Deployment do: one works, and one that has lost the
Lease ends, as its process would.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from contextvars import ContextVar
from random import Random
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

from karpenter.base.ratelimiting import OPEN, Fence, TokenBucket
from karpenter.kube.client import Client
from karpenter.kube.leaderelection import LeaderElector, LeadershipLost, LockName, Terms
from karpenter.operator.operator import Operator, OperatorDependencies

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.sdk import AwsApi
    from karpenter.kube.transport import Request, Response, Streaming, Transport
    from karpenter.operator.options import Settings
    from karpenter_local.aws.site import ClusterAccount
    from karpenter_local.sandbox.cloud import SandboxCloud

REPLICA: Final[ContextVar[str]] = ContextVar("replica", default="")
"""The name of the replica whose task runs; empty in tasks of the cluster and of users."""

LEASE: Final = "karpenter-leader-election"
LEASE_NAMESPACE: Final = "kube-system"
LEASE_TERMS: Final = Terms(duration=30.0, renew_within=20.0, retry=5.0)
"""Longer than those of production, so that an hour passes with fewer renewals."""


class OperatorSeams(Protocol):
    """Transport, clock and AWS of one operator, which a test can replace."""

    @property
    def transport(self) -> Transport: ...

    @property
    def clock(self) -> Clock: ...

    def aws(self, site: ClusterAccount) -> AwsApi: ...

    def sever(self) -> None: ...


class SeamFactory(Protocol):
    """Makes the seams of one operator."""

    def __call__(self, transport: Transport, *, clock: Clock, chance: Random) -> OperatorSeams:
        """Return seams on a transport and a clock; `chance` is the operator's own."""
        ...


class DirectSeams:
    """Seams that carry everything as it is until they are severed."""

    def __init__(self, transport: Transport, *, clock: Clock, chance: Random) -> None:
        del chance
        self.transport = SeverableTransport(transport)
        self.clock = clock

    def aws(self, site: ClusterAccount) -> AwsApi:
        """Return calls to AWS that are answered as AWS does."""
        return site.idle_aws()

    def sever(self) -> None:
        """Carry nothing to the API server from now on."""
        self.transport.severed = True


class SeverableTransport:
    """Carries requests until it is severed; from then on no request leaves, and no answer comes."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.severed = False

    async def send(self, request: Request) -> Response:
        await self._hang_if_severed()
        response = await self._inner.send(request)
        await self._hang_if_severed()
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response | Streaming]:
        await self._hang_if_severed()
        async with self._inner.stream(request) as answer:
            yield answer

    async def close(self) -> None:
        await self._inner.close()

    async def _hang_if_severed(self) -> None:
        if self.severed:
            await never()


_UNANSWERED: Final[set[asyncio.Future[None]]] = set()
"""What is waited for by :func:`never`, until the wait is cancelled."""


async def never() -> NoReturn:
    """Wait for an answer that does not come."""
    # The event loop has weak references to tasks only. A future that is waited for and held by nothing else
    # would be collected with its task in the middle of a wait, and the async generators in between could not
    # be closed: https://docs.python.org/3/library/asyncio-task.html#asyncio.create_task
    answer = asyncio.get_running_loop().create_future()
    _UNANSWERED.add(answer)
    answer.add_done_callback(_UNANSWERED.discard)
    await answer
    raise AssertionError("this wait has no end")


class Replica:
    """One operator, from its start to its end."""

    def __init__(
        self,
        transport: Transport,
        cloud: SandboxCloud,
        *,
        name: str,
        clock: Clock,
        settings: Settings,
        seams: SeamFactory,
        on_lost: Callable[[Replica], None] | None = None,
    ) -> None:
        """`name` also decides its chance. With `on_lost` it competes for the Lease, and tells of its loss."""
        self.name = name
        self._on_lost = on_lost
        chance = self.chance_of(name)
        self.seams = seams(transport, clock=clock, chance=chance)
        fence = Fence(clock.boottime) if on_lost is not None else OPEN
        bucket = TokenBucket(rate=1e9, burst=1e9)
        client = Client(self.seams.transport, chance=chance, bucket=bucket, manager="karpenter", fence=fence)
        self._connection = cloud.connect(client, seams=self.seams, chance=chance)
        self.operator = Operator(
            OperatorDependencies(
                client=client,
                cloud=self._connection.provider,
                settings=settings,
                clock=self.seams.clock,
                chance=chance,
                threads=False,
                fence=fence,
            )
        )
        self._elector = (
            LeaderElector(
                Client(self.seams.transport, chance=chance),
                LockName(namespace=LEASE_NAMESPACE, name=LEASE, identity=name),
                clock=self.seams.clock,
                chance=chance,
                terms=LEASE_TERMS,
                fence=fence,
            )
            if on_lost is not None
            else None
        )
        self._starting: asyncio.Task[None] | None = None

    def start(self) -> asyncio.Task[None]:
        """Begin to start; the task ends when the operator works, which may take long where calls fail."""
        self._starting = asyncio.get_running_loop().create_task(self._start())
        return self._starting

    async def started(self) -> None:
        if self._starting is not None:
            await asyncio.shield(self._starting)

    @staticmethod
    def chance_of(name: str) -> Random:
        """Return the chance of an operator, which its name decides."""
        return Random(name)  # noqa: S311  the chance of a simulation, not secrets

    async def stop(self) -> None:
        """End in order, as at a signal."""
        await self._end_start()
        if self._elector is None:
            await self.operator.__aexit__(None, None, None)
        self._connection.close()

    async def kill(self) -> None:
        self.seams.sever()
        await self._end_start()
        self._connection.close()
        if self._elector is None:
            await self.operator.__aexit__(None, None, None)

    async def _start(self) -> None:
        REPLICA.set(self.name)
        await self._connection.open()
        if self._elector is None:
            await self.operator.__aenter__()
        else:
            # Wait for the Lease, work while it is ours, and tell when it is not any longer.
            try:
                await self._elector.lead(self._work)
            except LeadershipLost:
                assert self._on_lost is not None
                self._on_lost(self)

    async def _work(self) -> None:
        async with self.operator:
            await never()

    async def _end_start(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
