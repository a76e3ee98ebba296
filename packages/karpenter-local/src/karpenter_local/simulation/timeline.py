"""
What happened in a simulated run, line by line, and what its parts log.

Errors are violations; where a timeline is wanted, the operator's decisions are wanted too. Nothing else that
is logged is even formatted. The configuration of logging from before a run is restored after it.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn

import structlog

from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter_local.simulation.faults import InjectedFault
from karpenter_local.simulation.invariants.invariant import is_true, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from structlog.typing import EventDict, WrappedLogger

    from karpenter.kube.transport import Request, Response
    from karpenter_local.simulation.cluster import SimulatedCluster
    from karpenter_local.simulation.mirror import ObjectWrite
    from karpenter_local.simulation.scenario import Step

    Logged = Callable[[str, str, str], None]
    "Takes the level, the event, and the facts as text."


_SHOWN_EVENTS: Final = frozenset(
    {
        "disruption.begun",
        "disruption.given_up",
        "disruption.rejected",
        "disruption.undone",
        "disruption.finished",
        "machine.not_launched",
        "node.untainted",
        "node.kept",
        "task.crashed",
        "reconciler.crashed",
    }
)
"""What the operator logs that belongs to a timeline; the rest is seen in the writes."""

_STATES: Final = ("Launched", "Registered", "Initialized", "Drifted")


class Timeline:
    """Lines, each with its time. Unless it is enabled, only machines are counted."""

    def __init__(self, simulated: SimulatedCluster, *, enabled: bool) -> None:
        self._simulated = simulated
        self._enabled = enabled
        self.lines: list[str] = []
        self.launched = 0
        simulated.mirror.subscribe(self._on_write)

    def note(self, text: str, who: str = "") -> None:
        if self._enabled:
            minutes, seconds = divmod(self._simulated.clock.monotonic(), 60)
            self.lines.append(f"{minutes:4.0f}:{seconds:04.1f}  {who:<9}{text}")

    def step(self, step: Step) -> None:
        """Tell what a user does, or what goes wrong."""
        self.note(str(step), "fault" if isinstance(step, InjectedFault) else "user")

    def logged(self, event: str, facts: str) -> None:
        """Tell what the operator says of its decisions."""
        if event in _SHOWN_EVENTS:
            self.note(f"{event} {facts}", "operator")

    def on_call(self, request: Request, response: Response) -> None:
        if request.path.endswith("/eviction"):
            pod = request.path.split("/")[-2]
            self.note(f"evict pod {pod}: {response.status}", "operator")

    def _on_write(self, write: ObjectWrite) -> None:
        match write.before, write.after:
            case NodeClaim() | None as before, NodeClaim() as after:
                self._claim(before, after)
            case NodeClaim() as gone, None:
                self.note(f"claim {gone.name} is gone", "cluster")
            case None, Node() as node:
                self.note(f"node {node.name} joins", "cluster")
            case Node() as node, None:
                self.note(f"node {node.name} is gone", "cluster")

    def _claim(self, before: NodeClaim | None, after: NodeClaim) -> None:
        if before is None:
            self.note(f"claim {after.name} is created", "operator")
            return
        if after.status.provider_id and not before.status.provider_id:
            self.launched += 1
            kind = after.metadata.labels.get("node.kubernetes.io/instance-type", "")
            self.note(f"claim {after.name} has machine {after.status.provider_id} ({kind})", "operator")
        for state in _STATES[1:]:
            if is_true(after, state) and not is_true(before, state):
                self.note(f"claim {after.name} is {state.lower()}", "operator")
        if reason_of(after) != reason_of(before):
            why = reason_of(after) or "no reason any longer"
            self.note(f"claim {after.name} is to be disrupted: {why}", "operator")
        if after.metadata.deletion_timestamp is not None and before.metadata.deletion_timestamp is None:
            self.note(f"claim {after.name} is being deleted", "cluster")


@contextmanager
def capture_logs(logged: Logged, *, level: int = logging.ERROR) -> Iterator[None]:
    """Hand everything at or above a level to `logged`, and print nothing."""

    def take(_logger: WrappedLogger, method: str, event: EventDict) -> NoReturn:
        name = str(event.pop("event", ""))
        trouble = event.pop("exc_info", None)
        facts = " ".join(f"{key}={value}" for key, value in event.items())
        if trouble:
            facts += f" {_traceback()}"
        logged(method, name, facts)
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[take], wrapper_class=structlog.make_filtering_bound_logger(level))
    try:
        yield
    finally:
        structlog.configure(**before)


def _traceback() -> str:
    import sys  # noqa: PLC0415  only a crash needs it
    import traceback  # noqa: PLC0415  likewise

    kind, error, trace = sys.exc_info()
    frames = traceback.extract_tb(trace)
    where = f" at {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
    return f"({kind.__name__ if kind else ''}: {error}{where})"
