"""``python -m karpenter.cli`` is ``karpenter``."""

from karpenter.cli.group import main

main(prog_name="karpenter")
