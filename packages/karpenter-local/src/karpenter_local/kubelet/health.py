"""
How well each simulated node is: what tests and demos change to see what the cluster makes of it.

    fine      reports on time, runs its pods
    unready   reports on time that it is not ready; its pods keep running
    silent    reports nothing and changes nothing, as if the network were gone; comes back where it was
    dead      reports nothing and never will
    slow      does everything, but takes `factor` times as long
"""

from typing import Literal

import msgspec

State = Literal["fine", "unready", "silent", "dead"]


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one node."""

    state: State = "fine"
    factor: float = 1.0
    why: str = ""

    @property
    def reports(self) -> bool:
        return self.state in {"fine", "unready"}


FINE = Health()
