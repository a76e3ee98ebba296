"""The definitions of our kinds."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from karpenter.api.crd.definitions import DEFINITIONS, CustomResourceDefinition, definition_of, render
from karpenter.api.crd.reference import render_page
from karpenter.api.kinds import ALL_KINDS, kind_of
from karpenter.api.manifests import render_documents
from karpenter.api.pod import Pod
from karpenter.api.schema import find_bad_rules
from karpenter.api.validation.objects import schema_of

ROOT = Path(__file__).parents[4]
CHART = ROOT / "charts/karpenter/crds"
REFERENCE = ROOT / "docs/reference"


def by_name(definition: CustomResourceDefinition) -> str:
    return definition.name


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, each in schema.get("properties", {}).items():
        yield from nodes(each, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from nodes(schema[key], f"{path}[]")


def all_nodes(definition: CustomResourceDefinition) -> list[tuple[str, dict[str, Any]]]:
    """Return every node of a definition's schema."""
    return list(nodes(render(definition)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]))


def columns(kind: str) -> list[tuple[str, int]]:
    (version,) = next(render(each) for each in DEFINITIONS if each.kind.name == kind)["spec"]["versions"]
    return [(column["name"], column.get("priority", 0)) for column in version["additionalPrinterColumns"]]


@pytest.mark.parametrize("definition", DEFINITIONS, ids=by_name)
def test_the_chart_is_not_stale(definition: CustomResourceDefinition) -> None:
    """The chart holds the definitions as they are generated; if not: make crds."""
    written = (CHART / definition.file_name).read_text("utf-8")

    assert written == render_documents([render(definition)]), "run: make crds"


@pytest.mark.parametrize("definition", DEFINITIONS, ids=by_name)
def test_the_reference_is_not_stale(definition: CustomResourceDefinition) -> None:
    """The page of each kind says what its definition says."""
    page = (REFERENCE / f"{definition.kind.name.lower()}.md").read_text("utf-8")

    assert page == render_page(definition), "run: karpenter crds --write docs/reference --output markdown"


def test_the_chart_holds_nothing_else() -> None:
    """Every file of the chart is one of our definitions."""
    assert {path.name for path in CHART.iterdir()} == {each.file_name for each in DEFINITIONS}


def test_every_kind_of_ours_is_defined() -> None:
    """Each kind that we call ours has a definition."""
    assert {each.kind.name for each in DEFINITIONS} == {kind.name for kind in ALL_KINDS if kind.ours}


def test_kinds_of_kubernetes_are_not_defined_by_us() -> None:
    """A kind that is not ours has no definition here."""
    assert definition_of(kind_of(Pod)) is None


@pytest.mark.parametrize("definition", DEFINITIONS, ids=by_name)
def test_everything_is_inlined_and_typed(definition: CustomResourceDefinition) -> None:
    """A structural schema refers to nothing, and every node has a type or says why not."""
    for path, node in all_nodes(definition):
        assert "$ref" not in node, path
        says_why = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
        assert "type" in node or any(node.get(each) for each in says_why), path


@pytest.mark.parametrize("definition", DEFINITIONS, ids=by_name)
def test_every_field_is_explained(definition: CustomResourceDefinition) -> None:
    """Each field says what it is for; the items and values of lists and maps need not."""
    unexplained = [
        path
        for path, node in all_nodes(definition)
        if not path.endswith("]") and path != ".metadata" and not node.get("description")
    ]
    assert unexplained == []


@pytest.mark.parametrize("definition", DEFINITIONS, ids=by_name)
def test_every_rule_has_a_message_and_can_be_evaluated(definition: CustomResourceDefinition) -> None:
    """No user is told ``failed rule``, and no rule is beyond our own evaluator."""
    silent = [
        (path, rule["rule"])
        for path, node in all_nodes(definition)
        for rule in node.get("x-kubernetes-validations", ())
        if not rule["message"]
    ]
    assert silent == []
    assert list(find_bad_rules(schema_of(definition.kind))) == []


@pytest.mark.parametrize("definition", DEFINITIONS, ids=by_name)
def test_what_rules_iterate_is_bounded(definition: CustomResourceDefinition) -> None:
    """A rule over all members of a list or map stands beside their greatest number."""
    for path, node in all_nodes(definition):
        for rule in node.get("x-kubernetes-validations", ()):
            if rule["rule"].startswith("self.all("):
                assert "maxItems" in node or "maxProperties" in node, path


@pytest.mark.parametrize("definition", DEFINITIONS, ids=by_name)
def test_no_mark_of_our_own_is_written_out(definition: CustomResourceDefinition) -> None:
    """Only keywords that Kubernetes knows are in a definition."""
    plain = (
        "type format description properties additionalProperties items required default anyOf enum pattern"
    )
    bounds = "minimum maximum minLength maxLength minItems maxItems maxProperties"
    extensions = "list-type list-map-keys map-type int-or-string preserve-unknown-fields validations"
    known = {*plain.split(), *bounds.split(), *(f"x-kubernetes-{each}" for each in extensions.split())}

    assert {key for _, node in all_nodes(definition) for key in node} <= known


@pytest.mark.parametrize(
    ("kind", "always", "wide"),
    [
        pytest.param("NodePool", "NodeClass Nodes Ready Age", "Weight CPU Memory", id="pools"),
        pytest.param(
            "NodeClaim",
            "Type Capacity Zone Node Ready Age",
            "ImageID ID NodePool NodeClass Drifted",
            id="claims",
        ),
        pytest.param("NodeOverlay", "Ready Age", "Weight", id="overlays"),
        pytest.param("EC2NodeClass", "Ready Age", "Role", id="classes of EC2"),
        pytest.param(
            "CapacityBuffer",
            "Strategy PodTemplate Replicas ConditionsType ConditionsStatus ConditionsReason Age",
            "",
            id="buffers",
        ),
    ],
)
def test_columns(kind: str, always: str, wide: str) -> None:
    """``kubectl get`` prints the columns that users know; the less important with ``-o wide``."""
    assert columns(kind) == [*((each, 0) for each in always.split()), *((each, 1) for each in wide.split())]


@pytest.mark.parametrize(
    ("name", "scope", "categories", "short_names"),
    [
        pytest.param("nodepools.karpenter.sh", "Cluster", ["karpenter"], [], id="pools"),
        pytest.param("nodeclaims.karpenter.sh", "Cluster", ["karpenter"], [], id="claims"),
        pytest.param("nodeoverlays.karpenter.sh", "Cluster", ["karpenter"], ["overlays"], id="overlays"),
        pytest.param(
            "capacitybuffers.autoscaling.x-k8s.io", "Namespaced", ["autoscaling"], ["cb"], id="buffers"
        ),
        pytest.param(
            "kwoknodeclasses.karpenter.kwok.sh", "Cluster", ["karpenter"], ["kwoknc", "kwokncs"], id="classes"
        ),
        pytest.param(
            "ec2nodeclasses.karpenter.k8s.aws",
            "Cluster",
            ["karpenter"],
            ["ec2nc", "ec2ncs"],
            id="classes of EC2",
        ),
    ],
)
def test_names(name: str, scope: str, categories: list[str], short_names: list[str]) -> None:
    """Kinds are found under the names that users know."""
    spec = next(render(each) for each in DEFINITIONS if each.name == name)["spec"]

    assert spec["scope"] == scope
    assert spec["names"]["categories"] == categories
    assert spec["names"].get("shortNames", []) == short_names


def test_pools_can_be_scaled() -> None:
    """``kubectl scale`` finds the wanted and the actual number of nodes; no other kind has them."""
    found = {each.kind.name: render(each)["spec"]["versions"][0]["subresources"] for each in DEFINITIONS}

    assert found["NodePool"] == {
        "status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"},
    }
    assert found["NodeClaim"] == {"status": {}}
