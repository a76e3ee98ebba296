"""The rules of the embedded API server in ``karpenter validate`` and ``karpenter plan``."""

from __future__ import annotations

import json
from importlib import metadata
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from karpenter.api.manifests import Document, render_documents
from karpenter.cli import main
from karpenter.cli.planning.server import Judgement, ManifestJudge
from karpenter.cli.server_rules import GROUP, server_rules
from karpenter_local.apiserver.offline import create_problems
from tests.unit.cli.test_plan import NOW, POOL
from tests.unit.local.apiserver.asking import configmap, deployment, pod

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.api.schema.field import FieldProblem

TARGET = "karpenter_local.apiserver.offline:create_problems"


def offer(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> list[dict[str, str]]:
    """Let packages offer rules, or none; what is asked for is noted."""
    asked: list[dict[str, str]] = []
    others = metadata.entry_points

    def entry_points(**given: str) -> Any:
        if given.get("group") != GROUP:
            return others(**given)
        asked.append(given)
        return points

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    return asked


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """karpenter-local is installed."""
    offer(monkeypatch, EntryPoint("kubernetes", TARGET, GROUP))


@pytest.fixture
def no_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """karpenter-local is not installed."""
    offer(monkeypatch)


def run(command: str, *objects: dict[str, Any]) -> Result:
    arguments = [command, "-f", "-", *(["--now", NOW] if command == "plan" else [])]
    return CliRunner().invoke(main, arguments, input=render_documents([*objects]))


def with_port(number: int, **meta: Any) -> dict[str, Any]:
    listening = {"name": "main", "image": "app:1", "ports": [{"containerPort": number}]}
    plain = pod("a", containers=[listening])
    return {**plain, "metadata": {**plain["metadata"], **meta}}


PORT = (
    "spec.containers[0].ports[0].containerPort: Invalid value: 99999: must be between 1 and 65535, inclusive"
)


def test_the_rules_are_found_by_their_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry point kubernetes of the group karpenter.validation is asked for, and no other."""
    asked = offer(monkeypatch, EntryPoint("kubernetes", TARGET, GROUP))

    assert server_rules() is create_problems
    assert asked == [{"group": "karpenter.validation", "name": "kubernetes"}]


@pytest.mark.usefixtures("no_rules")
def test_without_karpenter_local_there_are_none() -> None:
    """The wheel of karpenter does without, and validates a part."""
    result = run("validate", deployment("a", replicas=-1), with_port(99999), configmap("a"))

    assert server_rules() is None
    assert result.stdout == "stdin#1: Deployment/a: spec.replicas: -1 is negative, must be 0 or more\n"
    assert "skipped, since v1 is not known here" in result.stderr


@pytest.mark.usefixtures("rules")
def test_validate_says_what_a_server_would_say() -> None:
    """Every kind that the server knows is judged, with its sentences."""
    result = run(
        "validate", pod("a", containers=[]), with_port(99999), configmap("a"), configmap("b", {"/": "c"})
    )

    assert result.exit_code == 2
    assert result.stdout.splitlines()[:2] == [
        "stdin#1: Pod/a: spec.containers: Required value",
        f"stdin#2: Pod/a: {PORT}",
    ]
    assert result.stdout.splitlines()[2].startswith("stdin#4: ConfigMap/b: data[/]: Invalid value: ")
    assert result.stderr == "1 object accepted, 3 refused, 0 skipped\n"


@pytest.mark.usefixtures("rules")
@pytest.mark.parametrize(
    ("plain", "fields"),
    [
        pytest.param(deployment("a", replicas=-1), ["spec.replicas"], id="a number"),
        pytest.param(deployment("A_b") | {"metadata": {}}, ["metadata.name"], id="no name"),
        pytest.param(
            pod("a", labels={"a": "b c"}), ["metadata.labels"], id="a label, in the map that the server names"
        ),
        pytest.param(
            pod(
                "a",
                containers=[
                    {
                        "name": "a",
                        "image": "a",
                        "resources": {"requests": {"cpu": "-1"}, "limits": {"cpu": "-2"}},
                    }
                ],
            ),
            [
                "spec.containers[0].resources.limits[cpu]",
                "spec.containers[0].resources.requests[cpu]",
                "spec.containers[0].resources.requests",
            ],
            id="amounts",
        ),
        pytest.param(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "a"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "-1"}}},
            },
            ["spec.resources[storage]"],
            id="the size of a claim",
        ),
        pytest.param(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "a"},
                "status": {"capacity": {"cpu": "-1"}},
            },
            ["status.capacity.cpu"],
            id="what only we look at",
        ),
        pytest.param(
            pod("a", labels={"a": "b c"}, priority="high"),
            ["spec.priority", "metadata.labels[a]"],
            id="a type, which ends the search of the server",
        ),
        pytest.param(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "things.example.com"},
                "spec": {
                    "group": "example.com",
                    "scope": "Namespaced",
                    "names": {"plural": "things", "kind": "Thing"},
                    "versions": [
                        {
                            "name": "v1",
                            "served": True,
                            "storage": True,
                            "schema": {
                                "openAPIV3Schema": {
                                    "type": "object",
                                    "properties": {"limits": {"type": "object", "description": "Ceilings."}},
                                }
                            },
                        }
                    ],
                },
            },
            [],
            id="a word that stands for something else",
        ),
    ],
)
def test_a_field_is_told_once(plain: dict[str, Any], fields: list[str]) -> None:
    """Where the server tells of a field, nothing else does."""
    result = CliRunner().invoke(main, ["validate", "-f", "-", "-o", "json"], input=json.dumps(plain))

    assert [each["field"] for each in json.loads(result.stdout)["problems"]] == fields


@pytest.mark.usefixtures("rules")
def test_plan_refuses_what_a_server_would_refuse() -> None:
    """The line names file, object, field and what is allowed, and nothing is printed."""
    result = run("plan", POOL, with_port(99999))

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: stdin#2: Pod/a: {PORT}\n"


@pytest.mark.usefixtures("rules")
@pytest.mark.parametrize("meta", [{"uid": "u"}, {"resourceVersion": "7"}], ids=["a uid", "a revision"])
def test_plan_leaves_what_is_stored_to_its_server(meta: dict[str, str]) -> None:
    """A server that has stored an object has judged it, by the rules of its version."""
    result = run("plan", POOL, with_port(99999, **meta))

    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.usefixtures("rules")
@pytest.mark.parametrize(
    "plain",
    [
        pytest.param(pod("a") | {"spec": {}}, id="a pod without containers"),
        pytest.param(
            pod("a", containers=[{"resources": {"requests": {"example.com/gpu": "1"}}}]), id="no limits"
        ),
        pytest.param(
            pod("a", containers=[{"volumeMounts": [{"name": "data", "mountPath": "/data"}]}]), id="no volumes"
        ),
        pytest.param(pod("a", tolerations=[{"effect": "NoSchedule"}]), id="a toleration without a key"),
        pytest.param(
            {**deployment("a"), "spec": {"template": deployment("a")["spec"]["template"]}}, id="no selector"
        ),
        pytest.param(
            {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": {"name": "a"},
                "spec": {"template": {"metadata": {"labels": {"app": "a"}}}},
            },
            id="a DaemonSet without a selector",
        ),
        pytest.param(
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template": {}}},
            id="a Job without a restart policy",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "a"}, "spec": {}},
            id="a volume without a size",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": [{}]}},
            id="a port without a number",
        ),
        pytest.param(
            {
                **pod("a"),
                "metadata": {
                    "name": "a",
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"}],
                },
            },
            id="an owner without a uid",
        ),
    ],
)
def test_plan_takes_shortened_manifests(plain: dict[str, Any]) -> None:
    """What is missing is held against a manifest by ``validate`` alone."""
    assert run("validate", plain).exit_code == 2

    result = run("plan", POOL, plain)

    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.usefixtures("rules")
@pytest.mark.parametrize(
    ("plain", "field"),
    [
        pytest.param(
            deployment("a") | {"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": {}}},
            "spec.template.metadata.labels",
            id="a selector, and no labels for it",
        ),
        pytest.param(
            pod("a", containers=[{"ports": [{"containerPort": 1, "hostPort": -1}]}]),
            "spec.containers[0].ports[0].hostPort",
            id="a port in a container without a name",
        ),
        pytest.param(
            pod("a", tolerations=[{"operator": "Equal", "value": "a"}]),
            "spec.tolerations[0].operator",
            id="an operator that needs a key",
        ),
        pytest.param(
            pod("a", containers=[{"resources": {"requests": {"gpu": "1"}}}]),
            "spec.containers[0].resources.requests[gpu]",
            id="a resource that is none",
        ),
    ],
)
def test_plan_judges_what_there_is(plain: dict[str, Any], field: str) -> None:
    """A shortened manifest is refused for what is in it."""
    result = run("plan", POOL, plain)

    assert (result.exit_code, f": {field}: Invalid value: " in result.stderr) == (2, True), result.stderr


@pytest.mark.usefixtures("rules")
def test_plan_says_which_fields_decide_nothing() -> None:
    """An unknown field may be of a newer version; it is told, as a server warns of it."""
    result = run("plan", POOL, pod("a", nodeSelektor={"a": "b"}))

    assert (result.exit_code, result.stderr) == (
        0,
        "stdin#2: Pod/a: spec.nodeSelektor: unknown field; did you mean nodeSelector?\n",
    )


def test_pods_that_differ_in_their_names_are_judged_once() -> None:
    """The rules are asked for the first, and for a name that is none."""
    asked: list[str] = []

    def counting(plain: Mapping[str, Any]) -> tuple[FieldProblem, ...] | None:
        asked.append(plain["metadata"]["name"])
        return create_problems(plain)

    judge = ManifestJudge(lambda: counting)
    found = [judge.judge(Document("f", pod(name))) for name in ("a", "b", "C", "d")]

    assert asked == ["a", "C"]
    assert [each == Judgement() for each in found] == [True, True, False, True]


def test_pods_that_differ_in_more_are_judged_each() -> None:
    """Nothing but the name is left out of the comparison."""
    judge = ManifestJudge(lambda: create_problems)
    good, bad = judge.judge(Document("f", with_port(80))), judge.judge(Document("f", with_port(99999)))

    assert good == Judgement()
    assert bad is not None
    assert [str(each) for each in bad.problems] == [PORT]


def test_what_is_no_json_is_left_to_the_rules() -> None:
    """What cannot be compared is judged."""
    judge = ManifestJudge(lambda: create_problems)
    found = judge.judge(Document("f", pod("a", hostname="\ud800")))

    assert found is not None
    assert len(found.problems) == 1
