"""
A sandbox: one cluster, one cloud, one clock, and any number of operators between them.

    async with Sandbox(seed=7, cloud=KwokOptions()) as sandbox:
        await sandbox.create_node_pool("default")
        await sandbox.deploy("inflate", replicas=10)
        await sandbox.until_running(10)

Entering starts the cluster, installs the definitions, starts the cloud, and then the operators; leaving stops
them in the opposite order. Under the virtual clock the same seed gives the same history, byte for byte.
This is the only place where these parts are put together; what goes wrong with them is not decided here.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from secrets import SystemRandom
from typing import TYPE_CHECKING, Any, Final, Self

from karpenter.api.cluster import Event
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.api.workloads import Deployment
from karpenter.base.clock import Clock, SystemClock
from karpenter.kube.patches import MergePatch
from karpenter.operator.options import Settings, parse_settings
from karpenter_local.sandbox.cloud import KwokInOperator, KwokSandboxCloud, SandboxCloud
from karpenter_local.sandbox.cluster import (
    RunningCluster,
    add_nodes,
    embedded_cluster,
    http_transport_of,
    install_definitions,
    running_embedded,
    running_real,
)
from karpenter_local.sandbox.operators import DirectSeams, Replica, SeamFactory
from karpenter_local.sandbox.options import (
    CloudOptions,
    ClusterOptions,
    KwokOptions,
    OperatorTransport,
    SandboxClock,
)
from karpenter_local.virtual import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path
    from types import TracebackType

    from karpenter.kube.client import Client
    from karpenter.kube.transport import Transport
    from karpenter.operator.run import OperatorProcess
    from karpenter_local.cluster import LocalCluster
    from karpenter_local.sandbox.aws import AwsSandboxCloud

NAMESPACE: Final = "default"
_LOOPBACK: Final = "127.0.0.1"
_FLIGHT_RECORD: Final = "flight-record"
_ANY_PORT: Final = {"METRICS_PORT": "0", "HEALTH_PROBE_PORT": "0"}


class Sandbox:
    """A cluster, a cloud, a clock and operators. Entering starts them; leaving stops them."""

    def __init__(
        self,
        *,
        name: str = "sandbox",
        seed: int = 1,
        clock: SandboxClock = "virtual",
        cluster: ClusterOptions | None = None,
        cloud: CloudOptions | None = None,
        operators: int = 1,
        settings: Mapping[str, str] | None = None,
        transport: OperatorTransport = "in-process",
        seams: SeamFactory = DirectSeams,
        elects: bool = False,
    ) -> None:
        """
        `name` is that of the cluster, by which machines are tagged.

        `operators` says how many start with it; more can be started later. All have the same `settings`,
        reach the API server over a `transport`, and each has `seams` of its own. If it `elects`, operators
        compete for a Lease, and one that has lost it is started anew.
        """
        self.name = name
        self.seed = seed
        self.clock: Clock = VirtualClock() if clock == "virtual" else SystemClock()
        self._given = dict(settings or {})
        self.settings = parse_settings(self._given)
        self.replicas: list[Replica] = []
        self._cluster_options = cluster or ClusterOptions()
        self._embedded = (
            embedded_cluster(self._cluster_options, clock=self.clock, seed=seed)
            if self._cluster_options.control_plane == "embedded"
            else None
        )
        self.cloud = self._make_cloud(cloud or KwokOptions())
        self._operators = operators
        self._transport = transport
        self._seams = seams
        self.elects = elects
        self._restarts: set[asyncio.Task[None]] = set()
        self._started = 0
        self._running: RunningCluster | None = None
        self._http: Transport | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            embedded, options = self._embedded, self._cluster_options
            starting = running_real(options) if embedded is None else running_embedded(embedded)
            self._running = running = await enter(starting)
            await add_nodes(running.client, options)
            if options.definitions:
                await install_definitions(running.client)
            stack.push_async_callback(self.cloud.stop)
            await self.cloud.start(running)
            if self._transport == "http":
                self._http = await enter(http_transport_of(running))
            stack.push_async_callback(self._kill_all)
            for _ in range(self._operators):
                await self.start_operator()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    # The parts

    @property
    def cluster(self) -> LocalCluster:
        if self._embedded is None:
            raise RuntimeError("this sandbox has a real control plane; hint: use its client")
        return self._embedded

    @property
    def is_real(self) -> bool:
        """Whether the control plane is that of Kubernetes itself."""
        return self._embedded is None

    @property
    def running(self) -> RunningCluster:
        """The control plane, whichever it is, once the sandbox was entered."""
        if self._running is None:
            raise RuntimeError("the sandbox does not run; hint: enter it first")
        return self._running

    @property
    def client(self) -> Client:
        """A client that acts as a user does."""
        return self._embedded.client if self._embedded is not None else self.running.client

    @property
    def kwok(self) -> KwokSandboxCloud:
        if not isinstance(self.cloud, KwokSandboxCloud):
            raise TypeError("the cloud of this sandbox is another one; hint: Sandbox(cloud=KwokOptions())")
        return self.cloud

    @property
    def aws(self) -> AwsSandboxCloud:
        from karpenter_local.sandbox.aws import AwsSandboxCloud  # noqa: PLC0415  it may not be installed

        if not isinstance(self.cloud, AwsSandboxCloud):
            raise TypeError("the cloud of this sandbox is another one; hint: Sandbox(cloud=AwsOptions())")
        return self.cloud

    # Operators

    @property
    def leader(self) -> Replica | None:
        return self.replicas[-1] if self.replicas else None

    def begin_operator(self, *, seams: SeamFactory | None = None) -> Replica:
        """Let an operator start that knows nothing, beside any that run, without waiting until it works."""
        self._started += 1
        replica = Replica(
            self._http or self.running.transport(),
            self.cloud,
            name=f"{self.seed}/operator-{self._started}",
            clock=self.clock,
            settings=self._settings_of(self._started),
            seams=seams or self._seams,
            on_lost=self._restart if self.elects else None,
        )
        self.replicas.append(replica)
        replica.start()
        return replica

    def _settings_of(self, number: int) -> Settings:
        """Return the settings of an operator: each writes a flight record of its own."""
        file = self._given.get(_FLIGHT_RECORD)
        if not file or number == 1:
            return self.settings
        return parse_settings({**self._given, _FLIGHT_RECORD: f"{file}.operator-{number}"})

    async def start_operator(self, *, seams: SeamFactory | None = None) -> Replica:
        """Start an operator that knows nothing, beside any that run, and wait until it works."""
        replica = self.begin_operator(seams=seams)
        await replica.started()
        return replica

    async def stop_operator(self, replica: Replica | None = None) -> None:
        """End an operator in order; without naming one, the one that was started last."""
        chosen = replica or self.leader
        if chosen in self.replicas:
            self.replicas.remove(chosen)
            await chosen.stop()

    async def kill_operator(self, replica: Replica | None = None) -> None:
        """End an operator at once; without naming one, the one that was started last."""
        chosen = replica or self.leader
        if chosen in self.replicas:
            self.replicas.remove(chosen)
            await chosen.kill()

    async def restart_operator(self, *, seams: SeamFactory | None = None) -> Replica:
        """Kill the operator that was started last, and start another."""
        await self.kill_operator()
        return await self.start_operator(seams=seams)

    @asynccontextmanager
    async def serve_operator(
        self,
        environ: Mapping[str, str],
        *,
        provider: str = "kwok",
        options: Mapping[str, str] | None = None,
        namespace: str = NAMESPACE,
        transport: Transport | None = None,
    ) -> AsyncIterator[OperatorProcess]:
        """
        Run the operator as ``karpenter run`` does: with probes, metrics, election and its own provider.

        Entering waits until it leads; its failure ends the context. Its settings are `options`, then
        `environ`, and any free ports.

        Raises:
            SettingError: naming a setting that cannot be used.
        """
        from karpenter.operator.run import OperatorProcess, OperatorTarget  # noqa: PLC0415  few need it

        virtual = isinstance(self.clock, VirtualClock)
        process = OperatorProcess(
            transport or self.running.transport(),
            target=OperatorTarget(provider=provider, cluster=self.name),
            settings=parse_settings(dict(options or {}), {**_ANY_PORT, **environ}),
            namespace=namespace,
            clock=self.clock,
            chance=Replica.chance_of(f"{self.seed}/process") if virtual else SystemRandom(),
            environ=environ,
            threads=not virtual,
            host=_LOOPBACK,
        )
        try:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(process.run(), name="operator")
                await process.leads.wait()
                try:
                    yield process
                finally:
                    task.cancel()
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None

    @asynccontextmanager
    async def serve_deployment(self, logs: Path) -> AsyncIterator[None]:
        """
        Run the operator that is installed as a Deployment, as a process, while a pod of it runs.

        Its log goes to a file in the directory `logs`. The cluster must listen on a port.
        """
        from karpenter_local.deployed import deployed  # noqa: PLC0415  few need it

        running = self.running
        async with deployed(
            running.client,
            kubeconfig=running.kubeconfig,
            environment=self.cloud.environment,
            logs=logs,
            published=running.container_logs,
        ):
            yield

    # What a user does

    async def create_node_pool(self, name: str = "default", **spec: Any) -> NodePool:
        """Create a NodePool of Linux on amd64, on demand, that is left alone unless `spec` says otherwise."""
        spec = {"disruption": {"consolidateAfter": "Never"}, **spec}
        template = dict(spec.pop("template", {}))
        wanted = {
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "karpenter.sh/capacity-type": "on-demand",
        }
        template["spec"] = {
            "nodeClassRef": dict(self.cloud.node_class),
            "requirements": [{"key": key, "operator": "In", "values": [is_]} for key, is_ in wanted.items()],
            "expireAfter": "Never",
            **template.get("spec", {}),
        }
        body = {"metadata": {"name": name}, "spec": {"template": template, **spec}}
        return await self.client.create(NodePool, body)

    async def deploy(
        self,
        name: str = "inflate",
        *,
        replicas: int,
        cpu: str = "1",
        namespace: str = NAMESPACE,
        **pod: Any,
    ) -> Deployment:
        """Create a Deployment whose pods each request `cpu`; the rest of their spec is `pod`."""
        requests = {"cpu": cpu, "memory": "256Mi"}
        template = {
            "metadata": {"labels": {"app": name}, **pod.pop("metadata", {})},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "app", "image": "pause", "resources": {"requests": requests}}],
                **pod,
            },
        }
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
        body = {"metadata": {"name": name}, "spec": spec}
        return await self.client.create(Deployment, body, namespace=namespace)

    async def scale(self, name: str, replicas: int, *, namespace: str = NAMESPACE) -> None:
        """Change how many pods a Deployment has."""
        change = MergePatch({"spec": {"replicas": replicas}})
        await self.client.patch(Deployment, name, change, namespace=namespace)

    # What a user sees

    async def pods(self) -> list[Pod]:
        return list((await self.client.list(Pod)).items)

    async def nodes(self) -> list[Node]:
        return list((await self.client.list(Node)).items)

    async def node_claims(self) -> list[NodeClaim]:
        return list((await self.client.list(NodeClaim)).items)

    async def events(self, reason: str = "") -> list[Event]:
        return [each for each in (await self.client.list(Event)).items if not reason or each.reason == reason]

    async def running_pods(self) -> int:
        return sum(pod.status.phase == "Running" for pod in await self.pods())

    async def is_empty(self) -> bool:
        """Whether no NodeClaim, node or machine is left."""
        return not await self.node_claims() and not await self.nodes() and not self.cloud.count()

    async def until(
        self, condition: Callable[[], Any], *, within: float = 300.0, every: float = 0.25
    ) -> float:
        """
        Let time pass until `condition` holds, and return how much did; it may be a coroutine function.

        Raises:
            AssertionError: it does not hold in time.
        """
        started = self.clock.monotonic()
        while True:
            found = condition()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return self.clock.monotonic() - started
            if self.clock.monotonic() - started > within:
                raise AssertionError(f"it did not happen within {within:g} s")
            await asyncio.sleep(every)

    async def until_running(self, count: int, *, within: float = 300.0, every: float = 0.25) -> float:
        """Let time pass until there are so many pods and all run, and return how much did."""

        async def all_run() -> bool:
            pods = await self.pods()
            return len(pods) == count and all(pod.status.phase == "Running" for pod in pods)

        return await self.until(all_run, within=within, every=every)

    # How it is put together

    def _make_cloud(self, options: CloudOptions) -> SandboxCloud:
        if isinstance(options, KwokOptions):
            if options.in_operator:
                return KwokInOperator(options)
            return KwokSandboxCloud(options, self.cluster, name=self.name, clock=self.clock, seed=self.seed)
        from karpenter_local.sandbox.aws import AwsSandboxCloud  # noqa: PLC0415  it may not be installed

        return AwsSandboxCloud(options, name=self.name, clock=self.clock, seed=self.seed)

    def _restart(self, replica: Replica) -> None:
        """Let a new operator come instead of one that has lost the Lease."""
        task = asyncio.get_running_loop().create_task(self.kill_operator(replica))
        self._restarts.add(task)
        task.add_done_callback(self._restarts.discard)
        self.begin_operator()

    async def _kill_all(self) -> None:
        for each in tuple(self.replicas):
            await self.kill_operator(each)
