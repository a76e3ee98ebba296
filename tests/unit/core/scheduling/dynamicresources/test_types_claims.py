"""What a problem says about devices."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from karpenter.core.scheduling.dynamicresources.types import (
    ANYWHERE,
    AllocatedClaim,
    Consumer,
    DynamicResources,
    PodClaim,
    PodClaims,
)
from karpenter_local.testing.builders import manifest_pod
from tests.unit.core.scheduling.dynamicresources.hardware import asking, exactly

if TYPE_CHECKING:
    from karpenter.api.pod import Pod

ONE, TWO = asking(exactly(count=1)), asking(exactly(count=2))


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        pytest.param(
            PodClaim(key="a", name="g", generated=True, devices=ONE),
            PodClaim(key="b", name="g", generated=True, devices=ONE),
            True,
            id="claims made alike for different pods",
        ),
        pytest.param(
            PodClaim(key="a", name="g", generated=True, devices=ONE),
            PodClaim(key="b", name="g", generated=True, devices=TWO),
            False,
            id="claims for different things",
        ),
        pytest.param(
            PodClaim(key="a", name="g", devices=ONE),
            PodClaim(key="b", name="g", devices=ONE),
            False,
            id="named claims",
        ),
        pytest.param(
            PodClaim(key="a", name="g", devices=ONE),
            PodClaim(key="a", name="g", devices=ONE),
            True,
            id="the same claim",
        ),
        pytest.param(
            PodClaim(key="a", name="g", generated=True, devices=ONE, node_terms=ANYWHERE),
            PodClaim(key="b", name="g", generated=True, devices=ONE, node_terms=ANYWHERE),
            False,
            id="claims that have devices already",
        ),
    ],
)
def test_which_claims_are_alike(one: PodClaim, other: PodClaim, alike: bool) -> None:
    """Pods are told apart by claims that others can use or that have devices, not by names of new ones."""
    assert (PodClaims((one,)).identity == PodClaims((other,)).identity) is alike


pod = partial(manifest_pod, namespace="d")


@pytest.mark.parametrize(
    ("consumers", "placed", "deleting_pods", "expected"),
    [
        pytest.param([Consumer("d/a")], [pod("a", node="n")], [], True, id="its pod is moved"),
        pytest.param([Consumer("d/a")], [], [Consumer("d/a")], True, id="its pod goes with a node"),
        pytest.param([Consumer("d/a")], [pod("a")], [], False, id="its pod waits, and needs it"),
        pytest.param([Consumer("d/a")], [pod("b", node="n")], [], False, id="another pod is moved"),
        pytest.param(
            [Consumer("d/a"), Consumer("d/b")],
            [pod("a", node="n")],
            [],
            False,
            id="one of its two pods stays",
        ),
        pytest.param(
            [Consumer("d/a"), Consumer("d/b")],
            [pod("a", node="n")],
            [Consumer("d/b")],
            True,
            id="both of its pods go",
        ),
        pytest.param([], [pod("a", node="n")], [], False, id="no pod uses it: it keeps its devices"),
        pytest.param(
            [Consumer("d/a", "1")], [pod("a", node="n", meta={"uid": "1"})], [], True, id="the very same pod"
        ),
        pytest.param(
            [Consumer("d/a", "1")], [pod("a", node="n", meta={"uid": "2"})], [], False, id="a namesake"
        ),
        pytest.param(
            [Consumer("d/a", "1")], [pod("a", node="n")], [], True, id="a pod of which no id is known"
        ),
    ],
)
def test_which_claims_are_let_go(
    consumers: list[Consumer], placed: list[Pod], deleting_pods: list[Consumer], expected: bool
) -> None:
    """A claim gives its devices back when every pod that uses it leaves its node."""
    allocated = AllocatedClaim(claim="c", results=(), consumers=tuple(consumers))
    devices = DynamicResources(
        pod_claims={}, allocated_claims=(allocated,), deleting_pods=tuple(deleting_pods)
    )

    assert devices.released_claims(placed) == (frozenset({"c"}) if expected else frozenset())
