"""
New texts for every target in turn, until the time is over: ``python -m tests.fuzz SECONDS``.

An exception is a finding, and a text that takes long.
"""

import sys
import time
from datetime import timedelta

import click
from hypothesis import HealthCheck, given, seed, settings

from tests.fuzz.targets import TARGETS

_EXAMPLES = 200
_LONGEST = timedelta(seconds=20)
"""A text that takes longer is a finding: a reader in the loop of the operator would hold everything up."""


def main(seconds: float) -> int:
    """Return 1 when a target raised what it should not; the shortest such text is printed."""
    ends = time.monotonic() + seconds
    began = time.time_ns()
    rounds, failed = 0, 0
    while time.monotonic() < ends:
        rounds += 1
        for name, (texts, target) in TARGETS.items():
            chosen = settings(
                max_examples=_EXAMPLES,
                deadline=_LONGEST,
                database=None,
                suppress_health_check=list(HealthCheck),
            )
            try:
                seed(began + rounds)(chosen(given(texts)(target)))()
            except Exception as error:  # any exception is a finding  # noqa: BLE001
                failed += 1
                notes = "\n".join(getattr(error, "__notes__", ()))
                click.echo(f"{name}: {type(error).__name__}: {error}\n{notes}\n")
            if time.monotonic() >= ends:
                break
        click.echo(f"{rounds} rounds of {_EXAMPLES} texts, {failed} findings", err=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0))
