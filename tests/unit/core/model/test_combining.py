"""One catalogue for several pools."""

from __future__ import annotations

from karpenter.core.model.catalog import EMPTY, Catalog, combine
from karpenter_local.testing.builders import instance_type

SMALL, LARGE = instance_type("small"), instance_type("large")
ONE = Catalog(types=(SMALL,), well_known=frozenset({"a"}), reservation_label="r")
OTHER = Catalog(types=(SMALL, LARGE), restricted_domains=frozenset({"b"}))


def test_pools_that_buy_from_one_catalogue_share_it() -> None:
    """The same answers give the same value; no pools give nothing."""
    assert combine({"p": ONE, "q": ONE}) is ONE
    assert combine({}) is EMPTY
    assert ONE.types_of("anyone") == (SMALL,)


def test_pools_that_differ_keep_their_own_types() -> None:
    """Together they know every type once; a pool that is not named may buy nothing."""
    found = combine({"p": ONE, "q": OTHER})

    assert [kind.name for kind in found.types] == ["small", "large"]
    assert found.types_of("p") == (SMALL,)
    assert found.types_of("q") == (SMALL, LARGE)
    assert found.types_of("r") == ()
    assert found.well_known == {"a"}
    assert found.restricted_domains == {"b"}
    assert found.reservation_label == "r"
