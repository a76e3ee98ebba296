"""
What to buy for a claim: everything that would do, the cheapest first.

For providers that choose themselves. Of types at the same price the first of the catalogue wins; of
offerings of one type at the same price the first, or one by chance, where chance is passed in. Knows
catalogues only: what a cloud has in stock is found out by asking it.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import msgspec

from karpenter.api.labels import INSTANCE_TYPE
from karpenter.cloud.offerings import OfferingName
from karpenter.core.model.catalog import InstanceType, Offering
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import fits, parse_resources

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.core.model.catalog import Catalog


class Choice(msgspec.Struct, frozen=True):
    """One offering that would do for a claim."""

    kind: InstanceType
    offering: Offering

    @property
    def name(self) -> OfferingName:
        """What it is called."""
        return OfferingName.of(self.kind, self.offering)


def choices(catalog: Catalog, claim: NodeClaim, chance: Random | None = None) -> tuple[Choice, ...]:
    """
    Return everything that satisfies a claim and holds its requests, the cheapest first.

    Raises:
        RequirementError, QuantityError: the claim cannot be read.
    """
    wanted = Requirements.from_entries(claim.spec.requirements)
    requests = parse_resources(claim.spec.resources.requests)
    known = catalog.label_rules.well_known
    found = [
        (offering.price, place, Choice(kind, offering))
        for place, kind in enumerate(_named(catalog, wanted))
        if fits(requests, kind.allocatable) and wanted.accepts(kind.requirements, known)
        for offering in kind.available
        if wanted.accepts(offering.requirements, known)
    ]
    found.sort(key=lambda each: each[:2])
    return tuple(
        choice
        for _, equals in groupby(found, key=lambda each: each[:2])
        for choice in _shuffled([choice for *_, choice in equals], chance)
    )


def labels_of(choice: Choice, claim: NodeClaim) -> dict[str, str]:
    """Return the labels of a machine: where claim or type leave several values, the first that both allow."""
    wanted = Requirements.from_entries(claim.spec.requirements)
    settled = wanted.intersect(choice.kind.requirements).intersect(choice.offering.requirements)
    return {each.key: min(each.values) for each in settled if not each.complement and each.values}


def _named(catalog: Catalog, wanted: Requirements) -> Iterable[InstanceType]:
    """Return the types that the claim names, in the order of the catalogue; all of them if it names none."""
    names = wanted[INSTANCE_TYPE]
    if names.complement:
        return catalog.types
    return (kind for kind in catalog.types if kind.name in names.values)


def _shuffled(equals: list[Choice], chance: Random | None) -> list[Choice]:
    if chance is not None and len(equals) > 1:
        chance.shuffle(equals)
    return equals
