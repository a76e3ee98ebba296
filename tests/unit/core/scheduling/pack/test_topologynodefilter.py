"""Which nodes a spread counts."""

from __future__ import annotations

import pytest

from karpenter.api.labels import ARCH, ZONE
from karpenter.api.meta import convert
from karpenter.api.pod import PodSpec, TopologySpreadConstraint
from karpenter.core.model.requirement import requirement
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.pack.topologynodefilter import spread_node_filter

ARM = Requirements.of([requirement(ARCH, "In", ["arm64"])])


@pytest.mark.parametrize(
    ("selector", "terms", "policy", "counted"),
    [
        pytest.param({}, (), "Honor", {("a", "arm64"), ("a", "amd64"), ("b", "arm64")}, id="all"),
        pytest.param({ZONE: "a"}, (), "Honor", {("a", "arm64"), ("a", "amd64")}, id="those selected"),
        pytest.param({}, (ARM,), "Honor", {("a", "arm64"), ("b", "arm64")}, id="those of the affinity"),
        pytest.param({ZONE: "a"}, (ARM,), "Honor", {("a", "arm64")}, id="those of both"),
        pytest.param(
            {ZONE: "a"}, (ARM,), "Ignore", {("a", "arm64"), ("a", "amd64"), ("b", "arm64")}, id="both ignored"
        ),
    ],
)
def test_a_spread_counts_the_nodes_that_its_pod_may_use(
    selector: dict[str, str], terms: tuple[Requirements, ...], policy: str, counted: set[tuple[str, str]]
) -> None:
    """The node selector and the required affinity hold together, unless the spread ignores them."""
    spread = convert(
        {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "nodeAffinityPolicy": policy,
        },
        TopologySpreadConstraint,
    )
    found = spread_node_filter(PodSpec(node_selector=selector), spread, terms)
    nodes = [("a", "arm64"), ("a", "amd64"), ("b", "arm64")]

    assert {
        (zone, arch)
        for zone, arch in nodes
        if found.matches(Requirements.from_labels({ZONE: zone, ARCH: arch}), ())
    } == counted
