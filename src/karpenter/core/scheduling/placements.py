"""
Why a pod was put where it is: one sentence per placed pod.

Read off a finished run when somebody asks; a run of a hundred thousand pods is not slowed
down by sentences that nobody reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.core.scheduling.moves import Move
    from karpenter.core.scheduling.plan import NewNode
    from karpenter.core.scheduling.run import Run


class Because(Mapping[str, str]):
    """Pod key to the reason for its place, worked out when asked."""

    def __init__(self, run: Run, new_nodes: tuple[NewNode, ...]) -> None:
        self._run = run
        self._new = new_nodes
        self._moves: dict[str, Move] | None = None

    def __getitem__(self, pod: str) -> str:
        return self._sentence(self._index()[pod])

    def __iter__(self) -> Iterator[str]:
        return iter(self._index())

    def __len__(self) -> int:
        return len(self._index())

    def _index(self) -> dict[str, Move]:
        if self._moves is None:
            self._moves = {}
            dealt: dict[int, int] = {}
            for move in self._run.moves:
                start = dealt.get(move.wish.of.number, 0)
                dealt[move.wish.of.number] = start + move.many
                for pod in move.wish.of.pods[start : start + move.many]:
                    self._moves[pod.key] = move
        return self._moves

    def _sentence(self, move: Move) -> str:
        run = self._run
        if move.bin < run.nodes.count:
            node = run.problem.nodes[move.bin].name
            told = f"node {node} is the first existing node that suits it and has room"
        else:
            told = _bought(self._new[move.bin - run.nodes.count])
        readings = move.wish.of.manner.rungs
        reached = next(number for number, rung in enumerate(readings) if rung is move.wish.rung)
        lost = [rung.given_up for rung in readings[1 : reached + 1]]
        return f"{told}; it gave up {', '.join(lost)}" if lost else told


def _bought(node: NewNode) -> str:
    bought, types, others = node.purchase, len(node.instance_types), len(node.pods) - 1
    choice = f"is the cheapest of {types} types that hold" if types > 1 else "is the only type that holds"
    company = f" together with {others} other {'pods' if others > 1 else 'pod'}" if others else ""
    return (
        f"no existing node takes it; {bought.instance_type} in {bought.zone} ({bought.capacity_type}, "
        f"${bought.price:.4f} an hour) {choice} it{company}"
    )
