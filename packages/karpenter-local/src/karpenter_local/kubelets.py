"""
Simulated kubelets on their own, for the nodes of any API server: that of the real control plane, above all.

    async with Kubelets(client) as kubelets:
        kubelets.hollow_nodes.make("node-1", "silent")

The embedded cluster builds its own in :mod:`.cluster`, where they share what they see with the controllers.
"""

from random import Random
from types import TracebackType
from typing import Self

from karpenter.base.clock import Clock, SystemClock
from karpenter.base.queue import Supervisor
from karpenter.kube.client import Client
from karpenter.kube.recorder import Recorder
from karpenter_local.controllers.informers import Informers
from karpenter_local.controllers.writer import Writer
from karpenter_local.kubelet.hollownodes import HollowNodes
from karpenter_local.kubelet.settings import KubeletSettings


class Kubelets:
    """A fleet with everything it needs but the server. Entering starts it; leaving stops it."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock | None = None,
        seed: int = 0,
        settings: KubeletSettings | None = None,
    ) -> None:
        clock = clock or SystemClock()
        informers = Informers(client, chance=Random(seed))  # noqa: S311  jitter, not secrets
        recorder = Recorder(client, clock=clock, component="kubelet", limits={})
        self.hollow_nodes = HollowNodes(
            informers, Writer(client, informers, recorder), clock, seed=seed, settings=settings
        )
        self._informers = informers
        self._recorder = recorder
        self._supervisor = Supervisor(chance=Random(seed))  # noqa: S311  likewise

    async def __aenter__(self) -> Self:
        self._supervisor.start("events/kubelet", self._recorder.run)
        self._informers.start(self._supervisor)
        await self._informers.wait_synced()
        self.hollow_nodes.start(self._supervisor)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._supervisor.stop()
