"""Async tests that each run in a sandbox of their own, in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodepool import NodePool
from karpenter.api.workloads import Deployment
from karpenter_local.sandbox.operators import DirectSeams, SeamFactory
from karpenter_local.sandbox.options import AwsOptions
from karpenter_local.sandbox.sandbox import Sandbox
from karpenter_local.virtual import run_virtual
from tests.unit.cloud.aws.world import embedded

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from karpenter.base.clock import Clock
    from karpenter.kube.transport import Transport

SEEDS = Path(__file__).parent.parent / "data" / "seeds"
TYPES = ("c5.large", "c5.xlarge", "c6g.large", "m5.large", "m5.metal", "m5.xlarge", "m5.2xlarge", "r5.large")
_KINDS: dict[str, Any] = {each.kind: each for each in (NodePool, EC2NodeClass, Deployment)}


def in_sandbox(**options: Any) -> Callable[[Callable[[Sandbox], Any]], Callable[[], None]]:
    """Let an async test run in a sandbox with the kwok cloud."""
    return _in(lambda: Sandbox(name="test", **options))


def in_aws(**settings: Any) -> Callable[[Callable[[Sandbox], Any]], Callable[[], None]]:
    """Let an async test run in a sandbox with the embedded AWS, made by :func:`aws_sandbox`."""
    return _in(lambda: aws_sandbox(**settings))


def aws_sandbox(
    *, cluster: str = "test", region: str = "us-west-2", seams: SeamFactory = DirectSeams, **settings: str
) -> Sandbox:
    """Return a sandbox on the embedded AWS of all tests; `settings` are those of the provider."""
    options = AwsOptions(region=region, types=TYPES, server=embedded(), node_class=False, settings=settings)
    return Sandbox(name=cluster, cloud=options, seams=seams)


def through(wrap: Callable[[Transport], Transport]) -> SeamFactory:
    """Return seams whose transport is another one around that of the sandbox."""

    def seams(transport: Transport, *, clock: Clock, chance: Random) -> DirectSeams:
        return DirectSeams(wrap(transport), clock=clock, chance=chance)

    return seams


async def apply_manifest(sandbox: Sandbox, text: str) -> None:
    """Create every object of a manifest, as it is written."""
    for body in yaml.safe_load_all(text):
        kind = _KINDS[body["kind"]]
        namespace = body["metadata"].get("namespace", "default") if kind is Deployment else ""
        await sandbox.client.create(kind, body, namespace=namespace)


def _in(make: Callable[[], Sandbox]) -> Callable[[Callable[[Sandbox], Any]], Callable[[], None]]:
    def wrap(test: Callable[[Sandbox], Any]) -> Callable[[], None]:
        async def scenario() -> None:
            async with make() as sandbox:
                await test(sandbox)

        def run() -> None:
            run_virtual(scenario())

        run.__name__ = test.__name__
        run.__doc__ = test.__doc__
        run.__module__ = test.__module__
        return run

    return wrap
