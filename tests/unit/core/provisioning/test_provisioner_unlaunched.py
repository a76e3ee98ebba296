"""Claims that have no machine yet: what a decision takes for granted about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ZONE
from karpenter.core.model.catalog import Catalog
from karpenter.core.provisioning.nomination import Nomination
from karpenter.core.provisioning.provisioner import foresee_machines
from karpenter.core.state.cluster import view_of
from karpenter_local.testing.builders import RESERVATION, instance_type, offering
from karpenter_local.testing.builders.machines import CORES
from tests.unit.core.lifecycle.objects import NOW, claim, launched, pool
from tests.unit.core.provisioning.test_provisioner import ASKS, MARKET, decide
from tests.unit.core.provisioning.test_provisioner_demand import waiting

if TYPE_CHECKING:
    from karpenter.api.nodeclaim import NodeClaim

RESERVED = Catalog(
    types=(
        instance_type(
            "small",
            cpu=2,
            sold=(
                offering("zone-1", "on-demand", 0.2),
                offering("zone-1", "reserved", 0.0, reservation="r-1", left=1),
                offering("zone-2", "spot", 0.1),
            ),
        ),
    ),
    well_known=frozenset({CORES, RESERVATION}),
)


def unlaunched(name: str = "claim-1", *, cpu: str = "1", **term: Any) -> NodeClaim:
    """Return a claim of the pool ``default`` that waits for its machine."""
    asked = {"key": INSTANCE_TYPE, "operator": "In", "values": ["small", "large"], **term}
    return claim(
        name=name,
        meta={"labels": {NODEPOOL: "default"}},
        spec={"requirements": [asked], "resources": {"requests": {"cpu": cpu}}},
    )


def test_a_cluster_whose_claims_have_machines_is_as_it_is() -> None:
    """Nothing is foreseen where everything is known."""
    view = view_of([pool(), launched()])

    assert foresee_machines(view, MARKET) is view


def test_a_claim_is_expected_to_get_the_cheapest_machine_that_it_allows() -> None:
    """Its room is that of the offering that costs least."""
    found = foresee_machines(view_of([pool(), unlaunched()]), MARKET)

    assert found is not None
    (foreseen,) = found.claims.values()
    assert foreseen.status.allocatable["cpu"] == "2"
    assert foreseen.status.provider_id


@pytest.mark.parametrize(
    ("bought", "labels"),
    [
        pytest.param(
            ["spot", "on-demand"],
            {INSTANCE_TYPE: "small", ZONE: None, CAPACITY_TYPE: None},
            id="one of two offerings of a type",
        ),
        pytest.param(
            ["on-demand"],
            {INSTANCE_TYPE: "small", ZONE: "zone-1", CAPACITY_TYPE: "on-demand"},
            id="the only offering",
        ),
    ],
)
def test_a_foreseen_machine_has_the_labels_that_all_have(
    bought: list[str], labels: dict[str, str | None]
) -> None:
    """A pod that asks for a zone is not sent to a claim that may come up in another."""
    one = claim(
        meta={"labels": {NODEPOOL: "default"}},
        spec={"requirements": [{"key": CAPACITY_TYPE, "operator": "In", "values": bought}]},
    )

    found = foresee_machines(view_of([pool(), one]), RESERVED)

    assert found is not None
    (foreseen,) = found.claims.values()
    assert {key: foreseen.metadata.labels.get(key) for key in labels} == labels


def test_ten_claims_are_few_enough_to_be_foreseen() -> None:
    """Each gets a machine."""
    found = foresee_machines(view_of([pool(), *(unlaunched(f"claim-{at}") for at in range(10))]), MARKET)

    assert found is not None
    assert all(each.status.provider_id for each in found.claims.values())


@pytest.mark.parametrize(
    ("claims", "catalog"),
    [
        pytest.param([unlaunched(f"claim-{at}") for at in range(11)], MARKET, id="there are many claims"),
        pytest.param([unlaunched(cpu="900")], MARKET, id="nothing is large enough"),
        pytest.param([unlaunched(operator="Gt", values=["much"])], MARKET, id="a claim cannot be read"),
        pytest.param([unlaunched()], RESERVED, id="it may use up a reservation"),
    ],
)
def test_some_machines_cannot_be_foreseen(claims: list[NodeClaim], catalog: Catalog) -> None:
    """A decision waits for these."""
    assert foresee_machines(view_of([pool(), *claims]), catalog) is None


def test_pods_of_a_claim_without_a_machine_get_no_other() -> None:
    """They count as placed, and another pod gets what they leave; what does not fit gets a claim."""
    first, second, third = (waiting(name, **ASKS) for name in ("first", "second", "third"))
    nominations = {first.key: Nomination("claim-1", NOW)}

    decision = decide(pool(Ready="True"), unlaunched(), first, second, third, nominations=nominations)

    assert decision.considered == 2
    assert len(decision.starting) == 1
    assert set(decision.starting.values()) == {"claim-1"}
    (made,) = decision.claims
    assert first.key not in made.pods
