"""``karpenter hash``."""

import json
from pathlib import Path

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
        if item.get("caBundle") == ca_bundle
    ]
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
        "NodePool   default   v3        16182433980171185668",
    ]


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
