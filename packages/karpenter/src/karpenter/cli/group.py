"""
The click group ``karpenter``: the table of commands, and how a command is found and imported.

``karpenter --help`` imports nothing but this table. A new command is a module of its own and a line here;
the module is imported when the command is called. The commands of the distribution ``karpenter-local``
(``local``, ``demo``, ``simulate``) are found through the entry-point group ``karpenter.commands``.
"""

import difflib
import importlib
import json
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from errno import EDQUOT, EFBIG, EIO, ENOSPC, EROFS
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec
from click.shell_completion import CompletionItem, get_completion_class

from karpenter import __version__
from karpenter.api.meta import InvalidObject
from karpenter.cli.errors import UNUSABLE, CommandError, missing_sdk


class CommandEntry(msgspec.Struct, frozen=True):
    """One command."""

    target: str
    """Where the click command is, as ``module:attribute``; empty where ``karpenter-local`` brings it."""

    about: str
    """What it does, in a few words; the command's own help says more."""


COMMANDS: dict[str, CommandEntry] = {
    "catalog": CommandEntry("karpenter.cli.catalog:catalog", "Look at instance types and their prices."),
    "changeover": CommandEntry(
        "karpenter.cli.changeover:changeover", "Say what the switch from Karpenter would bring."
    ),
    "completion": CommandEntry("karpenter.cli.group:completion", "Print the completion script for a shell."),
    "console": CommandEntry("karpenter.cli.console:console", "See the cluster in the browser."),
    "convert": CommandEntry("karpenter.cli.convert:convert", "Convert manifests from before version 1."),
    "crds": CommandEntry("karpenter.cli.crds:crds", "Print the CustomResourceDefinitions."),
    "dashboards": CommandEntry(
        "karpenter.cli.dashboards:dashboards", "Dashboards for Grafana and alerts for Prometheus."
    ),
    "definition": CommandEntry("karpenter.cli.definition:definition", "Keep NodePools in one short file."),
    "demo": CommandEntry("", "Watch machines come and go for pods, on this machine alone."),
    "doctor": CommandEntry("karpenter.cli.doctor:doctor", "Find what is wrong, and say what helps."),
    "example": CommandEntry("karpenter.cli.example:example", "Install workloads to try the operator with."),
    "get": CommandEntry("karpenter.cli.get:get", "Look at what an installation has in its account."),
    "hash": CommandEntry("karpenter.cli.hash:hash_command", "Print the hashes that drift is found by."),
    "install": CommandEntry("karpenter.cli.install:install", "Install the operator on an EKS cluster."),
    "local": CommandEntry("", "Run a small Kubernetes cluster on this machine."),
    "manifests": CommandEntry(
        "karpenter.cli.manifests:manifests", "Print the objects that install the operator."
    ),
    "notify": CommandEntry("karpenter.cli.notify:notify", "Send what the operator does to a webhook."),
    "plan": CommandEntry(
        "karpenter.cli.plan:plan", "Show which machines would be launched for pods, offline."
    ),
    "render": CommandEntry("karpenter.cli.render:render", "Print an installation as Terraform or the like."),
    "replay": CommandEntry("karpenter.cli.replay:replay", "Make recorded decisions again, and compare."),
    "run": CommandEntry("karpenter.cli.run:run", "Run the operator."),
    "shadow": CommandEntry("karpenter.cli.shadow:shadow", "Sum up what a shadow would have done."),
    "simulate": CommandEntry("", "Run the operator through simulated days, with faults."),
    "top": CommandEntry("karpenter.cli.top:top", "Watch nodes: how full, what they cost, what would go."),
    "uninstall": CommandEntry(
        "karpenter.cli.uninstall:uninstall", "Remove what install made, and verify it."
    ),
    "validate": CommandEntry(
        "karpenter.cli.validate:validate", "Check manifests before a cluster sees them."
    ),
    "version": CommandEntry("karpenter.cli.version:version", "Print the version."),
    "why": CommandEntry(
        "karpenter.cli.why:why", "Say why a pod or node is where it is, and what would help."
    ),
}


COMPLETING = "_KARPENTER_COMPLETE"
"""The environment variable in which a shell says that it asks for completions."""
_SAME = (("--provider", "--cloud-provider"), ("--cluster", "--cluster-name"), ("--old", "--from"))
SAME_OPTIONS = {name: other for pair in _SAME for name, other in (pair, pair[::-1])}
"""Names of options that mean the same: a command that has one of them also takes the other."""

GROUP = "karpenter.commands"
"""The entry-point group in which ``karpenter-local`` names its commands."""

# 128 + SIGPIPE.
_PIPE_CLOSED = 141  # what a shell reports for a program whose reader went away


_CANNOT_WRITE = frozenset({ENOSPC, EDQUOT, EROFS, EFBIG, EIO})

# 128 + SIGINT.
_INTERRUPTED = 130


_UNBROKEN = "\u2011"
"""A hyphen at which no line is broken; it takes the place of others while help is laid out."""


class HelpText(click.HelpFormatter):
    """
    Help whose words are never broken, and whose examples can be pasted.

    Click breaks lines after hyphens, which makes two words of ``--dry-run``. Examples that do not fit are
    continued with a backslash, as in a shell.
    """

    def write_text(self, text: str) -> None:
        """Write paragraphs; those after "Examples:" are commands."""
        told, heading, examples = [
            *re.split(r"^(Examples?:)$", text, maxsplit=1, flags=re.MULTILINE),
            "",
            "",
        ][:3]
        if told.strip():
            super().write_text(_whole(told.rstrip()))
        if heading:
            self.write(f"{'':>{self.current_indent}}{heading}\n")
        for example in filter(None, map(str.strip, examples.split("\n\n"))):
            self._write_example(example)

    def _write_example(self, example: str) -> None:
        pad, room = " " * (self.current_indent + 2), self.width - self.current_indent - 2
        lines = [example]
        if len(example) > room:
            lines = textwrap.wrap(example, room - 4, break_long_words=False, break_on_hyphens=False)
        self.write(f"\n{pad}" + f" \\\n{pad}  ".join(lines) + "\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write a list of options or commands."""
        super().write_dl([(term, _whole(about)) for term, about in rows], col_max, col_spacing)

    def getvalue(self) -> str:
        return super().getvalue().replace(_UNBROKEN, "-")


def _whole(text: str) -> str:
    return text.replace("-", _UNBROKEN)


# The contexts of all commands, whichever distribution brings them.
click.Context.formatter_class = HelpText


class LazyGroup(click.Group):
    """A group whose commands are loaded when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        if entry.target:
            module, _, attribute = entry.target.partition(":")
            command = getattr(importlib.import_module(module), attribute)
        else:
            command = _from_local(cmd_name)
        assert isinstance(command, click.Command)
        if COMPLETING in os.environ:
            from karpenter.cli.completing import complete_values  # noqa: PLC0415  only a shell asks for them

            complete_values(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was called, or the one that was probably meant."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = difflib.get_close_matches(args[0], COMMANDS, n=1)
            meant = f"did you mean {close[0]}?" if close else "karpenter --help lists the commands"
            raise CommandError(f"there is no command {args[0]!r}", hint=meant)
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, _in_one_spelling(command, rest, ctx) if command is not None else rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands in help, without loading any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].about) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=COMMANDS[name].about) for name in names]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def main(self, args: Sequence[str] | None = None, *arguments: Any, **options: Any) -> Any:
        """Run a command; a reader that goes away ends it quietly."""
        write_what_can_be_encoded(sys.stdout, sys.stderr)
        try:
            return super().main(args, *arguments, **options)
        except OSError as error:
            if error.errno not in _CANNOT_WRITE:
                raise
            _write_no_more()
            click.echo(f"error: what the command prints cannot be written: {error.strerror}", err=True)
            sys.exit(UNUSABLE)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the arguments, and print the help of the group where that is asked for."""
        with _exit_when_the_pipe_closes():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; an object that cannot be read is one line, not a traceback."""
        try:
            with _exit_when_the_pipe_closes():
                found = super().invoke(ctx)
                sys.stdout.flush()  # what is left would be lost without an error when Python exits
                return found
        except InvalidObject as error:
            raise CommandError(str(error)) from error
        except BrokenPipeError:
            raise
        except OSError as error:
            if not error.filename:
                raise  # what is printed, or a connection: told below
            raise CommandError(f"{os.fspath(error.filename)!s}: {error.strerror}") from error
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED)
        except ModuleNotFoundError as error:
            missing = missing_sdk(error)
            if missing is None:
                raise
            raise missing from error


def _in_one_spelling(command: click.Command, args: list[str], ctx: click.Context) -> list[str]:
    """Return the arguments of a command with the names of its options, where other commands have another."""
    words = iter(args)
    while isinstance(command, click.Group):
        named = next((each for each in words if not each.startswith("-")), None)
        found = command.get_command(ctx, named) if named is not None else None
        if found is None and not command.invoke_without_command:
            return args
        if found is None:
            break
        command = found
    known = {name for each in command.params for name in each.opts}
    told: list[str] = []
    for number, each in enumerate(args):
        if each == "--":
            return told + args[number:]
        name, equals, value = each.partition("=")
        other = SAME_OPTIONS.get(name, "")
        told.append(f"{other}{equals}{value}" if name not in known and other in known else each)
    return told


@contextmanager
def _exit_when_the_pipe_closes() -> Iterator[None]:
    """Exit as a program does that a shell has told of the end of its reader; click would exit with 1."""
    try:
        yield
    except BrokenPipeError:
        _write_no_more()
        sys.exit(_PIPE_CLOSED)


def _write_no_more() -> None:
    """Drop what is left for standard output; the interpreter would complain when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_what_can_be_encoded(*streams: Any) -> None:
    """Let streams write ``?`` for what their encoding does not have, where they would raise."""
    for stream in streams:
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _from_local(name: str) -> Any:
    """
    Load a command that the distribution ``karpenter-local`` brings.

    Raises:
        CommandError: the distribution is not installed; the hint is the command that installs it.
    """
    for point in metadata.entry_points(group=GROUP, name=name):
        return point.load()
    raise CommandError(
        f"karpenter {name} is part of the distribution karpenter-local, which is not installed here",
        hint=how_to_install_local(),
    )


def how_to_install_local() -> str:
    """Return the command that installs ``karpenter-local`` beside this installation."""
    text = metadata.distribution("karpenter").read_text("direct_url.json") or "{}"
    url = urlsplit(str(json.loads(text).get("url", "")))
    # https://packaging.python.org/specifications/direct-url/: where a local install came from.
    beside = Path(url.path).parent / "karpenter-local"
    if url.scheme == "file" and (beside / "pyproject.toml").exists():
        return f"pip install {beside}"
    wheel = f"karpenter_local-{__version__}-py3-none-any.whl"
    return f"pip install {wheel}, the wheel of the same release, or packages/karpenter-local of a checkout"


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Try `karpenter COMMAND --help`; every command shows an example.",
)
@click.version_option(__version__, prog_name="karpenter", message="%(prog)s %(version)s")
def main() -> None:
    """Node autoscaling for Kubernetes: run the operator, and plan, check and explain its decisions."""


@click.command(
    epilog="Example:\n\n"
    "  karpenter completion bash > ~/.local/share/bash-completion/completions/karpenter\n\n"
    "  karpenter completion zsh > ~/.zfunc/_karpenter\n\n"
    "  karpenter completion fish > ~/.config/fish/completions/karpenter.fish"
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """
    Print the completion script for SHELL.

    Put it where the shell looks for completions (see the example) and start a new shell. bash must be
    4.4 or newer; for zsh the folder must be in fpath before compinit runs.
    """
    script_class = get_completion_class(shell)
    assert script_class is not None
    complete = script_class(ctx.find_root().command, {}, "karpenter", COMPLETING)
    click.echo(complete.source_template % complete.source_vars())  # source() would look for a shell first
