"""A last look at machines at the moment when they would go."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from karpenter.api.cluster import PodDisruptionBudget
from karpenter.api.labels import DO_NOT_DISRUPT
from karpenter.api.meta import Resource, convert
from karpenter.core.disruption.candidates import find_candidates
from karpenter.core.disruption.command import DRIFTED, EMPTY, UNDERUTILIZED
from karpenter.core.disruption.validation import kept_at_removal
from karpenter.core.state.pdb import PdbLimits
from karpenter.core.state.statenode import state_nodes
from tests.unit.core.disruption.clusters import MARKET, NOW, cluster, machine, pod, pool

KEEP = {DO_NOT_DISRUPT: "true"}


def stays(reason: str, *arrived: Resource, forbidden: bool = False, **more: Any) -> bool:
    """Whether a machine stays on which something has happened since it was chosen."""
    before = cluster(pool(), machine("m", **more), machine("n", **more))
    candidates = find_candidates(state_nodes(before), before, MARKET, PdbLimits(before), NOW).candidates
    node, *claim = machine("m", **more)
    if forbidden:
        node = msgspec.structs.replace(
            node, metadata=msgspec.structs.replace(node.metadata, annotations=KEEP)
        )
    after = cluster(pool(), [node, *claim], machine("n", **more), *arrived)
    found = kept_at_removal(candidates, reason, after, NOW)
    assert "n" not in found
    return "m" in found


@pytest.mark.parametrize("reason", [EMPTY, DRIFTED, UNDERUTILIZED])
def test_a_machine_goes_unless_it_was_forbidden(reason: str) -> None:
    """Who forbids to disrupt a node is heard until the end, whatever the reason and its grace period."""
    assert not stays(reason)
    assert stays(reason, forbidden=True)
    assert stays(reason, forbidden=True, grace="1h")


@pytest.mark.parametrize(
    ("reason", "grace", "expected"),
    [
        pytest.param(EMPTY, None, True, id="empty"),
        pytest.param(UNDERUTILIZED, None, True, id="a saving"),
        pytest.param(UNDERUTILIZED, "1h", True, id="a saving, with a grace period"),
        pytest.param(DRIFTED, None, True, id="drifted"),
        pytest.param(DRIFTED, "1h", False, id="drifted, and its grace period ends what pods wish"),
    ],
)
def test_a_pod_that_must_not_go_keeps_its_machine(reason: str, grace: str | None, expected: bool) -> None:
    """A node that would wait for such a pod, tainted and half empty, is of no use."""
    assert stays(reason, pod("web-1", "m", annotations=KEEP), grace=grace) == expected


def test_a_pod_that_was_on_its_way_keeps_an_empty_machine_only() -> None:
    """A saving moves pods anyway; an empty machine was to go because there were none."""
    assert stays(EMPTY, pod("web-1", "m"))
    assert not stays(UNDERUTILIZED, pod("web-1", "m"))


def budget(**spec: Any) -> PodDisruptionBudget:
    """Return a budget of all pods that allows nothing at the moment."""
    return convert(
        {
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {**spec, "selector": {}},
            "status": {"disruptionsAllowed": 0, "expectedPods": 1},
        },
        PodDisruptionBudget,
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"maxUnavailable": 0}, True, id="one that never allows anything"),
        pytest.param({"minAvailable": 1}, False, id="one that allows nothing at the moment"),
    ],
)
def test_a_budget_of_pods_that_came_meanwhile(spec: dict[str, Any], expected: bool) -> None:
    """What is only held for a while is waited for, as ever."""
    assert stays(UNDERUTILIZED, pod("web-1", "m"), budget(**spec)) == expected


def test_a_pod_whose_successor_starts_first_is_not_evicted() -> None:
    """So no budget of pods counts for it, but its own wish does."""
    view = cluster(pool(), machine("m"), pod("web-1", "m"))
    chosen = find_candidates(state_nodes(view), view, MARKET, PdbLimits(view), NOW).candidates
    surging = [msgspec.structs.replace(each, surging=frozenset({"default/web-1"})) for each in chosen]
    held = cluster(pool(), machine("m"), pod("web-1", "m"), budget(maxUnavailable=0))
    kept = cluster(pool(), machine("m"), pod("web-1", "m", annotations=KEEP))

    assert "m" in kept_at_removal(chosen, UNDERUTILIZED, held, NOW)
    assert kept_at_removal(surging, UNDERUTILIZED, held, NOW) == {}
    assert "m" in kept_at_removal(surging, UNDERUTILIZED, kept, NOW)
    assert kept_at_removal(chosen, UNDERUTILIZED, cluster(pool()), NOW) == {}
