"""A sandbox with a bare AWS account, in virtual time, for installing things into it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from karpenter.install.account import AccountApi, read_facts
from karpenter.install.apply import Installer, ResourceDone, StackDone
from karpenter.install.kubernetes import ClusterApi
from karpenter.install.options import InstallationOptions
from karpenter.install.plan import InstallationPlan, make_plan
from karpenter.install.uninstall import Uninstaller
from karpenter.kube.targets import untyped
from karpenter_local.sandbox.options import AwsOptions, ClusterOptions
from karpenter_local.sandbox.sandbox import Sandbox
from karpenter_local.virtual import run_virtual
from tests.unit.cloud.aws.world import embedded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from karpenter.api.pod import Pod

CLUSTER = "blue"
TYPES = ("c5.large", "c5.xlarge", "m5.large", "m5.xlarge")
READS = ("Describe", "Get", "List")
DEPLOYMENTS = untyped("apps/v1", "deployments", kind="Deployment", namespaced=True)


class BareSandbox:
    """A sandbox before any installation, and what an installer needs of it."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox, self.clock, self.client = sandbox, sandbox.clock, sandbox.client
        self.account = sandbox.aws.site.account
        self.aws = AccountApi(sandbox.aws.site.client)
        self.kubernetes = ClusterApi(sandbox.client, clock=sandbox.clock)

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
    async def operator(self) -> AsyncIterator[None]:
        """Run the operator in the place of the one whose Deployment was installed."""
        replica = await self.sandbox.start_operator()
        try:
            yield
        finally:
            await self.sandbox.stop_operator(replica)

    async def pods(self) -> list[Pod]:
        return [each for each in await self.sandbox.pods() if each.metadata.namespace == "default"]

    def writes(self) -> list[str]:
        """Return the calls to AWS that change something."""
        return [name for name in self.actions() if not name.partition(":")[2].startswith(READS)]

    def actions(self) -> list[str]:
        """Return the calls to AWS, as policies name them."""
        return [f"{call.service}:{call.operation}" for call in self.account.calls()]


def in_bare_aws(
    test: Callable[[BareSandbox], Awaitable[None]], *, kubernetes: str = "1.32", queue: str = CLUSTER
) -> Callable[[], None]:
    """Let an async test run in a sandbox of its own; its operators read the queue that is named."""

    async def scenario() -> None:
        sandbox = Sandbox(
            name=CLUSTER,
            cluster=ClusterOptions(kubernetes=kubernetes, definitions=False),
            cloud=AwsOptions(
                types=TYPES,
                server=embedded(),
                bare=True,
                tagged=False,
                node_class=False,
                settings={"INTERRUPTION_QUEUE": queue},
            ),
            operators=0,
        )
        async with sandbox:
            await test(BareSandbox(sandbox))

    def run() -> None:
        run_virtual(scenario())

    run.__name__ = getattr(test, "__name__", "test")
    run.__doc__ = test.__doc__
    run.__module__ = test.__module__
    return run
