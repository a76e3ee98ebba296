"""The scheduler: pods that want to be together, apart or evenly spread."""

import pytest

from tests.contract.kubernetes.api import Api, done
from tests.contract.kubernetes.machines import join, named, schedule
from tests.contract.kubernetes.objects import pod
from tests.contract.kubernetes.rules import HOSTNAME, beside, spread

pytestmark = pytest.mark.usefixtures("empty_cluster")


def test_affinity_keeps_pods_together(api: Api) -> None:
    """A pod goes where those are that it wants to be with."""
    for short in "abc":
        join(api, short)
    first = schedule(api, "first", app="x")

    assert schedule(api, "second", beside("podAffinity", {"app": "x"})) == first


def test_affinity_to_itself_is_no_deadlock(api: Api) -> None:
    """The first of a group that wants to be together may go anywhere."""
    join(api, "a")

    assert schedule(api, "first", beside("podAffinity", {"app": "x"}), app="x") == "a"


def test_anti_affinity_keeps_pods_apart(api: Api) -> None:
    """Each goes to another node."""
    for short in "abc":
        join(api, short)
    rule = beside("podAntiAffinity", {"app": "x"})

    places = {schedule(api, f"p{number}", rule, app="x") for number in range(3)}

    assert places == {"a", "b", "c"}


def test_anti_affinity_by_zone(api: Api) -> None:
    """The topology key decides what apart means."""
    for short, zone in (("a", "1"), ("b", "1"), ("c", "2")):
        join(api, short, labels={"zone": zone})
    rule = beside("podAntiAffinity", {"app": "x"}, key="zone")
    first = schedule(api, "p0", rule, app="x")
    second = schedule(api, "p1", rule, app="x")
    third = schedule(api, "p2", rule, app="x")

    assert {first, second} & {"c"}
    assert "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules." in third


def test_affinity_across_namespaces(api: Api) -> None:
    """Pods of other namespaces count only when they are named."""
    join(api, "a")
    other = api.make("namespaces", {"metadata": {"name": f"{api.unique}-b"}})["metadata"]["name"]
    body = pod("there", spec={"nodeName": named(api, "a")}, labels={"app": "x"})
    done(api.send("POST", api.path("pods", namespace=other), body))
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": HOSTNAME}
    own = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    wide = {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{**term, "namespaces": [other]}]}
    }

    refused = schedule(api, "own", {"affinity": own})
    placed = schedule(api, "wide", {"affinity": wide})

    assert "didn't match pod affinity rules" in refused
    assert placed == "a"


def test_spread_is_even(api: Api) -> None:
    """Four pods over two zones are two and two."""
    for short, zone in (("a", "1"), ("b", "2")):
        join(api, short, labels={"zone": zone})

    places = [schedule(api, f"p{number}", spread({"s": "1"}), s="1") for number in range(4)]

    assert sorted(places) == ["a", "a", "b", "b"]


def test_a_soft_spread_gives_way(api: Api) -> None:
    """ScheduleAnyway prefers, and no more."""
    join(api, "a", labels={"zone": "1"})

    places = [
        schedule(api, f"p{number}", spread({"s": "1"}, when="ScheduleAnyway"), s="1") for number in range(3)
    ]

    assert places == ["a", "a", "a"]


def test_min_domains(api: Api) -> None:
    """With fewer zones than asked for, the smallest count is taken as none."""
    join(api, "a", labels={"zone": "1"})

    first = schedule(api, "p0", spread({"s": "1"}, minDomains=2), s="1")
    second = schedule(api, "p1", spread({"s": "1"}, minDomains=2), s="1")

    assert first == "a"
    assert "didn't match pod topology spread constraints" in second


@pytest.mark.parametrize(("policy", "placed"), [("Honor", True), ("Ignore", False)])
def test_spread_and_taints(api: Api, policy: str, placed: bool) -> None:
    """Whether a zone behind a taint counts is up to nodeTaintsPolicy."""
    join(api, "a", labels={"zone": "1"})
    join(api, "b", labels={"zone": "2"}, spec={"taints": [{"key": "k", "effect": "NoSchedule"}]})
    rule = spread({"s": "1"}, nodeTaintsPolicy=policy)
    schedule(api, "p0", rule, s="1")

    assert (schedule(api, "p1", rule, s="1") == "a") is placed


@pytest.mark.parametrize(("policy", "placed"), [("Honor", True), ("Ignore", False)])
def test_spread_and_affinity(api: Api, policy: str, placed: bool) -> None:
    """Whether a zone that the pod cannot use counts is up to nodeAffinityPolicy."""
    join(api, "a", labels={"zone": "1", "mine": "yes"})
    join(api, "b", labels={"zone": "2"})
    rule = {**spread({"s": "1"}, nodeAffinityPolicy=policy), "nodeSelector": {"mine": "yes"}}
    schedule(api, "p0", rule, s="1")

    assert (schedule(api, "p1", rule, s="1") == "a") is placed


def test_spread_of_one_revision(api: Api) -> None:
    """With matchLabelKeys, only pods that share the value of a label count."""
    for short, zone in (("a", "1"), ("b", "2")):
        join(api, short, labels={"zone": zone})
    rule = spread({"s": "1"}, matchLabelKeys=["rev"])
    old = {schedule(api, f"old{number}", rule, s="1", rev="1") for number in range(2)}
    new = {schedule(api, f"new{number}", rule, s="1", rev="2") for number in range(2)}

    assert old == new == {"a", "b"}
