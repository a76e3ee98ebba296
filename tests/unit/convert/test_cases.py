"""Every case of the conversion tables: what comes out, what is said, that it holds, and that it stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from karpenter.api.manifests import Document
from karpenter.api.validation.documents import Finding, check_document
from karpenter.chart.values import values_of
from karpenter.convert.documents import OldDocument, convert_documents
from karpenter.convert.findings import ConversionOptions

DATA = Path(__file__).parents[2] / "data" / "convert"
SELECTORS = {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}}
TERMS = {"subnetSelectorTerms": [{"tags": {"a": "b"}}], "securityGroupSelectorTerms": [{"tags": {"a": "b"}}]}
CASES = [
    (path.stem, case)
    for path in sorted(DATA.glob("*.yaml"))
    for case in yaml.load(path.read_text("utf-8"), Loader=yaml.CSafeLoader)
]
SHORT = {
    "provisioner": ("karpenter.sh/v1alpha5", "Provisioner"),
    "template": ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate"),
    "beta_pool": ("karpenter.sh/v1beta1", "NodePool"),
    "beta_class": ("karpenter.k8s.aws/v1beta1", "EC2NodeClass"),
}
NEEDED: dict[str, dict[str, Any]] = {
    "provisioner": {"providerRef": {"name": "default"}},
    "template": {**SELECTORS, "instanceProfile": "p"},
    "beta_pool": {"template": {"spec": {"requirements": [], "nodeClassRef": {"name": "default"}}}},
    "beta_class": {**TERMS, "role": "r"},
}


def documents_of(case: dict[str, Any]) -> list[Any]:
    if "in" in case:
        found: list[Any] = case["in"]
        return found
    if "pod" in case or "annotations" in case:
        return [pod_of(case.get("annotations"), case.get("pod"))]
    short = next(name for name in SHORT if name in case)
    version, kind = SHORT[short]
    needed = {} if "provider" in case[short] else NEEDED[short]
    spec = {key: value for key, value in {**needed, **case[short]}.items() if value is not None}
    return [{"apiVersion": version, "kind": kind, "metadata": {"name": "default"}, "spec": spec}]


def pod_of(annotations: object, spec: Any) -> dict[str, Any]:
    metadata = {"name": "p", "annotations": annotations} if annotations is not None else {"name": "p"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**(spec or {}), "containers": []},
    }


def options_of(case: dict[str, Any]) -> ConversionOptions:
    """Return the options of a case; defaults are left out unless it is about them."""
    given = case.get("options", {})
    ignore = "provisioner" in case and not case.get("defaults")
    return ConversionOptions(**{"ignore_defaults": ignore, **given})


def holds(found: Any, expected: Any) -> bool:
    """Say whether a value holds what is expected: mappings at least, everything else exactly."""
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(holds(found.get(k), v) for k, v in expected.items())
    return bool(found == expected)


@pytest.mark.parametrize(("case"), [case for _, case in CASES], ids=[f"{t}: {c['case']}" for t, c in CASES])
def test_conversion(case: dict[str, Any]) -> None:
    """The documents and the findings are those of the table; what comes out is valid, and stays as it is."""
    documents, options = documents_of(case), options_of(case)
    results = convert_documents([OldDocument(plain=each) for each in documents], options)
    plains = [plain for result in results for plain in result.plains]
    findings = [finding for result in results for finding in result.findings]

    warned = {each.code for each in findings if each.level == "warn"}
    if "provisioner" in case:
        warned -= {"Drift"}
    refused = {each.code for each in findings if each.level == "error"}
    assert refused == set(case.get("errors", []))
    if "warns" in case or not refused:
        assert warned == set(case.get("warns", []))
    check_documents(case, documents, plains)

    again = convert_documents([OldDocument(plain=each) for each in plains], options)
    assert [plain for result in again for plain in result.plains] == plains
    if not refused:
        problems = [
            str(outcome)
            for plain in plains
            if "kind" in plain
            for outcome in check_document(Document("", plain))
            if isinstance(outcome, Finding)
        ]
        assert problems == []


def check_documents(case: dict[str, Any], documents: list[Any], plains: list[Any]) -> None:
    """Compare what came out with what the case expects."""
    if "out" in case:
        assert plains == case["out"]
    elif "to" in case or "to_annotations" in case:
        annotations = case.get("to_annotations", case.get("annotations"))
        assert plains == [pod_of(annotations, case.get("to", case.get("pod")))]
    elif "pool" not in case and "class" not in case:
        assert plains == documents
    kinds = {plain.get("kind"): plain for plain in plains if isinstance(plain, dict)}
    for name, kind in (("pool", "NodePool"), ("class", "EC2NodeClass")):
        if name in case:
            assert holds(kinds[kind]["spec"], case[name]), kinds[kind]["spec"]
    for path in case.get("absent", []):
        spec: Any = next(iter(kinds.values()))["spec"]
        first, _, rest = path.partition(".")
        assert not present(spec, first, rest), path


def present(value: Any, first: str, rest: str) -> bool:
    """Say whether a dotted path, whose last word may hold dots itself, leads somewhere."""
    if not isinstance(value, dict) or not first:
        return False
    if not rest:
        return first in value
    if f"{first}.{rest}" in value:
        return True
    following, _, others = rest.partition(".")
    return first in value and present(value[first], following, others)


def test_there_are_enough_cases() -> None:
    """The tables hold at least 120 cases, and no two of one table are called the same."""
    names = [(table, case["case"]) for table, case in CASES]

    assert len(names) >= 120
    assert len(set(names)) == len(names)


VALUES = [
    case["out"][0]
    for table, case in CASES
    if table == "values" and "settings" in case.get("out", [{}])[0] and "errors" not in case
]


@pytest.mark.parametrize("values", VALUES)
def test_the_chart_takes_converted_values(values: dict[str, Any]) -> None:
    """No value that comes out is unknown to the chart of today."""
    assert values_of([values], [])["settings"]["clusterName"] == values["settings"]["clusterName"]
