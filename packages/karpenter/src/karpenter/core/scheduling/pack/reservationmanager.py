"""
Reserved capacity and minValues: what cannot be read off the frontier of a claim state.

Both look at the whole list of instance types that a claim could still become, so they are checked for every
pod that joins a claim. Only claims of NodePools that use them pay for it.

A reservation holds a number of instances, so claims hold them one by one while they are packed: two claims
never count on the same instance
(https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from karpenter.api.labels import RESERVED
from karpenter.core.scheduling.encode.offerings import Bits, to_bits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
    from karpenter.core.scheduling.pack.nodeclaim import ClaimState


def fitting_offerings(state: ClaimState, total: Sequence[int]) -> Bits:
    """Return the offerings of a state whose instance types have room for `total`."""
    table = state.template.table
    roomy = (table.room >= np.array(total)).all(axis=1)
    return table.keep_types(state.bits, np.asarray(roomy, bool))


def distinct_values(template: Template, bits: Bits) -> dict[str, int]:
    """Return how many different values the types in `bits` have of each key with minValues."""
    kinds = [template.table.types[i] for i in template.table.types_of(bits)]
    return {
        key: len({value for kind in kinds for value in kind.requirements[key].values})
        for key in template.min_values
    }


def violates_min_values(found: Mapping[str, int], least: Mapping[str, int]) -> bool:
    """Return whether some key has fewer values than minValues."""
    return any(found[key] < wanted for key, wanted in least.items())


def cheapest_types(template: Template, bits: Bits, least: Mapping[str, int]) -> list[int]:
    """Return the cheapest type in `bits`, or as many of the cheapest as minValues need."""
    table = template.table
    candidates = np.flatnonzero(table.flags(bits))
    order = candidates[np.argsort(table.price[candidates], kind="stable")]
    found: list[int] = []
    seen: dict[str, set[str]] = {key: set() for key in least}
    for kind in dict.fromkeys(table.owner[order].tolist()):
        values = {key: table.types[kind].requirements[key].values for key in least}
        if not found or any(len(seen[key]) < least[key] and not values[key] <= seen[key] for key in least):
            found.append(kind)
            for key in least:
                seen[key] |= values[key]
        if all(len(seen[key]) >= least[key] for key in least):
            break
    return found


_NONE: Final[frozenset[str]] = frozenset()  # one object for all claims without reservations


class ReservationManager:
    """Reserved capacity: how many instances each reservation has left, and which claims hold one."""

    def __init__(self, templates: Sequence[Template], *, strict: bool) -> None:
        self.strict = strict
        self.left: dict[str, int] = {}
        self._held: dict[int, frozenset[str]] = {}
        for template in templates:
            for offering in template.table.reserved:
                had = self.left.get(offering.reservation_id)
                has = offering.reservation_capacity or 0
                # One reservation may appear in several NodePools with different counts; the smallest is safe.
                self.left[offering.reservation_id] = has if had is None else min(had, has)

    def held(self, claim: int) -> frozenset[str]:
        """Return the reservations of which a claim holds one instance."""
        return self._held.get(claim, _NONE)

    def obtainable(self, claim: int | None, template: Template, bits: Bits) -> frozenset[str] | None:
        """
        Return the reservations that a claim could hold with these offerings; None refuses the claim.

        Strictly, a claim that could use reserved capacity must get some, and never loses
        the last of what it holds.
        """
        held = self.held(claim) if claim is not None else _NONE
        offerings = template.table.offerings
        usable = {
            o.reservation_id for n, o in enumerate(offerings) if o.capacity_type == RESERVED and bits >> n & 1
        }
        found = frozenset(each for each in usable if each in held or self.left[each] > 0)
        if self.strict and not found and (usable or held):
            return None
        return found

    @staticmethod
    def usable(held: frozenset[str], template: Template, bits: Bits) -> Bits:
        """Return the offerings that can be launched: those of held reservations, else unreserved ones."""
        offerings = template.table.offerings
        wanted = [o.reservation_id in held if held else o.capacity_type != RESERVED for o in offerings]
        return bits & to_bits(np.array(wanted, bool))

    def hold(self, claim: int, wanted: frozenset[str]) -> None:
        """Let a claim hold exactly these reservations."""
        held = self.held(claim)
        for each in held - wanted:
            self.left[each] += 1
        for each in wanted - held:
            self.left[each] -= 1
        self._held[claim] = wanted
