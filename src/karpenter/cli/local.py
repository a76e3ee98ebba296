"""
``karpenter local``: a Kubernetes cluster on this machine, for trying things out.

``up`` starts it in the background and prints how to reach it; ``down`` ends it; ``status`` says how it is.
What it consists of is in :mod:`karpenter.local`; how the processes find each other, in
:mod:`karpenter.local.notice`.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from karpenter.base.clock import SystemClock
from karpenter.cli.errors import Refused, note
from karpenter.cli.output import output_option, table
from karpenter.local.notice import AlreadyRunning, Notice, default_directory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from karpenter.cli.output import Output
    from karpenter.local.notice import Facts
    from karpenter.local.serving import Companion, Standing

START_WITHIN = {"embedded": 30.0, "real": 180.0}
"""Seconds that a cluster in the background has to be there."""

_LINES_OF_LOG = 5
_LEFT_RUNNING: list[subprocess.Popen[bytes]] = []
"""Processes that are meant to outlive us: held, so that nobody complains that they were forgotten."""

F = TypeVar("F", bound=Callable[..., Any])

data_dir_option = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the cluster here, also when it is down. Without it, memory only.",
)


@click.group(epilog="Example:\n\n  eval $(karpenter local up --nodes 3) && kubectl get nodes")
def local() -> None:
    """Run a small Kubernetes cluster on this machine.

    Nodes and containers are simulated: pods are scheduled, start and stop, but nothing is executed.
    """


@local.command(
    epilog="Examples:\n\n"
    "  karpenter local up --nodes 3\n\n"
    "  eval $(karpenter local up --with-karpenter) && kubectl get nodepools,nodeclaims,nodes"
)
@click.option(
    "--nodes", default=0, show_default=True, type=click.IntRange(0, 5000), help="Worker nodes to begin with."
)
@click.option(
    "--port",
    default=0,
    type=click.IntRange(0, 65535),
    help="Where the API listens; any free port by default.",
)
@click.option(
    "--control-plane",
    type=click.Choice(["embedded", "real"]),
    default="embedded",
    show_default=True,
    help="Our own API server in one process, or kube-apiserver and etcd (see `make controlplane`).",
)
@click.option(
    "--with-karpenter",
    is_flag=True,
    help="Also run the operator, on machines of the kwok cloud; settings are read from the environment.",
)
@click.option(
    "--foreground", is_flag=True, help="Stay until interrupted, instead of going to the background."
)
@data_dir_option
def up(
    *,
    nodes: int,
    port: int,
    control_plane: str,
    with_karpenter: bool,
    foreground: bool,
    data_dir: Path | None,
) -> None:
    """Start the cluster and print how to reach it.

    It listens on this machine only. In the background it runs until `karpenter local down`.

    With the operator, our CustomResourceDefinitions are installed and there is a KWOKNodeClass `default`:
    apply a NodePool that refers to it, and machines come and go for pods.
    """
    if port and control_plane == "real":
        raise Refused("--port is for the embedded control plane; the real one listens where there is room")
    notice = _notice(data_dir)
    if (facts := notice.read()) is not None:
        note(f"the cluster is up already, since {facts.started}")
        if with_karpenter and not facts.karpenter:
            raise Refused(
                "it runs without the operator", hint="karpenter local down, then up --with-karpenter again"
            )
        _print_export(facts)
        return
    if foreground:
        _serve(
            nodes=nodes,
            port=port,
            control_plane=control_plane,
            with_karpenter=with_karpenter,
            keep=data_dir is not None,
            notice=notice,
        )
    else:
        options = ["--nodes", str(nodes), "--port", str(port), "--control-plane", control_plane]
        if with_karpenter:
            options.append("--with-karpenter")
        if data_dir is not None:
            options += ["--data-dir", str(data_dir)]
        _print_export(_start_in_background(options, notice, within=START_WITHIN[control_plane]))


@local.command(epilog="Example:\n\n  karpenter local down")
@data_dir_option
def down(data_dir: Path | None) -> None:
    """End the cluster. What it kept in a data directory stays there.

    Exits 0 also when there is none.
    """
    notice = _notice(data_dir)
    facts = notice.read()
    if facts is None:
        note(f"no cluster is up in {notice.directory}")
        return
    with suppress(ProcessLookupError):
        if not notice.end(facts):
            note("the cluster did not stop by itself and was killed")
    note("the cluster is down")


@local.command(epilog="Example:\n\n  karpenter local status -o json")
@data_dir_option
@output_option
def status(data_dir: Path | None, output: Output) -> None:
    """Say whether the cluster is up, and how to reach it.

    Exits 0 when it is up, 1 when it is not.
    """
    notice = _notice(data_dir)
    facts = notice.read()
    if facts is None:
        output.write(
            {"running": False, "directory": str(notice.directory)}, text=lambda _: "The cluster is down."
        )
        sys.exit(1)
    output.write(facts, text=_describe)


def _describe(facts: Facts) -> str:
    rows = [
        ("Cluster", f"up since {facts.started} ({facts.control_plane}, process {facts.pid})"),
        ("API", facts.url),
        ("Kubeconfig", facts.kubeconfig),
        ("Karpenter", f"runs, metrics at {facts.karpenter}" if facts.karpenter else "does not run"),
        ("State", facts.data_dir or "in memory, gone when the cluster is down"),
    ]
    return table(rows)


def _notice(data_dir: Path | None) -> Notice:
    return Notice(data_dir if data_dir is not None else default_directory(os.environ))


def _print_export(facts: Facts) -> None:
    click.echo(f"export KUBECONFIG={facts.kubeconfig}")


def _serve(
    *, nodes: int, port: int, control_plane: str, with_karpenter: bool, keep: bool, notice: Notice
) -> None:
    from karpenter.local.journal import JournalError  # noqa: PLC0415  a cluster takes time to load: only who runs one
    from karpenter.local.real import BinariesMissing, ProcessFailed  # noqa: PLC0415  likewise
    from karpenter.local.serving import Wish, alone, serve  # noqa: PLC0415  likewise
    from karpenter.telemetry.logs import Logs  # noqa: PLC0415  likewise

    def announce(facts: Facts) -> None:
        _print_export(facts)
        beside = ", Karpenter runs beside it" if facts.karpenter else ""
        note(f"The cluster is up{beside}; interrupt to end it.")

    wish = Wish(control_plane=control_plane, port=port, nodes=nodes, keep=keep)
    try:
        with Logs(clock=SystemClock(), outputs=("stderr",)):
            companion = _operator() if with_karpenter else alone
            asyncio.run(serve(wish, notice, announce, companion=companion))
    except (AlreadyRunning, BinariesMissing, JournalError, ProcessFailed) as error:
        raise Refused(str(error)) from error
    except OSError as error:
        raise Refused(
            f"the cluster cannot start: {error}", hint="is the port in use? try without --port"
        ) from error


def _operator() -> Companion:
    from karpenter.cli.run import refused  # noqa: PLC0415  likewise
    from karpenter.operator.companion import companion  # noqa: PLC0415  likewise

    with refused():
        beside = companion(os.environ, SystemClock())

    @asynccontextmanager
    async def run(standing: Standing) -> AsyncIterator[str]:
        with refused():
            async with beside(standing) as answers:
                yield answers

    return run


def _start_in_background(options: list[str], notice: Notice, *, within: float) -> Facts:
    notice.directory.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "karpenter.cli", "local", "up", "--foreground", *options]
    with notice.log.open("wb") as log:
        process = subprocess.Popen(  # noqa: S603  ourselves
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        facts = notice.read()
        if facts is not None:
            _LEFT_RUNNING.append(process)
            return facts
        if process.poll() is not None:
            break
        time.sleep(0.02)
    else:
        process.terminate()
    last = notice.log.read_text(errors="replace").splitlines()[-_LINES_OF_LOG:]
    problems = [line.removeprefix("error: ") for line in last if line.startswith("error: ")] or last
    raise Refused(*(problems or ["the cluster did not start"]), hint=f"see {notice.log}")
