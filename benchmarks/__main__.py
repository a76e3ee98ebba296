"""Print the tables: every suite that is not long, or those that are asked for."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from benchmarks.suites import LONG, discover, run_apart

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables that are asked for; 2 if one does not exist."""
    names = discover()
    parser = argparse.ArgumentParser("python -m benchmarks", description="Print tables of speed and memory.")
    parser.add_argument("--only", metavar="NAME", action="append", help="run this suite; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the names of the suites and stop")
    chosen = parser.parse_args(arguments)
    if chosen.list:
        print("\n".join(names))
        return 0
    unknown = sorted(set(chosen.only or ()) - set(names))
    if unknown:
        print(f"no suite named {', '.join(unknown)}; there are {', '.join(names)}", file=sys.stderr)
        return 2
    for name in chosen.only or [each for each in names if each not in LONG]:
        print(run_apart(name), end="\n\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
