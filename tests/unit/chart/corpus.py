"""
Files of values that people have, and the facts that a rendered chart states for each.

``tests/data/chart/values`` holds the files: ``*.yaml`` are files of values, ``*.set`` are arguments of
``--set``, one a line. A comment on the first line may name the release and its namespace.
``facts.json`` holds what Karpenter's own chart of 1.14 states for them, written by
:mod:`tests.unit.chart.record`; ``differences.json`` what ours states otherwise, and why.
"""

from __future__ import annotations

import fnmatch
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

if TYPE_CHECKING:
    import subprocess

    from tests.helm import Helm

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data" / "chart"
CHART = ROOT / "charts" / "karpenter"
_RBAC = {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
_OURS_ALONE = {"helm.sh/chart", "app.kubernetes.io/version"}

Facts = dict[str, Any]


class ValuesCase(msgspec.Struct, frozen=True):
    """One file of values."""

    path: Path
    release: str
    namespace: str

    @property
    def sets(self) -> list[str]:
        """The arguments of ``--set``."""
        if self.path.suffix != ".set":
            return []
        return [line for line in self.path.read_text().splitlines() if not line.startswith("#")]

    @property
    def files(self) -> list[dict[str, Any]]:
        return [] if self.path.suffix == ".set" else [yaml.safe_load(self.path.read_text())]

    def arguments(self) -> list[str]:
        """Return the values as helm is told them."""
        told = ["--values", str(self.path)] if self.path.suffix != ".set" else []
        return [*told, *(word for each in self.sets for word in ("--set", each))]


def _case(path: Path) -> ValuesCase:
    first = path.read_text().partition("\n")[0]
    named = dict(re.findall(r"(release|namespace): (\S+)", first)) if first.startswith("#") else {}
    return ValuesCase(path, named.get("release", "karpenter"), named.get("namespace", "kube-system"))


CASES = {path.name: _case(path) for path in sorted((DATA / "values").iterdir())}


def rendered(helm: Helm, chart: Path, case: ValuesCase) -> subprocess.CompletedProcess[str]:
    """Render a chart with helm, as it is for a cluster with the Prometheus operator."""
    kinds = ("monitoring.coreos.com/v1", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy")
    served = [word for kind in kinds for word in ("--api-versions", kind)]
    return helm("template", case.release, chart, "--namespace", case.namespace, *served, *case.arguments())


def objects(text: str) -> list[dict[str, Any]]:
    """Return the objects in a stream of YAML."""
    return [each for each in yaml.safe_load_all(text) if each]


def facts(found: list[dict[str, Any]]) -> Facts:
    """Return what the objects of an installation state, as facts with names."""
    told: Facts = {}
    for each in sorted(found, key=lambda each: (each["kind"], each["metadata"]["name"])):
        kind = each["kind"]
        if kind in _RBAC:
            _roles(each, told)
        elif kind == "Deployment":
            _deployment(each, told)
        else:
            _metadata(kind, each, told)
            told |= {f"{kind}.{key}": value for key, value in each.items() if key not in _KNOWN}
    return told


_KNOWN = {"apiVersion", "kind", "metadata"}


def _metadata(kind: str, each: dict[str, Any], told: Facts) -> None:
    meta = each["metadata"]
    told[f"{kind}.name"] = f"{meta.get('namespace', '')}/{meta['name']}"
    labels = meta.get("labels", {})
    told[f"{kind}.labels"] = {key: value for key, value in labels.items() if key not in _OURS_ALONE}
    told[f"{kind}.annotations"] = meta.get("annotations") or {}


def _roles(each: dict[str, Any], told: Facts) -> None:
    """State who is granted something, and under which lease; what is granted is each operator's own."""
    kind, name = each["kind"], each["metadata"]["name"]
    if "subjects" in each:
        told.setdefault("rbac.subjects", each["subjects"])
    if kind == "Role" and not name.endswith("-dns"):
        names = [name for rule in each["rules"] for name in rule.get("resourceNames", [])]
        told["rbac.lease"] = [each["metadata"]["namespace"], *names]
    told.setdefault("rbac.objects", []).append(f"{kind} {each['metadata'].get('namespace', '')}/{name}")
    asked = [rule for rule in each.get("rules", []) if rule.get("apiGroups") == ["example.com"]]
    if asked:
        told["rbac.additional"] = asked


def _deployment(each: dict[str, Any], told: Facts) -> None:
    _metadata("Deployment", each, told)
    spec = each["spec"]
    template = spec["template"]
    pod = dict(template["spec"])
    container, *sidecars = pod.pop("containers")
    told |= {f"Deployment.{key}": value for key, value in spec.items() if key != "template"}
    told["pod.labels"] = template["metadata"]["labels"]
    told["pod.annotations"] = template["metadata"].get("annotations") or {}
    told |= {f"pod.{key}": value for key, value in pod.items()}
    told["pod.sidecars"] = sidecars
    told |= {f"container.{key}": value for key, value in container.items() if key != "env"}
    for variable in container["env"]:  # of several with one name, the last counts
        told[f"env.{variable['name']}"] = variable.get("value", variable.get("valueFrom"))


class ChartDifference(msgspec.Struct, frozen=True):
    """Facts that ours states otherwise, and why."""

    fact: str
    """The fact's name; ``*`` stands for anything."""

    reason: str
    cases: str = "*"
    upstream: str = "*"
    """The value as JSON, or ``absent``; ``*`` stands for anything."""

    ours: str = "*"

    def covers(self, case: str, fact: str, upstream: str, ours: str) -> bool:
        return (
            fnmatch.fnmatchcase(case, self.cases)
            and fnmatch.fnmatchcase(fact, self.fact)
            and self.upstream in {"*", upstream}
            and self.ours in {"*", ours}
        )


DIFFERENCES = msgspec.json.decode((DATA / "differences.json").read_bytes(), type=list[ChartDifference])


BASE = "nothing-but-the-name.yaml"
"""The case whose facts are recorded whole; of the others, what differs from it."""


def recorded() -> dict[str, Facts]:
    """Return what Karpenter's own chart states for each case."""
    found = msgspec.json.decode((DATA / "facts.json").read_bytes(), type=dict[str, Facts])
    base = found.pop(BASE)
    told = {BASE: base}
    for name, changed in found.items():
        gone = set(changed.pop("gone"))
        told[name] = {key: value for key, value in base.items() if key not in gone} | changed
    return told


def differing(upstream: Facts, ours: Facts) -> dict[str, tuple[str, str]]:
    """Return the facts that differ, with both values as JSON."""
    return {
        name: (_spell(upstream, name), _spell(ours, name))
        for name in sorted(upstream.keys() | ours.keys())
        if _spell(upstream, name) != _spell(ours, name)
    }


def _spell(told: Facts, name: str) -> str:
    return json.dumps(told[name], sort_keys=True) if name in told else "absent"


def section() -> str:
    """Return the section about the chart for docs/reference/differences.md."""
    lines = [
        "## Chart",
        "",
        "Written by `python -m tests.unit.chart.record --docs` from `tests/data/chart/differences.json`.",
        "",
        f"{len(CASES)} files of values are rendered by Karpenter's chart of 1.14 and by ours.",
        "Every value means the same in both; what is stated otherwise is this:",
        "",
        "| what | Karpenter's chart | ours | why |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| `{each.fact}` | {_cell(each.upstream)} | {_cell(each.ours)} | {each.reason} |"
        for each in DIFFERENCES
    ]
    lines += [
        "",
        "The rules of the ClusterRoles and Roles are not compared: each operator is granted what it does.",
        "A value that neither chart knows is refused by ours and ignored by Karpenter's.",
        "The definitions that `karpenter-crd` installs outlive its release unless `keep` is false.",
    ]
    return "\n".join(lines) + "\n"


def _cell(value: str) -> str:
    if value == "*":
        return "any"
    return value if value == "absent" else f"`{value}`"
