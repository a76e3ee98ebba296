"""One relaxation of one class: caps per bin, taints, and what changes its chances."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from karpenter.api.labels import ARCH, HOSTNAME, ZONE
from karpenter.core.scheduling.pack.poddata import PodData, host_limit
from karpenter_local.testing.builders import (
    Preferences,
    affinity_term,
    instance_type,
    node,
    only,
    pod,
    pool,
    problem,
    spread,
    taint,
    tolerate,
)
from tests.unit.core.scheduling.pack.schedulers import fresh, pod_data_of

if TYPE_CHECKING:
    from karpenter.api.pod import Pod

POOL = pool("p", instance_type("t"))
MANY = 2**31 - 1
WEB, DB = pod("w", app="web"), pod("d", app="db")


def pod_data(one: Pod) -> PodData:
    """Return the pod data of a pod beside four nodes: with nothing, two ``web``, one ``web``, one ``db``."""
    there = [node("n0"), node("n1", WEB, pod("v", app="web")), node("n2", WEB), node("n3", DB)]
    return pod_data_of(fresh(problem(one, pools=[POOL], nodes=there)), one.metadata.name)


CAPS = [
    pytest.param(pod("x"), [MANY] * 4, id="a plain pod fits anywhere any number of times"),
    pytest.param(pod("x", ports=[80]), [1] * 4, id="a host port is there once per node"),
    pytest.param(
        pod("x", app="web", spreads=[spread(HOSTNAME, app="web", skew=2)]),
        [2, 0, 1, 2],
        id="a spread over nodes leaves what its skew allows",
    ),
    pytest.param(
        pod("x", spreads=[spread(HOSTNAME, app="web", skew=1)]),
        [MANY, 0, MANY, MANY],
        id="who does not count is kept out only where the skew is exceeded",
    ),
    pytest.param(
        pod("x", app="web", apart=[affinity_term(HOSTNAME, app="web")]),
        [1, 0, 0, 1],
        id="who avoids its own kind is alone",
    ),
    pytest.param(
        pod("x", apart=[affinity_term(HOSTNAME, app="web")]),
        [MANY, 0, 0, MANY],
        id="who avoids others goes where they are not",
    ),
    pytest.param(
        pod("x", near=[affinity_term(HOSTNAME, app="web")]),
        [0, MANY, MANY, 0],
        id="affinity allows only bins with matching pods",
    ),
    pytest.param(
        pod("x", app="new", near=[affinity_term(HOSTNAME, app="new")]),
        [MANY] * 4,
        id="the first that needs its own kind may start anywhere",
    ),
    pytest.param(
        pod("x", app="web", near=[affinity_term(HOSTNAME, app="web")]),
        [0, MANY, MANY, 0],
        id="the next that needs its own kind may not",
    ),
    pytest.param(
        pod(
            "x",
            ports=[80],
            apart=[affinity_term(HOSTNAME, app="db")],
            near=[affinity_term(HOSTNAME, app="web")],
        ),
        [0, 1, 1, 0],
        id="the tightest of several demands counts",
    ),
]


@pytest.mark.parametrize(("one", "expected"), CAPS)
def test_caps(one: Pod, expected: list[int]) -> None:
    """What runs on a bin decides how many more pods of a class it takes; one bin or many are asked alike."""
    ours = pod_data(one)
    caps = ours.host_caps(0, 4)

    assert [ours.host_cap(number) for number in range(4)] == expected
    assert (caps.tolist() if caps is not None else [MANY] * 4) == expected


def test_host_ports_are_one_per_bin() -> None:
    """There is a cap for each bin of a range, and for no other."""
    caps = pod_data(pod("x", ports=[80])).host_caps(1, 4)
    assert caps is not None

    assert caps.tolist() == [1, 1, 1]


def test_without_demands_there_are_no_caps() -> None:
    """Nothing is worked out for pods that nothing limits."""
    assert pod_data(pod("x")).host_caps(0, 4) is None


def test_a_single_demand_has_its_own_cap() -> None:
    """Each demand can be asked alone which bins it closes."""
    ours = pod_data(pod("x", near=[affinity_term(HOSTNAME, app="web"), affinity_term(HOSTNAME, app="db")]))

    assert [[host_limit(demand, number) > 0 for number in range(4)] for demand in ours.demands.hosts] == [
        [False, True, True, False],
        [False, False, False, True],
    ]


def test_full_bins_are_closed_for_good_unless_matching_pods_may_come() -> None:
    """A bin that a pod must avoid stays closed; one without matching pods may still get some."""
    avoiding = pod_data(pod("x", apart=[affinity_term(HOSTNAME, app="web")]))
    seeking = pod_data(pod("x", near=[affinity_term(HOSTNAME, app="web")]))

    assert [avoiding.is_closed(number) for number in (0, 1)] == [False, True]
    assert [seeking.is_closed(number) for number in (0, 1)] == [False, False]


def test_a_bin_with_a_place_for_one_more_is_open() -> None:
    """With a skew of 2 a node with two pods is closed, and one with one pod is not."""
    spread_out = pod_data(pod("x", app="web", spreads=[spread(HOSTNAME, app="web", skew=2)]))

    assert [spread_out.is_closed(number) for number in range(4)] == [False, True, False, False]


def test_taints_are_asked_once_per_pool() -> None:
    """Whether a pool's taints are tolerated is remembered."""
    tainted = pool("p", instance_type("t"), taints=(taint("gpu"),))
    scheduler = fresh(problem(pod("x"), pod("y", tolerations=[tolerate("gpu")]), pools=[tainted]))
    (template,) = scheduler.templates

    assert [pod_data_of(scheduler, name).tolerates(template) for name in "xyxy"] == [False, True, False, True]


def test_pod_data_has_what_its_relaxation_has() -> None:
    """Requirements hold preferences, strict requirements do not."""
    fond = pod(
        "x",
        on={ARCH: "amd64"},
        tolerations=[tolerate("t")],
        prefers=Preferences(nodes=((1, [only(ZONE, "zone-1")]),)),
    )
    ours = pod_data(fond)

    assert ours.requirements.keys() == {ARCH, ZONE}
    assert ours.strict.keys() == {ARCH}
    assert ours.tolerations == (tolerate("t"),)


def test_counts_that_matter_change_the_stamp() -> None:
    """A count in a group that limits the pod makes old answers worthless; others do not."""
    scheduler = fresh(
        problem(
            pod("x", app="web", spreads=[spread(ZONE, app="web")]),
            pod("y", near=[affinity_term(ZONE, app="web")]),
            pools=[POOL],
        )
    )
    even, near = pod_data_of(scheduler, "x").compiled, pod_data_of(scheduler, "y").compiled
    before = even.counts_version(), near.counts_version()

    even.demands.domains[0].group.add("zone-1")

    assert (even.counts_version() != before[0], near.counts_version() != before[1]) == (True, False)
