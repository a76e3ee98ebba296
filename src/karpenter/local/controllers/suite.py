"""Every controller of the embedded cluster: what a controller manager is elsewhere."""

from random import Random
from typing import TYPE_CHECKING

from karpenter.base.aio.tasks import Supervisor
from karpenter.base.clock import Clock
from karpenter.local.controllers.attachments import AttachController
from karpenter.local.controllers.budgets import BudgetController
from karpenter.local.controllers.claims import ClaimController, ClaimProtection, VolumeController
from karpenter.local.controllers.collector import Collector
from karpenter.local.controllers.cronjobs import CronJobController
from karpenter.local.controllers.daemonsets import DaemonSetController
from karpenter.local.controllers.deployments import DeploymentController
from karpenter.local.controllers.ephemeral import EphemeralController
from karpenter.local.controllers.evictions import TaintEviction
from karpenter.local.controllers.informers import Informers
from karpenter.local.controllers.jobs import JobController
from karpenter.local.controllers.loop import patrol, start
from karpenter.local.controllers.namespaces import NamespaceController, ServiceAccountController
from karpenter.local.controllers.nodes import NodeMonitor, NodeTaints
from karpenter.local.controllers.podgc import PodCollector
from karpenter.local.controllers.replicasets import ReplicaSetController
from karpenter.local.controllers.statefulsets import StatefulSetController
from karpenter.local.controllers.writer import Writer

if TYPE_CHECKING:
    from karpenter.local.controllers.loop import Controller, Patrol

WORKERS = 3
"""Keys of one controller that are looked at at a time."""


class Suite:
    """Builds the controllers, then runs them."""

    def __init__(self, informers: Informers, writer: Writer, clock: Clock, *, chance: Random) -> None:
        self._clock = clock
        self._controllers: tuple[Controller, ...] = (
            DeploymentController(informers, writer, clock),
            ReplicaSetController(informers, writer, clock),
            StatefulSetController(informers, writer, clock),
            DaemonSetController(informers, writer, clock),
            JobController(informers, writer, clock),
            CronJobController(informers, writer, clock),
            BudgetController(informers, writer, clock),
            NodeTaints(informers, writer, clock),
            TaintEviction(informers, writer, clock),
            NamespaceController(informers, writer, clock),
            ServiceAccountController(informers, writer),
            ClaimController(informers, writer),
            VolumeController(informers, writer),
            ClaimProtection(informers, writer),
            EphemeralController(informers, writer),
            AttachController(informers, writer),
        )
        self._patrols: tuple[Patrol, ...] = (
            NodeMonitor(informers, writer, clock),
            PodCollector(informers, writer, clock),
        )
        self._collector = Collector(writer.client, clock, chance=chance)

    def start(self, supervisor: Supervisor) -> None:
        """Begin; the informers must be synced."""
        for controller in self._controllers:
            start(controller, supervisor, workers=WORKERS)
        for each in self._patrols:
            patrol(each, supervisor, self._clock)
        self._collector.start(supervisor)
