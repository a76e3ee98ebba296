"""What goes wrong on AWS beyond what goes wrong in every cloud: each at a moment, each sayable in a line."""

from __future__ import annotations

from karpenter.simulation.aws.weather import Trouble  # noqa: TC001  structs read their annotations
from karpenter.simulation.mishaps import Mishap


class BadAws(Mishap, frozen=True):
    """Some of the calls to AWS go wrong for a while."""

    seconds: float
    share: float
    kinds: tuple[Trouble, ...]

    def __str__(self) -> str:
        """Return the mishap as a line."""
        return f"{self.share:.0%} of calls to AWS go wrong for {self.seconds:.0f} s ({', '.join(self.kinds)})"


class HideInstances(Mishap, frozen=True):
    """For a while EC2 does not show what it has just launched."""

    lag: float
    seconds: float

    def __str__(self) -> str:
        """Return the mishap as a line."""
        return f"EC2 shows instances {self.lag:.0f} s after their launch, for {self.seconds:.0f} s"


class RunShort(Mishap, frozen=True):
    """A fleet gets a part of what it asks for: some offerings are short for a while."""

    code: str
    """How fleets are told; nothing means that so many can be had, and no more."""

    left: int
    zone: str
    capacity_type: str
    seconds: float

    def __str__(self) -> str:
        """Return the mishap as a line."""
        what = " ".join(filter(None, (self.capacity_type, self.zone))) or "everything"
        how = self.code or f"{self.left} left"
        return f"EC2 is short of {what} for {self.seconds:.0f} s ({how})"


class BadPost(Mishap, frozen=True):
    """For a while mail of the interruption queue is late, comes twice, and in another order."""

    seconds: float

    def __str__(self) -> str:
        """Return the mishap as a line."""
        return f"the queue tells things late, twice and in another order for {self.seconds:.0f} s"


class Rubbish(Mishap, frozen=True):
    """Messages that nobody can read come into the queue."""

    texts: tuple[str, ...]

    def __str__(self) -> str:
        """Return the mishap as a line."""
        return f"{len(self.texts)} messages come that nobody can read"


class Ail(Mishap, frozen=True):
    """EC2 says that something is wrong with a machine: a check fails, or its hardware will be retired."""

    pick: float
    """Which of all, from 0 to 1."""

    what: str
    """instance, system, the code of an event, or retire or rebalance: what the queue tells."""

    def __str__(self) -> str:
        """Return the mishap as a line."""
        return f"machine number {self.pick:.2f} is not well: {self.what}"
