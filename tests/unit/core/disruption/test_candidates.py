"""What holds machines against every reason."""

from __future__ import annotations

import msgspec

from karpenter.core.model.catalog import EMPTY, Catalog, combine
from tests.unit.core.disruption.clusters import MARKET, cluster, decided, held, machine, pod, pool


def test_machines_stay_while_nobody_says_what_their_pool_may_use() -> None:
    """A class that is not ready, or a cloud that does not answer, lets nothing of its pools go."""
    view = cluster(
        pool(),
        pool("other"),
        machine("idle"),
        machine("busy"),
        pod("web-1", "busy"),
        machine("of-other", pool="other"),
    )

    assert set(held(decided(view, market=EMPTY)).values()) == {"NoInstanceTypes"}
    verdict = decided(view, market=combine({"default": EMPTY, "other": MARKET}))
    assert [each.candidates for each in verdict.commands] == [("of-other",)]
    assert held(verdict) == {"idle": "NoInstanceTypes", "busy": "NoInstanceTypes"}


def test_what_cannot_be_bought_and_costs_nothing_has_no_price() -> None:
    """A machine of it is kept and said to be unpriced, however old: that it runs shows that it is sold."""
    unpriced = [
        msgspec.structs.replace(each, price=0.0, available=False) for each in MARKET.types[1].offerings
    ]
    medium = msgspec.structs.replace(MARKET.types[1], offerings=tuple(unpriced))
    market = Catalog(types=(MARKET.types[0], medium, *MARKET.types[2:]))
    view = cluster(pool(), machine("node-1", "medium"), pod("web-1", "node-1"))

    verdict = decided(view, market=market)

    assert (verdict.commands, held(verdict)) == ((), {"node-1": "Unpriced"})
