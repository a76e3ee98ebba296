"""Options that several commands share: which cluster, what is on sale, with which settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

catalog_option: Final = click.option(
    "--catalog",
    default="",
    metavar="FILE|NAME",
    help="The instance types on sale: kwok, aws, aws:REGION or a file."
    "  [default: the built-in catalogue that suits the cluster]",
)
settings_option: Final = click.option(
    "--set",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the operator, such as feature-gates=NodeRepair=true. May be repeated.",
)
now_option: Final = click.option(
    "--now", metavar="RFC3339", help="The moment of the decision.  [default: this moment]"
)


def cluster_options(command: F) -> F:
    """Give a command the options that say which cluster it is about."""
    for option in (
        click.option(
            "--context",
            default="",
            metavar="NAME",
            help="The cluster of this context of the kubeconfig.  [default: the current one]",
        ),
        click.option("--kubeconfig", default="", metavar="FILE", help="The kubeconfig to use."),
    ):
        command = option(command)
    return command
