"""
The operator as the companion of a cluster on this machine: installed and running, in the same process.

What an administrator would install by hand is put there first: the definitions of our kinds and, for the
cloud in memory, one class of machines. The operator itself is the one of production; of its settings, only
those that make no sense for a single replica on a laptop differ (no lease, any free port), and the
environment can still state every one but the lease.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from secrets import SystemRandom
from typing import TYPE_CHECKING, Final

from karpenter.api.crd.definitions import DEFINITIONS, render
from karpenter.api.kwoknodeclass import KWOKNodeClass
from karpenter.kube.errors import AlreadyExists
from karpenter.kube.rest import untyped
from karpenter.operator.options import parse_settings
from karpenter.operator.run import OperatorProcess, OperatorTarget
from karpenter_local.serving import Beside

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from karpenter.base.clock import Clock
    from karpenter.kube.client import Client
    from karpenter_local.serving import Standing

KWOK: Final = "kwok"
CLASS: Final = "default"
"""The name of the class of machines that is there from the beginning."""

_NAMESPACE: Final = "default"
_CLUSTER: Final = "local"
_HERE: Final = "127.0.0.1"
_DEFINITIONS: Final = untyped(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", kind="CustomResourceDefinition", namespaced=False
)
_ANY_PORT: Final = {"METRICS_PORT": "0", "HEALTH_PROBE_PORT": "0"}


def companion(
    environ: Mapping[str, str], clock: Clock, *, which: OperatorTarget | None = None
) -> Callable[[Standing], AbstractAsyncContextManager[Beside]]:
    """
    Return who runs the operator beside a cluster, with the settings that the environment states.

    Raises:
        SettingError: naming a setting that cannot be used.
    """
    settings = parse_settings({"disable-leader-election": "true"}, {**_ANY_PORT, **environ})
    which = which or OperatorTarget(provider=KWOK, cluster=_CLUSTER)

    @asynccontextmanager
    async def beside(standing: Standing) -> AsyncIterator[Beside]:
        await install(standing.client, with_class=which.provider == KWOK)
        process = OperatorProcess(
            standing.transport,
            which=which,
            settings=settings,
            namespace=_NAMESPACE,
            clock=clock,
            chance=SystemRandom(),
            environ=environ,
            host=_HERE,
        )
        async with _running(process):
            yield Beside(karpenter=f"http://{_HERE}:{process.endpoints.ports['metrics']}/metrics")

    return beside


async def install(client: Client, *, with_class: bool = True) -> None:
    """Put there what the operator needs; what is there already is brought up to date."""
    for each in DEFINITIONS:
        await client.apply(_DEFINITIONS, render(each))
    if not with_class:
        return
    try:
        await client.create(KWOKNodeClass, {"metadata": {"name": CLASS}})
    except AlreadyExists:
        return


@asynccontextmanager
async def _running(process: OperatorProcess) -> AsyncIterator[None]:
    """Run the operator; entering waits until it works, and its failure ends whoever entered."""
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(process.run(), name="operator")
            await process.leads.wait()
            try:
                yield
            finally:
                task.cancel()
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
