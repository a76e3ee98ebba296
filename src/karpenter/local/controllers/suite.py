"""Every controller of the embedded cluster, in the order in which they are started."""

from typing import TYPE_CHECKING

from karpenter.base.aio.tasks import Supervisor
from karpenter.base.clock import Clock
from karpenter.local.controllers.deployments import DeploymentController
from karpenter.local.controllers.informers import Informers
from karpenter.local.controllers.loop import start
from karpenter.local.controllers.replicasets import ReplicaSetController
from karpenter.local.controllers.writer import Writer

if TYPE_CHECKING:
    from karpenter.local.controllers.loop import Controller


class Suite:
    """Builds the controllers, then runs them."""

    def __init__(self, informers: Informers, writer: Writer, clock: Clock) -> None:
        self.controllers: tuple[Controller, ...] = (
            DeploymentController(informers, writer, clock),
            ReplicaSetController(informers, writer, clock),
        )

    def start(self, supervisor: Supervisor) -> None:
        """Begin; the informers must be synced."""
        for controller in self.controllers:
            start(controller, supervisor)
