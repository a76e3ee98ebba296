"""Taints and tolerations."""

from __future__ import annotations

import pytest

from karpenter.api.node import Taint
from karpenter.api.pod import Toleration
from karpenter.core.model.taints import (
    first_untolerated,
    is_ephemeral,
    merge,
    tolerates,
    tolerates_taint,
    without,
)

DEDICATED = Taint(key="dedicated", value="gpu", effect="NoSchedule")
SOFT = Taint(key="soft", effect="PreferNoSchedule")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        pytest.param(
            Toleration(key="dedicated", value="gpu", effect="NoSchedule"), True, id="same in everything"
        ),
        pytest.param(Toleration(key="dedicated", operator="Equal", value="gpu"), True, id="any effect"),
        pytest.param(
            Toleration(key="dedicated", value="gpu", effect="NoExecute"), False, id="another effect"
        ),
        pytest.param(Toleration(key="dedicated", value="cpu"), False, id="another value"),
        pytest.param(Toleration(key="other", operator="Exists"), False, id="another key"),
        pytest.param(Toleration(key="dedicated", operator="Exists"), True, id="any value"),
        pytest.param(Toleration(operator="Exists"), True, id="anything at all"),
        pytest.param(Toleration(value="gpu"), True, id="any key with this value"),
        pytest.param(Toleration(key="dedicated", operator="In", value="gpu"), False, id="no such operator"),
    ],
)
def test_toleration(toleration: Toleration, expected: bool) -> None:
    """A toleration covers a taint when effect and key are the same or left open, and the value fits."""
    assert tolerates_taint(toleration, DEDICATED) is expected


@pytest.mark.parametrize(
    ("operator", "bound", "number", "expected"),
    [
        pytest.param("Gt", "900", "950", True, id="above"),
        pytest.param("Gt", "950", "950", False, id="not above itself"),
        pytest.param("Lt", "950", "900", True, id="below"),
        pytest.param("Lt", "900", "900", False, id="not below itself"),
        pytest.param("Lt", "0", "-5", True, id="below zero"),
        pytest.param("Gt", "9", "10", True, id="numbers, not letters"),
        pytest.param("Gt", "high", "950", False, id="a bound that is no integer"),
        pytest.param("Lt", "900", "low", False, id="a value that is no integer"),
        pytest.param("Lt", "900", "007", False, id="leading zeros are no integer"),
        pytest.param("Lt", "900", "", False, id="nothing is no integer"),
        pytest.param("Gt", "1", "9" * 5000, False, id="an endless integer"),
    ],
)
def test_numeric_toleration(operator: str, bound: str, number: str, expected: bool) -> None:
    """Lt and Gt tolerate taints whose number is below or above the bound."""
    toleration = Toleration(key="sla", operator=operator, value=bound)

    assert tolerates_taint(toleration, Taint(key="sla", value=number, effect="NoSchedule")) is expected


@pytest.mark.parametrize(
    ("tolerations", "taints", "expected"),
    [
        pytest.param([], [], None, id="no taint needs no toleration"),
        pytest.param([], [DEDICATED], DEDICATED, id="a taint needs one"),
        pytest.param([], [SOFT], SOFT, id="also one that only prefers"),
        pytest.param(
            [Toleration(key="dedicated", operator="Exists")], [DEDICATED, SOFT], SOFT, id="each needs one"
        ),
        pytest.param([Toleration(operator="Exists")], [DEDICATED, SOFT], None, id="one may cover all"),
    ],
)
def test_first_untolerated(
    tolerations: list[Toleration], taints: list[Taint], expected: Taint | None
) -> None:
    """A pod goes where every taint is tolerated; otherwise the first one that is not can be named."""
    assert (first_untolerated(iter(tolerations), taints), tolerates(tolerations, taints)) == (
        expected,
        expected is None,
    )


@pytest.mark.parametrize(
    ("key", "effect", "expected"),
    [
        pytest.param("node.kubernetes.io/not-ready", "NoSchedule", True, id="not ready"),
        pytest.param("node.kubernetes.io/not-ready", "NoExecute", True, id="not ready, for running pods"),
        pytest.param("node.kubernetes.io/unreachable", "NoSchedule", True, id="unreachable"),
        pytest.param(
            "node.kubernetes.io/unreachable", "NoExecute", False, id="unreachable, for running pods"
        ),
        pytest.param(
            "node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule", True, id="uninitialized"
        ),
        pytest.param("karpenter.sh/unregistered", "NoExecute", True, id="unregistered"),
        pytest.param("karpenter.sh/unregistered", "NoSchedule", False, id="unregistered with another effect"),
        pytest.param("readiness.k8s.io/network", "NoSchedule", True, id="waiting for a readiness rule"),
        pytest.param("readiness.k8s.io/network", "PreferNoSchedule", True, id="with whatever effect"),
        pytest.param("karpenter.sh/disrupted", "NoSchedule", False, id="disrupted"),
        pytest.param("dedicated", "NoSchedule", False, id="a user's own"),
    ],
)
def test_passing_taints(key: str, effect: str, expected: bool) -> None:
    """A new node carries some taints only until it is up."""
    assert is_ephemeral(Taint(key=key, effect=effect, value="whatever")) is expected


def test_merge_keeps_the_first_of_each_key_and_effect() -> None:
    """Merging adds taints that are not there yet, and a taint is the same whatever its value."""
    other_value = Taint(key="dedicated", value="cpu", effect="NoSchedule")
    other_effect = Taint(key="dedicated", value="gpu", effect="NoExecute")

    assert merge([DEDICATED], [other_value, other_effect, SOFT]) == (DEDICATED, other_effect, SOFT)


def test_without_removes_by_key_and_effect() -> None:
    """Removing a taint does not ask for its value."""
    assert without([DEDICATED, SOFT], [Taint(key="dedicated", value="x", effect="NoSchedule")]) == (SOFT,)
