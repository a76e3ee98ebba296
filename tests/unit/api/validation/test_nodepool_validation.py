"""What keeps a pool from being used, whatever the cluster's definitions let through."""

from typing import Any

import pytest

from karpenter.api.labels import ALL_LABEL_RULES, CORE_LABEL_RULES
from karpenter.api.meta import convert
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import NodePool
from karpenter.api.validation.nodeoverlay_validation import validate_nodeoverlay
from karpenter.api.validation.nodepool_validation import validate_nodepool
from karpenter.api.validation.objects import runtime_validate
from tests.unit.api.cases.case import changed
from tests.unit.api.cases.overlays import OVERLAY
from tests.unit.api.cases.pools import POOL
from tests.unit.api.cases.templates import LABELS, REQUIREMENTS, STARTUP, TAINTS, require, requirement


def told(changes: dict[str, Any]) -> list[str]:
    """Return what is said about a pool with some changes."""
    pool = convert(changed(POOL, changes), NodePool)
    return [str(problem) for problem in validate_nodepool(pool, rules=CORE_LABEL_RULES)]


def fields(changes: dict[str, Any]) -> list[str]:
    """Return the fields of a pool that are refused."""
    return [line.partition(": ")[0] for line in told(changes)]


def test_a_good_pool() -> None:
    """A pool without mistakes has no problems."""
    assert told({}) == []


@pytest.mark.parametrize(
    ("labels", "place"),
    [
        pytest.param({"karpenter.sh/nodepool": "x"}, "karpenter.sh/nodepool", id="the label of pools"),
        pytest.param({"karpenter.sh/custom": "x"}, "karpenter.sh/custom", id="a label in our domain"),
        pytest.param({"kubernetes.io/hostname": "x"}, "kubernetes.io/hostname", id="the host name"),
        pytest.param({"a b": "x"}, "a b", id="a key that is none"),
        pytest.param({"a": "x y"}, "a", id="a value that is none"),
    ],
)
def test_labels(labels: dict[str, str], place: str) -> None:
    """Labels that a template may not have are named."""
    assert fields({LABELS: labels}) == [f"{LABELS}[{place}]"]


@pytest.mark.parametrize(
    ("taint", "member"),
    [
        pytest.param({"key": "", "effect": "NoSchedule"}, "key", id="no key"),
        pytest.param({"key": "a b", "effect": "NoSchedule"}, "key", id="a key that is none"),
        pytest.param(
            {"key": "a", "value": "a b", "effect": "NoSchedule"}, "value", id="a value that is none"
        ),
        pytest.param({"key": "a", "effect": "Never"}, "effect", id="an effect that does not exist"),
    ],
)
def test_taints(taint: dict[str, str], member: str) -> None:
    """Taints that make no sense are named, startup taints too."""
    assert fields({TAINTS: [taint]}) == [f"{TAINTS}[0].{member}"]
    assert fields({STARTUP: [taint]}) == [f"{STARTUP}[0].{member}"]


def test_an_empty_effect_is_let_through() -> None:
    """An effect that is not said is not judged."""
    assert told({TAINTS: [{"key": "a"}]}) == []


@pytest.mark.parametrize(
    ("wanted", "members"),
    [
        pytest.param(requirement("karpenter.sh/nodepool", "In", "x"), ["key"], id="the label of pools"),
        pytest.param(requirement("karpenter.sh/custom", "Exists"), ["key"], id="a label in our domain"),
        pytest.param(requirement("a b", "Exists"), ["key"], id="a key that is none"),
        pytest.param(requirement("a", "Like", "x"), ["operator"], id="an operator that does not exist"),
        pytest.param(requirement("a", "In", "x y"), ["values[0]"], id="a value that is none"),
        pytest.param(requirement("a", "In"), ["values"], id="In without values"),
        pytest.param(requirement("a", "In", "x", minValues=2), ["values"], id="fewer values than minValues"),
        pytest.param(requirement("a", "Gt"), ["values"], id="a bound without a value"),
        pytest.param(requirement("a", "Lte", "1", "2"), ["values"], id="a bound with two values"),
        pytest.param(requirement("a", "Gte", "9" * 30), ["values"], id="a bound beyond 64 bits"),
        pytest.param(requirement("a", "Lt", "-1"), ["values[0]", "values"], id="a bound below zero"),
        pytest.param(requirement("karpenter.sh/capacity-type", "In", "x"), ["values"], id="no such capacity"),
    ],
)
def test_requirements(wanted: dict[str, Any], members: list[str]) -> None:
    """Requirements that make no sense are named."""
    assert fields(require(wanted)) == [f"{REQUIREMENTS}[0].{member}" for member in members]


def test_the_sentence_for_a_restricted_label() -> None:
    """A refusal says what would be allowed."""
    (line,) = told(require(requirement("karpenter.sh/custom", "Exists")))

    assert line == (
        f"{REQUIREMENTS}[0].key: Forbidden: label karpenter.sh/custom is in a restricted domain "
        "(karpenter.sh); only well-known labels of these may be used"
    )


def test_providers_decide_what_is_restricted() -> None:
    """The same pool is judged by the labels of the provider at hand."""
    pool = convert(changed(POOL, require(requirement("karpenter.k8s.aws/custom", "Exists"))), NodePool)

    assert validate_nodepool(pool, rules=CORE_LABEL_RULES) == ()
    assert validate_nodepool(pool, rules=ALL_LABEL_RULES) != ()


def test_overlays() -> None:
    """An overlay's NotIn needs values, which a pool's does not."""
    overlay = convert(changed(OVERLAY, {"spec.requirements": [requirement("a", "NotIn")]}), NodeOverlay)

    assert [problem.field for problem in validate_nodeoverlay(overlay, rules=CORE_LABEL_RULES)] == [
        "spec.requirements[0].values"
    ]


def test_meaning_is_judged_by_kind() -> None:
    """Pools and overlays are judged as what they are."""
    pool = convert(changed(POOL, {LABELS: {"a b": "x"}}), NodePool)

    assert runtime_validate(pool, rules=CORE_LABEL_RULES) == validate_nodepool(pool, rules=CORE_LABEL_RULES)
