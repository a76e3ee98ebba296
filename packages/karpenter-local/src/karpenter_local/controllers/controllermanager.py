"""The controller manager: builds and starts every controller of the embedded cluster."""

from random import Random

from karpenter.base.clock import Clock
from karpenter.base.queue import Supervisor
from karpenter_local.controllers.attachdetach import AttachController
from karpenter_local.controllers.cronjobs import CronJobController
from karpenter_local.controllers.daemonsets import DaemonSetController
from karpenter_local.controllers.deployments import DeploymentController
from karpenter_local.controllers.disruption import BudgetController
from karpenter_local.controllers.ephemeral import EphemeralController
from karpenter_local.controllers.garbagecollector import Collector
from karpenter_local.controllers.informers import Informers
from karpenter_local.controllers.jobs import JobController
from karpenter_local.controllers.loop import KubeController, PeriodicController, start, start_periodic
from karpenter_local.controllers.namespaces import NamespaceController, ServiceAccountController
from karpenter_local.controllers.nodelifecycle import NodeMonitor, NodeTaints
from karpenter_local.controllers.persistentvolume import ClaimController, ClaimProtection, VolumeController
from karpenter_local.controllers.podgc import PodCollector
from karpenter_local.controllers.replicasets import ReplicaSetController
from karpenter_local.controllers.statefulsets import StatefulSetController
from karpenter_local.controllers.tainteviction import TaintEviction
from karpenter_local.controllers.writer import Writer

WORKERS = 3
"""Keys of one controller that are looked at at a time."""


class ControllerManager:
    """Builds the controllers, then runs them."""

    def __init__(self, informers: Informers, writer: Writer, clock: Clock, *, chance: Random) -> None:
        self._controllers: tuple[KubeController, ...] = (
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
        self._patrols: tuple[PeriodicController, ...] = (
            NodeMonitor(informers, writer, clock),
            PodCollector(informers, writer, clock),
        )
        self._collector = Collector(writer.client, clock, chance=chance)

    def start(self, supervisor: Supervisor) -> None:
        """Begin; the informers must be synced."""
        for controller in self._controllers:
            start(controller, supervisor, workers=WORKERS)
        for each in self._patrols:
            start_periodic(each, supervisor)
        self._collector.start(supervisor)
