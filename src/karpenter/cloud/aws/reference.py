"""
The reference page of the metrics that only this provider has, written from their declarations.

    python -m karpenter.cloud.aws.reference > docs/reference/metrics-aws.md
"""

import sys

from karpenter.cloud.aws.metering import CLASS_CONDITIONS, METRICS
from karpenter.telemetry.reference import section

_HEAD = """\
# Metrics of AWS

This page is written by `python -m karpenter.cloud.aws.reference`; a test fails when it is out of date.

With the cloud provider `aws`, the operator shows these beside [those of every provider](metrics.md).
"""


def page() -> str:
    """Return the whole page."""
    own = tuple(each for each in METRICS if each not in CLASS_CONDITIONS.all)
    sections = (("Machines, offerings and calls", own), ("Node classes", CLASS_CONDITIONS.all))
    return "\n".join([_HEAD, *(line for title, group in sections for line in section(title, group))])


if __name__ == "__main__":
    sys.stdout.write(page())
