"""Cluster definitions that are read, and what is said of those that are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from karpenter.definition.model import RequirementDefinition, read_definition, schema

SEED = Path(__file__).parents[2] / "data" / "definitions" / "cluster.yaml"


def definition(**pool: Any) -> dict[str, Any]:
    return {"karpenter": {"node_pools": {"default": {"limits": {"cpu": 1}, **pool}}}}


def test_the_definition_of_the_guide() -> None:
    """It is read as it is printed; the capital letter of a category is a warning."""
    found = read_definition(yaml.safe_load(SEED.read_text("utf-8")))

    assert found.problems == ()
    (warning,) = found.warnings
    assert warning == (
        "karpenter.node_pools.default.requirements.node.values: C is c: values of "
        "karpenter.k8s.aws/instance-category are lower case"
    )
    assert found.definition is not None
    pool = found.definition.karpenter.node_pools["default"]
    wanted = RequirementDefinition(key="karpenter.k8s.aws/instance-category", operator="In", values=["c"])
    assert pool.requirements == {"node": wanted}
    assert pool.limits == {"cpu": 111, "memory": "100Gi"}
    assert pool.node_class.volume_size == "100Gi"


@pytest.mark.parametrize(
    ("pool", "warnings"),
    [
        ({"node_class": {"volumeSize": "1Gi"}}, []),
        ({"node_class": {"volume_size": "1Gi"}}, []),
        ({"nodeClass": {}}, ["karpenter.node_pools.default.nodeClass: is node_class as others write it"]),
        (
            {"node_class": {"gpuEnabled": True}},
            ["karpenter.node_pools.default.node_class.gpuEnabled: is gpu_enabled as others write it"],
        ),
        (
            {"requirements": [{"key": "a", "operator": "in", "values": ["B"]}]},
            ["karpenter.node_pools.default.requirements[0].operator: in is In"],
        ),
        (
            {
                "requirements": [
                    {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": [4]}
                ]
            },
            [],
        ),
        ({"labels": None, "taints": None}, []),
    ],
    ids=["camelCase disk", "snake_case disk", "camelCase key", "deeper", "operator", "a number", "null"],
)
def test_spellings(pool: dict[str, Any], warnings: list[str]) -> None:
    """Both spellings of keys are read; an unusual one is a warning."""
    found = read_definition(definition(**pool))

    assert found.problems == ()
    assert list(found.warnings) == warnings
    assert found.definition is not None


@pytest.mark.parametrize(
    ("plain", "problem"),
    [
        ({}, "karpenter: is missing"),
        ({"karpenter": {"node_pools": {}}}, "karpenter.node_pools: needs at least one pool"),
        (
            {"karpenter": {"nodepool": {}}},
            "karpenter.nodepool: unknown key; did you mean node_pools?",
        ),
        ({"karpenter": {"node_pools": {"a": {}}}}, "karpenter.node_pools.a.limits: is required"),
        (definition(limits={}), "karpenter.node_pools.default.limits: is required"),
        (
            definition(limits={"cpu": "many"}),
            "karpenter.node_pools.default.limits.cpu: 'many' is not a quantity",
        ),
        (definition(limits={"memory": 100}), "karpenter.node_pools.default.limits.memory: 100 is in bytes"),
        (
            definition(limit={"cpu": 1}),
            "karpenter.node_pools.default.limit: unknown key; did you mean limits?",
        ),
        (definition(lables={}), "karpenter.node_pools.default.lables: unknown key; did you mean labels?"),
        (
            definition(node_class={"volumSize": "1Gi"}),
            "karpenter.node_pools.default.node_class.volumSize: unknown key; did you mean volumeSize?",
        ),
        (
            definition(requirements=[{"keys": "a"}]),
            "karpenter.node_pools.default.requirements[0].keys: unknown key; did you mean key?",
        ),
        (
            definition(requirements={"x": {"key": "a", "op": "In"}}),
            "karpenter.node_pools.default.requirements.x.op: unknown key; did you mean operator?",
        ),
        (
            definition(taints=[{"key": "a", "efect": "NoSchedule"}]),
            "karpenter.node_pools.default.taints[0].efect: unknown key; did you mean effect?",
        ),
        (
            definition(disruption={"budgets": [{"node": "1"}]}),
            "karpenter.node_pools.default.disruption.budgets[0].node: unknown key; did you mean nodes?",
        ),
        (
            definition(zzz=1),
            "karpenter.node_pools.default.zzz: unknown key; allowed are limits, requirements, labels",
        ),
        (definition(labels=["a"]), "karpenter.node_pools[...].labels: expected an object, got a list"),
        (
            definition(node_class="a"),
            "karpenter.node_pools.default.node_class: is text, and a mapping is needed",
        ),
        (definition(weight=0), "karpenter.node_pools[...].weight: expected a whole number >= 1"),
        (
            definition(node_class={"volumeSize": "1Gi", "volume_size": "2Gi"}),
            "karpenter.node_pools.default.node_class.volume_size: is there twice, as volumeSize",
        ),
    ],
)
def test_what_cannot_be_read(plain: Any, problem: str) -> None:
    """Every problem names the key, and the one that was probably meant."""
    found = read_definition(plain)

    assert found.definition is None
    assert any(each.startswith(problem) for each in found.problems), found.problems


def test_all_problems_are_told_at_once() -> None:
    """Three mistyped keys are three problems."""
    found = read_definition(definition(lables={}, taint=[], limits={}))

    assert len(found.problems) == 3


def test_keys_of_other_tools_are_not_looked_at() -> None:
    """A cluster definition holds more than Karpenter, and may be the spec of something."""
    plain = definition()

    assert read_definition({**plain, "eks": {"version": 1}}).problems == ()
    assert read_definition({"kind": "Cluster", "spec": plain}).problems == ()


def test_the_schema_for_editors() -> None:
    """It allows both forms of requirements, both spellings of the disk, and no unknown key."""
    found = schema()
    parts = found["$defs"]
    pool = parts["PoolDefinition"]

    assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert {each["type"] for each in pool["properties"]["requirements"]["anyOf"]} == {"array", "object"}
    assert pool["required"] == ["limits"]
    assert {"volumeSize", "volume_size"} <= parts["ClassDefinition"]["properties"].keys()
    closed = [name for name, each in parts.items() if each.get("additionalProperties") is False]
    assert len(closed) == len(parts) - 1  # keys beside karpenter are those of other tools
    assert all("description" in each for each in pool["properties"].values())
