"""What is said about the documents of a manifest."""

from typing import Any

import pytest

from karpenter.api.manifests import Document
from karpenter.api.meta import InvalidObject
from karpenter.api.validation.documents import Accepted, Finding, Skipped, check_document, identify, refusal
from tests.unit.api.cases.case import changed
from tests.unit.api.cases.pools import POOL, STATIC


def outcomes(plain: dict[str, Any], **more: Any) -> list[str]:
    return [str(outcome) for outcome in check_document(Document("f.yaml", plain), **more)]


def test_a_good_object_is_accepted() -> None:
    """An object without problems is reported as such."""
    assert list(check_document(Document("f.yaml", POOL))) == [
        Accepted(source="f.yaml", subject="NodePool/default")
    ]


@pytest.mark.parametrize(
    ("api_version", "kind", "metadata", "spec", "fields"),
    [
        pytest.param(
            "apps/v1", "Deployment", {"name": "a"}, {"replicas": -1}, ["spec.replicas"], id="replicas"
        ),
        pytest.param("apps/v1", "Deployment", {"name": "a"}, {"replicas": 0}, [], id="no replicas"),
        pytest.param("batch/v1", "Job", {"name": "a"}, {"parallelism": -1}, ["spec.parallelism"], id="a job"),
        pytest.param("v1", "Pod", {"name": "A_b"}, {}, ["metadata.name"], id="a pod's name"),
        pytest.param("v1", "Pod", {"name": "a.b-1"}, {}, [], id="a pod's name with a dot"),
        pytest.param("v1", "Pod", {"name": "a" * 254}, {}, ["metadata.name"], id="a long name"),
        pytest.param("v1", "Namespace", {"name": "a.b"}, {}, ["metadata.name"], id="a namespace's name"),
        pytest.param(
            "v1", "Pod", {"name": "a", "namespace": "a.b"}, {}, ["metadata.namespace"], id="its space"
        ),
        pytest.param("v1", "Pod", {"generateName": "a-"}, {}, [], id="a name that the server makes"),
        pytest.param(
            "v1", "Pod", {"name": "a", "labels": {"-a": "b"}}, {}, ["metadata.labels"], id="a label's key"
        ),
        pytest.param(
            "v1",
            "Pod",
            {"name": "a", "labels": {"example.com/a": "b c"}},
            {},
            ["metadata.labels[example.com/a]"],
            id="a label's value",
        ),
        pytest.param("v1", "Pod", {"name": "a", "labels": {"a": ""}}, {}, [], id="an empty value"),
        pytest.param(
            "v1",
            "Pod",
            {"name": "a", "annotations": {"a b": "$(reboot)"}},
            {"nodeSelector": {"a/b/c": "d"}},
            ["metadata.annotations", "spec.nodeSelector"],
            id="an annotation's key, and a selector's",
        ),
        pytest.param(
            "v1", "Pod", {"name": "a", "annotations": {"Example.COM/A": "b c"}}, {}, [], id="any annotation"
        ),
        pytest.param(
            "apps/v1",
            "Deployment",
            {"name": "a"},
            {
                "selector": {"matchLabels": {"a": "b;c"}},
                "template": {"metadata": {"labels": {"a": "b;c"}}, "spec": {"nodeSelector": {"a": "$(b)"}}},
            },
            [
                "spec.selector.matchLabels[a]",
                "spec.template.metadata.labels[a]",
                "spec.template.spec.nodeSelector[a]",
            ],
            id="the labels and the selectors of a workload",
        ),
        pytest.param(
            "apps/v1", "Deployment", {"name": "a"}, {"template": []}, ["spec.template"], id="no pod"
        ),
        pytest.param(
            "apps/v1",
            "StatefulSet",
            {"name": "a"},
            {
                "selector": {"matchLabels": {"a": "b", "c": "d"}},
                "template": {"metadata": {"labels": {"a": "c", "c": "d"}}},
            },
            ["spec.selector.matchLabels[a]"],
            id="a selector that does not select its own pods",
        ),
        pytest.param(
            "batch/v1",
            "CronJob",
            {"name": "a"},
            {"jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "A"}, 7]}}}}},
            [
                "spec.jobTemplate.spec.template.spec.containers[1]",
                "spec.jobTemplate.spec.template.spec.containers[0].name",
            ],
            id="a container's name",
        ),
        pytest.param(
            "v1",
            "Pod",
            {"name": "a"},
            {"initContainers": [{"name": "a"}], "containers": [{"name": "b"}, {"name": "a"}]},
            ["spec.containers[1].name"],
            id="a container's name twice",
        ),
        pytest.param(
            "v1",
            "Pod",
            {"name": "a"},
            {
                "containers": [
                    {
                        "name": "a",
                        "resources": {"requests": {"cpu": -1, "memory": "1Gi"}, "limits": {"cpu": 1}},
                    },
                    {"name": "b", "resources": {"requests": {"cpu": 2}, "limits": {"cpu": "1500m"}}},
                    {"name": "c", "resources": {"requests": {"cpu": "x"}, "limits": {"cpu": 1}}},
                ]
            },
            [
                "spec.containers[0].resources.requests.cpu",
                "spec.containers[2].resources.requests.cpu",
                "spec.containers[1].resources.requests.cpu",
            ],
            id="amounts that are negative, beyond the limit, or none",
        ),
        pytest.param(
            "policy/v1",
            "PodDisruptionBudget",
            {"name": "a"},
            {"minAvailable": -1},
            ["spec.minAvailable"],
            id="a disruption budget",
        ),
    ],
)
def test_what_an_api_server_would_refuse(
    api_version: str, kind: str, metadata: dict[str, Any], spec: dict[str, Any], fields: list[str]
) -> None:
    """Names are DNS names, labels and selectors are labels, and counts and amounts are not negative."""
    plain = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
    found = [each for each in check_document(Document("f.yaml", plain)) if isinstance(each, Finding)]
    assert [each.field for each in found] == fields


def test_a_problem_is_a_line() -> None:
    """A line names the file, the object, the field, and what is allowed."""
    (line,) = outcomes(changed(POOL, {"spec.weight": 101}))

    assert line == (
        "f.yaml: NodePool/default: "
        "spec.weight: Invalid value: 101: spec.weight in body should be less than or equal to 100"
    )


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        pytest.param(
            {"spec.weigth": 1}, "spec.weigth: unknown field; did you mean weight?", id="a typing error"
        ),
        pytest.param(
            {"spec.disruption.zzz": 1},
            "spec.disruption.zzz: unknown field; "
            "allowed here are budgets, consolidateAfter, consolidationPolicy",
            id="nothing like it",
        ),
        pytest.param(
            {"spec.template.spec.taints": [{"key": "a", "effect": "NoSchedule", "operater": "x"}]},
            "spec.template.spec.taints[0].operater: unknown field; "
            "allowed here are effect, key, timeAdded, value",
            id="in a list",
        ),
    ],
)
def test_unknown_fields_come_with_a_suggestion(changes: dict[str, Any], line: str) -> None:
    """A field that does not exist is named, with the one that was meant or all there are."""
    assert outcomes(changed(POOL, changes)) == [f"f.yaml: NodePool/default: {line}"]


def test_changes_are_judged_against_what_is_there() -> None:
    """With the old object at hand, a change that is not allowed is found."""
    old = {identify(STATIC): STATIC}

    (line,) = outcomes(POOL, old=old)

    assert line.endswith(
        "spec: Invalid value: a pool is static (with replicas) or dynamic (without) for good"
    )


def test_an_old_mistake_does_not_block_a_change() -> None:
    """What was wrong before and is left alone is not held against an update."""
    wrong = changed(POOL, {"spec.weight": 500})

    assert [
        type(each)
        for each in check_document(
            Document("f", changed(wrong, {"spec.limits": {"cpu": "1"}})), old={identify(wrong): wrong}
        )
    ] == [Accepted]


def test_kinds_of_kubernetes_are_read() -> None:
    """A field of the wrong type is found in kinds that are not ours as well."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"priority": "high"}}

    assert outcomes(pod) == ["f.yaml: Pod/a: spec.priority: expected a whole number, got a text"]


def test_other_kinds_are_named_and_left_alone() -> None:
    """A kind that is not in the table is no problem."""
    assert list(check_document(Document("f.yaml", {"apiVersion": "x/v1", "kind": "Foo"}))) == [
        Skipped(source="f.yaml", subject="Foo", api_version="x/v1")
    ]
    assert outcomes({"kind": "Foo"}) == ["f.yaml: Foo: skipped, since its apiVersion is not known here"]


def test_what_cannot_be_read_is_a_finding() -> None:
    """A document that is none is reported like any other problem."""
    error = InvalidObject(subject="f.yaml#2", field="line 3", problem="not YAML: a tab")

    assert [str(each) for each in check_document(error)] == ["f.yaml#2: line 3: not YAML: a tab"]


def test_nesting_beyond_reason_is_a_finding() -> None:
    """An object that is nested without end is refused, not walked into."""
    deep: Any = {}
    for _ in range(400):
        deep = {"a": deep}

    assert outcomes({**POOL, "spec": deep}) == ["f.yaml: NodePool/default: nested more than 256 levels deep"]


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("karpenter.sh/v1alpha5", "Provisioner"),
        ("karpenter.sh/v1alpha5", "Machine"),
        ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate"),
        ("karpenter.sh/v1beta1", "NodePool"),
        ("karpenter.sh/v1beta1", "NodeClaim"),
        ("karpenter.k8s.aws/v1beta1", "EC2NodeClass"),
    ],
)
def test_kinds_of_the_past_are_refused(version: str, kind: str) -> None:
    """Each kind of the past is refused with what has replaced it."""
    (finding,) = check_document(Document("f", {"apiVersion": version, "kind": kind}))

    assert isinstance(finding, Finding)
    assert "was replaced by" in finding.message


def test_kinds_of_today_are_not_of_the_past() -> None:
    """A current kind is not refused by its name."""
    assert refusal("karpenter.sh/v1", "NodePool") is None


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        pytest.param("node-price", "-1", "expected dollars per hour such as 0.01", id="a price"),
        pytest.param("vcpu-price", "much", "expected dollars per hour such as 0.01", id="a price per vCPU"),
        pytest.param("preferred-pool-price", "10%", "expected a share such as 0.1", id="a preference"),
        pytest.param("on-demand-floor", "120%", "expected nodes such as 3, or 20%", id="a floor"),
    ],
)
def test_prices_of_a_nodepool_that_cannot_be_read_are_refused(key: str, text: str, expected: str) -> None:
    """No schema holds annotations, so their text is checked with the durations and quantities."""
    notes = {f"karpenter.sh/{key}": text, "karpenter.sh/else": "-1"}

    place = f"metadata.annotations[karpenter.sh/{key}]"
    assert outcomes(changed(POOL, {"metadata.annotations": notes})) == [
        f'f.yaml: NodePool/default: {place}: Invalid value: "{text}": {expected}'
    ]


@pytest.mark.parametrize(
    ("kind", "spec", "path"),
    [
        pytest.param("Pod", {}, "metadata", id="a pod"),
        pytest.param("Deployment", {"template": {"metadata": {}}}, "spec.template.metadata", id="a workload"),
    ],
)
def test_the_floor_of_a_workload_that_cannot_be_read_is_refused(
    kind: str, spec: dict[str, Any], path: str
) -> None:
    """Replicas that should stay on demand are told of before they are all on spot."""
    version = "v1" if kind == "Pod" else "apps/v1"
    plain: dict[str, Any] = {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    inner = plain["metadata"] if kind == "Pod" else spec["template"]["metadata"]
    inner["annotations"] = {"karpenter.sh/on-demand-floor": "1.5"}

    place = f"{path}.annotations[karpenter.sh/on-demand-floor]"
    assert outcomes(plain) == [
        f'f.yaml: {kind}/a: {place}: Invalid value: "1.5": expected nodes such as 3, or 20%'
    ]
