"""A cluster and a bare AWS account in this process, in virtual time, for installing things into them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Any

from karpenter.api.pod import Pod
from karpenter.cloud.cloudprovider import Surroundings
from karpenter.install.account import AwsApi, read_facts
from karpenter.install.apply import Installer, ResourceDone, StackDone
from karpenter.install.kubernetes import ClusterApi
from karpenter.install.options import InstallationOptions
from karpenter.install.plan import make_plan
from karpenter.install.uninstall import Uninstaller
from karpenter.kube.rest import untyped
from karpenter.operator.cluster_objects import Objects
from karpenter.operator.operator import Operator, Parts
from karpenter.operator.options import parse_settings
from karpenter_local.aws.beside import aws_with_cluster
from karpenter_local.aws.location import Location
from karpenter_local.virtual import VirtualClock, run_virtual

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from karpenter.install.plan import InstallationPlan
    from karpenter_local.aws.account import Call
    from karpenter_local.aws.beside import AwsWithCluster

CLUSTER = "blue"
TYPES = ("c5.large", "c5.xlarge", "m5.large", "m5.xlarge")
READS = ("Describe", "Get", "List")
DEPLOYMENTS = untyped("apps/v1", "deployments", kind="Deployment", namespaced=True)


class InstallWorld:
    """What an installer has to do with."""

    def __init__(self, parts: AwsWithCluster, clock: VirtualClock) -> None:
        self.cluster, self.site, self.clock = parts.cluster, parts.site, clock
        self.account = parts.site.account
        self.aws = AwsApi(parts.site.client)
        self.kubernetes = ClusterApi(self.cluster.client, clock=clock)

    def plan(self, **options: Any) -> InstallationPlan:
        """Return the plan for the cluster, as `karpenter install` makes it."""
        asked = InstallationOptions(cluster=CLUSTER, **options)
        return make_plan(asked, read_facts(self.aws, asked, region=self.account.region))

    async def install(self, plan: InstallationPlan) -> dict[str, str]:
        """Install, and return what became of everything."""
        installer = Installer(plan, self.aws, self.kubernetes, clock=self.clock, leads_within=0)
        done: dict[str, str] = {}
        async for event in installer.run():
            if isinstance(event, ResourceDone):
                done[event.resource.title] = event.outcome
            elif isinstance(event, StackDone):
                done[event.step.stack] = event.outcome
        return done

    async def uninstall(self, plan: InstallationPlan, **choices: Any) -> tuple[list[str], list[str]]:
        """Uninstall, and return what is left, and what stays on purpose."""
        work = Uninstaller(plan, self.aws, self.kubernetes, clock=self.clock, **choices)
        async for _ in work.run():
            pass
        return await work.left()

    @asynccontextmanager
    async def operator(self, plan: InstallationPlan) -> AsyncIterator[None]:
        """Run the operator with the settings that the installation gives it."""
        client = self.cluster.connect("karpenter")
        around = Surroundings(
            clock=self.clock,
            chance=Random(7),  # noqa: S311  a simulation's dice
            cluster=CLUSTER,
            objects=Objects(client),
            settings={"INTERRUPTION_QUEUE": plan.names.queue},
        )
        async with self.site.provider(around, long_poll=0) as provider:
            parts = Parts(
                client=client,
                cloud=provider,
                settings=parse_settings({}),
                clock=self.clock,
                chance=Random(7),  # noqa: S311  likewise
                threads=False,
            )
            async with Operator(parts):
                yield

    async def pods(self) -> list[Pod]:
        """Return the pods of the example."""
        return [
            each
            for each in (await self.cluster.client.list(Pod)).items
            if each.metadata.namespace == "default"
        ]

    async def until(self, condition: Callable[[], Awaitable[bool]], *, within: float = 300.0) -> None:
        """Let time pass until something is so."""
        deadline = self.clock.monotonic() + within
        while not await condition():
            assert self.clock.monotonic() < deadline, f"it did not happen within {within:g} s"
            await self.clock.sleep(1.0)

    def writes(self) -> list[str]:
        """Return the calls to AWS that change something."""
        return [name for name in self.actions() if not name.partition(":")[2].startswith(READS)]

    def actions(self) -> list[str]:
        """Return the calls to AWS, as policies name them."""
        return [f"{call.service}:{call.operation}" for call in self.account.calls()]

    def calls(self) -> Iterator[Call]:
        """Return the calls to AWS."""
        return iter(self.account.calls())


def in_bare_aws(
    test: Callable[[InstallWorld], Awaitable[None]], *, kubernetes: str = "1.32"
) -> Callable[[], None]:
    """Let an async test run in a world of its own, in virtual time."""

    async def scenario() -> None:
        clock = VirtualClock()
        location = Location(cluster=CLUSTER, types=TYPES, bare=True, tagged=False)
        async with aws_with_cluster(location, clock=clock, seed=1, kubernetes=kubernetes) as parts:
            parts.site.account.forget_calls()
            await test(InstallWorld(parts, clock))

    def run() -> None:
        run_virtual(scenario())

    run.__name__ = getattr(test, "__name__", "test")
    run.__doc__ = test.__doc__
    run.__module__ = test.__module__
    return run
