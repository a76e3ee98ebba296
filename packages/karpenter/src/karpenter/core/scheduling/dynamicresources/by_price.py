"""
Packing pods with devices by price: a machine of their own where sharing a larger one costs more.

Machines with many devices are dear. The greedy run fills the machine it has opened, which thereby
becomes a larger one; a thrifty run lets a pod join only if that raises the price by no more
than a machine of its own would cost. Whichever of the two places more pods, or costs less, is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.core.scheduling.decode import hourly
from karpenter.core.scheduling.pack.reservationmanager import fitting_offerings
from karpenter.core.scheduling.pack.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karpenter.core.scheduling.encode.encode import EncodedProblem
    from karpenter.core.scheduling.encode.preferences import PodData
    from karpenter.core.scheduling.pack.nodeclaim import ClaimState

_WORTH_IT: Final = 1e-6


class DevicePriceScheduler(Scheduler):
    """A run in which pods with devices join a claim only if that pays."""

    def __init__(self, encoded: EncodedProblem) -> None:
        super().__init__(encoded)
        self._dear: set[tuple[int, int]] = set()

    def next_state(self, pod_data: PodData, claim: int) -> ClaimState | None:
        """Return what a claim would become by taking one more pod, or None when it cannot or should not."""
        state = super().next_state(pod_data, claim)
        if state is None or not pod_data.pod_class.devices or self._pays(pod_data, claim, state):
            return state
        self._dear.add((pod_data.pod_class.number, self.nodes.count + claim))
        return None

    def lacks_devices(self, pod_data: PodData, number: int) -> bool:
        """Return whether asking a bin for devices again is as good as useless."""
        return (pod_data.pod_class.number, number) in self._dear or super().lacks_devices(pod_data, number)

    def _pays(self, pod_data: PodData, claim: int, state: ClaimState) -> bool:
        before = self._price(self.claims.states[claim], self.claims.total(claim, pod_data.pod_class.want, 0))
        more = self._price(state, self.claims.total(claim, pod_data.pod_class.want)) - before
        return more <= 0 or more <= self._alone(pod_data)

    def _alone(self, pod_data: PodData) -> float:
        """Return what a machine for one pod alone costs; without end when there is none."""
        waits = self.must_wait
        found = (self.new_claim(pod_data, template) for template in self.templates)
        first = next((new_claim for new_claim in found if new_claim is not None), None)
        self.must_wait = waits
        return self._price(first.state, pod_data.pod_class.want) if first is not None else float("inf")

    @staticmethod
    def _price(state: ClaimState, total: Sequence[int]) -> float:
        return state.template.table.cheapest(fitting_offerings(state, total))


def cheaper_with_devices(
    first: Scheduler, left: dict[int, int], pack: Callable[[Scheduler], dict[int, int]]
) -> tuple[Scheduler, dict[int, int]]:
    """Return a thrifty run with what it leaves if that is better than `first`; `pack` fills a fresh run."""
    if not any(
        placement.pod_data.pod_class.devices and placement.bin >= first.nodes.count
        for placement in first.placements
    ):
        return first, left
    second = DevicePriceScheduler(first.encoded)
    rest = pack(second)
    more, fewer = sum(rest.values()), sum(left.values())
    if more < fewer or (more == fewer and hourly(second) < hourly(first) * (1 - _WORTH_IT)):
        return second, rest
    return first, left
