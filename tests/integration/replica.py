"""A replica of the operator as a process, with a lease so short that a test can wait for its end."""

import asyncio
import os
import sys

from karpenter.base.clock import SystemClock
from karpenter.cli.run import refused
from karpenter.kube.leaderelection import Terms
from karpenter.operator.options import parse_settings
from karpenter.operator.run import OperatorTarget, run

TERMS = Terms(duration=4.0, renew_within=3.0, retry=0.5)
SETTINGS = {"metrics-port": "0", "health-probe-port": "0", "batch-idle-duration": "200ms"}


def main(kubeconfig: str) -> None:
    """Run until a signal comes or the lease is lost, with the exit codes of ``karpenter run``."""
    target = OperatorTarget(kubeconfig=kubeconfig)
    with refused():
        asyncio.run(
            run(parse_settings(SETTINGS), target, clock=SystemClock(), environ=os.environ, terms=TERMS)
        )


if __name__ == "__main__":
    main(sys.argv[1])
