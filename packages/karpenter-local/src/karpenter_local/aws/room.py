"""
The operator of the instances of the embedded AWS: they start, boot, join the cluster, and terminate.

    async with InstanceOperator(account, endpoint, client=client, kubelets=hollow_nodes, clock=clock):
        ...

A machine that was launched is pending for a moment, then boots from its image and reads its user data, as in
:mod:`.boot`. If that is sound, its kubelet registers a Node, and the cloud's controller says on it where the
machine is. If not, its console says why, and nothing else happens. A machine that ends falls silent at once;
its Node goes when the cloud's controller notices.

In virtual time everything is repeatable: what happens in the account is heard while the call that caused it
is under way, when time stands still.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

import msgspec
import structlog

from karpenter.api.labels import CLOUD_UNINITIALIZED
from karpenter.api.manifests import read_documents
from karpenter.api.meta import InvalidObject, to_plain
from karpenter.api.node import Node
from karpenter.cloud.catalogs.ec2.instancetypes import VM_OVERHEAD
from karpenter.kube.errors import AlreadyExists, KubeError, NotFound
from karpenter.kube.patches import MergePatch
from karpenter.kube.targets import untyped
from karpenter_local.aws.boot.bootconfig import BootConfig, CannotJoin
from karpenter_local.aws.boot.images import read_user_data, system_of
from karpenter_local.aws.boot.node import cloud_labels, node_of
from karpenter_local.aws.eks import may_join, mode_of
from karpenter_local.aws.events import AccountEvent, InstanceEnded, InstanceLaunched, InterruptionScheduled
from karpenter_local.aws.instancestate import RUNNING, SHUTTING_DOWN, TERMINATED, become, is_leaving
from karpenter_local.aws.inventory import InstanceInventory
from karpenter_local.aws.mail import announce_state
from karpenter_local.kubelet.hollownodes import HollowNodes, UnknownNode

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from types import TracebackType

    from karpenter.base.clock import Clock
    from karpenter.kube.client import Client
    from karpenter_local.aws.account import Account
    from karpenter_local.aws.boot.hardware import Hardware

log = structlog.stdlib.get_logger(__name__)

RETRY_SECONDS = 1.0
UNAUTHORIZED_RETRY_SECONDS = 10.0
_POLL_SECONDS = 0.1
_CONFIG_MAPS = untyped("v1", "configmaps", kind="ConfigMap", namespaced=True)
_SCHEME = "aws:///"


class ClusterEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The endpoint of the cluster; instances whose user data names another one do not join."""

    cluster: str
    endpoint: str
    authority: str
    """What signs the API server's certificate, in base64."""

    version: str = "1.33"
    """Of Kubernetes."""


class InstanceTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Durations of the steps of an instance, in seconds."""

    pending: float = 2.0
    """From the launch until the instance runs."""

    boot: float = 20.0
    """From then until the kubelet registers."""

    initialize: float = 1.0
    """Until the cloud's controller has looked at a new Node."""

    shutdown: float = 5.0
    """From the beginning of an end until the instance is gone."""

    notice: float = 5.0
    """Until the cloud's controller notices that, and deletes the Node."""

    remember: float = 3600.0
    """How long EC2 still shows an instance that is gone."""


class InstanceOperator:
    """Operates the instances of one account. Entering begins; leaving stops."""

    def __init__(
        self,
        account: Account,
        reach: ClusterEndpoint,
        *,
        client: Client,
        kubelets: HollowNodes,
        clock: Clock,
        pace: InstanceTimings | None = None,
        overhead: float = VM_OVERHEAD,
    ) -> None:
        self.account = account
        self.reach = reach
        self.pace = pace or InstanceTimings()
        self._client = client
        self._kubelets = kubelets
        self._clock = clock
        self._overhead = overhead
        self._inventory = InstanceInventory(account)
        self.setbacks: list[float] = []
        """Seconds by which the next machines boot later, one for each; those that never do, for ever."""

        self._lives: dict[str, asyncio.Task[None]] = {}
        self._ends: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self.account.operated = True
        self.account.now = self._clock.now
        self._stop = self.account.subscribe(lambda each: _tell(loop, self._note, each))
        # Delete the Nodes without an instance: a cluster may outlive its embedded AWS
        known = {each.id for each in self._inventory.all()}
        for node in (await self._client.list(Node)).items:
            provider_id = node.spec.provider_id
            number = provider_id.rpartition("/")[2]
            if provider_id.startswith(_SCHEME) and number not in known:
                await self._delete(node.name, number)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        self.account.operated = False
        tasks = [*self._lives.values(), *self._ends]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def joined(self, count: int) -> None:
        """Wait until so many machines have joined, or gave up."""
        while len(self._lives) < count or not all(each.done() for each in self._lives.values()):
            await self._clock.sleep(_POLL_SECONDS)

    def _note(self, happening: AccountEvent) -> None:
        match happening:
            case InstanceLaunched(instance=number):
                self._lives[number] = self._spawn(self._live(number))
            case InstanceEnded(instance=number):
                life = self._lives.pop(number, None)
                if life is not None:
                    life.cancel()
                self._later(self._end(number))
            case InterruptionScheduled(instance=number, after=after):
                self._later(self._take(number, after))
            case _:
                return

    @staticmethod
    def _spawn(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(_complain)
        return task

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._spawn(work)
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)

    async def _live(self, number: str) -> None:
        setback = self.setbacks.pop(0) if self.setbacks else 0.0
        await self._clock.sleep(self.pace.pending)
        instance = self._inventory.find(number)
        if instance is None or is_leaving(instance):
            return
        become(instance, RUNNING)
        announce_state(self.account, number, RUNNING)
        if setback == float("inf"):
            self._write(number, "the machine does not boot")
            return
        await self._clock.sleep(self.pace.boot + setback)
        try:
            hardware = self._inventory.hardware(instance)
            node = self._boot(hardware)
        except CannotJoin as error:
            self._write(number, str(error))
            log.warning("machine.did_not_join", instance=number, because=str(error))
            return
        await self._authenticate(hardware)
        await self._register(hardware, node)
        await self._clock.sleep(self.pace.initialize)
        await self._initialize(hardware)

    def _boot(self, hardware: Hardware) -> dict[str, Any]:
        system = system_of(hardware.image)
        if system is None:
            raise CannotJoin(f"image {hardware.image!r} holds no kubelet that we know")
        self._write(hardware.id, f"{system.name} on {hardware.facts.name} in {hardware.zone}")
        told = read_user_data(system, hardware.user_data)
        node = node_of(hardware, system, told, version=f"v{self.reach.version}.0", overhead=self._overhead)
        self._connect(hardware, told)
        return node

    def _connect(self, hardware: Hardware, told: BootConfig) -> None:
        """Try to reach the API server with what the machine was told."""
        reach = self.reach
        if told.endpoint.rstrip("/") != reach.endpoint.rstrip("/"):
            raise CannotJoin(f"kubelet: the API server cannot be reached: dial {told.endpoint}: no such host")
        if told.authority != reach.authority:
            raise CannotJoin(
                "kubelet: the API server cannot be trusted: x509: certificate signed by unknown authority"
            )
        if not self._inventory.role_of(hardware.profile):
            raise CannotJoin(f"kubelet: Unauthorized: instance profile {hardware.profile!r} gives no role")
        if told.cluster != reach.cluster:
            raise CannotJoin(
                f"kubelet: Unauthorized: the token is for cluster {told.cluster}, and this is another one"
            )

    async def _authenticate(self, hardware: Hardware) -> None:
        """
        Wait until the cluster lets the role of a machine in: by an access entry for nodes, or by aws-auth.

        A kubelet tries until it is let in.
        https://docs.aws.amazon.com/eks/latest/userguide/grant-k8s-access.html
        """
        role, complained = self._inventory.role_of(hardware.profile), False
        while not may_join(self.account, self.reach.cluster, role) and not await self._is_mapped(role):
            if not complained:
                why = f"kubelet: Unauthorized: neither an access entry nor aws-auth lets {role} in"
                self._write(hardware.id, why)
                log.warning("machine.did_not_join", instance=hardware.id, because=why)
                complained = True
            await self._clock.sleep(UNAUTHORIZED_RETRY_SECONDS)

    async def _is_mapped(self, role: str) -> bool:
        """Say whether the ConfigMap aws-auth lets machines with a role in."""
        if mode_of(self.account, self.reach.cluster) == "API":
            return False
        try:
            found = await self._client.get(_CONFIG_MAPS, "aws-auth", namespace="kube-system")
        except KubeError:
            return False
        return any(
            each.get("rolearn") == role and "system:nodes" in (each.get("groups") or ())
            for each in _mapped_roles(found)
        )

    async def _register(self, hardware: Hardware, node: dict[str, Any]) -> None:
        while True:
            try:
                await self._client.create(Node, node)
            except AlreadyExists:
                # The address of a machine that is gone may be given away before its Node is deleted.
                await self._clock.sleep(RETRY_SECONDS)
            except KubeError as error:
                log.warning("machine.not_registered", instance=hardware.id, error=str(error))
                await self._clock.sleep(RETRY_SECONDS)
            else:
                self._write(hardware.id, f"kubelet: registered as {hardware.name}")
                log.info("machine.joined", instance=hardware.id, node=hardware.name)
                return

    async def _initialize(self, hardware: Hardware) -> None:
        """Do what the cloud's controller does for a new Node: say where it is, and let pods come."""
        while True:
            try:
                node = await self._client.get(Node, hardware.name)
                taints = [to_plain(each) for each in node.spec.taints if each.key != CLOUD_UNINITIALIZED]
                change = {
                    # What others have changed in the meantime is looked at again.
                    "metadata": {
                        "resourceVersion": node.metadata.resource_version,
                        "labels": cloud_labels(hardware),
                    },
                    "spec": {"taints": taints or None},
                }
                await self._client.patch(Node, hardware.name, MergePatch(change))
            except NotFound:
                return
            except KubeError as error:
                log.debug("node.not_initialized", node=hardware.name, error=str(error))
                await self._clock.sleep(RETRY_SECONDS)
            else:
                return

    async def _take(self, number: str, after: float) -> None:
        """Take a spot instance away once its time is over."""
        await self._clock.sleep(after)
        instance = self._inventory.find(number)
        if instance is not None and not is_leaving(instance):
            self._write(number, "taken back by EC2")
            instance.terminate()

    async def _end(self, number: str) -> None:
        instance = self._inventory.find(number)
        if instance is None:
            return
        name = instance.private_dns_name
        try:
            node = await self._client.get(Node, name)
        except KubeError:
            node = None
        ours = node is not None and node.spec.provider_id.endswith(f"/{number}")
        if ours:
            self._silence(name)
        announce_state(self.account, number, SHUTTING_DOWN)
        await self._clock.sleep(self.pace.shutdown)
        become(instance, TERMINATED)
        announce_state(self.account, number, TERMINATED)
        await self._clock.sleep(self.pace.notice)
        if ours:
            await self._delete(name, number)
        await self._clock.sleep(self.pace.remember)
        self._inventory.forget(number)

    def _silence(self, name: str) -> None:
        try:
            self._kubelets.make(name, "dead")
        except UnknownNode:
            return

    async def _delete(self, name: str, number: str) -> None:
        while True:
            try:
                node = await self._client.get(Node, name)
                if node.spec.provider_id.endswith(f"/{number}"):
                    await self._client.delete(Node, name)
            except NotFound:
                return
            except KubeError as error:
                log.warning("node.not_deleted", node=name, error=str(error))
                await self._clock.sleep(RETRY_SECONDS)
            else:
                return

    def _write(self, number: str, text: str) -> None:
        self.account.consoles.setdefault(number, []).append(text)


def _tell(loop: asyncio.AbstractEventLoop, hear: Any, happening: AccountEvent) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(hear, happening)


def _mapped_roles(config_map: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the roles that aws-auth maps; none where it cannot be read, as the authenticator does."""
    try:
        text = (config_map.get("data") or {}).get("mapRoles") or ""
        found = next(read_documents(text, source="mapRoles", repeated=[]), None)
    except InvalidObject:
        return []
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _complain(task: asyncio.Task[None]) -> None:
    """Log the error of a task that failed; no other task awaits it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("machine.lost", exc_info=error)
