"""What commands that look at an account and a cluster have in common: options, clients, errors."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from karpenter.api.manifests import read_documents
from karpenter.api.meta import InvalidObject
from karpenter.base.clock import SystemClock
from karpenter.base.files import read_bounded
from karpenter.cli.cluster import cluster_refusal
from karpenter.cli.errors import CommandError, note
from karpenter.cli.option_values import aws_region
from karpenter.cloud.errors import CloudError
from karpenter.kube.errors import KubeError, NotConfigured

if TYPE_CHECKING:
    from karpenter.install.account import AccountApi
    from karpenter.install.kubernetes import ClusterApi

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
_NAME: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}")
_LABEL: Final = re.compile(r"[0-9a-z](?:[0-9a-z-]{0,61}[0-9a-z])?")


def aws_options(command: F) -> F:
    """Give a command the options that say which account it is about."""
    for option in (
        click.option("--profile", default="", metavar="NAME", help="The profile of the AWS CLI to use."),
        click.option(
            "--region",
            default="",
            metavar="NAME",
            callback=aws_region,
            help="The AWS region.  [default: AWS_REGION]",
        ),
    ):
        command = option(command)
    return command


def application_argument(command: F) -> F:
    """Let a command be typed as other installers have it, with the name of what is installed."""
    argument = click.argument(
        "application", required=False, metavar="[karpenter]", callback=_known_application, expose_value=False
    )
    return argument(command)


def _known_application(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    del param
    if value not in {None, "karpenter"}:
        hint = "karpenter example inflate" if value in {"example-inflate", "ex-inflate", "inflate"} else ""
        raise CommandError(f"{ctx.info_name} knows no application {value!r}, only karpenter", hint=hint)


@contextmanager
def in_our_words() -> Iterator[None]:
    """Turn what AWS, Kubernetes and plans refuse into one line, with a hint where there is one."""
    from karpenter.chart.tree import MissingValue  # noqa: PLC0415  commands load what they need
    from karpenter.chart.values import BadValue  # noqa: PLC0415  likewise
    from karpenter.cloud.aws.errors import AccessDenied, NoResponse  # noqa: PLC0415  likewise
    from karpenter.install.options import InstallationError  # noqa: PLC0415  likewise
    from karpenter.install.permissions import explain_access  # noqa: PLC0415  likewise

    try:
        yield
    except InstallationError as error:
        raise CommandError(str(error), hint=error.hint) from error
    except MissingValue as error:
        raise CommandError(str(error), hint="state it with --set NAME=VALUE") from error
    except BadValue as error:
        raise CommandError(str(error), hint="charts/karpenter/values.yaml lists every value") from error
    except AccessDenied as error:
        problem, hint = explain_access(error)
        raise CommandError(problem, hint=hint) from error
    except NoResponse as error:
        raise CommandError(str(error), hint="check the region, the network and HTTPS_PROXY") from error
    except KubeError as error:
        raise cluster_refusal(error) from error
    except CloudError as error:
        raise CommandError(str(error)) from error


def eks_name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Refuse what cannot be the name of a cluster, before AWS is asked."""
    del ctx
    # https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html (name)
    if not _NAME.fullmatch(value) and (value or param.required):
        raise CommandError(
            f"{param.opts[-1]}: {value!r} cannot be the name of an EKS cluster",
            hint="up to 100 letters, digits, - and _; aws eks list-clusters names them",
        )
    return value


def kubernetes_name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Refuse what cannot be the name of a namespace or of a service account, before anything is made."""
    del ctx
    # https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-label-names
    if value and not _LABEL.fullmatch(value):
        raise CommandError(
            f"{param.opts[-1]}: {value!r} cannot be a name in Kubernetes",
            hint="up to 63 lower-case letters, digits and -, with a letter or a digit at both ends",
        )
    return value


def connect_aws(region: str, profile: str) -> tuple[AccountApi, str]:
    """
    Return calls to AWS, and the region that they go to.

    Raises:
        CommandError: the SDK of AWS is not installed.
    """
    try:
        from karpenter.install.account import open_api  # noqa: PLC0415  the SDK is an extra
    except ModuleNotFoundError as error:
        raise CommandError("the AWS SDK is not installed", hint="pip install boto3") from error
    return open_api(region=region, profile=profile)


@asynccontextmanager
async def cluster_api(
    *, kubeconfig: str, context: str, endpoint: str = "", helm: bool = False
) -> AsyncIterator[ClusterApi]:
    """
    Connect to a cluster: the one of the context, or the one of the kubeconfig with that endpoint.

    Raises:
        NotConfigured: there is none.
    """
    from karpenter.install.kubernetes import MANAGER, ClusterApi, HelmProgram  # noqa: PLC0415  loads much
    from karpenter.kube.client import Client  # noqa: PLC0415  likewise
    from karpenter.kube.http import HttpTransport  # noqa: PLC0415  likewise
    from karpenter.kube.kubeconfig import find_cluster  # noqa: PLC0415  likewise

    chosen = context or (context_of(kubeconfig, endpoint) if endpoint else "")
    if endpoint and not chosen:
        raise NotConfigured(f"no cluster of the kubeconfig is at {endpoint}")
    found = await find_cluster(environ=os.environ, clock=SystemClock(), kubeconfig=kubeconfig, context=chosen)
    if not chosen and found.context:
        note(f"the cluster is that of the current context, {found.context}")
    client = Client(
        HttpTransport(found.endpoint, found.credentials),
        chance=Random(),  # noqa: S311  retries
        manager=MANAGER,
    )
    program = shutil.which("helm") if helm else None
    options = (["--kube-context", chosen] if chosen else []) + (
        ["--kubeconfig", kubeconfig] if kubeconfig else []
    )
    try:
        yield ClusterApi(
            client, clock=SystemClock(), helm=HelmProgram(program, options=options) if program else None
        )
    finally:
        await client.close()


def context_of(kubeconfig: str, endpoint: str) -> str:
    """Return the context of the kubeconfig whose cluster is at an endpoint; empty if there is none."""
    named = kubeconfig or os.environ.get("KUBECONFIG", "") or str(Path.home() / ".kube" / "config")
    for path in named.split(os.pathsep):
        try:
            told = next(
                read_documents(read_bounded(Path(path)).decode("utf-8"), source=path, repeated=[]), None
            )
        except (OSError, UnicodeError, InvalidObject):
            continue
        if not isinstance(told, dict):
            continue
        clusters, contexts = _entries(told, "cluster"), _entries(told, "context")
        servers = {name: str(each.get("server", "")).rstrip("/") for name, each in clusters}
        matching = [
            name for name, each in contexts if servers.get(str(each.get("cluster"))) == endpoint.rstrip("/")
        ]
        current = told.get("current-context")
        if matching:
            return str(current) if current in matching else matching[0]
    return ""


def _entries(kubeconfig: Mapping[str, Any], kind: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the clusters or contexts of a kubeconfig with their names; what is none is left out."""
    listed = kubeconfig.get(f"{kind}s")
    return [
        (str(each.get("name")), body)
        for each in (listed if isinstance(listed, list) else ())
        if isinstance(each, dict) and isinstance(body := each.get(kind), dict)
    ]
