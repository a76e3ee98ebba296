"""
All simulated kubelets of a cluster, and how tests and demos disturb them.

    hollow_nodes.make("node-1", "silent")        # the network to it is gone
    hollow_nodes.make("node-1", "fine")          # and back
    hollow_nodes.slow_down("node-2", factor=10)  # everything takes ten times as long there
"""

from karpenter.base.clock import Clock
from karpenter.base.queue import Supervisor
from karpenter.kube.targets import Plain
from karpenter_local.controllers.informers import Informers
from karpenter_local.controllers.writer import Writer
from karpenter_local.kubelet.csi import Drivers
from karpenter_local.kubelet.health import Health, State
from karpenter_local.kubelet.hollownode import HollowNode
from karpenter_local.kubelet.nodes import NodeRunner
from karpenter_local.kubelet.pods import PodRunner
from karpenter_local.kubelet.settings import KubeletSettings
from karpenter_local.kubelet.static import StaticPods


class UnknownNode(LookupError):  # noqa: N818  says what is wrong
    """There is no such hollow node."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no node called {name} has a simulated kubelet")
        self.name = name


class HollowNodes:
    """Keeps every Node alive and runs its pods."""

    def __init__(
        self,
        informers: Informers,
        writer: Writer,
        clock: Clock,
        *,
        seed: int,
        settings: KubeletSettings | None = None,
    ) -> None:
        self.settings = settings or KubeletSettings()
        self._hollow_nodes: dict[str, HollowNode] = {}
        self._pods = PodRunner(
            self._hollow_nodes,
            informers,
            writer,
            clock,
            habits=self.settings.habits,
            seed=seed,
            narrate=self.settings.narrate,
        )
        self._drivers = Drivers(informers, writer)
        self._static = StaticPods(self._hollow_nodes, informers, writer)
        self._nodes = NodeRunner(
            self._hollow_nodes, self._pods, informers, writer, clock, settings=self.settings
        )

    def start(self, supervisor: Supervisor) -> None:
        """Begin; the informers must be synced."""
        self._nodes.subscribe()
        self._pods.subscribe()
        self._drivers.subscribe()
        self._static.subscribe()
        supervisor.start("kubelet/static", lambda: self._static.due_queue.run(self._static.step))
        supervisor.start("kubelet/drivers", lambda: self._drivers.due_queue.run(self._drivers.step))
        supervisor.start("kubelet/nodes", lambda: self._nodes.due_queue.run(self._nodes.step))
        supervisor.start("kubelet/leases", self._nodes.keep_alive)
        supervisor.start("kubelet/pods", lambda: self._pods.due_queue.run(self._pods.step))
        supervisor.start("kubelet/mounts", lambda: self._pods.mounts.due_queue.run(self._pods.mounts.step))

    def make(self, node: str, state: State, *, why: str = "") -> None:
        """
        Put a node in a state.

        Raises:
            UnknownNode: there is no such node.
        """
        hollow_node = self._hollow_node(node)
        hollow_node.health = Health(state=state, factor=hollow_node.health.factor, why=why)
        if hollow_node.health.reports:
            self._nodes.report_soon(node)
            self._pods.resume(hollow_node)

    def slow_down(self, node: str, *, factor: float) -> None:
        """
        Let everything on a node take `factor` times as long from now on.

        Raises:
            UnknownNode: there is no such node.
        """
        hollow_node = self._hollow_node(node)
        hollow_node.health = Health(state=hollow_node.health.state, factor=factor, why=hollow_node.health.why)

    def run_static(self, node: str, manifest: Plain) -> str:
        """
        Let a node run a pod of its own, mirrored in the API; return the mirror's key.

        Raises:
            UnknownNode: there is no such node.
        """
        return self._static.run(self._hollow_node(node), manifest)

    def health(self, node: str) -> Health:
        """
        Return how a node is.

        Raises:
            UnknownNode: there is no such node.
        """
        return self._hollow_node(node).health

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that are kept alive, in the order in which they came."""
        return tuple(self._hollow_nodes)

    def _hollow_node(self, node: str) -> HollowNode:
        hollow_node = self._hollow_nodes.get(node)
        if hollow_node is None:
            raise UnknownNode(node)
        return hollow_node
