"""What a check says of the objects that a definition renders to, without a cluster."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from karpenter.definition.check import DefinitionCheck, judged
from karpenter.definition.model import read_definition
from karpenter.definition.objects import render_definition


def rendered(**pool: Any) -> list[dict[str, Any]]:
    """Return the objects of a definition with one pool."""
    plain = {"karpenter": {"cluster_name": "prod", "node_pools": {"a": {"limits": {"cpu": 10}, **pool}}}}
    definition = read_definition(plain).definition
    assert definition is not None
    return render_definition(definition)


def wanting(key: str, *values: str) -> dict[str, Any]:
    return {"requirements": [{"key": key, "operator": "In", "values": list(values)}]}


@pytest.mark.parametrize(
    ("pool", "rule", "hindered"),
    [
        pytest.param({}, None, False, id="nothing"),
        pytest.param(
            {"disruption": {"budgets": [{"nodes": "0"}]}}, "budget-zero", False, id="a budget of no nodes"
        ),
        pytest.param(
            {
                "node_class": {
                    "spec": {"amiFamily": "AL2023", "amiSelectorTerms": [{"id": "ami-0123456789abcdef0"}]}
                }
            },
            "pinned-ami",
            False,
            id="an image by its id",
        ),
        pytest.param(
            wanting("karpenter.k8s.aws/instance-category", "z9"),
            "label-value",
            True,
            id="a value of no machine",
        ),
    ],
)
def test_the_doctor_is_asked(pool: dict[str, Any], rule: str | None, hindered: bool) -> None:
    """Rules about manifests judge what is rendered; only an error is in the way of the change."""
    found = judged(rendered(**pool))

    assert {each.rule for each in found} == ({rule} if rule else set())
    assert DefinitionCheck(pools=(), findings=found).is_hindered is hindered


def test_findings_are_data() -> None:
    """Programs get every finding with its rule, its object and what helps."""
    found = DefinitionCheck(pools=(), findings=judged(rendered(disruption={"budgets": [{"nodes": "0"}]})))
    (plain,) = msgspec.to_builtins(found)["findings"]

    assert plain["rule"] == "budget-zero"
    assert plain["object"] == "NodePool/a"
    assert plain["fix"]
