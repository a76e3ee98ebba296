"""``karpenter hash``."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from karpenter.cli import main

GOLDEN = Path(__file__).parents[2] / "data" / "hashes"
API = {"NodePool": "karpenter.sh/v1", "EC2NodeClass": "karpenter.k8s.aws/v1"}
DATED = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: []
      taints: [{key: a, effect: NoSchedule, timeAdded: 2026-01-01T00:00:00Z}]
---
apiVersion: v1
kind: Pod
metadata: {name: left-alone}
"""


def run(*arguments: str, text: str | None = None) -> Result:
    """Run ``karpenter hash``."""
    return CliRunner().invoke(main, ["hash", *arguments], input=text)


def states_every_default(item: dict[str, Any]) -> bool:
    """Return whether the hash covers nothing that an API server would add."""
    if item["kind"] == "NodePool":
        return "expireAfter" in item["spec"].get("template", {}).get("spec", {})
    return len(item["spec"].get("metadataOptions", {})) == 4


@pytest.mark.parametrize(
    ("name", "ca_bundle", "version"),
    [
        pytest.param("nodepools", None, "v3", id="NodePools"),
        pytest.param("ec2nodeclasses", "", "v5", id="EC2NodeClasses without a CA bundle"),
        pytest.param("ec2nodeclasses", "Y2E=", "v5", id="EC2NodeClasses with a CA bundle"),
    ],
)
def test_the_hashes_of_a_list(name: str, ca_bundle: str | None, version: str) -> None:
    """Every object of a list is printed with the hash that Karpenter 1.14.1 computes, in the list's order."""
    items = [
        item
        for item in json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
        if item.get("caBundle") == ca_bundle and states_every_default(item)
    ]
    assert items
    objects = [
        {
            "apiVersion": API[item["kind"]],
            "kind": item["kind"],
            "metadata": {"name": f"n{index}"},
            "spec": item["spec"],
        }
        for index, item in enumerate(items)
    ]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})

    result = run("-f", "-", "-o", "json", "--ca-bundle", ca_bundle or "", text=text)

    assert result.exit_code == 0
    assert json.loads(result.stdout) == [
        {"kind": item["kind"], "name": f"n{index}", "version": version, "hash": item["hash"]}
        for index, item in enumerate(items)
    ]


def test_the_table() -> None:
    """People get a table; moments in YAML count as texts; kinds without a hash are left out."""
    result = run("-f", "-", text=DATED)

    assert result.stdout.splitlines() == [
        "KIND       NAME      VERSION   HASH",
        "NodePool   default   v3        10392678415548715884",
    ]


def test_defaults() -> None:
    """What a manifest leaves out counts as the API server stores it, and is said."""
    stored = DATED.replace("requirements", "expireAfter: 720h\n      requirements")

    short, full = run("-f", "-", text=DATED), run("-f", "-", text=stored)

    assert short.stdout == full.stdout
    assert short.stderr == (
        "stdin#1: NodePool/default: counted with its default: spec.template.spec.expireAfter: 720h\n"
    )
    assert full.stderr == ""


CLASS = """
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec: {role: nodes, amiSelectorTerms: [{alias: al2023@latest}]}
"""


def test_the_ca_bundle_of_a_class() -> None:
    """Without the CA bundle of the cluster no class has the hash that is printed, and this is said."""
    without, empty, given = (
        run("-f", "-", *options, text=CLASS) for options in ((), ("--ca-bundle", ""), ("--ca-bundle", "Y2E="))
    )

    assert "so no cluster has the hash that is printed without it; add --ca-bundle" in without.stderr
    assert ["warning" in each.stderr for each in (empty, given)] == [False, False]
    assert without.stdout == empty.stdout != given.stdout
    assert "spec.metadataOptions.httpTokens: required" in without.stderr


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param([], "spec: expected a map", id="a spec that is a list"),
        pytest.param(
            {"template": {"spec": {"expireAfter": "soon"}}},
            "spec.template.spec.expireAfter: 'soon' is not a duration",
            id="a bad duration",
        ),
    ],
)
def test_what_has_no_hash(spec: object, message: str) -> None:
    """A spec that cannot be decoded is refused with the object and the field."""
    text = json.dumps(
        {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"}, "spec": spec}
    )

    result = run("-f", "-", text=text)

    assert (result.exit_code, result.stdout) == (2, "")
    assert f"error: stdin: NodePool/p: {message}" in result.stderr


def test_terms_that_are_no_list_have_no_hash() -> None:
    """The family of images is asked of terms, which must be a list."""
    spec = {"amiSelectorTerms": -1}
    text = json.dumps(
        {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": "c"},
            "spec": spec,
        }
    )

    result = run("-f", "-", text=text)

    assert (result.exit_code, result.stdout) == (2, "")
    assert "error: stdin: EC2NodeClass/c: spec.amiSelectorTerms: expected a list, not -1" in result.stderr
