"""``karpenter run``: runs the operator."""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from karpenter.base.clock import SystemClock
from karpenter.base.memory import few_collections
from karpenter.cli.errors import CommandError, missing_sdk, notes
from karpenter.cloud.aws.options import AWS_SETTINGS, check_flags
from karpenter.cloud.catalogs.kwok_format import InvalidCatalog
from karpenter.cloud.errors import CloudError
from karpenter.cloud.registry import BrokenProvider, UnknownProvider, provider_names
from karpenter.kube.errors import KubeError, NotFound
from karpenter.kube.leaderelection import LeadershipLost
from karpenter.operator.http import PortTaken
from karpenter.operator.operator import ClassNotServed
from karpenter.operator.options import SETTINGS, Setting, Settings, parse_settings
from karpenter.operator.run import OperatorTarget
from karpenter.operator.run import run as run_operator
from karpenter.telemetry import tracing
from karpenter.telemetry.logging import BadOutput, Logs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_LOST = 1
_OURS = "/apis/karpenter."
_INSTALL = "karpenter crds | kubectl apply --server-side -f - installs the CustomResourceDefinitions"


def _settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command one option for every setting of the operator."""
    for setting in reversed((*SETTINGS, *AWS_SETTINGS)):
        of_aws = "" if isinstance(setting, Setting) else " For aws only."
        told = f"env: {setting.variable}; default: {setting.default or 'empty'}"
        bare: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if setting.is_switch else {}
        command = click.option(
            f"--{setting.name}",
            setting.field,
            metavar="[true|false]" if setting.is_switch else "VALUE",
            help=f"{setting.help[:1].upper()}{setting.help[1:]}.{of_aws}  [{told}]",
            **bare,
        )(command)
    return command


@click.command(
    epilog="Examples:\n\n"
    "  karpenter run --kubeconfig ~/.kube/config --disable-leader-election true\n\n"
    "  KUBECONFIG=./kubeconfig FEATURE_GATES=NodeRepair=true karpenter run --log-level debug"
)
@click.option(
    "--provider",
    envvar="CLOUD_PROVIDER",
    default="kwok",
    show_default=True,
    metavar="NAME",
    help="The cloud to launch machines in.  [env: CLOUD_PROVIDER]",
)
@click.option(
    "--cluster-name",
    "cluster",
    envvar="CLUSTER_NAME",
    default="",
    metavar="NAME",
    help="The name under which machines are tagged; needed for aws.  [env: CLUSTER_NAME]",
)
@click.option("--kubeconfig", default="", metavar="FILE", help="The cluster.  [default: as kubectl does]")
@click.option("--context", default="", metavar="NAME", help="The context of the kubeconfig.")
@click.option(
    "--log-form",
    type=click.Choice(["auto", "json", "text"]),
    default="auto",
    show_default=True,
    help="What log lines look like; auto is readable on a terminal and JSON elsewhere.",
)
@_settings_options
def run(
    provider: str, cluster: str, kubeconfig: str, context: str, log_form: Any, **given: str | None
) -> None:
    """
    Run the operator until it is told to stop.

    It launches machines for pods that wait, and removes those that are not needed. Of several replicas one
    works at a time. A flag wins over its environment variable.

    Exits 0 when it was stopped by a signal, 1 when it lost its lease, and 2 when it cannot start.
    """
    own = {each.variable: text for each in AWS_SETTINGS if (text := given.pop(each.field)) is not None}
    with refused():
        check_flags(own)
    settings = _settings(given)
    notes(f"ignored: {each}" for each in settings.ignored)
    stated = {each.variable: text for each in SETTINGS if (text := given.get(each.field)) is not None}
    clock = SystemClock()
    which = OperatorTarget(provider=provider, cluster=cluster, kubeconfig=kubeconfig, context=context)
    with (
        refused(),
        Logs(
            clock=clock,
            level=settings.log_level,
            form=log_form,
            outputs=settings.log_output_paths,
            error_outputs=settings.log_error_output_paths,
        ),
        few_collections(),
        tracing.sending(os.environ),
    ):
        asyncio.run(run_operator(settings, which, clock=clock, environ={**os.environ, **stated, **own}))


@contextmanager
def refused() -> Iterator[None]:
    """Let whatever keeps the operator from working end the command with one sentence."""
    try:
        yield
    except UnknownProvider as error:
        raise CommandError(str(error), hint=f"--provider is one of {', '.join(provider_names())}") from error
    except BrokenProvider as error:
        raise missing_sdk(error.__cause__) or CommandError(str(error)) from error
    except NotFound as error:
        ours = error.request.path.startswith(_OURS)
        raise CommandError(str(error), hint=_INSTALL if ours else "") from error
    except (KubeError, CloudError, InvalidCatalog, ClassNotServed, PortTaken, BadOutput, ValueError) as error:
        raise CommandError(str(error)) from error
    except LeadershipLost as error:
        click.echo(f"error: {error}", err=True)
        raise SystemExit(_LOST) from error


def _settings(given: dict[str, str | None]) -> Settings:
    stated = {name.replace("_", "-"): value for name, value in given.items() if value is not None}
    with refused():
        return parse_settings(stated, os.environ)
