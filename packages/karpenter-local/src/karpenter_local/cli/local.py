"""
``karpenter local``: a Kubernetes cluster on this machine, for trying things out.

``up`` starts it in the background and prints how to reach it; ``down`` ends it; ``status`` says how it is.
What it consists of is in :mod:`karpenter_local`; how the processes find each other, in
:mod:`karpenter_local.apiserver.notice`.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from errno import EADDRINUSE
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from karpenter.base.clock import SystemClock
from karpenter.base.files import make_private_folder, private
from karpenter.base.memory import few_collections
from karpenter.cli.aws_options import cluster_api, eks_name
from karpenter.cli.cluster import run_quietly
from karpenter.cli.errors import CommandError, note
from karpenter.cli.output import Output, output_option, table
from karpenter.kube.errors import KubeError
from karpenter_local.apiserver.notice import (
    KUBERNETES,
    AlreadyRunning,
    ClusterDirectory,
    ClusterFacts,
    default_directory,
)
from karpenter_local.cli.local_aws import aws

if TYPE_CHECKING:
    from karpenter_local.aws.account import ManagedNodeGroup
    from karpenter_local.sandbox.options import AwsOptions
    from karpenter_local.serving import LocalOptions

START_WITHIN = {"embedded": 30.0, "real": 180.0}
"""Seconds that a cluster in the background has to be there."""

AWS_START_SECONDS = 90.0
"""Seconds that it has in addition where an AWS comes with it, all of whose offerings are looked at."""

EXAMPLE_CLUSTER = "blue"
"""The cluster that the manifests in examples/aws, and the pages that apply them, are for."""

_LEASE_SECONDS = 15.0
_ANSWER_SECONDS = 10.0
_LINES_OF_LOG = 5
_MAX_NODES_PER_GROUP = 100
_OLDEST_MINOR = 25
_BACKGROUND = "KARPENTER_LOCAL_BACKGROUND"
"""Set for the process that runs a cluster in the background: what it writes goes to the log."""

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


local.add_command(aws)


@local.command(
    epilog="Examples:\n\n"
    "  karpenter local up --nodes 3\n\n"
    "  eval $(karpenter local up --with-karpenter) && kubectl get nodepools,nodeclaims,nodes\n\n"
    "  karpenter local up --provider aws --bare --node-group main,type=m5.large,count=2"
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
    "--with-karpenter", is_flag=True, help="Also run the operator; settings are read from the environment."
)
@click.option(
    "--node-class/--no-node-class",
    default=True,
    help="Whether a KWOKNodeClass `default` comes with the operator.  [default: yes]",
)
@click.option(
    "--provider",
    type=click.Choice(["kwok", "aws"]),
    default="kwok",
    show_default=True,
    help="Where machines come from: the cloud in memory, or an embedded AWS.",
)
@click.option(
    "--cluster-name",
    default="",
    metavar="NAME",
    callback=eks_name,
    help="What the cluster is called.  [default: local; blue with aws, as in the examples]",
)
@click.option("--region", default="us-west-2", show_default=True, metavar="NAME", help="Where in AWS it is.")
@click.option(
    "--instance-types",
    default="",
    metavar="NAMES",
    help="What AWS sells, with commas; it starts faster with less.  [default: everything]",
)
@click.option(
    "--bare",
    is_flag=True,
    help="An AWS account before anything was installed: no roles, no queue, no rules.",
)
@click.option(
    "--tagged/--untagged",
    default=None,
    help="Whether subnets and security groups carry the discovery tag.  [default: yes, unless --bare]",
)
@click.option(
    "--node-group",
    "node_groups",
    multiple=True,
    metavar="NAME,type=TYPE,count=N",
    help="A managed node group of the cluster in AWS; may be given several times.",
)
@click.option(
    "--kubernetes",
    default=KUBERNETES,
    show_default=True,
    metavar="VERSION",
    help="The version of Kubernetes, such as 1.31; of the embedded control plane only.",
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
    node_class: bool,
    provider: str,
    cluster_name: str,
    region: str,
    instance_types: str,
    bare: bool,
    tagged: bool | None,
    node_groups: tuple[str, ...],
    kubernetes: str,
    foreground: bool,
    data_dir: Path | None,
) -> None:
    """Start the cluster and print how to reach it.

    It listens on this machine only. In the background it runs until `karpenter local down`.

    With the operator, our CustomResourceDefinitions are installed and there is a KWOKNodeClass `default`:
    apply a NodePool that refers to it, and machines come and go for pods.

    With the provider aws there is an AWS beside the cluster, on this machine only, and what is printed lets
    other programs use it. `karpenter local aws --help` shows what can be done to it. Its subnets, security
    groups and roles carry the name of the cluster, which is that of the manifests in examples/aws;
    for another name, `karpenter example nodepool -c NAME` has them.
    """
    if port and control_plane == "real":
        raise CommandError(
            "--port is for the embedded control plane; the real one listens where there is room"
        )
    _check_kubernetes(kubernetes, control_plane)
    aws_options: AwsOptions | None = None
    if provider == "aws":
        tagged_too = not bare if tagged is None else tagged
        aws_options = _aws_options(region, instance_types, node_groups, bare=bare, tagged=tagged_too)
    elif bare or node_groups or tagged is not None:
        raise CommandError(
            "--bare, --tagged and --node-group are about an AWS account", hint="add --provider aws"
        )
    notice = _notice(data_dir)
    if (facts := notice.read()) is not None:
        note(f"the cluster is up already, since {facts.started}")
        _check_same(facts, cluster_name, with_karpenter=with_karpenter, with_aws=aws_options is not None)
        _print_export(facts)
        return
    cluster_name = cluster_name or ("local" if aws_options is None else EXAMPLE_CLUSTER)
    if foreground:
        from karpenter_local.serving import LocalOptions  # noqa: PLC0415  likewise

        asked = LocalOptions(
            name=cluster_name,
            control_plane=control_plane,
            port=port,
            nodes=nodes,
            kubernetes=kubernetes,
            background=_BACKGROUND in os.environ,
            keep=data_dir is not None,
            with_karpenter=with_karpenter,
            node_class=node_class,
            aws=aws_options,
        )
        _serve(asked, notice)
    else:
        options = ["--nodes", str(nodes), "--port", str(port), "--control-plane", control_plane]
        options += [*(["--with-karpenter"] if with_karpenter else [])]
        options.append("--node-class" if node_class else "--no-node-class")
        options += ["--provider", provider, "--cluster-name", cluster_name, "--region", region]
        options += ["--instance-types", instance_types, "--kubernetes", kubernetes]
        options += [*(["--bare"] if bare else []), *(f"--node-group={each}" for each in node_groups)]
        if tagged is not None:
            options.append("--tagged" if tagged else "--untagged")
        if data_dir is not None:
            options += ["--data-dir", str(data_dir)]
        within = START_WITHIN[control_plane] + (AWS_START_SECONDS if aws_options is not None else 0.0)
        _print_export(_start_in_background(options, notice, within=within))


def _check_same(facts: ClusterFacts, name: str, *, with_karpenter: bool, with_aws: bool) -> None:
    """Refuse to pass off a cluster that is up as one that was asked for and differs."""
    problem = ""
    if name and name != facts.name:
        problem = f"it is called {facts.name}, not {name}"
    elif with_aws and not facts.environment:
        problem = "it runs without an AWS"
    elif with_karpenter and not facts.karpenter:
        problem = "it runs without the operator"
    if problem:
        raise CommandError(problem, hint="karpenter local down, then the same command again")


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
    leader = "" if facts.karpenter else run_quietly(_leader(facts))
    output.write({**msgspec.to_builtins(facts), "leader": leader}, text=lambda _: _describe(facts, leader))


async def _leader(facts: ClusterFacts) -> str:
    """Return which replica of an installed operator leads; empty if none does."""
    from karpenter.chart.tree import LEASE  # noqa: PLC0415  loads much

    since = SystemClock().now() - timedelta(seconds=_LEASE_SECONDS)
    try:
        async with (
            asyncio.timeout(_ANSWER_SECONDS),
            cluster_api(kubeconfig=facts.kubeconfig, context="") as api,
        ):
            for lease in await api.every("coordination.k8s.io/v1", "Lease"):
                if lease["metadata"]["name"] == LEASE:
                    namespace = lease["metadata"]["namespace"]
                    holder = await api.leader(namespace, since)
                    if holder:
                        return f"{holder} in {namespace}"
    except (KubeError, TimeoutError):
        return ""
    return ""


def _describe(facts: ClusterFacts, leader: str) -> str:
    operator = f"runs, metrics at {facts.karpenter}" if facts.karpenter else "does not run"
    if leader:
        operator = f"runs, {leader} leads"
    rows = [
        ("Cluster", f"{facts.name}, up since {facts.started} ({facts.control_plane}, process {facts.pid})"),
        ("API", facts.url),
        ("Kubeconfig", facts.kubeconfig),
        ("Karpenter", operator),
        *([("AWS", facts.environment["AWS_ENDPOINT_URL"])] if facts.environment else []),
        ("Log", facts.log or "in its terminal"),
        ("State", facts.data_dir or "in memory, gone when the cluster is down"),
    ]
    return table(rows)


def _notice(data_dir: Path | None) -> ClusterDirectory:
    return ClusterDirectory(data_dir if data_dir is not None else default_directory(os.environ))


def _print_export(facts: ClusterFacts) -> None:
    click.echo(f"export KUBECONFIG={facts.kubeconfig}")
    for name, value in facts.environment.items():
        click.echo(f"export {name}={shlex.quote(value)}")


def _serve(options: LocalOptions, notice: ClusterDirectory) -> None:
    from karpenter.cli.run import refused  # noqa: PLC0415  a cluster takes time to load: only who runs one
    from karpenter.telemetry.logging import Logs  # noqa: PLC0415  likewise
    from karpenter_local.apiserver.journal import JournalError  # noqa: PLC0415  likewise
    from karpenter_local.controlplane import BinariesMissing, ProcessFailed  # noqa: PLC0415  likewise
    from karpenter_local.serving import serve  # noqa: PLC0415  likewise

    def announce(facts: ClusterFacts) -> None:
        _print_export(facts)
        beside = ", Karpenter runs beside it" if facts.karpenter else ""
        note(f"The cluster is up{beside}; interrupt to end it.")

    use = _use_environment if options.aws is not None else lambda _: None
    # In the background, what is written to standard error is in the log already.
    outputs = ("stderr",) if options.background or not options.with_karpenter else ("stderr", str(notice.log))
    try:
        make_private_folder(notice.directory)
        with Logs(clock=SystemClock(), outputs=outputs), refused(), few_collections():
            asyncio.run(serve(options, notice, announce, use_environment=use))
    except (AlreadyRunning, BinariesMissing, JournalError, ProcessFailed) as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        if error.errno != EADDRINUSE:
            raise CommandError(f"{error.filename or notice.directory}: {error.strerror or error}") from error
        raise CommandError(
            f"the cluster cannot start: {error.strerror}", hint="is the port in use? try without --port"
        ) from error


def _aws_options(
    region: str, types: str, node_groups: Iterable[str], *, bare: bool, tagged: bool
) -> AwsOptions:
    from karpenter_local.aws.requirements import NotInstalled, check_needs  # noqa: PLC0415  likewise

    try:
        check_needs()
    except NotInstalled as error:
        raise CommandError(str(error), hint=error.hint) from error
    from karpenter.cloud.catalogs.ec2.data import load_data  # noqa: PLC0415  likewise
    from karpenter_local.aws.room import InstanceTimings  # noqa: PLC0415  likewise
    from karpenter_local.sandbox.options import AwsOptions  # noqa: PLC0415  likewise

    data = load_data()
    wanted = tuple(name.strip() for name in types.split(",") if name.strip())
    _known("region", (region,), data.regions)
    _known("instance type", wanted, {each.name for each in data.types})
    # Instances are faster than real ones: a user waits for them.
    pace = InstanceTimings(pending=1.0, boot=4.0, shutdown=2.0)
    sold = wanted or tuple(each.name for each in data.types)
    return AwsOptions(
        region=region,
        types=wanted,
        pace=pace,
        node_class=False,
        bare=bare,
        tagged=tagged,
        node_groups=tuple(_node_group(each, sold) for each in node_groups),
    )


def _node_group(text: str, sold: Collection[str]) -> ManagedNodeGroup:
    """
    Return the node group that ``NAME,type=TYPE,count=N`` stands for.

    Raises:
        CommandError: it is not written so, or names a type that is not sold.
    """
    from karpenter_local.aws.account import ManagedNodeGroup  # noqa: PLC0415  likewise

    name, *said = text.split(",")
    told = dict(each.partition("=")[::2] for each in said)
    unknown = told.keys() - {"type", "count"}
    if not name or "=" in name or unknown:
        raise CommandError(f"--node-group {text!r} is not of the form NAME,type=TYPE,count=N")
    count = told.get("count", str(ManagedNodeGroup(name=name).count))
    if not count.isdecimal() or int(count) > _MAX_NODES_PER_GROUP:
        raise CommandError(
            f"--node-group {name}: count is a number from 0 to {_MAX_NODES_PER_GROUP}, and {count!r} is not"
        )
    kind = told.get("type") or ManagedNodeGroup(name=name).type
    _known("instance type", (kind,), sold)
    return ManagedNodeGroup(name=name, type=kind, count=int(count))


def _check_kubernetes(version: str, control_plane: str) -> None:
    """Refuse a version of Kubernetes that cannot be had."""
    if control_plane == "real" and version != KUBERNETES:
        raise CommandError(
            "--kubernetes is for the embedded control plane; the real one has the version it is"
        )
    major, _, minor = version.partition(".")
    newest = int(KUBERNETES.partition(".")[2])
    if major != "1" or not minor.isdecimal() or not _OLDEST_MINOR <= int(minor) <= newest:
        raise CommandError(
            f"--kubernetes {version!r}: the embedded control plane can be 1.{_OLDEST_MINOR} to {KUBERNETES}"
        )


def _known(what: str, named: Iterable[str], known: Collection[str]) -> None:
    """Refuse a name that does not exist, and offer one that is close."""
    for name in named:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            some = f"such as {', '.join(sorted(known)[-3:])}"
            raise CommandError(
                f"there is no {what} {name!r}", hint=f"did you mean {close[0]}?" if close else some
            )


def _use_environment(environment: Mapping[str, str]) -> None:
    """Let the SDK in this process find the embedded AWS, and nothing of an account that the user may have."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(environment)


def _check_room(directory: Path) -> None:
    """Refuse a folder in which the cluster could not even write its log."""
    try:
        make_private_folder(directory)
        with TemporaryFile(dir=directory) as file:
            file.write(bytes(_FREE_BYTES))
            file.flush()
    except OSError as error:
        raise CommandError(
            f"{directory} cannot be written: {error.strerror}",
            hint="--data-dir or XDG_STATE_HOME names another folder",
        ) from error


_FREE_BYTES = 1024**2
"""Bytes that a folder has to have room for; a small cluster needs several times as much."""


def _start_in_background(options: list[str], notice: ClusterDirectory, *, within: float) -> ClusterFacts:
    _check_room(notice.directory)
    command = [sys.executable, "-m", "karpenter.cli", "local", "up", "--foreground", *options]
    with open(notice.log, "wb", opener=private) as log:
        process = subprocess.Popen(  # noqa: S603  ourselves
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, _BACKGROUND: "1"},
        )
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        facts = notice.read()
        if facts is not None:
            process.returncode = 0  # it is meant to outlive us: this process does not wait for it
            return facts
        if process.poll() is not None:
            break
        time.sleep(0.02)
    else:
        process.terminate()
    last = notice.log.read_text(errors="replace").splitlines()[-_LINES_OF_LOG:]
    problems = [line.removeprefix("error: ") for line in last if line.startswith("error: ")] or last
    raise CommandError(*(problems or ["the cluster did not start"]), hint=f"see {notice.log}")
