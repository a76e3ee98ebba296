"""What happened, line by line, for whoever wants to know how it came to that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.simulation.mishaps import Mishap
from karpenter.simulation.rules.budgets import is_true, reason_of

if TYPE_CHECKING:
    from karpenter.kube.transport import Request, Response
    from karpenter.simulation.mirror import Wrote
    from karpenter.simulation.script import Step
    from karpenter.simulation.world import World

_TOLD: Final = frozenset(
    {
        "disruption.begun",
        "disruption.given_up",
        "disruption.rejected",
        "disruption.undone",
        "disruption.finished",
        "machine.not_launched",
        "node.opened",
        "node.spared",
        "task.crashed",
        "reconciler.crashed",
    }
)
"""What the operator logs that belongs into a story; the rest is seen in the writes."""

_STATES: Final = ("Launched", "Registered", "Initialized", "Drifted")


class Timeline:
    """Lines, each with its time. Without narration only machines are counted."""

    def __init__(self, world: World, *, narrate: bool) -> None:
        self._world = world
        self._narrate = narrate
        self.lines: list[str] = []
        self.launched = 0
        world.mirror.subscribe(self._wrote)

    def note(self, text: str, who: str = "") -> None:
        """Add a line."""
        if self._narrate:
            minutes, seconds = divmod(self._world.clock.monotonic(), 60)
            self.lines.append(f"{minutes:4.0f}:{seconds:04.1f}  {who:<9}{text}")

    def step(self, step: Step) -> None:
        """Tell what a user does, or what goes wrong."""
        self.note(str(step), "fault" if isinstance(step, Mishap) else "user")

    def logged(self, event: str, facts: str) -> None:
        """Tell what the operator says of its decisions."""
        if event in _TOLD:
            self.note(f"{event} {facts}", "operator")

    def called(self, request: Request, response: Response) -> None:
        """Tell of pods that are told to go."""
        if request.path.endswith("/eviction"):
            pod = request.path.split("/")[-2]
            self.note(f"evict pod {pod}: {response.status}", "operator")

    def _wrote(self, wrote: Wrote) -> None:
        match wrote.before, wrote.after:
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
