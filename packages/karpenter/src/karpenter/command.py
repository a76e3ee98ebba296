"""
The program ``karpenter``, before anything else is imported.

Importing what a command needs takes part of a second. An interruption in that time ends the program as
quietly as one later.
"""

import sys

_INTERRUPTED = 130
"""128 + SIGINT."""


def main() -> None:
    try:
        from karpenter.cli import main as command  # noqa: PLC0415  an interruption while importing is handled

        command()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
