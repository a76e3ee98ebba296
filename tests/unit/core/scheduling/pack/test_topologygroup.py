"""Counting pods per domain, and what counts permit."""

from __future__ import annotations

import pytest

from karpenter.api.labels import HOSTNAME, ZONE
from karpenter.core.model.requirement import Requirement, requirement
from karpenter.core.model.selectors import parse_selector
from karpenter.core.scheduling.pack.topologygroup import (
    _SPARSE,
    HostCounts,
    TopologyGroup,
    TopologyGroupKey,
    TopologyType,
)
from karpenter_local.testing.builders import selecting

ANYWHERE = requirement(ZONE, "Exists")
NOT_A = requirement(ZONE, "NotIn", ["a"])


def group(
    kind: TopologyType, *, key: str = ZONE, skew: int = 1, min_domains: int = 1, **counts: int
) -> TopologyGroup:
    """Return a group of pods labelled ``app=web`` with some counts per zone."""
    spec = TopologyGroupKey(
        kind, key, frozenset({"default"}), parse_selector(selecting(app="web")), skew, min_domains
    )
    found = TopologyGroup(spec)
    found.add_domains(counts)
    for domain, count in counts.items():
        found.add(domain, count)
    return found


@pytest.mark.parametrize(
    ("ours", "strict", "self_selecting", "expected"),
    [
        pytest.param(
            group(TopologyType.SPREAD, a=1, b=0), ANYWHERE, True, {"b": 0}, id="the fuller zone must wait"
        ),
        pytest.param(
            group(TopologyType.SPREAD, a=1, b=1),
            ANYWHERE,
            True,
            {"a": 1, "b": 1},
            id="level zones are all open",
        ),
        pytest.param(
            group(TopologyType.SPREAD, a=1, b=0),
            ANYWHERE,
            False,
            {"a": 1, "b": 0},
            id="who does not count may tip the scale",
        ),
        pytest.param(
            group(TopologyType.SPREAD, a=2, b=0), ANYWHERE, False, {"b": 0}, id="but not where it is tipped"
        ),
        pytest.param(
            group(TopologyType.SPREAD, skew=3, a=2, b=0), ANYWHERE, True, {"a": 2, "b": 0}, id="a wider skew"
        ),
        pytest.param(
            group(TopologyType.SPREAD, a=0, b=2, c=3),
            NOT_A,
            True,
            {"b": 2},
            id="zones that the pod excludes do not count",
        ),
        pytest.param(
            group(TopologyType.SPREAD, min_domains=3, a=1, b=1),
            ANYWHERE,
            True,
            {},
            id="too few domains count as empty ones",
        ),
        pytest.param(
            group(TopologyType.SPREAD, min_domains=2, a=1, b=1),
            ANYWHERE,
            True,
            {"a": 1, "b": 1},
            id="enough domains do not",
        ),
        pytest.param(
            group(TopologyType.SPREAD), ANYWHERE, True, {}, id="without domains there is nowhere to go"
        ),
        pytest.param(
            group(TopologyType.POD_AFFINITY, a=2, b=0),
            ANYWHERE,
            True,
            {"a": 2},
            id="affinity allows domains with matching pods",
        ),
        pytest.param(
            group(TopologyType.POD_AFFINITY, a=2, b=0),
            NOT_A,
            False,
            {},
            id="matching pods out of reach do not count",
        ),
        pytest.param(
            group(TopologyType.POD_AFFINITY, a=2, b=0),
            NOT_A,
            True,
            None,
            id="then the first of its kind starts anew",
        ),
        pytest.param(
            group(TopologyType.POD_AFFINITY, a=0),
            ANYWHERE,
            True,
            None,
            id="the first of its kind may start anywhere",
        ),
        pytest.param(
            group(TopologyType.POD_AFFINITY, a=0),
            ANYWHERE,
            False,
            {},
            id="matching pods of another class must be there first",
        ),
        pytest.param(
            group(TopologyType.POD_ANTI_AFFINITY, a=1, b=0),
            ANYWHERE,
            True,
            {"b": 0},
            id="anti-affinity allows domains without such pods",
        ),
        pytest.param(
            group(TopologyType.INVERSE_ANTI_AFFINITY, a=1, b=0),
            ANYWHERE,
            False,
            {"b": 0},
            id="domains without inverse anti-affinity",
        ),
    ],
)
def test_permitted(
    ours: TopologyGroup, strict: Requirement, self_selecting: bool, expected: dict[str, int] | None
) -> None:
    """Counts decide which domains are open; None asks for a first one."""
    assert ours.allowed_domains(strict, self_selecting=self_selecting) == expected


def test_a_group_picks_by_namespace_and_labels() -> None:
    """Pods are picked when their labels match in a namespace that counts."""
    ours = group(TopologyType.SPREAD)
    everywhere = TopologyGroup(
        TopologyGroupKey(TopologyType.POD_AFFINITY, ZONE, None, parse_selector(selecting(app="web")))
    )

    assert ours.selects("default", {"app": "web"})
    assert not ours.selects("other", {"app": "web"})
    assert not ours.selects("default", {"app": "db"})
    assert everywhere.selects("other", {"app": "web"})


def test_counting_tells_everyone() -> None:
    """Each count changes the version by which answers are known to be old; knowing a domain does not."""
    ours = group(TopologyType.SPREAD)

    ours.add_domains(["a"])
    before = ours.version
    ours.add("a", 2)
    ours.add("b")

    assert (before, ours.version) == (0, 2)
    assert ours.counts == {"a": 2, "b": 1}


def test_nodes_are_domains_of_their_own() -> None:
    """Groups over host names are counted by bin."""
    assert group(TopologyType.SPREAD, key=HOSTNAME).by_host
    assert not group(TopologyType.SPREAD).by_host


@pytest.mark.parametrize("bins", [pytest.param(3, id="few bins"), pytest.param(2 * _SPARSE, id="many bins")])
def test_host_counts(bins: int) -> None:
    """However many bins have pods, each is counted on its own."""
    counts = HostCounts()
    assert not counts

    for number in range(bins):
        counts.add(2 * number, number + 1)
    counts.add(2)

    assert counts
    assert [counts[0], counts[1], counts[2], counts[3], counts[4]] == [1, 0, 3, 0, 3]
    assert counts[10**6] == 0
    assert counts.of(1, 6).tolist() == [0, 3, 0, 3, 0]
    assert counts.of(2 * bins - 2, 2 * bins + 400).tolist() == [bins] + [0] * 401


def test_host_counts_of_every_bin() -> None:
    """A pod on each of a thousand bins, in order, is one on each of them, and none on those that follow."""
    counts = HostCounts()
    for number in range(1_000):
        counts.add(number)

    assert [counts[number] for number in range(3_000)] == [1] * 1_000 + [0] * 2_000
    assert counts.of(0, 3_000).tolist() == [1] * 1_000 + [0] * 2_000


def test_host_counts_grow() -> None:
    """A bin far beyond the others is counted like any other."""
    counts = HostCounts()
    for number in range(_SPARSE + 1):
        counts.add(number)

    counts.add(10_000, 5)

    assert (counts[10_000], counts[9_999], counts[_SPARSE]) == (5, 0, 1)


def test_pods_on_other_nodes_count_for_affinity_too() -> None:
    """Pods on nodes that take no pods count for affinity."""
    counts = HostCounts()

    counts.elsewhere += 1

    assert counts
    assert counts[0] == 0


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        pytest.param(group(TopologyType.SPREAD, a=3, b=2), (1, 0), id="above the emptiest domain"),
        pytest.param(group(TopologyType.SPREAD, a=9, b=2), (2, 0), id="closed is closed"),
        pytest.param(group(TopologyType.SPREAD, min_domains=3, a=3, b=1), (2, 1), id="too few domains"),
        pytest.param(group(TopologyType.SPREAD, min_domains=2, a=3, b=2), (1, 0), id="just enough of them"),
        pytest.param(group(TopologyType.POD_AFFINITY, a=3, b=0), (True, False), id="any pod at all"),
    ],
)
def test_counts_that_allow_the_same_are_equal(ours: TopologyGroup, expected: tuple[int, ...]) -> None:
    """What matters of a spread is how far a domain is above the emptiest; of too few, above zero."""
    assert ours.pattern(("a", "b")) == expected
