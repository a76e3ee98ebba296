"""Bins as arrays: nodes that are there, and claims of a run."""

from __future__ import annotations

import numpy as np
import pytest

from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
from karpenter.core.scheduling.pack.existingnode import Nodes
from karpenter.core.scheduling.pack.nodeclaim import ClaimState, ClaimStates
from karpenter.core.scheduling.pack.scheduler import Claims
from karpenter_local.testing.builders import RULES, instance_type, pool

AXIS = ("cpu", "memory", "pods")
GIB = 2**30


def nodes(*free: tuple[int, ...]) -> Nodes:
    """Return nodes with some room of each resource."""
    return Nodes(np.array(free, np.int64).reshape(len(free), 3))


def states(*sizes: tuple[int, int]) -> list[ClaimState]:
    """Return the state of a claim of some cores and GiB, and one state for each size alone."""
    kinds = [instance_type(f"t{cpu}x{memory}", cpu=cpu, memory=memory) for cpu, memory in sizes]
    found = Template(0, pool("p", *kinds), [], AXIS, RULES.well_known)
    known = ClaimStates(RULES.well_known)
    offers = len(kinds[0].available)
    alone = [((1 << offers) - 1) << (offers * position) for position in range(len(kinds))]
    return [known.of(found, found.pool.requirements, bits) for bits in (found.bits, *alone)]


@pytest.mark.parametrize(
    ("free", "want", "expected"),
    [
        pytest.param((2, 2, 2), (1, 1, 1), 2, id="as often as the scarcest resource allows"),
        pytest.param((5, 2, 9), (1, 1, 1), 2, id="the scarcest resource decides"),
        pytest.param((2, 2, 2), (0, 0, 1), 2, id="what is not wanted does not matter"),
        pytest.param((-1, 2, 2), (0, 1, 1), 0, id="an overdrawn node takes nothing, whatever is wanted"),
        pytest.param((0, 2, 2), (0, 1, 1), 2, id="an empty resource does not matter to who does not want it"),
        pytest.param((0, 2, 2), (1, 1, 1), 0, id="an empty resource keeps out who wants it"),
    ],
)
def test_room_on_nodes(free: tuple[int, ...], want: tuple[int, ...], expected: int) -> None:
    """A node takes as many pods as fit into every resource, and none while anything is overdrawn."""
    ours = nodes(free)

    assert ours.room_for(np.array([0]), want).tolist() == [expected]
    assert ours.with_room(want).tolist() == [expected > 0]
    assert ours.fits(0, want) is (expected > 0)


def test_pods_take_room_on_nodes() -> None:
    """Taking pods leaves so much less on that node only."""
    ours = nodes((9, 9, 9), (9, 9, 9))

    ours.take(1, np.array([2, 1, 1]), 3)

    assert ours.free.T.tolist() == [[9, 9, 9], [3, 6, 6]]


def test_a_claim_starts_empty() -> None:
    """A new claim uses nothing and has as much ahead as its largest types have."""
    first = states((4, 8))[0]
    ours = Claims(3)

    number = ours.open(first)

    assert (number, ours.count, ours.states) == (0, 1, [first])
    assert ours.total(0, (5, 6, 1), 2) == (10, 12, 2)
    assert ours.head[:, 0].tolist() == [4000, 8 * GIB, 110]


def test_claims_take_pods() -> None:
    """A claim counts its pods, what they use, and what is still ahead."""
    first, _, large = states((2, 4), (8, 16))
    ours = Claims(3)
    ours.open(first)

    ours.take(0, first, (500, GIB, 1))
    ours.take(0, large, (500, GIB, 1), 3)

    assert ours.pods[0] == 4
    assert ours.used[:, 0].tolist() == [2000, 4 * GIB, 4]
    assert ours.head[:, 0].tolist() == [6000, 12 * GIB, 106]
    assert (ours.states, int(ours.state[0])) == ([large], large.number)


@pytest.mark.parametrize("count", [4, 5, 64, 65, 200])
def test_many_claims_are_counted_like_few(count: int) -> None:
    """However many claims have changed, each has what its pods leave of its largest type."""
    first = states((4, 8))[0]
    ours = Claims(3)
    for number in range(count):
        ours.take(ours.open(first), first, (1000 * (number % 5), GIB, 1))

    assert ours.head.T[:count].tolist() == [
        [4000 - 1000 * (number % 5), 7 * GIB, 109] for number in range(count)
    ]
    assert ours.used.T[:count].tolist() == [[1000 * (number % 5), GIB, 1] for number in range(count)]
    assert ours.with_room((4000, 0, 1)).tolist() == list(range(0, count, 5))


def test_claims_with_room() -> None:
    """Only claims that may have room are found, from a number on."""
    first = states((4, 8))[0]
    ours = Claims(3)
    for used in (4000, 3000, 0):
        ours.take(ours.open(first), first, (used, 0, 1))

    assert ours.with_room((1000, 0, 1)).tolist() == [1, 2]
    assert ours.with_room((1000, 0, 1), 2).tolist() == [2]
    assert ours.with_room((0, 0, 1)).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("used", "want", "expected"),
    [
        pytest.param((0, 0, 0), (1000, GIB, 1), 8, id="the best of several machines counts"),
        pytest.param((0, 0, 0), (1000, 4 * GIB, 1), 4, id="whichever that is"),
        pytest.param((4000, 0, 0), (1000, 5 * GIB, 1), 1, id="what is used already counts"),
        pytest.param((8000, 0, 0), (0, GIB, 1), 8, id="what is used up is not wanted"),
        pytest.param((4000, 20 * GIB, 0), (1000, 0, 1), 0, id="nothing holds what is used and more"),
    ],
)
def test_room_on_claims(used: tuple[int, ...], want: tuple[int, ...], expected: int) -> None:
    """A claim takes as many pods as the most suitable of its machines holds, with what is there."""
    first = states((8, 8), (4, 32))[0]
    ours = Claims(3)
    ours.take(ours.open(first), first, used)

    assert ours.room_for(0, first, want) == expected


def test_any_number_of_claims() -> None:
    """Claims are kept however many there are."""
    first = states((4, 8))[0]
    ours = Claims(3)

    for number in range(300):
        ours.take(ours.open(first), first, (number, 0, 1))

    assert ours.count == 300
    assert ours.used[0, :300].tolist() == list(range(300))
    assert ours.pods[:300].tolist() == [1] * 300
