"""Where a pod would run, as far as devices care."""

from __future__ import annotations

import pytest

from karpenter.api.labels import CAPACITY_TYPE, HOSTNAME, ZONE
from karpenter.core.model.requirement import requirement
from karpenter.core.model.requirements import NOTHING_REQUIRED, Requirements
from karpenter.core.scheduling.dynamicresources.types import NODE_NAME
from karpenter.core.scheduling.encode.devices import NodeTarget
from karpenter.core.scheduling.encode.encode import EncodedProblem
from karpenter.core.scheduling.pack.allocator import ClaimTarget
from karpenter.core.scheduling.pack.scheduler import Scheduler
from karpenter_local.testing.builders import instance_type, node, offerings, pool, problem


def wants(key: str, operator: str, *values: str) -> Requirements:
    return Requirements.of([requirement(key, operator, values)])


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(NOTHING_REQUIRED, True, id="nothing in particular"),
        pytest.param(wants(ZONE, "In", "zone-1"), True, id="its zone"),
        pytest.param(wants(ZONE, "In", "zone-2"), False, id="another zone"),
        pytest.param(wants(NODE_NAME, "In", "n1"), True, id="its name"),
        pytest.param(wants(NODE_NAME, "In", "n2"), False, id="another name"),
        pytest.param(wants("example.com/rack", "Exists"), False, id="a label it does not have"),
    ],
)
def test_a_node_that_is_there(wanted: Requirements, expected: bool) -> None:
    """A node has all its labels already: it suits or it does not."""
    target = NodeTarget(node("n1", zone="zone-1").existing)

    assert (target.narrow(wanted) is target) is expected


A = instance_type("a", sold=offerings(1.0, zones=["zone-1"]))
B = instance_type("b", sold=offerings(2.0, zones=["zone-1", "zone-2"]))


def claim_place(*, must: str = "b") -> ClaimTarget:
    """Return a new claim that may become `a` or `b`, and must be able to become some type."""
    run = Scheduler(EncodedProblem(problem(pools=[pool("default", A, B)])))
    state = run.base(run.templates[0])
    table = state.template.table
    kept = table.matching(requirement("node.kubernetes.io/instance-type", "In", [must]))
    return ClaimTarget(run.states, state, [kept])


@pytest.mark.parametrize(
    ("wanted", "must", "expected"),
    [
        pytest.param(NOTHING_REQUIRED, "b", {"zone-1", "zone-2"}, id="nothing in particular"),
        pytest.param(wants(ZONE, "In", "zone-2"), "b", {"zone-2"}, id="a zone"),
        pytest.param(wants(ZONE, "In", "zone-2"), "a", None, id="a zone that would rule out what must stay"),
        pytest.param(wants(ZONE, "In", "zone-9"), "b", None, id="a zone that is not sold"),
        pytest.param(wants(CAPACITY_TYPE, "In", "spot"), "a", {"zone-1", "zone-2"}, id="a way of buying"),
        pytest.param(wants("example.com/rack", "In", "r"), "b", None, id="a label that no machine has"),
        pytest.param(
            wants("example.com/rack", "NotIn", "r"), "b", {"zone-1", "zone-2"}, id="a label it may lack"
        ),
        pytest.param(wants(NODE_NAME, "In", "n1"), "b", None, id="the name of another node"),
        pytest.param(wants(NODE_NAME, "NotIn", "n1"), "b", {"zone-1", "zone-2"}, id="any name but one"),
        pytest.param(wants(HOSTNAME, "In", "n1"), "b", None, id="the host of another node"),
        pytest.param(wants(HOSTNAME, "Exists"), "b", {"zone-1", "zone-2"}, id="any host"),
    ],
)
def test_a_claim_of_the_run(wanted: Requirements, must: str, expected: set[str] | None) -> None:
    """A claim is narrowed, but never so far that what must stay possible is not."""
    found = claim_place(must=must).narrow(wanted)

    assert (found.state.domains(ZONE) if found is not None else None) == expected


def test_names_are_not_written_into_claims() -> None:
    """What is said about names of nodes is not part of what a claim requires."""
    found = claim_place().narrow(wants(HOSTNAME, "NotIn", "n1"))

    assert found is not None
    assert HOSTNAME not in found.state.requirements
