"""``karpenter demo``: what this version can do, shown rather than told."""

import click

from karpenter.api.manifests import documents_or_refusals
from karpenter.api.validation.documents import Accepted, check_document
from karpenter.cli.commands import COMMANDS
from karpenter.cli.errors import one_line

_SAMPLE = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: demo
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
        - {key: kubernetes.io/hostname, operator: In, values: [node-1]}
  disruption:
    budgets:
      - {nodes: 120%}
"""


@click.command(epilog="Example:\n\n  karpenter demo")
def demo() -> None:
    """
    Show what this version can do, with no cluster and no cloud account.

    It checks a NodePool that has two mistakes, and lists the commands there are. It does not start a
    cluster: this version cannot do that yet, and the last line will say so until it can.
    """
    click.echo("A NodePool with two mistakes:\n")
    click.echo("".join(f"    {line}\n" for line in _SAMPLE.splitlines()))
    click.echo("$ karpenter validate -f demo.yaml")
    for found in documents_or_refusals(_SAMPLE, "demo.yaml"):
        for outcome in check_document(found):
            click.echo("accepted" if isinstance(outcome, Accepted) else one_line(str(outcome)))
    click.echo("\nCommands of this version:\n")
    for name, entry in sorted(COMMANDS.items()):
        click.echo(f"    karpenter {name:<12} {entry.about}")
    if "local" not in COMMANDS:
        click.echo("\nNot yet: starting a cluster and letting the operator run in it.")
