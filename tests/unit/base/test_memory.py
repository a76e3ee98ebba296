"""How often garbage is collected."""

from __future__ import annotations

import gc

import pytest

from karpenter.base.memory import SHORT, few_collections


def test_thresholds_hold_for_the_block_alone() -> None:
    """Inside, objects that were there are left out and collections are rare; outside, all is as before."""
    before = gc.get_threshold()

    with few_collections(SHORT):
        inside, frozen = gc.get_threshold(), gc.get_freeze_count()

    assert (inside, frozen > 0, gc.get_threshold(), gc.get_freeze_count()) == (SHORT, True, before, 0)


def test_an_error_leaves_the_collector_as_it_was() -> None:
    """What raises inside does not change how the rest of the process collects."""
    before = gc.get_threshold()

    with pytest.raises(ValueError, match="broken"), few_collections():
        raise ValueError("broken")

    assert gc.get_threshold() == before
