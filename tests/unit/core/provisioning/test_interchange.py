"""Which of the pods that are alike has which place of a plan."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from karpenter.api.labels import ZONE
from karpenter.core.provisioning.interchange import interchange
from karpenter.core.scheduling.problem import Plan
from karpenter.core.state.statenode import StateNode
from tests.unit.core.lifecycle.objects import BORN, at, node
from tests.unit.core.provisioning.test_nomination import owned

if TYPE_CHECKING:
    from karpenter.api.pod import Pod

SPREAD = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}


def spread(number: int, *, on: str = "", owner: str = "rs-uid", when: str = "DoNotSchedule") -> Pod:
    """Return the pod of a workload that came as the given one, or runs already."""
    return owned(
        f"web-{number}",
        owner=owner,
        spec={"nodeName": on, "topologySpreadConstraints": [{**SPREAD, "whenUnsatisfiable": when}]},
        meta={"creationTimestamp": at(BORN + timedelta(seconds=number))},
    )


def machine(name: str, zone: str, *pods: Pod) -> StateNode:
    return StateNode(node=node(name=name, meta={"labels": {ZONE: zone}}), pods=pods)


def keys(*numbers: int) -> tuple[str, ...]:
    return tuple(f"default/web-{number}" for number in numbers)


def placed(plan: dict[str, tuple[int, ...]], pods: list[Pod], *nodes: StateNode) -> dict[str, Any]:
    """Return where the pods of a plan are, once they have changed places."""
    before = Plan(placed={name: keys(*numbers) for name, numbers in plan.items()})
    return dict(interchange(before, nodes, {pod.key: pod for pod in pods}).placed)


NODES = (machine("a", "zone-a"), machine("b", "zone-b"))


def test_pods_come_to_one_zone_after_the_other() -> None:
    """Of four pods, the first and the second are in different zones, and so are the third and the fourth."""
    pods = [spread(number) for number in range(4)]

    assert placed({"a": (0, 1), "b": (2, 3)}, pods, *NODES) == {"a": keys(0, 2), "b": keys(1, 3)}


def test_the_zone_that_is_behind_comes_first() -> None:
    """What runs already counts."""
    nodes = (machine("a", "zone-a", spread(8, on="a")), machine("b", "zone-b"))

    assert placed({"a": (0,), "b": (1,)}, [spread(0), spread(1)], *nodes) == {"a": keys(1), "b": keys(0)}


def test_pods_that_need_not_be_spread_keep_their_places() -> None:
    """So do those of different workloads."""
    loose = [spread(number, when="ScheduleAnyway") for number in range(4)]
    others = [spread(number, owner=f"rs-{number}") for number in range(4)]

    for pods in (loose, others):
        assert placed({"a": (0, 1), "b": (2, 3)}, pods, *NODES) == {"a": keys(0, 1), "b": keys(2, 3)}


def test_what_is_said_of_a_place_goes_with_it() -> None:
    """The reason is that of the node."""
    pods = [spread(number) for number in range(4)]
    because = dict(zip(keys(0, 1, 2, 3), ("a", "a", "b", "b"), strict=True))
    plan = Plan(placed={"a": keys(0, 1), "b": keys(2, 3)}, because=because)

    found = interchange(plan, NODES, {pod.key: pod for pod in pods})

    assert dict(found.because) == {key: name for name, here in found.placed.items() for key in here}


@given(
    zones=st.lists(st.integers(0, 2), min_size=1, max_size=12), running=st.tuples(*[st.integers(0, 3)] * 3)
)
def test_no_pod_is_refused_on_the_way(zones: list[int], running: tuple[int, int, int]) -> None:
    """On the way zones are never less even than at the beginning or at the end."""
    pods = [spread(number) for number in range(len(zones))]
    nodes = []
    for zone, count in enumerate(running):
        there = [spread(100 + 10 * zone + one, on=f"n{zone}") for one in range(count)]
        nodes.append(machine(f"n{zone}", f"zone-{zone}", *there))
    plan = {f"n{zone}": tuple(n for n, where in enumerate(zones) if where == zone) for zone in range(3)}
    found = placed(plan, pods, *nodes)
    assert [len(found[name]) for name in plan] == [len(here) for here in plan.values()]

    counts = Counter(dict(enumerate(running)))
    worst = max(skew(counts), skew(counts + Counter(zones)), 1)
    where = {key: int(name[1:]) for name, here in found.items() for key in here}
    for pod in pods:
        counts[where[pod.key]] += 1
        assert skew(counts) <= worst


def skew(counts: Counter[int]) -> int:
    found = [counts[zone] for zone in range(3)]
    return max(found) - min(found)
