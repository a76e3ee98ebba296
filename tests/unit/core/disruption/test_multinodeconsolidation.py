"""Several nodes that go together: the longest prefix of a ranking that pays."""

from __future__ import annotations

import math

import pytest

from karpenter.core.disruption.budgets import Headroom
from karpenter.core.disruption.candidates import Candidate, find_candidates
from karpenter.core.disruption.codes import DisruptionCode
from karpenter.core.disruption.command import UNDERUTILIZED, Command
from karpenter.core.disruption.consolidation import RefusedMove
from karpenter.core.disruption.multinodeconsolidation import consolidate_several
from karpenter.core.state.pdb import PdbLimits
from karpenter.core.state.statenode import state_nodes
from tests.unit.core.disruption.clusters import MARKET, NOW, cluster, machine, pool


class Prefixes:
    """Savings of which the first so many nodes of a ranking pay together; counts how often it is asked."""

    def __init__(self, paying: int) -> None:
        self.paying = paying
        self.asked = 0

    def decide(self, candidates: list[Candidate]) -> Command | RefusedMove:
        """Return a command for as many as pay."""
        self.asked += 1
        names = tuple(each.name for each in candidates)
        if len(names) > self.paying:
            return RefusedMove(DisruptionCode.NO_SAVING, "too many")
        return Command(reason=UNDERUTILIZED, candidates=names)


@pytest.mark.parametrize("count", range(1, 10))
def test_the_longest_prefix_that_pays_goes_together(count: int) -> None:
    """However many pay, just those are found; one node alone is left to single-node consolidation."""
    view = cluster(pool(), *(machine(f"n{at}") for at in range(count)))
    nodes = state_nodes(view)
    ranked = find_candidates(nodes, view, MARKET, PdbLimits(view), NOW).candidates
    headroom = Headroom.at(view, UNDERUTILIZED, NOW)
    for paying in range(count + 1):
        prefixes = Prefixes(paying)
        found = consolidate_several(ranked, prefixes, headroom, lambda: False)  # type: ignore[arg-type]
        together = 0 if found is None else len(found.candidates)
        assert together == (paying if paying > 1 else 0)
        assert prefixes.asked <= math.ceil(math.log2(count)) if count > 1 else prefixes.asked == 0
