"""Pools of a fixed size: what they lack, and what their claims look like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api.labels import (
    ALL_LABEL_RULES,
    NODEPOOL,
    NODEPOOL_HASH,
    NODEPOOL_HASH_VERSION,
    TERMINATION_FINALIZER,
)
from karpenter.core.effects import NOTHING, CreateClaim
from karpenter.core.model.nodepool_hash import pool_hash
from karpenter.core.provisioning.static import (
    AT_LIMIT,
    PERIOD,
    ClaimCounts,
    count_claims,
    is_static,
    scale_up,
)
from tests.unit.core.lifecycle.objects import CLASS_LABEL, NOW, at, claim, pool

if TYPE_CHECKING:
    from karpenter.api.nodepool import NodePool

GONE = {"deletionTimestamp": at(NOW)}


def static(replicas: int = 3, *, nodes: str | None = None, **parts: Any) -> NodePool:
    limits = {} if nodes is None else {"limits": {"nodes": nodes}}
    return pool(spec={"replicas": replicas, **limits}, **{"Ready": "True", **parts})


def test_what_is_static() -> None:
    """A pool with replicas is static, also with none of them."""
    assert [is_static(each) for each in (static(0), static(3), pool())] == [True, True, False]


def test_census() -> None:
    """Claims that stay, that are about to be replaced and that leave are told apart; others' do not count."""
    claims = [
        claim(name="other", meta={"labels": {NODEPOOL: "other"}}),
        *(claim(name=f"stays-{at}") for at in range(3)),
        *(claim(name=f"goes-{at}") for at in range(2)),
        claim(name="leaves", meta=GONE),
    ]
    found = count_claims("default", claims, {"goes-0", "goes-1", "leaves"})

    assert found == ClaimCounts(active=3, pending=2, deleting=1)
    assert found.all == 6


@pytest.mark.parametrize(
    ("found", "there", "created", "again"),
    [
        pytest.param(static(3), ClaimCounts(), 3, PERIOD, id="an empty pool gets all"),
        pytest.param(static(3), ClaimCounts(active=2), 1, PERIOD, id="one is lacking"),
        pytest.param(static(3), ClaimCounts(active=3), 0, PERIOD, id="enough"),
        pytest.param(static(3), ClaimCounts(active=4), 0, PERIOD, id="too many"),
        pytest.param(
            static(3), ClaimCounts(active=2, pending=1), 0, PERIOD, id="what is replaced still counts"
        ),
        pytest.param(
            static(3), ClaimCounts(active=2, deleting=1), 1, PERIOD, id="what leaves does not count"
        ),
        pytest.param(
            static(3, nodes="3"), ClaimCounts(active=1, deleting=1), 1, PERIOD, id="but fills the limit"
        ),
        pytest.param(static(3, nodes="2"), ClaimCounts(active=2), 0, AT_LIMIT, id="the limit holds"),
        pytest.param(static(3, nodes="2"), ClaimCounts(active=2, deleting=3), 0, AT_LIMIT, id="far over it"),
        pytest.param(static(3, nodes="lots"), ClaimCounts(), 0, AT_LIMIT, id="a limit that cannot be read"),
        pytest.param(static(3, Ready="False"), ClaimCounts(), 0, PERIOD, id="not ready"),
        pytest.param(static(3, Ready="Unknown"), ClaimCounts(), 0, PERIOD, id="perhaps ready"),
        pytest.param(static(0), ClaimCounts(), 0, PERIOD, id="none are wanted"),
    ],
)
def test_growth(found: NodePool, there: ClaimCounts, created: int, again: float) -> None:
    """A pool gets what it lacks, as far as its limit on nodes lets it."""
    due = scale_up(found, there, ALL_LABEL_RULES)

    assert (len(due.effects), due.again) == (created, again)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(pool(Ready="True"), id="pods decide"),
        pytest.param(static(3, meta=GONE), id="it is being deleted"),
    ],
)
def test_pools_that_do_not_grow(found: NodePool) -> None:
    """Nothing is launched for a dynamic pool or one that leaves."""
    assert scale_up(found, ClaimCounts(), ALL_LABEL_RULES) is NOTHING


def test_a_pool_that_cannot_be_read_does_not_grow() -> None:
    """Its validation says what is wrong with it."""
    broken = static(template={"spec": {"expireAfter": "soon"}})

    assert scale_up(broken, ClaimCounts(), ALL_LABEL_RULES).effects == ()


def test_the_claim() -> None:
    """A claim says what its pool says, and leaves the choice of the machine to the provider."""
    found = static(
        1,
        template={
            "metadata": {"labels": {"team": "web"}, "annotations": {"note": "yes"}},
            "spec": {
                "expireAfter": "48h",
                "terminationGracePeriod": "30s",
                "taints": [{"key": "t", "effect": "NoSchedule"}],
                "startupTaints": [{"key": "s", "effect": "NoSchedule"}],
                "requirements": [
                    {"key": "tier", "operator": "In", "values": ["a", "b"], "minValues": 1},
                    {"key": "spare", "operator": "DoesNotExist"},
                    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-1"]},
                ],
            },
        },
    )
    (effect,) = scale_up(found, ClaimCounts(), ALL_LABEL_RULES).effects
    assert isinstance(effect, CreateClaim)
    made = effect.claim

    assert (effect.reason, effect.pods) == ("provisioned", ())
    assert made.metadata.generate_name == "default-"
    assert made.metadata.labels == {"team": "web", "tier": "a", NODEPOOL: "default", CLASS_LABEL: "default"}
    assert made.metadata.annotations == {
        "note": "yes",
        NODEPOOL_HASH: pool_hash(found),
        NODEPOOL_HASH_VERSION: "v3",
    }
    assert made.metadata.owner_references[0].uid == "pool-uid"
    assert made.metadata.finalizers == (TERMINATION_FINALIZER,)
    assert [each.key for each in made.spec.requirements] == [
        CLASS_LABEL,
        NODEPOOL,
        "spare",
        "team",
        "tier",
        "topology.kubernetes.io/zone",
    ]
    assert made.spec.resources.requests == {}
    assert (made.spec.expire_after, made.spec.termination_grace_period) == ("48h", "30s")
    assert [each.key for each in (*made.spec.taints, *made.spec.startup_taints)] == ["t", "s"]
