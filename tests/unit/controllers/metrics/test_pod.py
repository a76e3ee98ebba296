"""Pods as metrics show them: where they stand, and how long they wait."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from karpenter.api.labels import NODEPOOL, ZONE
from karpenter.controllers.metrics.pod import PodLatencyMetrics, PodMetrics
from karpenter.core.provisioning.provisioner import ProvisioningDecision
from karpenter.core.state.cluster import ObjectDeleted, ObjectUpdated
from karpenter.telemetry.metrics import HistogramMetric, SummaryMetric
from karpenter.telemetry.metrics import pods as declared
from tests.unit.controllers.metrics.harness import Showing
from tests.unit.core.lifecycle.objects import at, node, pod, pool
from tests.unit.telemetry.clocks import NOON

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w"}
BORN = {"creationTimestamp": at(NOON - timedelta(seconds=10))}
KEY = "default/pod-1"


def moment(seconds: float) -> str:
    """Return a time after noon as the API writes it."""
    return at(NOON.replace(microsecond=0) + timedelta(seconds=seconds))


def pending(**spec: Any) -> Any:
    return pod(meta=BORN, spec={"nodeName": "", **spec}, status={"phase": "Pending"})


def bound(second: float) -> Any:
    """Return a pod that got a node at some second."""
    held = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": moment(second)}]
    return pod(meta=BORN, status={"phase": "Pending", "conditions": held})


def running(second: float) -> Any:
    """Return a pod that began to serve at some second."""
    held = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": moment(second)},
        {"type": "Ready", "status": "True", "lastTransitionTime": moment(second)},
    ]
    return pod(meta=BORN, status={"phase": "Running", "conditions": held})


@pytest.mark.parametrize("scraped", [False, True], ids=["without a scrape", "with one"])
def test_pods_that_are_gone_are_forgotten(scraped: bool) -> None:
    """Names of pods that came and went are not kept where nothing reads; what was shown is retracted."""
    found = Showing()
    gauges = PodMetrics(found.store, found.metrics)
    found.store.subscribe(gauges.hear)
    found.store.apply(ObjectUpdated(node()))
    found.store.apply(ObjectUpdated(pod()))
    if scraped:
        assert len(found.rows(declared.STATE, "name")) == 1
    found.store.apply(ObjectDeleted(pod()))
    found.store.apply(ObjectDeleted(node()))

    assert len(list(gauges.refresh())) == scraped
    assert found.rows(declared.STATE, "name") == {}


def test_where_a_pod_stands() -> None:
    """A pod is shown with its owner and what is known of its node, as they are when somebody reads."""
    found = Showing()
    gauges = PodMetrics(found.store, found.metrics)
    found.store.subscribe(gauges.hear)
    found.store.apply(ObjectUpdated(pod(meta={"ownerReferences": [OWNER]})))
    names = ("owner", "node", "scheduled", "nodepool", "zone", "phase", "ready", "managed")
    owner = "/apis/apps/v1/namespaces/default/replicasets/web"
    assert found.rows(declared.STATE, *names) == {
        (owner, "node-1", "true", "", "", "Running", "false", "false"): 1.0
    }

    found.store.apply(ObjectUpdated(pool()))
    found.store.apply(ObjectUpdated(node(meta={"labels": {NODEPOOL: "default", ZONE: "zone-1"}})))
    found.store.apply(
        ObjectUpdated(node(meta={"labels": {NODEPOOL: "default", ZONE: "zone-1"}}, ready=False))
    )
    assert found.rows(declared.STATE, *names) == {
        (owner, "node-1", "true", "default", "zone-1", "Running", "false", "true"): 1.0
    }

    found.store.apply(ObjectUpdated(pod("other", spec={"nodeName": ""}, status={"phase": "Pending"})))
    assert found.rows(declared.STATE, "name", "scheduled") == {
        ("pod-1", "true"): 1.0,
        ("other", "false"): 1.0,
    }
    found.store.apply(ObjectDeleted(pod()))
    assert found.rows(declared.STATE, "name") == {("other",): 1.0}


class Waiting(Showing):
    """Pods that wait, and who times them."""

    def __init__(self, *, healthy: bool = True) -> None:
        super().__init__()
        self.waits = PodLatencyMetrics(self.store, self.metrics, self.clock)
        self.store.subscribe(self.waits.hear)
        self.store.apply(ObjectUpdated(pool(NodeRegistrationHealthy="True" if healthy else "False")))

    def sees(self, item: Any, *, asked: bool = False) -> None:
        """Take in a pod; `asked` means that we look for a place for it."""
        if asked:
            self.store.acknowledge(item.key, self.clock.now())
        self.store.apply(ObjectUpdated(item))

    def observed(self) -> dict[str, tuple[int, float]]:
        """Return how often each duration was observed, and their sums."""
        found = {}
        for each in (
            declared.STARTUP_DURATION,
            declared.BOUND_DURATION,
            declared.PROVISIONING_BOUND_DURATION,
            declared.PROVISIONING_STARTUP_DURATION,
            declared.DECISION_DURATION,
        ):
            instrument = self.metrics[each]
            assert isinstance(instrument, HistogramMetric | SummaryMetric)
            count = instrument.count()
            if count:
                total = next(s.value for s in instrument.samples() if s.suffix == "_sum")
                found[each.name.removeprefix("karpenter_pods_").removesuffix("_duration_seconds")] = (
                    count,
                    round(total, 3),
                )
        return found


def test_a_pod_from_its_first_sight_to_its_start() -> None:
    """All of its waits are observed once: for a decision, for a node, for its start."""
    found = Waiting()
    found.sees(pending(), asked=True)
    found.clock.seconds = 2.0
    found.waits.decided(ProvisioningDecision(places={KEY: "default"}))
    found.clock.seconds = 3.0
    found.waits.decided(ProvisioningDecision(places={KEY: "default"}))
    found.sees(bound(30))
    found.sees(bound(31))
    found.sees(running(40))
    found.sees(running(50))

    assert found.observed() == {
        "scheduling_decision": (1, 2.0),
        "bound": (1, 40.0),
        "provisioning_bound": (1, 27.993),
        "startup": (1, 50.0),
        "provisioning_startup": (1, 37.993),
    }


def test_waits_are_shown_as_they_grow() -> None:
    """While a pod waits its times so far are shown; what is over is not."""
    found = Waiting()
    found.sees(pending(), asked=True)
    found.clock.seconds = 5.0
    assert found.rows(declared.UNSTARTED_TIME, "namespace", "name") == {("default", "pod-1"): 15.007}
    assert found.rows(declared.UNBOUND_TIME, "name") == {("pod-1",): 15.007}
    assert found.rows(declared.UNDECIDED_TIME, "name") == {("pod-1",): 5.0}
    assert found.rows(declared.PROVISIONING_UNBOUND_TIME) == {}

    found.waits.decided(ProvisioningDecision(places={KEY: "default"}))
    found.clock.seconds = 7.0
    assert found.rows(declared.UNDECIDED_TIME) == {}
    assert found.rows(declared.PROVISIONING_UNBOUND_TIME, "name") == {("pod-1",): 2.0}
    assert found.rows(declared.PROVISIONING_UNSTARTED_TIME, "name") == {("pod-1",): 2.0}

    found.sees(bound(7))
    assert found.rows(declared.UNBOUND_TIME) == found.rows(declared.PROVISIONING_UNBOUND_TIME) == {}
    assert len(found.rows(declared.UNSTARTED_TIME)) == 1
    found.sees(running(8))
    assert found.rows(declared.UNSTARTED_TIME) == found.rows(declared.PROVISIONING_UNSTARTED_TIME) == {}


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(ObjectDeleted(pending()), id="gone"),
        pytest.param(ObjectUpdated(pod(status={"phase": "Failed"})), id="ended"),
    ],
)
def test_pods_that_never_start(last: Any) -> None:
    """A pod that ends or goes before its start is not observed, and not shown."""
    found = Waiting()
    found.sees(pending())
    found.store.apply(last)

    assert found.rows(declared.UNSTARTED_TIME) == {}
    assert found.observed() == {}


def test_pods_that_nothing_was_decided_about() -> None:
    """A pod that finds a node by itself is timed from its birth only; what else happens is no matter."""
    found = Waiting()
    found.store.apply(ObjectUpdated(node()))
    found.sees(pending())
    found.sees(bound(1))
    found.waits.decided(ProvisioningDecision(places={KEY: "default"}))
    found.sees(running(2))

    assert found.observed() == {"bound": (1, 11.0), "startup": (1, 12.0)}


def test_pods_that_we_first_see_running() -> None:
    """What was over before we came is not observed."""
    found = Waiting()
    found.sees(running(1))
    found.waits.decided(ProvisioningDecision(places={KEY: "default"}))

    assert found.observed() == {}


def test_a_refusal_takes_the_place_back() -> None:
    """A pod that has a place, and then none, counts from the next time that it has one."""
    found = Waiting()
    found.sees(pending(), asked=True)
    found.waits.decided(ProvisioningDecision(places={KEY: "default"}))
    found.waits.decided(ProvisioningDecision(refused=frozenset({KEY})))
    assert found.rows(declared.PROVISIONING_UNBOUND_TIME) == {}
    found.clock.seconds = 9.0
    found.waits.decided(ProvisioningDecision(places={KEY: "default"}))
    found.clock.seconds = 10.0

    assert found.rows(declared.PROVISIONING_UNBOUND_TIME, "name") == {("pod-1",): 1.0}


def test_pools_whose_machines_do_not_become_nodes() -> None:
    """A place in a pool that is not healthy does not start the clock; one on a node of nobody's does."""
    found = Waiting(healthy=False)
    found.sees(pending())
    found.waits.decided(ProvisioningDecision(places={KEY: "default"}))
    assert found.rows(declared.PROVISIONING_UNBOUND_TIME) == {}

    found.waits.decided(ProvisioningDecision(places={KEY: ""}))
    assert len(found.rows(declared.PROVISIONING_UNBOUND_TIME)) == 1
