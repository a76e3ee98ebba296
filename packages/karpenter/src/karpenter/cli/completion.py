"""``karpenter completion``: the script that lets a shell complete commands and options."""

import click
from click.shell_completion import get_completion_class

_VARIABLE = "_KARPENTER_COMPLETE"


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
    complete = script_class(ctx.find_root().command, {}, "karpenter", _VARIABLE)
    click.echo(complete.source_template % complete.source_vars())  # source() would look for a shell first
