"""
The programs ``karpenter``, ``kubectl-karpenter`` and ``kubectl_complete-karpenter``.

Importing what a command needs takes part of a second, so it is imported here, where an interruption in
that time ends the program as quietly as one later. kubectl runs the second for ``kubectl karpenter``, and the
third to complete its words: https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/
"""

import os
import sys
from contextlib import suppress

_INTERRUPTED = 130
"""128 + SIGINT."""

# https://pkg.go.dev/github.com/spf13/cobra#ShellCompDirective
_NO_SPACE, _NO_FILES, _FOLDERS = 2, 4, 16


def main() -> None:
    _run("karpenter")


def kubectl() -> None:
    _run("kubectl karpenter")


def kubectl_complete() -> None:
    """Print what may follow the words that kubectl hands over, of which the last one is begun."""
    os.environ["_KARPENTER_COMPLETE"] = "kubectl"
    try:
        from click.shell_completion import ShellComplete  # noqa: PLC0415  as in main

        from karpenter.cli import main as command  # noqa: PLC0415  likewise

        *before, begun = sys.argv[1:] or [""]
        found = ShellComplete(command, {}, "karpenter", "").get_completions(before, begun)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    words = [each for each in found if each.type == "plain"]
    lines = [f"{each.value}\t{each.help}" if each.help else each.value for each in words]
    kinds = {each.type for each in found}
    directive = 0 if "file" in kinds else _FOLDERS if "dir" in kinds else _NO_FILES
    directive |= _NO_SPACE if any(each.value.endswith(("=", "/")) for each in words) else 0
    with suppress(BrokenPipeError):
        sys.stdout.write("\n".join([*lines, f":{directive}\n"]))
        sys.stdout.flush()


def _run(name: str) -> None:
    try:
        from karpenter.cli import main as command  # noqa: PLC0415  an interruption while importing is handled

        command(prog_name=name)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
