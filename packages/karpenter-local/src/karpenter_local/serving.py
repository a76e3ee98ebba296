"""
``karpenter local up``: a sandbox that runs until this process is told to stop, and is announced to others.

It writes a kubeconfig and a notice of itself; the sandbox does the rest.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from secrets import randbits
from typing import TYPE_CHECKING, Final

from karpenter.operator.options import parse_settings
from karpenter_local import kubeconfig
from karpenter_local.apiserver.notice import KUBERNETES, ClusterDirectory, ClusterFacts
from karpenter_local.deployed import OPERATOR_LOG
from karpenter_local.installation import installed, log_of
from karpenter_local.kubelet.settings import KubeletSettings
from karpenter_local.sandbox.options import AwsOptions, CloudOptions, ClusterOptions, KwokOptions
from karpenter_local.sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path


_SEED_BITS: Final = 63
_SINGLE_REPLICA: Final = {"disable-leader-election": "true"}
"""The one setting that makes no sense for a single replica on a laptop."""


@dataclass(frozen=True, kw_only=True)
class LocalOptions:
    """Options of ``karpenter local up``."""

    name: str = "local"
    """How the cluster is called in the cloud."""

    control_plane: str = "embedded"
    port: int = 0
    nodes: int = 0
    kubernetes: str = KUBERNETES
    """The version that the embedded control plane says it has."""

    background: bool = False
    """Whether what is logged goes to the log of the notice."""

    keep: bool = False
    """Whether the state outlives the process."""

    with_karpenter: bool = False
    node_class: bool = True
    """Whether a KWOKNodeClass ``default`` comes with the operator."""

    aws: AwsOptions | None = None
    """The embedded AWS, if there is one beside the cluster."""


def local_sandbox(options: LocalOptions, notice: ClusterDirectory) -> Sandbox:
    real = options.control_plane == "real"
    directory = notice.directory / ("real" if real else "state")
    cluster = ClusterOptions(
        control_plane=options.control_plane,
        http=True,
        port=options.port,
        state=directory if real or options.keep else None,
        durable=options.keep,
        definitions=options.with_karpenter,
        nodes=options.nodes,
        zones=options.aws.zones if options.aws is not None else (),
        kubernetes=options.kubernetes,
        kubelets=KubeletSettings(narrate=True),
    )
    cloud: CloudOptions = options.aws or KwokOptions(
        in_operator=True, node_class=options.with_karpenter and options.node_class
    )
    return Sandbox(
        name=options.name,
        seed=randbits(_SEED_BITS),
        clock="real",
        cluster=cluster,
        cloud=cloud,
        operators=0,
    )


async def serve(
    options: LocalOptions,
    notice: ClusterDirectory,
    announce: Callable[[ClusterFacts], None],
    *,
    environ: Mapping[str, str] | None = None,
    use_environment: Callable[[Mapping[str, str]], None] = lambda _: None,
) -> None:
    """
    Run a cluster, and the operator if it was asked for, until this process is told to stop.

    `environ` holds the settings of the operator; `use_environment` is given what the SDK needs to find the
    cloud, before the operator starts.

    Raises:
        AlreadyRunning: one runs in the notice's directory.
        SettingError: naming a setting of the operator that cannot be used.
    """
    environ = os.environ if environ is None else environ
    if options.with_karpenter:
        parse_settings(_SINGLE_REPLICA, environ)  # refuse a bad setting before anything starts
    notice.hold()
    try:
        async with local_sandbox(options, notice) as sandbox:
            use_environment(sandbox.cloud.environment)
            async with _operator(sandbox, options, environ, notice) as metrics:
                kubeconfig.write(notice.kubeconfig, sandbox.running.kubeconfig)
                facts = ClusterFacts(
                    pid=os.getpid(),
                    name=options.name,
                    url=sandbox.running.url,
                    kubeconfig=str(notice.kubeconfig.resolve()),
                    control_plane=options.control_plane,
                    started=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                    data_dir=str(notice.directory.resolve()) if options.keep else "",
                    karpenter=metrics,
                    environment=dict(sandbox.cloud.environment),
                    log=str(notice.log.resolve()) if options.background else "",
                )
                notice.post(facts)
                announce(facts)
                await _told_to_stop()
    finally:
        notice.withdraw()


@asynccontextmanager
async def _operator(
    sandbox: Sandbox, options: LocalOptions, environ: Mapping[str, str], notice: ClusterDirectory
) -> AsyncIterator[str]:
    """
    Run the operator if it was asked for; yield where it shows its metrics, or nothing.

    Where there is an AWS and the operator was not asked for, one that is installed later runs.
    """
    if not options.with_karpenter:
        if options.aws is None:
            yield ""
        else:
            _serve_logs(sandbox, notice.directory / OPERATOR_LOG)
            async with sandbox.serve_deployment(notice.directory):
                yield ""
        return
    provider = "aws" if options.aws is not None else "kwok"
    _serve_logs(sandbox, notice.log)
    async with (
        sandbox.serve_operator(environ, provider=provider, options=_SINGLE_REPLICA) as process,
        installed(sandbox.client, cluster=options.name, provider=provider, clock=sandbox.clock),
    ):
        yield f"http://127.0.0.1:{process.endpoints.ports['metrics']}/metrics"


def _serve_logs(sandbox: Sandbox, path: Path) -> None:
    """Let ``kubectl logs`` find the operator's log, where the API server is ours."""
    if not sandbox.is_real:
        sandbox.cluster.server.backend.log_of = log_of(path)


async def _told_to_stop() -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop.set)
    try:
        await stop.wait()
    finally:
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)
