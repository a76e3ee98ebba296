"""Faults, as values: each at a moment, each shown as one line, each of which can be left out."""

from __future__ import annotations

import msgspec

from karpenter_local.simulation.network import CallFault


class InjectedFault(msgspec.Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Something that goes wrong."""

    at: float
    """Seconds after the beginning."""


class CutWatches(InjectedFault, frozen=True):
    """Every watch of the operator breaks."""

    forgotten: bool = False
    """Whether the server also forgets its history, so that everything has to be listed anew."""

    def __str__(self) -> str:
        return "watches are cut" + (", and the server forgets its history" if self.forgotten else "")


class HoldWatches(InjectedFault, frozen=True):
    """Watches of some kinds send nothing for a while."""

    plurals: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        return f"watches of {', '.join(self.plurals)} are late by up to {self.seconds:.0f} s"


class RepeatEvents(InjectedFault, frozen=True):
    """Watches send some events twice for a while."""

    seconds: float

    def __str__(self) -> str:
        return f"watches send events twice for {self.seconds:.0f} s"


class BadCalls(InjectedFault, frozen=True):
    """Some of the operator's calls to the API server go wrong for a while."""

    seconds: float
    share: float
    kinds: tuple[CallFault, ...]

    def __str__(self) -> str:
        return (
            f"{self.share:.0%} of calls to the API server go wrong for {self.seconds:.0f} s"
            f" ({', '.join(self.kinds)})"
        )


class BadCloud(InjectedFault, frozen=True):
    """Some of the operator's calls to the cloud fail for a while."""

    seconds: float
    share: float

    def __str__(self) -> str:
        return f"{self.share:.0%} of calls to the cloud fail for {self.seconds:.0f} s"


class LoseEvictions(InjectedFault, frozen=True):
    """No eviction that the operator asks for reaches the API server for a while."""

    seconds: float

    def __str__(self) -> str:
        return f"evictions find no connection for {self.seconds:.0f} s"


class Crash(InjectedFault, frozen=True):
    """The operator is killed at its so-manieth write from now on, and started again after a while."""

    calls: int
    carried_out: bool
    """Whether that last write was carried out."""

    down: float
    """Seconds until it is started again."""

    disrupting: bool = False
    """Whether writes are counted from the next one that disrupts a machine."""

    def __str__(self) -> str:
        side = "after" if self.carried_out else "before"
        since = "the next one that disrupts a machine" if self.disrupting else "now"
        return f"the operator is killed just {side} its write number {self.calls} from {since} on"


class Isolate(InjectedFault, frozen=True):
    """The operator that leads cannot reach the API server for a while; another one takes over."""

    seconds: float

    def __str__(self) -> str:
        return f"the leader is cut off from the API server for {self.seconds:.0f} s"


class RestoreHistory(InjectedFault, frozen=True):
    """The API server starts again and lists objects as they were a while ago, until watches catch up."""

    lag: float

    def __str__(self) -> str:
        return f"in {self.lag:.0f} s the API server starts again with the history of now"


class SecondLeader(InjectedFault, frozen=True):
    """Another operator begins to work, and the first does not know for a while."""

    seconds: float

    def __str__(self) -> str:
        return f"two operators lead for {self.seconds:.0f} s"


class BadLaunch(InjectedFault, frozen=True):
    """The next launches go wrong."""

    kind: str
    """fail, hang, lose, lose and hang, slow or never join."""

    count: int = 1

    def __str__(self) -> str:
        return f"the next {self.count} launches will go wrong: {self.kind}"


class LoseMachine(InjectedFault, frozen=True):
    """A machine is gone."""

    pick: float
    """Which of all, from 0 to 1."""

    announced: bool = False
    """Whether the cloud says so two minutes before."""

    def __str__(self) -> str:
        how = "is interrupted with notice" if self.announced else "is gone without a word"
        return f"machine number {self.pick:.2f} {how}"


class SilenceNode(InjectedFault, frozen=True):
    """A node is not heard of for a while."""

    pick: float
    seconds: float

    def __str__(self) -> str:
        return f"node number {self.pick:.2f} is silent for {self.seconds:.0f} s"


class BreakNode(InjectedFault, frozen=True):
    """A node breaks: it says so, and never works again."""

    pick: float
    pool: str = ""
    """The NodePool whose node it is; empty for any."""

    def __str__(self) -> str:
        whose = f" of pool {self.pool}" if self.pool else ""
        return f"node number {self.pick:.2f}{whose} breaks for good"


class Drift(InjectedFault, frozen=True):
    """A machine is not what its class asks for any longer."""

    pick: float

    def __str__(self) -> str:
        return f"machine number {self.pick:.2f} drifts"


class SellOut(InjectedFault, frozen=True):
    """A zone is sold out for a while."""

    zone: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.zone} is sold out for {self.seconds:.0f} s"


class WrongTime(InjectedFault, frozen=True):
    """The operator's clock jumps, and is put right after a while."""

    ahead: float
    seconds: float

    def __str__(self) -> str:
        return f"the operator's clock jumps by {self.ahead:+.0f} s for {self.seconds:.0f} s"
