"""
Every command: its name, where it is, and one line of help.

This table is all that ``karpenter --help`` loads. To add a command, write it in a module of its own
and add a line here; the module is loaded when the command is called.
"""

import msgspec


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
    "demo": Entry("karpenter.cli.demo:demo", "Watch machines come and go for pods, on this machine alone."),
    "local": Entry("karpenter.cli.local:local", "Run a small Kubernetes cluster on this machine."),
    "manifests": Entry("karpenter.cli.manifests:manifests", "Print the objects that install the operator."),
    "plan": Entry("karpenter.cli.plan:plan", "Show which machines would be launched for pods, offline."),
    "replay": Entry("karpenter.cli.replay:replay", "Make recorded decisions again, and compare."),
    "run": Entry("karpenter.cli.run:run", "Run the operator."),
    "simulate": Entry("karpenter.cli.simulate:simulate", "Live through made-up days, with faults."),
    "validate": Entry("karpenter.cli.validate:validate", "Check manifests before a cluster sees them."),
    "version": Entry("karpenter.cli.version:version", "Print the version."),
}
