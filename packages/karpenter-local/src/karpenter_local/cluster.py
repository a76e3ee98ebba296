"""
A whole cluster in one event loop: API server, controllers, scheduler and kubelets, wired together.

    async with LocalCluster(seed=7) as cluster:
        await cluster.add_nodes(3)
        await cluster.client.create(Pod, {...}, namespace="default")

Under a virtual loop time jumps when every task waits, and the same seed gives the same history, byte for
byte. With ``http=True`` the server also listens on loopback for kubectl and other programs. With a
``data_dir`` everything outlives the process. This is the only place where the parts of the embedded cluster
are built.
"""

from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

import msgspec

from karpenter.api.node import Node
from karpenter.base.clock import Clock, SystemClock
from karpenter.base.queue import Supervisor
from karpenter.base.ratelimiting import Unlimited
from karpenter.kube.client import Client
from karpenter.kube.recorder import Recorder
from karpenter_local import kubeconfig
from karpenter_local.apiserver.http import SecureServer
from karpenter_local.apiserver.inprocess import InProcess
from karpenter_local.apiserver.notice import KUBERNETES
from karpenter_local.apiserver.server import Server
from karpenter_local.apiserver.store import ObjectStore
from karpenter_local.controllers.controllermanager import ControllerManager
from karpenter_local.controllers.informers import Informers
from karpenter_local.controllers.writer import Writer
from karpenter_local.home import Home
from karpenter_local.kubelet.hollownodes import HollowNodes
from karpenter_local.kubelet.machine import demo_node
from karpenter_local.kubelet.settings import KubeletSettings
from karpenter_local.scheduler.loop import KubeScheduler

ZONES = ("local-1a", "local-1b", "local-1c")


class LocalCluster:
    """An embedded cluster. Entering starts it; leaving stops it."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        seed: int = 0,
        data_dir: Path | None = None,
        http: bool = False,
        port: int = 0,
        kubelets: KubeletSettings | None = None,
        controllers: bool = True,
        kubernetes: str = KUBERNETES,
    ) -> None:
        """Without `controllers` there is an API server alone: nothing in the cluster moves by itself."""
        self.clock = clock or SystemClock()
        self.seed = seed
        self._http = http
        self._runs_controllers = controllers
        self._port = port
        self._home = Home(data_dir) if data_dir is not None else None
        store = self._home.store if self._home is not None else ObjectStore()
        self.server = Server(clock=self.clock, store=store, seed=seed)
        self.server.backend.kubernetes = kubernetes
        self.client = self.connect("kubectl")
        self._controllers = self.connect("kube-controller-manager")
        self._scheduling = self.connect("kube-scheduler")
        self._kubelets = self.connect("kubelet")
        self.informers = Informers(self._controllers, chance=self._chance("informers"), silence=None)
        self._recorders = {
            component: Recorder(client, clock=self.clock, component=component, limits={})
            for component, client in (
                ("controllermanager", self._controllers),
                ("default-scheduler", self._scheduling),
                ("kubelet", self._kubelets),
            )
        }
        self.suite = ControllerManager(
            self.informers,
            self._writer(self._controllers, "controllermanager"),
            self.clock,
            chance=self._chance("collector"),
        )
        self.scheduler = KubeScheduler(
            self.informers, self._writer(self._scheduling, "default-scheduler"), self.clock, seed=seed
        )
        self.hollow_nodes = HollowNodes(
            self.informers,
            self._writer(self._kubelets, "kubelet"),
            self.clock,
            seed=seed,
            settings=msgspec.structs.replace(kubelets or KubeletSettings(), version=f"v{kubernetes}.0"),
        )
        self.front: SecureServer | None = None
        self._supervisor = Supervisor(chance=self._chance("supervisor"))

    async def __aenter__(self) -> Self:
        if self._http:
            # Listen on a port; a durable cluster keeps its address, token and certificates, too.
            if self._home is None:
                self.front = SecureServer(self.server)
                await self.front.start(self._port)
            else:
                self.front = self._home.front(self.server)
                await self._home.listen(self.front, self._port)
        if not self._runs_controllers:
            return self
        for name, recorder in self._recorders.items():
            self._supervisor.start(f"events/{name}", recorder.run)
        self.informers.start(self._supervisor)
        await self.informers.wait_synced()
        self.suite.start(self._supervisor)
        self.scheduler.start(self._supervisor)
        self.hollow_nodes.start(self._supervisor)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._supervisor.stop()
        if self.front is not None:
            await self.front.stop()
        if self._home is not None:
            await self._home.close()

    def connect(self, agent: str) -> Client:
        """Return a client that calls the server in process, as fast as it can."""
        return Client(
            InProcess(self.server, headers=(("user-agent", agent),)),
            chance=self._chance(agent),
            bucket=Unlimited(),
            manager=agent,
            timeout=None,
        )

    def kubeconfig(self) -> str:
        """Return the kubeconfig by which other programs reach the cluster, if it was made with http."""
        if self.front is None:
            raise RuntimeError("this cluster listens on no port; hint: make it with http=True and enter it")
        certificates = self.front.certificates
        return kubeconfig.render(
            name="karpenter-local",
            url=self.front.url,
            authority=certificates.authority,
            token=self.front.token,
        )

    async def add_nodes(
        self, count: int, *, zones: tuple[str, ...] = ZONES, room: dict[str, str] | None = None
    ) -> list[str]:
        """Let simulated worker nodes join, spread over `zones`; return their names."""
        taken = len((await self.client.list(Node)).items)
        bodies = [demo_node(taken + number, zones=zones, room=room) for number in range(1, count + 1)]
        return [(await self.client.create(Node, body)).name for body in bodies]

    def _writer(self, client: Client, component: str) -> Writer:
        return Writer(client, self.informers, self._recorders[component])

    def _chance(self, part: str) -> Random:
        return Random(f"{self.seed}/{part}")  # noqa: S311  jitter, not secrets
