"""Which pods cannot be considered."""

from typing import Any

import pytest

from karpenter.api.labels import ALL_LABEL_RULES
from karpenter.api.meta import convert
from karpenter.api.pod import Pod
from karpenter.api.validation.nodeclaim_validation import validate_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"


def problems(spec: dict[str, Any]) -> list[str]:
    """Return the fields that keep a pod from being considered."""
    pod = convert({"kind": "Pod", "metadata": {"name": "a"}, "spec": spec}, Pod)
    return [problem.field for problem in validate_pod(pod, rules=ALL_LABEL_RULES)]


def needing(*terms: dict[str, Any]) -> dict[str, Any]:
    """Return the spec of a pod with required node affinity."""
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="no wishes"),
        pytest.param({"nodeSelector": {"topology.kubernetes.io/zone": "a"}}, id="a zone"),
        pytest.param({"nodeSelector": {"example.com/team": "red"}}, id="a label of one's own"),
        pytest.param({"nodeSelector": {"karpenter.sh/capacity-type": "spot"}}, id="a capacity type"),
        pytest.param({"nodeSelector": {"failure-domain.beta.kubernetes.io/zone": "a"}}, id="an old name"),
        pytest.param({"affinity": {"nodeAffinity": {}}}, id="empty affinity"),
        pytest.param(needing(term("a", "In", "x"), term("b", "Gt", "5")), id="two terms"),
        pytest.param(
            {
                "affinity": {
                    "nodeAffinity": {
                        PREFERRED: [{"weight": 1, "preference": term("kubernetes.io/hostname", "In", "n")}]
                    }
                }
            },
            id="a preference that makes no sense is not judged",
        ),
    ],
)
def test_pods_that_are_fine(spec: dict[str, Any]) -> None:
    """A pod that asks for labels that nodes can have is considered."""
    assert problems(spec) == []


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param(
            {"nodeSelector": {"kubernetes.io/hostname": "n"}},
            "spec.nodeSelector[kubernetes.io/hostname]",
            id="a host by name",
        ),
        pytest.param(
            {"nodeSelector": {"karpenter.sh/custom": "x"}},
            "spec.nodeSelector[karpenter.sh/custom]",
            id="our domain",
        ),
        pytest.param({"nodeSelector": {"a": "b c"}}, "spec.nodeSelector[a]", id="no label value"),
        pytest.param(
            {"nodeSelector": {"karpenter.sh/capacity-type": "cheap"}},
            "spec.nodeSelector[karpenter.sh/capacity-type]",
            id="a capacity type that does not exist",
        ),
        pytest.param(
            needing({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}),
            f"{TERMS}[0].matchFields",
            id="a node by its fields",
        ),
        pytest.param(
            needing(term("a", "In")), f"{TERMS}[0].matchExpressions[0].values", id="In without values"
        ),
        pytest.param(
            needing(term("a", "In", "x"), term("b", "Gt", "x")),
            f"{TERMS}[1].matchExpressions[0].values",
            id="a bound that is no number",
        ),
        pytest.param(
            needing(term("a", "Like", "x")), f"{TERMS}[0].matchExpressions[0].operator", id="no such operator"
        ),
    ],
)
def test_pods_that_are_not(spec: dict[str, Any], field: str) -> None:
    """A pod that no node can satisfy, or whose wish cannot be told, is refused by field."""
    assert problems(spec) == [field]
