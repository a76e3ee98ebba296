"""``karpenter version``: prints the version."""

import platform

import click

from karpenter import __version__
from karpenter.cli.output import Output, output_option


@click.command(epilog="Example:\n\n  karpenter version --output json")
@output_option
def version(output: Output) -> None:
    """Print the version, and that of the Python it runs on."""
    data = {
        "version": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
    output.write(data, text=lambda facts: f"karpenter {facts['version']} (Python {facts['python']})")
