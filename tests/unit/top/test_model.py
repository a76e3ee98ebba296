from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from karpenter.core.model.selectors import SelectorError
from karpenter.top.model import (
    NodeRow,
    NodeSort,
    RowCache,
    age,
    label_text,
    matches,
    node_rows,
    parse_sort,
    read_selector,
    sorted_rows,
    totals,
    waiting_pods,
    without_effect,
)
from tests.unit.top.clusters import NOW, ago, claim, node, pod, row, view


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param({"karpenter.sh/capacity-type": "spot"}, "spot", id="Karpenter says spot"),
        pytest.param({"karpenter.sh/capacity-type": "reserved"}, "reserved", id="Karpenter says reserved"),
        pytest.param({"eks.amazonaws.com/capacityType": "ON_DEMAND"}, "on-demand", id="a node group"),
        pytest.param({"eks.amazonaws.com/capacityType": "SPOT"}, "spot", id="a node group of spot"),
        pytest.param({"eks.amazonaws.com/compute-type": "fargate"}, "fargate", id="Fargate"),
        pytest.param({}, "", id="nothing is said"),
    ],
)
def test_how_a_node_was_bought(labels: dict[str, str], expected: str) -> None:
    """The labels of Karpenter and those of EKS say how a node was bought."""
    assert row(node("a", labels)).capacity_type == expected


def test_auto_mode() -> None:
    """A node of EKS Auto Mode is known by its label."""
    assert row(node("a", {"eks.amazonaws.com/compute-type": "auto"})).auto


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({}, "", id="nothing"),
        pytest.param({"unschedulable": True}, "Cordoned", id="kubectl cordon"),
        pytest.param(
            {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]},
            "Cordoned",
            id="the taint",
        ),
        pytest.param(
            {"taints": [{"key": "karpenter.sh/disruption", "effect": "NoSchedule"}]},
            "Cordoned",
            id="the taint of before version 1",
        ),
        pytest.param({"metadata": {"deletionTimestamp": ago(seconds=1)}}, "Deleting", id="deleted"),
        pytest.param(
            {"metadata": {"deletionTimestamp": ago(seconds=1)}, "unschedulable": True},
            "Cordoned/Deleting",
            id="both",
        ),
    ],
)
def test_what_happens_to_a_node(more: dict[str, Any], expected: str) -> None:
    """A node that takes no more pods is cordoned, and one with a deletion timestamp is deleting."""
    assert row(node("a", **more)).state == expected


def test_usage_is_what_active_pods_request() -> None:
    """Pods that ended or are being deleted count no more, and each pod counts as one of pods."""
    found = row(
        node("a"),
        pod("one", "a", "500m"),
        pod("two", "a", "1500m"),
        pod("done", "a", phase="Succeeded"),
        pod("going", "a", metadata={"deletionTimestamp": ago(seconds=1)}),
    )
    assert found.amounts("cpu") == (2000, 4000)
    assert found.amounts("pods") == (2, 58)
    assert found.share("cpu") == 0.5
    assert found.share("nvidia.com/gpu") is None


def test_gpu_stands_for_every_kind_of_gpu() -> None:
    """The resource gpu is the sum of those whose names end so."""
    room = {"cpu": "4", "nvidia.com/gpu": "8"}
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"nvidia.com/gpu": "2"}}}]
    found = row(node("a", room=room), pod("p", "a", spec={"containers": containers}))
    assert found.amounts("gpu") == (2, 8)


def test_a_claim_without_a_node_is_a_row() -> None:
    """It is called by its instance, has the room that was launched, and waits since it was created."""
    found = row(claim("x", labels={"karpenter.sh/nodepool": "default"}))
    assert (found.name, found.key, found.instance, found.pool) == ("i-x", "x", "i-x", "default")
    assert not found.ready
    assert found.waiting_since == NOW - timedelta(seconds=100)
    assert found.allocatable["cpu"] == 4000


def test_a_claim_with_its_node_is_one_row() -> None:
    """They are joined by their provider id."""
    assert row(claim("x"), node("x")).name == "x"


def test_a_node_that_was_ready_waits_since_it_is_not() -> None:
    """Its condition says since when; a node that is Ready waits for nothing."""
    assert row(node("a", ready="False")).waiting_since == NOW - timedelta(minutes=5)
    assert row(node("a")).waiting_since is None


def test_fargate_says_its_size_by_its_pod() -> None:
    """What was provisioned for the pod is the type of the node."""
    size = {"annotations": {"CapacityProvisioned": "0.25vCPU 0.5GB"}}
    found = row(node("a", {"eks.amazonaws.com/compute-type": "fargate"}), pod("p", "a", metadata=size))
    assert found.instance_type == "0.25vCPU-0.5GB"


def test_a_price_on_the_node_is_believed() -> None:
    """A label with a price wins over the catalogue; one that is no number is left out."""
    label = "eks-node-viewer/instance-price"
    priced = view(node("a", {label: "0.5"}), node("b", {label: "much"}))
    assert [each.price for each in node_rows(priced, lambda _: 2.0)] == [0.5, 2.0]


def test_sums_are_those_of_the_rows() -> None:
    """Pods on nodes that are not shown are not counted; those without a node always are."""
    found = view(
        node("a"),
        node("b"),
        pod("one", "a"),
        pod("two", "b"),
        pod("waits"),
        pod("starts", "a", phase="Pending"),
    )
    shown = [each for each in node_rows(found, lambda _: 0.1) if each.name == "a"]
    sums = totals(shown, waiting_pods(found))
    assert (sums.nodes, sums.pods, sums.pending, sums.running, sums.bound) == (1, 3, 2, 1, 2)
    assert sums.requests["cpu"] == 2000
    assert sums.monthly == pytest.approx(73.0)


def test_a_pod_that_runs_does_not_wait() -> None:
    """The operator of `karpenter local up --with-karpenter` runs, and has no node."""
    found = view(node("a"), pod("waits", phase="Pending"), pod("karpenter", phase="Running"))

    assert [each.name for each in waiting_pods(found)] == ["waits"]


def test_unpriced_nodes_are_counted() -> None:
    """The bill says how many nodes it leaves out."""
    found = view(node("a"), node("b"))
    assert totals(node_rows(found, lambda _: None), waiting_pods(found)).unpriced == 2


def test_rows_are_made_once() -> None:
    """A row is made again only when its node, claim or pods changed."""
    cache = RowCache(lambda _: None)
    found = view(node("a"), node("b"))
    assert all(one is two for one, two in zip(cache.rows(found), cache.rows(found), strict=True))


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0s"),
        (-5, "0s"),
        (119, "119s"),
        (120, "2m"),
        (599, "9m59s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (3 * 3600 + 900, "3h15m"),
        (8 * 3600, "8h"),
        (48 * 3600 - 1, "47h"),
        (48 * 3600, "2d"),
        (2 * 86400 + 3600, "2d1h"),
        (8 * 86400, "8d"),
        (2 * 365 * 86400, "2y"),
        (2 * 365 * 86400 + 86400, "2y1d"),
        (8 * 365 * 86400, "8y"),
    ],
)
def test_ages_are_those_of_kubectl(seconds: int, expected: str) -> None:
    """Two units where one would say too little."""
    assert age(timedelta(seconds=seconds)) == expected


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("team", "web"),
        ("none", "-"),
        ("eks-node-viewer/node-age", "60m"),
        ("eks-node-viewer/node-cpu-usage", "25%"),
        ("eks-node-viewer/node-ephemeral-storage-usage", "N/A"),
    ],
)
def test_label_columns(label: str, expected: str) -> None:
    """Labels of the node, and some that are computed; what a node does not have is a dash."""
    assert label_text(row(node("a", {"team": "web"}), pod("p", "a")), label, NOW) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("creation=dsc", NodeSort("creation", descending=True)),
        ("creation", NodeSort("creation", descending=False)),
        ("", NodeSort("creation", descending=False)),
        ("topology.kubernetes.io/zone=asc", NodeSort("topology.kubernetes.io/zone", descending=False)),
    ],
)
def test_orders_are_read(text: str, expected: NodeSort) -> None:
    """A name, and the way as its end."""
    assert parse_sort(text) == expected


def test_names_that_no_node_has() -> None:
    """A label to sort by and a resource are named where no node has them; GPUs may be missing."""
    rows = node_rows(view(node("node-1", {"slot": "a"})), lambda _: None)

    assert list(without_effect(rows, parse_sort("slot"), ("cpu", "gpu"))) == []
    assert list(without_effect([], parse_sort("foo"), ("cpu",))) == []
    assert next(without_effect(rows, parse_sort("typ"), ())) == (
        "no node has the label typ to sort by; did you mean type?"
    )
    [about_chips] = without_effect(rows, parse_sort("type"), ("example.com/chips",))
    assert about_chips.startswith("no node has the resource example.com/chips; there are cpu")


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("creation=dsc", ["node-10", "node-2", "node-1"]),
        ("creation=asc", ["node-1", "node-2", "node-10"]),
        ("name", ["node-1", "node-2", "node-10"]),
        ("price=dsc", ["node-2", "node-1", "node-10"]),
        ("pods=dsc", ["node-1", "node-2", "node-10"]),
        ("cpu=dsc", ["node-1", "node-2", "node-10"]),
        ("slot", ["node-10", "node-2", "node-1"]),
    ],
)
def test_rows_are_sorted(order: str, expected: list[str]) -> None:
    """By their creation, their figures, or a label, with numbers in texts by their value."""
    found = view(
        node("node-1", {"slot": "b-10"}, created=ago(hours=3)),
        node("node-2", {"slot": "b-9"}, created=ago(hours=2)),
        node("node-10", {"slot": "a"}, created=ago(hours=1)),
        pod("p", "node-1"),
    )
    prices = {"node-1": 0.1, "node-2": 0.2, "node-10": 0.1}
    rows = node_rows(found, lambda each: prices[each.name])
    assert [each.name for each in sorted_rows(rows, parse_sort(order))] == expected


@pytest.mark.parametrize(
    ("words", "expected"), [("", True), ("M5 spot", True), ("spot c5", False), ("cordoned", True)]
)
def test_words_filter_rows(words: str, expected: bool) -> None:
    """Every word has to be in what a row says of itself, in any case."""
    found = NodeRow(name="a", instance_type="m5.large", capacity_type="spot", cordoned=True)
    assert matches(found, words) is expected


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        ("", {}, True),
        ("a=b", {"a": "b"}, True),
        ("a==b,c", {"a": "b"}, False),
        ("a!=b", {}, True),
        ("!a", {"a": "b"}, False),
        ("a in (b, c),x.io/d", {"a": "c", "x.io/d": ""}, True),
        ("a notin (b,c)", {"a": "c"}, False),
    ],
)
def test_selectors_are_those_of_kubectl(text: str, labels: dict[str, str], expected: bool) -> None:
    """Equality, sets and presence, joined by commas."""
    assert read_selector(text).matches(labels) is expected


@pytest.mark.parametrize("text", ["a=b c", "=", "a in b", "a,,b"])
def test_what_is_no_selector_is_refused(text: str) -> None:
    """A text that is no selector is named."""
    with pytest.raises(SelectorError, match="is no label selector"):
        read_selector(text)


def test_rows_are_values() -> None:
    """A row can be changed only by making another."""
    assert msgspec.structs.replace(NodeRow(name="a"), name="b").name == "b"
