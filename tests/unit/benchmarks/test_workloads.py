"""The workloads are the same on every machine, and what they claim to be."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest
from benchmarks.bench_consolidation import Passes
from benchmarks.workloads.deployments import constrained_pods, deployments, plain_pods
from benchmarks.workloads.draws import STORED, Draws, stream
from benchmarks.workloads.ec2 import distinct_pods, picky_pods
from benchmarks.workloads.fake import fake_types
from benchmarks.workloads.fleets import fleet
from benchmarks.workloads.reference import LABEL, diverse_pods, preference_pods
from benchmarks.workloads.sun import DAY, LOADS, NIGHT, Workload, market, script, sun, workloads

from karpenter.api.labels import ARCH, HOSTNAME, ZONE
from karpenter_local.simulation.actions import AddPool, Deploy, Scale


def test_the_first_draws_are_those_of_the_reference() -> None:
    """The published first draws, below 7, 5 and 6 in turn, come out."""
    draws = Draws()
    drawn = [draws.below((7, 5, 6)[number % 3]) for number in range(24)]

    assert drawn == [5, 2, 2, 1, 3, 1, 6, 1, 2, 3, 4, 5, 2, 3, 2, 6, 2, 5, 3, 4, 4, 0, 4, 3]


def test_the_stream_goes_on_without_end() -> None:
    """After the numbers that are stored the stream goes on, and stays within 31 bits."""
    drawn = list(islice(stream(), STORED + 2000))

    assert drawn[:3] == [801072305, 141734987, 1297281668]
    assert max(drawn[STORED:]) < 2**31
    assert len(set(drawn[STORED:])) == 2000


def test_draws_below_a_power_of_two_take_the_lowest_bits() -> None:
    """The reference masks instead of dividing where it can."""
    assert Draws().below(8) == 801072305 & 7


def test_diverse_pods_are_five_kinds() -> None:
    """A fifth each: generic, over zones, over nodes, together, apart; the rest is generic."""
    pods = diverse_pods(1002)
    keys = Counter(
        constraint.topology_key for pod in pods for constraint in pod.spec.topology_spread_constraints
    )

    assert keys == {ZONE: 200, HOSTNAME: 200}
    assert sum(pod.metadata.labels.get("app") == "nginx" for pod in pods) == 200
    assert sum(LABEL in pod.metadata.labels for pod in pods) == 602
    assert len({pod.key for pod in pods}) == 1002


def test_the_first_diverse_pod_is_the_first_of_the_reference() -> None:
    """Label, cpu and memory are drawn in this order: 5, 2, 2."""
    (pod,) = diverse_pods(1)

    assert pod.metadata.labels[LABEL] == "f"
    assert pod.spec.containers[0].resources.requests == {"cpu": "500m", "memory": "512Mi"}


def test_preference_pods_are_equal() -> None:
    """All pods with preferences ask for the same."""
    pods = preference_pods(10)

    assert all(pod.spec == pods[0].spec for pod in pods)


def test_fake_types_grow_by_a_core() -> None:
    """Type 7 has eight cores, 16 GiB, room for 80 pods, five offerings and one price."""
    kind = fake_types(8)[7]

    assert kind.capacity == {"cpu": 8000, "memory": 16 * 2**30, "pods": 80}
    assert {offering.price for offering in kind.offerings} == {0.8 + 0.1 * 16 * 2**30 / 10**9}
    assert len(kind.offerings) == 5


@pytest.mark.parametrize("kind", ["mixed", "cpu", "mem", "big"])
def test_deployments_have_as_many_pods_as_asked_for(kind: str) -> None:
    """Deployments of every kind have so many pods between them, the same ones every time."""
    wanted = deployments(300, kind=kind, seed=1)  # type: ignore[arg-type]

    assert len(plain_pods(wanted)) == 300
    assert wanted == deployments(300, kind=kind, seed=1)  # type: ignore[arg-type]


def test_constrained_pods_are_the_same_every_time() -> None:
    """Constraints are drawn from a seed, and many deployments have some."""
    wanted = deployments(500, kind="mixed", seed=2)
    pods = constrained_pods(wanted, seed=2, zones=("a", "b"))

    assert pods == constrained_pods(wanted, seed=2, zones=("a", "b"))
    assert sum(bool(pod.spec.topology_spread_constraints) for pod in pods) > 100


def test_distinct_pods_are_distinct() -> None:
    """Hardly two pods ask for the same, and no two picky pods allow the same families."""
    sizes = {str(pod.spec.containers[0].resources.requests) for pod in distinct_pods(200)}
    wishes = {str(pod.spec.affinity) for pod in picky_pods(50)}

    assert len(sizes) == 200
    assert len(wishes) == 50


def test_workloads_that_follow_the_sun_are_largest_at_noon() -> None:
    """At noon all pods are there, at midnight a share is left, and a day later all is the same."""
    steady = Workload("app", most=100, milli=100, mebi=100, shift=0.0, offset=0.0, kind=1.0)

    assert [steady.size(hour * 60, sun) for hour in (0, 12, 24, 36)] == [100 * NIGHT, 100, 100 * NIGHT, 100]


def test_a_script_that_follows_the_sun_is_told_once_and_in_order() -> None:
    """First the pool, then every workload, then only changes; the same for the same seed."""
    steps = script(100, days=1, seed=1)
    kinds = [type(step) for step in steps]
    apps = len(workloads(100, seed=1))

    assert kinds == [AddPool, *[Deploy] * apps, *[Scale] * (len(steps) - apps - 1)]
    assert [step.at for step in steps] == sorted(step.at for step in steps)
    assert steps[-1].at < DAY * 60 + 5
    assert steps == script(100, days=1, seed=1) != script(100, days=1, seed=2)


def test_under_the_sun_only_ordinary_machines_are_sold() -> None:
    """Of the EC2 catalogue, the newer general families of one architecture."""
    assert {kind.name[0] for kind in market().types} == {"c", "m", "r"}
    assert {min(kind.requirements[ARCH].values) for kind in market().types} == {"amd64"}
    assert "m5.8xlarge" in market().by_name
    assert not {"m4.large", "m5.12xlarge", "m7g.large"} & set(market().by_name)


@pytest.mark.parametrize(
    ("load", "shares"),
    [
        ("week", {3: 30, 10: 100, 15: 31, 20: 90, 24 * 5 + 10: 65, 24 * 7 + 10: 100}),
        ("batch", {0: 100, 1: 10, 4.9: 10, 5: 100}),
        ("office", {7.9: 15, 8: 100, 17.9: 100, 18: 15, 24 * 4 + 12: 100, 24 * 5 + 12: 15, 24 * 7 + 12: 100}),
    ],
)
def test_loads_of_a_week_of_a_batch_queue_and_of_an_office(load: str, shares: dict[float, int]) -> None:
    """A web site has two peaks on a working day and quiet weekends; a queue or an office is empty or full."""
    assert {hour: round(100 * LOADS[load](hour)) for hour in shares} == shares


def test_passes_over_a_small_cluster_add_up() -> None:
    """Both strategies remove something from a slack cluster, and every question they ask is counted."""
    view = fleet(2, seed=1, gone=0.5, budget="100%")
    found = {strategy: Passes.of(view, strategy) for strategy in ("classic", "global")}

    assert all(each.saved > 0 and each.moved > 0 for each in found.values())
    assert all(each.spent > 0 and each.simulations > 0 for each in found.values())
