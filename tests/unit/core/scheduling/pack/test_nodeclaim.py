"""What a claim can still become."""

from __future__ import annotations

import pytest

from karpenter.api.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, SPOT, ZONE
from karpenter.core.model.requirement import requirement
from karpenter.core.model.requirements import NOTHING_REQUIRED, Requirements
from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
from karpenter.core.scheduling.pack.nodeclaim import ClaimState, ClaimStates
from karpenter_local.testing.builders import RULES, instance_type, need, offering, only, pool

RACK = "example.com/rack"
AXIS = ("cpu", "memory", "pods")
GIB = 2**30
SMALL = instance_type("small", cpu=2, memory=4, price=0.1)
LARGE = instance_type("large", cpu=8, memory=16, price=0.4, sold=[offering("zone-1", ON_DEMAND, 0.4)])
POOL = pool("p", SMALL, LARGE, requires=[need(RACK, "In", "a", "b"), need("team", "Exists")])
TEMPLATE = Template(0, POOL, [], AXIS, RULES.well_known)


def wants(key: str, *values: str) -> Requirements:
    """Return the demand that a label has one of some values."""
    return Requirements.only(key, frozenset(values))


def start() -> tuple[ClaimStates, ClaimState]:
    """Return fresh states, and the one that a claim of the pool starts in."""
    states = ClaimStates(RULES.well_known)
    return states, states.of(TEMPLATE, POOL.requirements, TEMPLATE.bits)


def test_equal_states_are_one() -> None:
    """The same parts give the same object, with one number."""
    states, first = start()

    assert states.of(TEMPLATE, POOL.requirements, TEMPLATE.bits) is first
    assert states.all == [first]
    assert first.number == 0


def test_a_step_narrows() -> None:
    """A requirement is merged, and offerings that do not satisfy it are gone."""
    states, first = start()

    found = states.step(first, wants(ZONE, "zone-1"))

    assert found is not None
    assert found.requirements[ZONE].values == {"zone-1"}
    assert TEMPLATE.table.values(ZONE, found.bits) == {"zone-1"}


def test_steps_are_remembered() -> None:
    """The same step from the same state leads to the same state."""
    states, first = start()

    assert states.step(first, wants(ZONE, "zone-1")) is states.step(first, wants(ZONE, "zone-1"))


def test_the_order_of_steps_does_not_matter() -> None:
    """Two requirements lead to one state, whichever comes first."""
    states, first = start()
    zone, spot = wants(ZONE, "zone-1"), wants(CAPACITY_TYPE, SPOT)
    one, other = states.step(first, zone), states.step(first, spot)
    assert one is not None
    assert other is not None

    assert states.step(one, spot) is states.step(other, zone)


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(NOTHING_REQUIRED, id="nothing asked"),
        pytest.param(wants(RACK, "a", "b"), id="what holds already"),
    ],
)
def test_a_step_that_changes_nothing_stays(wanted: Requirements) -> None:
    """A requirement that says nothing new leads nowhere else."""
    states, first = start()

    assert states.step(first, wanted) is first


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(wants(ZONE, "zone-9"), id="no offering is there"),
        pytest.param(wants("example.com/unknown", "x"), id="nodes of the pool have no such label"),
        pytest.param(wants(RACK, "c"), id="the pool excludes the value"),
    ],
)
def test_a_step_that_leaves_nothing_is_refused(wanted: Requirements) -> None:
    """Where no offering or no value is left, there is no state."""
    states, first = start()

    assert states.step(first, wanted) is None
    assert states.step(first, wanted) is None


def test_requirements_are_joined_before_offerings_are_asked() -> None:
    """Two demands that different offerings meet, but none meets together, leave nothing."""
    kinds = [instance_type("x", type_labels={RACK: "x"}), instance_type("y", type_labels={RACK: "y"})]
    ours = pool("p", *kinds, requires=[only(RACK, "x", "z")])
    found = Template(0, ours, [], AXIS, RULES.well_known)
    states = ClaimStates(RULES.well_known)
    first = states.of(found, ours.requirements, found.table.everything)

    assert states.step(first, wants(RACK, "z", "y")) is None


def test_the_frontier_of_a_state_answers_what_fits() -> None:
    """A load fits when some machine that is still possible has room for all of it."""
    states, first = start()
    small = states.step(first, wants(INSTANCE_TYPE, "small"))
    assert small is not None

    assert first.fits((8000, 16 * GIB, 110))
    assert not small.fits((8000, 1, 1))
    assert small.fits((2000, 4 * GIB, 110))
    assert not small.fits((2000, 4 * GIB, 111))
    assert small.most == (2000, 4 * GIB, 110)
    assert small.ceiling.tolist() == small.ceiling.tolist() == list(small.most)
    assert small.frontier is small.frontier
    assert small.rows == [small.most]


def test_where_nothing_has_room_nothing_fits() -> None:
    """When daemons leave no type any room, even an empty pod does not fit."""
    found = Template(0, pool("p", SMALL), [], AXIS, RULES.well_known)
    found.table.reserve([{"cpu": 9000}])
    state = ClaimStates(RULES.well_known).of(found, NOTHING_REQUIRED, found.bits)

    assert state.most == (-1, -1, -1)
    assert not state.fits((0, 0, 0))


def test_domains() -> None:
    """A label can take the values that offerings have, or else those that requirements name."""
    states, first = start()
    narrowed = states.step(first, wants(RACK, "a"))
    assert narrowed is not None

    assert first.domains(ZONE) == first.domains(ZONE) == frozenset({"zone-1", "zone-2", "zone-3"})
    assert first.domains(RACK) == frozenset({"a", "b"})
    assert narrowed.domains(RACK) == frozenset({"a"})
    assert first.domains("team") is None
    assert first.domains("example.com/unknown") == frozenset()


def test_excluded_values_are_no_domains() -> None:
    """A zone that a pod excludes is no longer possible, wherever offerings are."""
    states, first = start()
    found = states.step(first, Requirements.of([requirement(ZONE, "NotIn", ["zone-1"])]))
    assert found is not None

    assert found.domains(ZONE) == frozenset({"zone-2", "zone-3"})


def test_prices_per_domain() -> None:
    """Every domain has the price of the cheapest offering there."""
    _, first = start()

    assert first.prices(ZONE) == first.prices(ZONE)
    assert first.prices(ZONE)["zone-1"] == pytest.approx(0.06)
    assert first.prices(ARCH) == {"amd64": pytest.approx(0.06)}
    assert first.prices("team") == {}
