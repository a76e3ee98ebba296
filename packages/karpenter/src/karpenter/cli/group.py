"""
The command ``karpenter`` itself: finds commands in the table and loads the one that is called.

Every command: its name, where it is, and one line of help.

This table is all that ``karpenter --help`` loads. To add a command, write it in a module of its own
and add a line here; the module is loaded when the command is called.
"""

import difflib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click
import msgspec
from click.shell_completion import CompletionItem

from karpenter import __version__
from karpenter.api.wire import InvalidObject
from karpenter.cli.errors import Refused


class Entry(msgspec.Struct, frozen=True):
    """One command."""

    target: str
    """Where the click command is, as ``module:attribute``."""

    about: str
    """What it does, in a few words; the command's own help says more."""


COMMANDS: dict[str, Entry] = {
    "catalog": Entry("karpenter.cli.catalog:catalog", "Look at instance types and their prices."),
    "completion": Entry("karpenter.cli.completion:completion", "Print the completion script for a shell."),
    "crds": Entry("karpenter.cli.crds:crds", "Print the CustomResourceDefinitions."),
    "demo": Entry(
        "karpenter_local.cli.demo:demo", "Watch machines come and go for pods, on this machine alone."
    ),
    "hash": Entry("karpenter.cli.hash:hash_command", "Print the hashes that drift is found by."),
    "local": Entry("karpenter_local.cli.local:local", "Run a small Kubernetes cluster on this machine."),
    "manifests": Entry("karpenter.cli.manifests:manifests", "Print the objects that install the operator."),
    "plan": Entry("karpenter.cli.plan:plan", "Show which machines would be launched for pods, offline."),
    "replay": Entry("karpenter.cli.replay:replay", "Make recorded decisions again, and compare."),
    "run": Entry("karpenter.cli.run:run", "Run the operator."),
    "simulate": Entry("karpenter_local.cli.simulate:simulate", "Live through made-up days, with faults."),
    "validate": Entry("karpenter.cli.validate:validate", "Check manifests before a cluster sees them."),
    "version": Entry("karpenter.cli.version:version", "Print the version."),
}


_PIPE_CLOSED = 141  # what a shell reports for a program whose reader went away


class LazyGroup(click.Group):
    """A group whose commands are loaded when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        del ctx
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one command."""
        del ctx
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was called, or the one that was probably meant."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = difflib.get_close_matches(args[0], COMMANDS, n=1)
            meant = f"did you mean {close[0]}?" if close else "karpenter --help lists the commands"
            raise Refused(f"there is no command {args[0]!r}", hint=meant)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands in help, without loading any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].about) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer the commands, without loading any."""
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=COMMANDS[name].about) for name in names]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def main(self, args: Sequence[str] | None = None, *arguments: Any, **options: Any) -> Any:
        """Run a command; a reader that goes away ends it quietly."""
        try:
            return super().main(args, *arguments, **options)
        except BrokenPipeError:
            # The interpreter would complain once more when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(_PIPE_CLOSED)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; an object that cannot be read is one line, not a traceback."""
        try:
            return super().invoke(ctx)
        except InvalidObject as error:
            raise Refused(str(error)) from error


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Try `karpenter COMMAND --help`; every command shows an example.",
)
@click.version_option(__version__, prog_name="karpenter", message="%(prog)s %(version)s")
def main() -> None:
    """The right machines for the pods that wait: try, check and explain node autoscaling."""
