"""The order of relaxations of a pod's preferences."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.meta import convert
from karpenter.api.pod import PodSpec
from karpenter.core.scheduling.encode.preferences import (
    MOST_PREFERENCES,
    Relaxation,
    node_terms,
    relaxations,
    required_anti_affinity,
)


def expression(key: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


def near(key: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}}


def weighted(weight: int, key: str) -> dict[str, Any]:
    return {"weight": weight, "podAffinityTerm": near(key)}


def preferred(weight: int, key: str, *values: str) -> dict[str, Any]:
    return {"weight": weight, "preference": expression(key, *values)}


def spread(key: str, unsatisfiable: str = "ScheduleAnyway") -> dict[str, Any]:
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": unsatisfiable}


def steps(*, respect: bool = True, avoidance: bool = False, **spec: object) -> list[Relaxation]:
    found = convert(spec, PodSpec)
    return list(relaxations(found, found.topology_spread_constraints, respect=respect, avoidance=avoidance))


def node_affinity(required: list[Any] | None = None, wanted: list[Any] | None = None) -> dict[str, Any]:
    """Return a node affinity with alternatives and preferences."""
    found: dict[str, Any] = {"preferredDuringSchedulingIgnoredDuringExecution": wanted or []}
    if required:
        found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": required}
    return {"nodeAffinity": found}


def pod_affinity(kind: str, required: list[Any], wanted: list[Any]) -> dict[str, Any]:
    return {
        kind: {
            "requiredDuringSchedulingIgnoredDuringExecution": required,
            "preferredDuringSchedulingIgnoredDuringExecution": wanted,
        }
    }


EVERYTHING: dict[str, Any] = {
    "nodeSelector": {"s": "1"},
    "affinity": {
        **node_affinity(
            [expression("r", "1"), expression("r", "2")],
            [preferred(1, "p", "light"), preferred(9, "p", "heavy")],
        ),
        **pod_affinity("podAffinity", [near("host")], [weighted(1, "rack"), weighted(5, "zone")]),
        **pod_affinity("podAntiAffinity", [near("host")], [weighted(2, "row"), weighted(3, "room")]),
    },
    "topologySpreadConstraints": [
        spread("zone"),
        spread("host", "DoNotSchedule"),
        spread("rack"),
        spread("room"),
    ],
}


def test_the_order_of_giving_up() -> None:
    """Wishes are given up one by one, in a fixed order, the heaviest of a kind first."""
    found = steps(avoidance=True, **EVERYTHING)

    assert [relaxation.given_up for relaxation in found] == [
        "",
        "a node affinity term",
        "a preferred pod affinity",
        "a preferred pod affinity",
        "a preferred pod anti-affinity",
        "a preferred pod anti-affinity",
        "a preferred node affinity",
        "a preferred node affinity",
        "an even spread over zone",
        "an even spread over room",
        "an even spread over rack",
        "avoiding PreferNoSchedule nodes",
    ]


def test_the_first_relaxation_holds_everything() -> None:
    """At first every preference counts as required: the first alternative, the heaviest one, all affinity."""
    first = steps(**EVERYTHING)[0]

    assert (
        str(first.requirements),
        str(first.strict),
        [term.topology_key for term in first.pod_affinity],
        [term.topology_key for term in first.pod_anti_affinity],
        [each.topology_key for each in first.spreads],
    ) == (
        "p In [heavy], r In [1], s In [1]",
        "r In [1], s In [1]",
        ["host", "zone", "rack"],
        ["host", "room", "row"],
        ["zone", "host", "rack", "room"],
    )


def test_the_last_relaxation_holds_what_is_required() -> None:
    """At last only the last alternative, required affinity and strict spreads are left."""
    last = steps(**EVERYTHING)[-1]

    assert (
        str(last.requirements),
        [term.topology_key for term in last.pod_affinity],
        [term.topology_key for term in last.pod_anti_affinity],
        [each.topology_key for each in last.spreads],
        last.tolerations,
    ) == ("r In [2], s In [1]", ["host"], ["host"], ["host"], ())


@pytest.mark.parametrize(
    ("relaxation", "expected"),
    [
        pytest.param(0, ["zone", "rack"], id="the heaviest first"),
        pytest.param(2, ["rack"], id="the heaviest goes first"),
        pytest.param(3, [], id="then the next"),
    ],
)
def test_affinity_is_relaxed_by_weight(relaxation: int, expected: list[str]) -> None:
    """Of preferred pod affinities the heaviest is held first, and given up first."""
    found = steps(**EVERYTHING)[relaxation]

    assert [term.topology_key for term in found.pod_affinity[1:]] == expected


def test_equal_weights_keep_their_order() -> None:
    """Of two preferences with one weight the first is the first to count, and to go."""
    found = steps(affinity=node_affinity(None, [preferred(5, "p", "first"), preferred(5, "p", "second")]))

    assert [str(relaxation.requirements) for relaxation in found] == ["p In [first]", "p In [second]", ""]


def test_spreads_close_ranks() -> None:
    """When a spread is given up, the last one takes its place; that is then the next to go."""
    found = steps(topologySpreadConstraints=[spread("a"), spread("b"), spread("c")])

    assert [[each.topology_key for each in relaxation.spreads] for relaxation in found] == [
        ["a", "b", "c"],
        ["c", "b"],
        ["b"],
        [],
    ]


def test_strict_spreads_are_never_given_up() -> None:
    """DoNotSchedule means what it says."""
    assert len(steps(topologySpreadConstraints=[spread("a", "DoNotSchedule")])) == 1


def test_the_last_alternative_is_never_given_up() -> None:
    """Of required alternatives one must hold."""
    found = steps(affinity=node_affinity([expression("r", "1"), expression("r", "2"), expression("r", "3")]))

    assert [str(relaxation.requirements) for relaxation in found] == ["r In [1]", "r In [2]", "r In [3]"]


def test_ignored_preferences() -> None:
    """Where preferences are ignored, only what is required is ever held."""
    found = steps(respect=False, **EVERYTHING)

    assert [
        (
            str(r.requirements),
            len(r.pod_affinity),
            len(r.pod_anti_affinity),
            [s.topology_key for s in r.spreads],
        )
        for r in found
    ] == [("r In [1], s In [1]", 1, 1, ["host"]), ("r In [2], s In [1]", 1, 1, ["host"])]


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        pytest.param([], 2, id="it is added last"),
        pytest.param([{"operator": "Exists", "effect": "PreferNoSchedule"}], 1, id="it is there already"),
    ],
)
def test_avoidance_is_given_up_last(tolerations: list[Any], expected: int) -> None:
    """Where some pool would rather not have the pod, it is tolerated in the end, once."""
    assert len(steps(avoidance=True, tolerations=tolerations)) == expected


def test_avoidance_adds_a_toleration() -> None:
    """The preference to avoid such nodes is given up by tolerating their taint."""
    last = steps(avoidance=True, tolerations=[{"key": "x", "operator": "Exists"}])[-1]

    assert [(t.key, t.operator, t.effect) for t in last.tolerations] == [
        ("x", "Exists", ""),
        ("", "Exists", "PreferNoSchedule"),
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, [""], id="no preferences"),
        pytest.param(
            {"nodeSelector": {"a": "1"}, "affinity": node_affinity([expression("a", "1", "2")])},
            [""],
            id="a common value",
        ),
        pytest.param(
            {"nodeSelector": {"a": "1"}, "affinity": node_affinity([expression("a", "2")])},
            ["a"],
            id="no common value",
        ),
        pytest.param(
            {"nodeSelector": {"a": "1"}, "affinity": node_affinity(None, [preferred(1, "a", "2")])},
            ["a", ""],
            id="a preference that is given up",
        ),
        pytest.param(
            {
                "affinity": node_affinity(
                    [
                        {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]},
                        {
                            "matchExpressions": [
                                {"key": "a", "operator": "DoesNotExist"},
                                {"key": "a", "operator": "Exists"},
                            ]
                        },
                    ]
                )
            },
            ["", "a"],
            id="a label that must not be there and must",
        ),
    ],
)
def test_contradictions(spec: dict[str, Any], expected: list[str]) -> None:
    """A label that must be there and can have no value makes a relaxation impossible, and is named."""
    assert [relaxation.impossible for relaxation in steps(**spec)] == expected


def test_a_pod_without_preferences() -> None:
    """There is one way to read a pod that says nothing."""
    assert [str(relaxation.requirements) for relaxation in steps()] == [""]


@pytest.mark.parametrize(
    ("affinity", "terms", "apart"),
    [
        pytest.param(None, 0, 0, id="no affinity"),
        pytest.param({}, 0, 0, id="an affinity that says nothing"),
        pytest.param(node_affinity(None, [preferred(1, "p", "x")]), 0, 0, id="preferences only"),
        pytest.param(node_affinity([expression("r", "1")]), 1, 0, id="an alternative"),
        pytest.param(pod_affinity("podAntiAffinity", [near("host")], []), 0, 1, id="anti-affinity"),
    ],
)
def test_what_a_pod_can_never_do_without(affinity: Any, terms: int, apart: int) -> None:
    """Required alternatives and required distance can be asked for on their own."""
    spec = convert({"affinity": affinity}, PodSpec)

    assert (len(node_terms(spec)), len(required_anti_affinity(spec))) == (terms, apart)


# Pods with more preferences than are considered.


def many(count: int) -> dict[str, Any]:
    """Return an affinity with so many preferences, the heaviest last."""
    return node_affinity(wanted=[preferred(weight, f"k{weight}", "v") for weight in range(1, count + 1)])


@pytest.mark.parametrize(
    "count",
    [pytest.param(2, id="two preferences"), pytest.param(MOST_PREFERENCES, id="as many as are considered")],
)
def test_few_preferences_are_all_considered(count: int) -> None:
    """Up to the limit every preference is tried, the heaviest first, and none is said to be left out."""
    found = steps(affinity=many(count))

    assert [str(each.requirements) for each in found] == [
        *(f"k{weight} In [v]" for weight in range(count, 0, -1)),
        "",
    ]
    assert found[0].given_up == ""


def test_of_many_preferences_the_heaviest_are_considered() -> None:
    """Beyond the limit the lightest are left out, which the first relaxation says."""
    found = steps(affinity=many(MOST_PREFERENCES + 3))

    assert [str(each.requirements) for each in found] == [
        *(f"k{weight} In [v]" for weight in range(MOST_PREFERENCES + 3, 3, -1)),
        "",
    ]
    assert found[0].given_up == "the lightest 3 of its preferences"


def test_preferences_of_all_kinds_count_together() -> None:
    """Spreads stay, and what is left of the limit goes to the heaviest terms of any kind."""
    spec: dict[str, Any] = {
        "affinity": {
            **node_affinity(wanted=[preferred(3, f"n{each}", "v") for each in range(MOST_PREFERENCES)]),
            **pod_affinity("podAffinity", [near("host")], [weighted(9, "heavy"), weighted(1, "light")]),
            **pod_affinity("podAntiAffinity", [], [weighted(8, "row"), weighted(2, "room")]),
        },
        "topologySpreadConstraints": [spread("zone"), spread("host", "DoNotSchedule")],
    }
    first, *others = steps(**spec)

    assert [each.topology_key for each in first.pod_affinity] == ["host", "heavy"]
    assert [each.topology_key for each in first.pod_anti_affinity] == ["row"]
    assert [each.topology_key for each in first.spreads] == ["zone", "host"]
    assert len(others) == MOST_PREFERENCES


def test_spreads_that_are_preferences_have_the_limit_too() -> None:
    """Of more spreads than are considered the first stay, beside every required one."""
    spreads = [spread(f"k{each}") for each in range(MOST_PREFERENCES + 2)]
    first = steps(affinity=many(1), topologySpreadConstraints=[*spreads, spread("host", "DoNotSchedule")])[0]

    assert [each.topology_key for each in first.spreads] == [
        *(f"k{each}" for each in range(MOST_PREFERENCES)),
        "host",
    ]
    assert first.given_up == "the lightest 3 of its preferences"


def test_required_terms_have_no_limit() -> None:
    """Every alternative of the required node affinity is tried: a pod without them could be refused."""
    terms = [expression("r", str(each)) for each in range(3 * MOST_PREFERENCES)]

    assert len(steps(affinity=node_affinity(terms))) == len(terms)


def test_preferences_that_are_not_respected_are_not_counted() -> None:
    """With preference-policy Ignore nothing is left out, since nothing was considered."""
    assert [each.given_up for each in steps(respect=False, affinity=many(2 * MOST_PREFERENCES))] == [""]
