"""Whether a command had the effect that was planned, and what follows where it had not."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec
import pytest

from karpenter.core.disruption.candidates import find_candidates
from karpenter.core.disruption.command import UNDERUTILIZED, Command
from karpenter.core.disruption.outcomes import (
    GRACE,
    JUDGED_AFTER,
    ExpectedOutcome,
    RestPeriod,
    expected_outcome,
    is_due,
    landed_share,
    next_rest,
)
from karpenter.core.disruption.payback import Payback
from karpenter.core.state.pdb import PdbLimits
from karpenter.core.state.statenode import state_nodes
from tests.unit.core.disruption.clusters import MARKET, NOW, cluster, decided, held, machine, pod, pool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.api.pod import Pod
    from karpenter.core.state.cluster import ClusterView

MINUTE = timedelta(minutes=1)
MOMENT = timedelta(seconds=1)


def _bare(name: str, node: str) -> Pod:
    found = pod(name, node)
    return msgspec.structs.replace(
        found, metadata=msgspec.structs.replace(found.metadata, owner_references=())
    )


def _cluster(*homes: str, more: Sequence[Pod] = ()) -> ClusterView:
    """Return a cluster whose pods of one workload run on these nodes."""
    return cluster(
        pool(),
        machine("node-1"),
        machine("node-2"),
        *(
            pod(f"web-{number}", "" if home == "nowhere" else home, creation_timestamp=NOW)
            for number, home in enumerate(homes)
        ),
        *more,
    )


def _planned() -> ExpectedOutcome:
    """Return what to expect when two pods of node-1 go to node-2, where one of theirs runs already."""
    view = _cluster("node-1", "node-1", "node-2", more=[_bare("lone", "node-1")])
    command = Command(
        reason=UNDERUTILIZED,
        candidates=("node-1",),
        moves={"default/web-0": "node-2", "default/web-1": "node-2", "default/lone": "node-2"},
    )
    found = find_candidates(state_nodes(view), view, MARKET, PdbLimits(view), NOW).candidates
    return expected_outcome(command, [each for each in found if each.name == "node-1"], {}, view, NOW)


@pytest.mark.parametrize(
    ("homes", "share"),
    [
        pytest.param(("node-2", "node-2", "node-2"), 1.0, id="all of them landed as planned"),
        pytest.param(("node-2", "node-2", "node-3"), 0.5, id="half of them went elsewhere"),
        pytest.param(("node-3", "node-3", "node-2"), 0.0, id="all of them went elsewhere"),
        pytest.param(("node-3",), 0.5, id="of a workload that shrank only the pods that are there count"),
        pytest.param(("nowhere", "nowhere", "node-2"), 0.0, id="pods that still wait have not landed"),
        pytest.param(
            ("node-2", "node-2", "node-3", "node-3"),
            0.5,
            id="of a workload that grew only as many as are missing",
        ),
        pytest.param(("node-2", "node-2", "node-2", "node-3"), 1.0, id="a replica more is no miss"),
        pytest.param((), 1.0, id="a workload that is gone has not landed elsewhere"),
    ],
)
def test_the_share_that_landed(homes: tuple[str, ...], share: float) -> None:
    """Pods are counted by workload and node, since they come back under other names."""
    assert landed_share(_planned(), _cluster(*homes)) == share


def test_pods_that_were_elsewhere_before_are_no_miss() -> None:
    """A replica that ran on another node all the time was not meant to move."""
    old = pod("web-9", "node-3", creation_timestamp=NOW - MINUTE)

    assert landed_share(_planned(), _cluster("node-2", more=[old])) == 1.0


def test_pods_on_new_machines_are_expected_there() -> None:
    """The node of a new machine is known by the time its pods are."""
    view = cluster(pool(), machine("node-1", "xlarge"), pod("web-0", "node-1"))
    (command,) = decided(view).commands
    (new,) = command.replacements
    found = find_candidates(state_nodes(view), view, MARKET, PdbLimits(view), NOW).candidates

    expected = expected_outcome(command, found, {new.name: "node-9"}, view, NOW)
    unknown = expected_outcome(command, found, {}, view, NOW)

    assert expected.planned == {("node-9", "default/ReplicaSet/web"): 1}
    assert landed_share(unknown, view) == 1.0


@pytest.mark.parametrize(
    ("later", "gone", "expected"),
    [
        pytest.param(GRACE, True, False, id="pods have some time to come back"),
        pytest.param(GRACE + MOMENT, True, True, id="then it is judged"),
        pytest.param(GRACE + MOMENT, False, False, id="while a machine is being emptied it is not"),
        pytest.param(JUDGED_AFTER, False, False, id="nor when the longest time is just over"),
        pytest.param(JUDGED_AFTER + MOMENT, False, True, id="but not for ever"),
    ],
)
def test_when_an_effect_is_judged(later: timedelta, gone: bool, expected: bool) -> None:
    """A command is judged once its machines are gone and its pods have had time."""
    view = cluster(pool(), *([] if gone else [machine("node-1")]))

    assert is_due(_planned(), view, NOW + later) is expected


@pytest.mark.parametrize(
    ("rest", "share", "expected"),
    [
        pytest.param(None, 0.5, None, id="half is enough"),
        pytest.param(RestPeriod(MINUTE, NOW), 1.0, None, id="success ends a rest"),
        pytest.param(None, 0.4, 5 * MINUTE, id="a first miss costs five minutes"),
        pytest.param(RestPeriod(5 * MINUTE, NOW), 0.0, 10 * MINUTE, id="the next one twice as long"),
        pytest.param(RestPeriod(200 * MINUTE, NOW), 0.0, 240 * MINUTE, id="up to four hours"),
    ],
)
def test_how_long_a_pool_rests(rest: RestPeriod | None, share: float, expected: timedelta | None) -> None:
    """A pool whose pods land elsewhere is left alone, longer each time."""
    found = next_rest(rest, share, NOW)

    assert found == (None if expected is None else RestPeriod(expected, NOW + expected))


def test_a_resting_pool_is_not_consolidated() -> None:
    """While a pool rests, its machines stay and say why."""
    view = cluster(pool(), machine("node-1", "xlarge"), pod("web-0", "node-1"))

    assert held(decided(view, resting=frozenset({"default"}))) == {"node-1": "Resting"}


def test_start_up_is_learned_from_what_was_seen() -> None:
    """The middle one of the times that were observed counts; without any the setting does."""
    seen = [MINUTE, 9 * MINUTE, 3 * MINUTE]

    assert Payback().learned(seen, {}).start_up == 3 * MINUTE
    assert Payback().learned([*seen, 5 * MINUTE, 7 * MINUTE], {}).start_up == 5 * MINUTE
    assert Payback().learned([], {}) == Payback()
