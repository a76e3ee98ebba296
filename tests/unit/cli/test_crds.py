"""``karpenter crds``."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from karpenter.api.crd.definitions import DEFINITIONS, render
from karpenter.api.manifests import read_documents
from karpenter.cli import main


def run(*arguments: str) -> Result:
    """Run ``karpenter crds``."""
    return CliRunner().invoke(main, ["crds", *arguments])


def test_all_definitions_as_yaml() -> None:
    """Without arguments, everything is printed, ready for kubectl."""
    found = list(read_documents(run().stdout, source="stdout"))

    assert found == [render(each) for each in DEFINITIONS]


def test_all_definitions_as_json() -> None:
    """As JSON, several definitions are a list."""
    found = json.loads(run("-o", "json").stdout)

    assert found["kind"] == "List"
    assert len(found["items"]) == len(DEFINITIONS)


def test_one_definition() -> None:
    """A definition goes by its plural, its kind, its short name or its full name."""
    for name in ("capacitybuffers", "CapacityBuffer", "cb", "capacitybuffers.autoscaling.x-k8s.io"):
        assert json.loads(run(name, "-o", "json").stdout)["spec"]["names"]["kind"] == "CapacityBuffer"


def test_unknown_names() -> None:
    """A name that is none of ours is answered with those that are."""
    result = run("pods")

    assert result.exit_code == 2
    assert result.stderr.startswith("error: 'pods' is none of our kinds: capacitybuffers, ec2nodeclasses, ")


def test_writing(tmp_path: Path) -> None:
    """With --write each definition has a file, and standard output stays empty."""
    result = run("--write", str(tmp_path / "new"))

    assert (result.exit_code, result.stdout) == (0, "")
    assert {path.name for path in (tmp_path / "new").iterdir()} == {each.file_name for each in DEFINITIONS}


def test_writing_json(tmp_path: Path) -> None:
    """Files end with what they hold."""
    run("nodepools", "--write", str(tmp_path), "-o", "json")

    assert json.loads((tmp_path / "karpenter.sh_nodepools.json").read_text("utf-8"))["kind"].startswith(
        "Custom"
    )


def test_pages_of_the_reference(tmp_path: Path) -> None:
    """As Markdown, each kind has a page with its fields, what is allowed in them, and the rules."""
    run("nodepools", "capacitybuffers", "--write", str(tmp_path), "-o", "markdown")
    page = (tmp_path / "nodepool.md").read_text("utf-8")

    assert {path.name for path in tmp_path.iterdir()} == {"nodepool.md", "capacitybuffer.md"}
    assert "| `spec.template.spec.expireAfter` | string | `720h` |" in page
    assert "- `spec.weight`: at least 1; at most 100." in page
    assert "- `spec.template.spec.nodeClassRef`: nodeClassRef.kind is immutable." in page


def test_a_kind_without_rules_says_so() -> None:
    """The page of a kind that has no rules does not leave the reader guessing."""
    assert "This kind has no rules beyond those above." in run("KWOKNodeClass", "-o", "markdown").stdout


def test_schemas_for_editors(tmp_path: Path) -> None:
    """As JSON Schema, one file knows all kinds, and each kind has one where kubeconform looks for it."""
    everything = json.loads(run("--json-schema").stdout)
    alone = json.loads(run("nodepool", "--json-schema").stdout)
    run("--json-schema", "--write", str(tmp_path))
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.json")}

    assert len(everything["allOf"]) == len(DEFINITIONS)
    assert alone["properties"]["kind"]["const"] == "NodePool"
    assert {"karpenter.schema.json", "karpenter.sh/nodepool_v1.json"} <= written
    assert len(written) == len(DEFINITIONS) + 1
