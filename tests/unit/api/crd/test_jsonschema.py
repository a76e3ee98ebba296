"""Definitions as JSON Schema, judged by a validator of JSON Schema."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from karpenter.api.crd.definitions import DEFINITIONS
from karpenter.api.crd.jsonschema import file_schema, kind_schema, schema_path

ROOT = Path(__file__).parents[4]
ANY = jsonschema.Draft7Validator(file_schema(DEFINITIONS))
POOL: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default"},
    "spec": {
        "limits": {"cpu": 100, "memory": "100Gi"},
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}],
            }
        },
    },
}
KINDS = {each.kind.name for each in DEFINITIONS}


def examples() -> list[Any]:
    """Return the objects of our kinds in the examples, each with its file for a name."""
    return [
        pytest.param(body, id=f"{path.relative_to(ROOT)}, {body['kind']}")
        for path in sorted((ROOT / "examples").rglob("*.yaml"))
        if path.name != "workflow.yaml"
        for body in yaml.safe_load_all(path.read_text("utf-8"))
        if isinstance(body, dict) and body.get("kind") in KINDS and str(body["apiVersion"]).endswith("v1")
    ]


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda each: each.kind.name)
def test_each_kind_has_a_schema(definition: Any) -> None:
    """The schema of a kind is one of JSON Schema, holds nothing of Kubernetes, and is found by its name."""
    schema = kind_schema(definition)
    jsonschema.Draft7Validator.check_schema(schema)

    assert "x-kubernetes-" not in str(schema)
    group, _, rest = definition.file_name.partition("_")
    assert (rest, schema_path(definition).partition("/")[0]) == (f"{definition.kind.plural}.yaml", group)


@pytest.mark.parametrize("body", examples())
def test_the_examples_are_valid(body: dict[str, Any]) -> None:
    """What the examples hold is accepted."""
    ANY.validate(body)


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        pytest.param(["spec", "limitz"], {}, "'limitz' was unexpected", id="a field that there is not"),
        pytest.param(["spec", "weight"], 200, "200 is greater than the maximum", id="a number too large"),
        pytest.param(["spec", "weight"], "many", "is not of type 'integer'", id="another type"),
        pytest.param(
            ["spec", "disruption"],
            {"consolidateAfter": "0s", "consolidationPolicy": "WhenIdle"},
            "is not one of",
            id="a word that is not allowed",
        ),
        pytest.param(["spec", "template"], {}, "'spec' is a required property", id="a field that is missing"),
    ],
)
def test_a_mistake_is_named(path: list[str], value: object, sentence: str) -> None:
    """An editor shows a mistake where it is."""
    body = copy.deepcopy(POOL)
    body[path[0]][path[1]] = value

    ANY.validate(POOL)
    assert sentence in "\n".join(problem.message for problem in ANY.iter_errors(body))


def test_other_kinds_are_left_alone() -> None:
    """A file may hold objects of other kinds beside ours."""
    ANY.validate({"apiVersion": "apps/v1", "kind": "Deployment", "anything": True})
