"""Default spread for pods that ask for none."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.cluster import Service
from karpenter.api.meta import Resource, convert
from karpenter.api.pod import Pod, TopologySpreadConstraint
from karpenter.api.workloads import Deployment, ReplicaSet, ReplicationController, StatefulSet
from karpenter.core.model.selectors import parse_selector
from karpenter.core.scheduling.build.spread_defaults import spread_defaults
from karpenter.core.state.cluster import view_of

ZONES = TopologySpreadConstraint(max_skew=2, topology_key="zone", when_unsatisfiable="ScheduleAnyway")
HOSTS = TopologySpreadConstraint(max_skew=5, topology_key="host", when_unsatisfiable="DoNotSchedule")
WEB = {"app": "web", "tier": "front"}


def pod(owner: str = "", *, name: str = "web-0", controller: bool = True, **fields: Any) -> Pod:
    """Return a pod of the web, perhaps owned by ``Kind/name``."""
    kind, _, owned_by = owner.partition("/")
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": owned_by, "uid": "", "controller": controller}
    meta = {
        "name": name,
        "namespace": "shop",
        "labels": fields.get("labels", WEB),
        "ownerReferences": [reference] if owner else [],
    }
    return convert({"metadata": meta, "spec": fields.get("spec", {})}, Pod)


def service(name: str, namespace: str = "shop", **selector: str) -> Service:
    return convert(
        {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": selector}}, Service
    )


def owner(kind: type[Resource], selector: dict[str, Any], name: str = "web") -> Resource:
    return convert({"metadata": {"name": name, "namespace": "shop"}, "spec": {"selector": selector}}, kind)


APP = {"matchLabels": {"app": "web"}}
TIER = {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["front", "back"]}]}


@pytest.mark.parametrize(
    ("found", "objects", "expected"),
    [
        pytest.param(pod(), [], None, id="no service and no owner"),
        pytest.param(pod(), [service("a", app="web")], "app=web", id="a service that selects the pod"),
        pytest.param(pod(), [service("a", app="db")], None, id="a service that does not"),
        pytest.param(pod(), [service("a", "other", app="web")], None, id="a service of another namespace"),
        pytest.param(pod(), [service("a")], None, id="a service without a selector"),
        pytest.param(
            pod(),
            [service("a", app="web"), service("b", tier="front")],
            "app=web,tier=front",
            id="several services together",
        ),
        pytest.param(
            pod("ReplicaSet/web"), [owner(ReplicaSet, APP)], "app=web", id="the ReplicaSet that owns it"
        ),
        pytest.param(
            pod("ReplicaSet/web"),
            [owner(ReplicaSet, {**APP, **TIER})],
            "app=web,tier in (back,front)",
            id="a ReplicaSet with expressions",
        ),
        pytest.param(
            pod("StatefulSet/web"), [owner(StatefulSet, APP)], "app=web", id="the StatefulSet that owns it"
        ),
        pytest.param(
            pod("Deployment/web"), [owner(Deployment, APP)], "app=web", id="the Deployment that would own it"
        ),
        pytest.param(
            pod("ReplicationController/web"),
            [owner(ReplicationController, {"app": "web"})],
            "app=web",
            id="the ReplicationController that owns it",
        ),
        pytest.param(
            pod("ReplicaSet/web"),
            [owner(ReplicaSet, APP), service("a", tier="front")],
            "app=web,tier=front",
            id="owner and service together",
        ),
        pytest.param(
            pod("ReplicaSet/web"),
            [owner(ReplicaSet, {"matchLabels": {"app": "old"}}), service("a", app="web")],
            "app=old,app=web",
            id="owner and service that contradict each other both hold",
        ),
        pytest.param(
            pod("ReplicationController/web"),
            [owner(ReplicationController, {"app": "old"}), service("a", app="web")],
            "app=old",
            id="a ReplicationController has the last word",
        ),
        pytest.param(pod("ReplicaSet/web"), [], None, id="a ReplicaSet that is not there"),
        pytest.param(pod("StatefulSet/web"), [], None, id="a StatefulSet that is not there"),
        pytest.param(pod("Deployment/web"), [], None, id="a Deployment that is not there"),
        pytest.param(
            pod("ReplicationController/web"),
            [service("a", app="web")],
            "app=web",
            id="a ReplicationController that is not there",
        ),
        pytest.param(pod("Job/web"), [owner(ReplicaSet, APP)], None, id="other owners say nothing"),
        pytest.param(
            pod("ReplicaSet/web", controller=False),
            [owner(ReplicaSet, APP)],
            None,
            id="an owner that is no controller",
        ),
        pytest.param(
            pod("ReplicaSet/web"),
            [owner(ReplicaSet, {"matchExpressions": [{"key": "app", "operator": "Is"}]})],
            None,
            id="a selector that cannot be read",
        ),
        pytest.param(
            pod(
                spec={
                    "topologySpreadConstraints": [
                        {"maxSkew": 1, "topologyKey": "x", "whenUnsatisfiable": "ScheduleAnyway"}
                    ]
                }
            ),
            [service("a", app="web")],
            None,
            id="a pod that says itself how to spread",
        ),
    ],
)
def test_selectors(found: Pod, objects: list[Resource], expected: str | None) -> None:
    """What belongs together is deduced from services and owners; where nothing is, nothing is spread."""
    spreads = spread_defaults([found], (ZONES,), view_of(objects)).get(found.key, ())

    assert [str(parse_selector(each.label_selector)) for each in spreads] == ([expected] if expected else [])


def test_every_default_is_given() -> None:
    """A pod gets all default constraints, with the selector and otherwise as they are."""
    found = spread_defaults([pod()], (ZONES, HOSTS), view_of([service("a", app="web")]))["shop/web-0"]

    assert [(each.topology_key, each.max_skew, each.when_unsatisfiable) for each in found] == [
        ("zone", 2, "ScheduleAnyway"),
        ("host", 5, "DoNotSchedule"),
    ]


def test_a_pod_that_says_itself_how_to_spread_hides_no_other() -> None:
    """Of two pods the one that says nothing gets the defaults."""
    own = {"maxSkew": 1, "topologyKey": "x", "whenUnsatisfiable": "ScheduleAnyway"}
    pods = [pod(name="a", spec={"topologySpreadConstraints": [own]}), pod(name="b")]

    assert list(spread_defaults(pods, (ZONES,), view_of([service("s", app="web")]))) == ["shop/b"]


def test_no_defaults() -> None:
    """Without default constraints there is nothing to give."""
    assert spread_defaults([pod()], (), view_of([service("a", app="web")])) == {}


def test_pods_of_one_workload_share_their_constraints() -> None:
    """Pods with one owner and the same labels are worked out once."""
    pods = [pod("ReplicaSet/web", name=f"web-{number}") for number in range(2)]
    found = spread_defaults(pods, (ZONES,), view_of([owner(ReplicaSet, APP)]))

    assert found["shop/web-0"] is found["shop/web-1"]


def test_owners_of_one_name_are_told_apart_by_kind() -> None:
    """A ReplicaSet and a StatefulSet may have one name."""
    pods = [pod("ReplicaSet/web", name="a"), pod("StatefulSet/web", name="b")]
    found = spread_defaults(pods, (ZONES,), view_of([owner(ReplicaSet, APP)]))

    assert list(found) == ["shop/a"]
