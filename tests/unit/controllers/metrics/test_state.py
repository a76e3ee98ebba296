"""The state as metrics show it."""

from __future__ import annotations

from karpenter.controllers.metrics.state import ClusterStateMetrics
from karpenter.controllers.provisioner import Search
from karpenter.core.state.cluster import ObjectUpdated
from karpenter.telemetry.metrics import scheduler as declared
from tests.unit.controllers.metrics.harness import Showing
from tests.unit.core.lifecycle.objects import claim, launched, node


class Provisioner:
    """As much of a provisioner as is shown."""

    name = "provisioner"
    search: Search | None = None


def test_what_the_state_lacks() -> None:
    """The state lacks something until it is complete, and while a claim has no machine."""
    found = Showing()
    gauges = ClusterStateMetrics(found.store, found.metrics, found.clock, Provisioner(), lambda: None)
    found.store.subscribe(gauges.hear)
    found.store.apply(ObjectUpdated(node()))
    found.clock.seconds = 4.0
    assert found.rows(declared.STATE_UNSYNCED_TIME) == {(): 4.0}
    assert found.rows(declared.STATE_SYNCED) == {(): 0.0}

    found.store.complete = True
    assert found.rows(declared.STATE_UNSYNCED_TIME) == {(): 0.0}
    assert found.rows(declared.STATE_SYNCED) == found.rows(declared.STATE_NODE_COUNT) == {(): 1.0}

    found.clock.seconds = 5.0
    found.store.apply(ObjectUpdated(claim()))
    found.clock.seconds = 7.0
    assert found.rows(declared.STATE_UNSYNCED_TIME) == {(): 2.0}
    found.store.apply(ObjectUpdated(launched()))
    assert found.rows(declared.STATE_UNSYNCED_TIME) == {(): 0.0}


def test_how_old_the_state_is() -> None:
    """The state is as old as the first watch that the API server does not answer."""
    found, lost = Showing(), list[float]()
    state = ClusterStateMetrics(
        found.store, found.metrics, found.clock, Provisioner(), lambda: min(lost, default=None)
    )
    found.store.subscribe(state.hear)
    assert found.rows(declared.STATE_AGE) == {(): 0.0}

    lost.append(3.0)
    found.clock.seconds = 28.0
    assert found.rows(declared.STATE_AGE) == {(): 25.0}


def test_the_search_under_way() -> None:
    """A search for places is shown while it runs: for how many pods, and for how long."""
    found, provisioner = Showing(), Provisioner()
    ClusterStateMetrics(found.store, found.metrics, found.clock, provisioner, lambda: None)
    provisioner.search = Search("0000000a", 12, 1.0)
    found.clock.seconds = 3.0
    names = ("controller", "scheduling_id")
    assert found.rows(declared.QUEUE_DEPTH, *names) == {("provisioner", "0000000a"): 12.0}
    assert found.rows(declared.UNFINISHED_WORK, *names) == {("provisioner", "0000000a"): 2.0}

    provisioner.search = None
    assert found.rows(declared.QUEUE_DEPTH) == found.rows(declared.UNFINISHED_WORK) == {}
