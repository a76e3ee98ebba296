"""
Interruption: what follows from a cloud's message that it will reclaim, stop or maintain a machine.

Beside the effects for one machine it is remembered how often spot machines of a type in a zone are
interrupted (:class:`InterruptionHistory`), which makes them dearer for later decisions. A message about a
machine of no claim is looked at again while a claim may still get that machine (:func:`may_get_claim`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import TERMINATION_TIMESTAMP
from karpenter.core.effects import Amend, Effect
from karpenter.core.events import interruption, terminating_on_interruption
from karpenter.core.lifecycle.conditions import delete_claim, render_time

if TYPE_CHECKING:
    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim


HALF_LIFE: Final = timedelta(days=14)
"""An interruption counts half after this long."""

MONTH: Final = timedelta(days=30)
# The bands in which AWS publishes how often spot instances are interrupted, and two for worse:
# https://aws.amazon.com/ec2/spot/instance-advisor/
BANDS: Final = (0.05, 0.1, 0.15, 0.2, 0.5, 1.0, 5.0)
"""Interruptions of one machine per month, at most."""

_FORGOTTEN: Final = 0.01

# A spot instance is gone two minutes after the warning, and garbage collection finds its claim then:
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
HELD: Final = timedelta(minutes=2)
"""How long a message about a machine of no claim is looked at again."""


def may_get_claim(claims: Iterable[NodeClaim], *, at: datetime, now: datetime) -> bool:
    """
    Return whether a machine of no claim, of which a message was sent at some time, may soon have one.

    Between the launch of a machine and the write of its provider ID, no claim is known to be its own. Where
    every claim has a provider ID the machine is that of another cluster.
    """
    return abs(now - at) < HELD and any(not claim.status.provider_id for claim in claims)


def handle_interruption(
    claim: NodeClaim, nodes: Sequence[Node], *, kind: str, drains: bool, forceful: bool, now: datetime
) -> tuple[Effect, ...]:
    """Return the effects of an interruption for a claim; a claim that is being deleted gets Events only."""
    objects = (claim, *nodes)
    events: tuple[Effect, ...] = tuple(interruption(item, kind, drains=drains) for item in objects)
    if not drains or claim.metadata.deletion_timestamp is not None:
        return events
    deadline: tuple[Effect, ...] = ()
    if forceful:
        note = {"metadata": {"annotations": {TERMINATION_TIMESTAMP: render_time(now)}}}
        deadline = (
            Amend(
                kind=claim.kind,
                name=claim.name,
                changes=note,
                because="the interruption leaves no time to drain",
            ),
        )
    deletion = delete_claim(claim, kind, f"its machine is interrupted ({kind})")
    return (*events, *deadline, *deletion, *(terminating_on_interruption(item, kind) for item in objects))


class InterruptionHistory(msgspec.Struct, frozen=True):
    """How often spot machines were interrupted lately, by instance type and zone; older ones count less."""

    rates: Mapping[tuple[str, str], float] = {}
    """Interruptions of one machine per month, as of `at`."""

    at: datetime = datetime.min.replace(tzinfo=UTC)

    def after(self, instance_type: str, zone: str, *, running: int, now: datetime) -> InterruptionHistory:
        """Return the history after one of `running` machines of a type in a zone was interrupted."""
        rates = self._at(now)
        # Events at a constant rate, which count half after HALF_LIFE, sum up to the rate times this time.
        months = HALF_LIFE / MONTH / math.log(2)
        key = (instance_type, zone)
        rates[key] = rates.get(key, 0.0) + 1 / (max(1, running) * months)
        return InterruptionHistory(rates, now)

    def bands(self, now: datetime) -> Mapping[tuple[str, str], float]:
        """Return the rates rounded up to bands, so that they seldom change; what is forgotten is left out."""
        return {
            key: next((band for band in BANDS if rate <= band), BANDS[-1])
            for key, rate in sorted(self._at(now).items())
            if rate >= _FORGOTTEN
        }

    def _at(self, now: datetime) -> dict[tuple[str, str], float]:
        share = 0.5 ** (max(timedelta(0), now - self.at) / HALF_LIFE) if self.rates else 1.0
        return {key: rate * share for key, rate in self.rates.items()}
