"""
All simulated kubelets of a cluster, and the handle by which tests and demos disturb them.

    fleet.make("node-1", "silent")        # the network to it is gone
    fleet.make("node-1", "fine")          # and back
    fleet.slow_down("node-2", factor=10)  # everything takes ten times as long there
"""

from karpenter.base.clock import Clock
from karpenter.base.queue import Supervisor
from karpenter.kube.rest import Plain
from karpenter_local.controllers.informers import Informers
from karpenter_local.controllers.writer import Writer
from karpenter_local.kubelet.csi import Drivers
from karpenter_local.kubelet.health import Health, State
from karpenter_local.kubelet.nodes import NodeRunner
from karpenter_local.kubelet.pods import PodRunner
from karpenter_local.kubelet.seats import Seat
from karpenter_local.kubelet.settings import Settings
from karpenter_local.kubelet.static import StaticPods


class UnknownNode(LookupError):  # noqa: N818  says what is wrong
    """The fleet has no such node."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no node called {name} is in the fleet")
        self.name = name


class Fleet:
    """Keeps every Node alive and runs its pods."""

    def __init__(
        self,
        informers: Informers,
        writer: Writer,
        clock: Clock,
        *,
        seed: int,
        settings: Settings | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self._seats: dict[str, Seat] = {}
        self._pods = PodRunner(
            self._seats,
            informers,
            writer,
            clock,
            habits=self.settings.habits,
            seed=seed,
            narrate=self.settings.narrate,
        )
        self._drivers = Drivers(informers, writer)
        self._static = StaticPods(self._seats, informers, writer)
        self._nodes = NodeRunner(self._seats, self._pods, informers, writer, clock, settings=self.settings)

    def start(self, supervisor: Supervisor) -> None:
        """Begin; the informers must be synced."""
        self._nodes.subscribe()
        self._pods.subscribe()
        self._drivers.subscribe()
        self._static.subscribe()
        supervisor.start("kubelet/static", lambda: self._static.agenda.run(self._static.step))
        supervisor.start("kubelet/drivers", lambda: self._drivers.agenda.run(self._drivers.step))
        supervisor.start("kubelet/nodes", lambda: self._nodes.agenda.run(self._nodes.step))
        supervisor.start("kubelet/leases", self._nodes.keep_alive)
        supervisor.start("kubelet/pods", lambda: self._pods.agenda.run(self._pods.step))
        supervisor.start("kubelet/mounts", lambda: self._pods.mounts.agenda.run(self._pods.mounts.step))

    def make(self, node: str, state: State, *, why: str = "") -> None:
        """
        Put a node in a state.

        Raises:
            UnknownNode: there is no such node.
        """
        seat = self._seat(node)
        seat.health = Health(state=state, factor=seat.health.factor, why=why)
        if seat.health.reports:
            self._nodes.report_soon(node)
            self._pods.resume(seat)

    def slow_down(self, node: str, *, factor: float) -> None:
        """
        Let everything on a node take `factor` times as long from now on.

        Raises:
            UnknownNode: there is no such node.
        """
        seat = self._seat(node)
        seat.health = Health(state=seat.health.state, factor=factor, why=seat.health.why)

    def run_static(self, node: str, manifest: Plain) -> str:
        """
        Let a node run a pod of its own, mirrored in the API; return the mirror's key.

        Raises:
            UnknownNode: there is no such node.
        """
        return self._static.run(self._seat(node), manifest)

    def health(self, node: str) -> Health:
        """
        Return how a node is.

        Raises:
            UnknownNode: there is no such node.
        """
        return self._seat(node).health

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that are kept alive, in the order in which they came."""
        return tuple(self._seats)

    def _seat(self, node: str) -> Seat:
        seat = self._seats.get(node)
        if seat is None:
            raise UnknownNode(node)
        return seat
