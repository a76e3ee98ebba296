"""What the API server would say to a new object, without a server."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from karpenter.api.manifests import documents_or_refusals
from karpenter.api.meta import InvalidObject
from karpenter.api.validation.documents import Finding, check_document
from karpenter_local.apiserver.offline import create_problems
from karpenter_local.apiserver.resources import BUILT_IN
from karpenter_local.apiserver.server import Server
from tests.unit.local.apiserver.asking import ask, configmap, deployment, pod

EXAMPLES = Path(__file__).parents[4] / "examples"
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
APP = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}


def container(**fields: Any) -> dict[str, Any]:
    """Return a pod whose one container has some fields."""
    return pod("a", containers=[{"name": "main", "image": "app:1", **fields}])


def workload(**spec: Any) -> dict[str, Any]:
    """Return a Deployment with some fields of its spec set."""
    plain = deployment("a")
    return {**plain, "spec": {**plain["spec"], **spec}}


def cron(**spec: Any) -> dict[str, Any]:
    inner = {"containers": [{"name": "main", "image": "app:1"}], "restartPolicy": "Never"}
    job = {"spec": {"template": {"spec": inner}}}
    spec = {"schedule": "0 * * * *", "jobTemplate": job, **spec}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "a"}, "spec": spec}


def budget(**spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "a"}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "a"},
        "spec": {"selector": selector, **spec},
    }


def claim(size: str) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"}, "spec": spec}


def service(name: str, *ports: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [*ports]}}


def preferring(weight: int) -> dict[str, Any]:
    """Return a pod that prefers nodes without pods of its app."""
    terms = [{"weight": weight, "podAffinityTerm": APP}]
    return pod("a", affinity={"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}})


WRONG = [
    pytest.param(
        workload(replicas=-1),
        ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
        id="negative replicas",
    ),
    pytest.param(
        container(ports=[{"containerPort": 99999}]),
        [
            (
                "spec.containers[0].ports[0].containerPort: Invalid value: 99999: "
                "must be between 1 and 65535, inclusive"
            )
        ],
        id="a port beyond 65535",
    ),
    pytest.param(pod("a", containers=[]), ["spec.containers: Required value"], id="no containers"),
    pytest.param(
        container(ports=[{"containerPort": 1, "name": "web"}, {"containerPort": 2, "name": "web"}]),
        ['spec.containers[0].ports[1].name: Duplicate value: "web"'],
        id="two ports of one name",
    ),
    pytest.param(
        pod("a", containers=[{"name": "A_b", "image": "app:1"}]),
        [f'spec.containers[0].name: Invalid value: "A_b": {LABEL}'],
        id="a container whose name is no DNS label",
    ),
    pytest.param(
        service("a.b", {"port": 80}),
        [f'metadata.name: Invalid value: "a.b": {LABEL}'],
        id="a Service whose name is no DNS label",
    ),
    pytest.param(
        workload(selector={"matchLabels": {"app": "b"}}),
        [
            (
                'spec.template.metadata.labels: Invalid value: {"app":"a"}: '
                "`selector` does not match template `labels`"
            )
        ],
        id="a selector that does not select the template",
    ),
    pytest.param(
        container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
        [
            (
                "spec.containers[0].resources.requests: Invalid value: "
                '"2": must be less than or equal to cpu limit of 1'
            )
        ],
        id="a request beyond the limit",
    ),
    pytest.param(
        container(resources={"requests": {"memory": "-1Gi"}}),
        [
            (
                'spec.containers[0].resources.requests[memory]: Invalid value: "-1Gi": '
                "must be greater than or equal to 0"
            )
        ],
        id="a negative request",
    ),
    pytest.param(
        pod("a", restartPolicy="Sometimes"),
        [
            (
                'spec.restartPolicy: Unsupported value: "Sometimes": '
                'supported values: "Always", "OnFailure", "Never"'
            )
        ],
        id="an unknown restart policy",
    ),
    pytest.param(
        container(livenessProbe={"periodSeconds": 5}),
        ["spec.containers[0].livenessProbe: Required value: must specify a handler type"],
        id="a probe without a handler",
    ),
    pytest.param(
        cron(schedule="61 * * * *"),
        ['spec.schedule: Invalid value: "61 * * * *": the schedule cannot be read: Bad minute'],
        id="a schedule with minute 61",
    ),
    pytest.param(
        budget(minAvailable=1, maxUnavailable=1),
        [
            (
                'spec: Invalid value: {"selector":{"matchLabels":{"app":"a"}},"minAvailable":1,'
                '"maxUnavailable":1}: '
                "minAvailable and maxUnavailable cannot be both set"
            )
        ],
        id="a budget with both numbers",
    ),
    pytest.param(
        pod("a", tolerations=[{"key": "team", "operator": "Like", "value": "a"}]),
        ['spec.tolerations[0].operator: Unsupported value: "Like": supported values: "Equal", "Exists"'],
        id="a toleration with an unknown operator",
    ),
    pytest.param(
        pod(
            "a",
            topologySpreadConstraints=[{"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "Refuse"}],
        ),
        [
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
            (
                'spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "Refuse": '
                'supported values: "DoNotSchedule", "ScheduleAnyway"'
            ),
        ],
        id="a spread without a skew",
    ),
    pytest.param(
        preferring(101),
        [
            (
                "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: "
                "Invalid value: 101: must be in the range 1-100"
            )
        ],
        id="a preference with a weight beyond 100",
    ),
    pytest.param(
        container(volumeMounts=[{"name": "data", "mountPath": "/data"}]),
        ['spec.containers[0].volumeMounts[0].name: Not found: "data"'],
        id="a mount of no volume",
    ),
    pytest.param(
        claim("-1Gi"),
        ['spec.resources[storage]: Invalid value: "-1Gi": must be greater than zero'],
        id="a negative claim",
    ),
    pytest.param(
        configmap("a", {"a b": "c"}),
        [
            (
                'data[a b]: Invalid value: "a b": a valid config key must consist of alphanumeric '
                "characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used "
                "for validation is '[-._a-zA-Z0-9]+')"
            )
        ],
        id="a ConfigMap with a blank in a key",
    ),
    pytest.param(
        {
            "apiVersion": "autoscaling/v1",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "a"},
            "spec": {"maxReplicas": -1, "scaleTargetRef": {"kind": "Deployment", "name": "a"}},
        },
        [
            "spec.maxReplicas: Invalid value: -1: must be greater than 0",
            "spec.maxReplicas: Invalid value: -1: must be greater than or equal to `minReplicas`",
        ],
        id="an autoscaler of the version that is not stored",
    ),
    pytest.param(
        {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": "a"},
            "template": {"spec": {"containers": [{"name": "a", "image": "app:1"}], "dnsPolicy": "Mine"}},
        },
        [
            (
                'template.spec.dnsPolicy: Unsupported value: "Mine": '
                'supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"'
            )
        ],
        id="a template with an unknown DNS policy",
    ),
]


def path_of(plain: dict[str, Any]) -> str:
    (found,) = (
        each for each in BUILT_IN if (each.api_version, each.kind) == (plain["apiVersion"], plain["kind"])
    )
    root = f"/apis/{found.api_version}" if found.group else "/api/v1"
    return f"{root}/namespaces/default/{found.plural}" if found.namespaced else f"{root}/{found.plural}"


@pytest.mark.parametrize(("plain", "lines"), WRONG)
async def test_what_a_server_refuses_is_found_without_one(plain: dict[str, Any], lines: list[str]) -> None:
    """The problems are those for which the embedded server refuses to create the object."""
    found = create_problems(plain)
    answer = await ask(Server(seed=1), "POST", path_of(plain), plain)

    assert found is not None
    assert [str(each) for each in found] == lines
    causes = [(each["field"], each["reason"], each["message"]) for each in answer.json["details"]["causes"]]
    assert (answer.status, causes) == (422, [(each.field, each.reason, each.message) for each in found])


@pytest.mark.parametrize(
    ("plain", "line"),
    [
        pytest.param(
            container(resources={"requests": {"cpu": "two"}}),
            "spec.containers[0].resources.requests.cpu: quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="an amount that is no quantity",
        ),
        pytest.param(
            workload(replicas="3"),
            "spec.replicas: json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas "
            "of type int32",
            id="a number in quotes",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"a": "b c"}},
            "data.a: illegal base64 data at input byte 1",
            id="a secret that is not in base64",
        ),
        pytest.param(
            pod("a") | {"metadata": {"name": "a", "creationTimestamp": "yesterday"}},
            'metadata.creationTimestamp: parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot '
            'parse "yesterday" as "2006"',
            id="a time that is none",
        ),
    ],
)
async def test_what_cannot_be_decoded_is_told_with_its_field(plain: dict[str, Any], line: str) -> None:
    """The server answers with the sentence alone; here the field is in front of it."""
    answer = await ask(Server(seed=1), "POST", path_of(plain), plain)

    assert [str(each) for each in create_problems(plain) or ()] == [line]
    assert (answer.status, answer.message.endswith(line.partition(": ")[2])) == (400, True)


@pytest.mark.parametrize(
    ("plain", "line"),
    [
        pytest.param(
            container(resuorces={}),
            "spec.containers[0].resuorces: unknown field; did you mean resources?",
            id="a typing error in a container",
        ),
        pytest.param(
            configmap("a") | {"spec": {}},
            "spec: unknown field; allowed here are apiVersion, binaryData, data, immutable, kind, metadata",
            id="nothing like it",
        ),
        pytest.param(pod("a", **{"a.b": {}}), "spec.a.b: unknown field", id="a name with a point"),
        pytest.param(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": "a"},
                "spec": {"selectors": [{"cel": {"expresion": "true"}}]},
            },
            "spec.selectors[0].cel.expresion: unknown field; did you mean expression?",
            id="in a list",
        ),
    ],
)
async def test_unknown_fields_are_told(plain: dict[str, Any], line: str) -> None:
    """A server that is asked to be strict refuses them, as kubectl asks it to."""
    answer = await ask(Server(seed=1), "POST", path_of(plain), plain, fieldValidation="Strict")

    assert [str(each) for each in create_problems(plain) or ()] == [line]
    assert (answer.status, f'unknown field "{line.partition(": ")[0]}"' in answer.message) == (400, True)


async def test_a_good_object_has_no_problems_and_stays_as_it_is() -> None:
    """What is filled in is filled into a copy, and names may be left to the server."""
    plain = pod("a")
    plain["metadata"] = {"generateName": "a-", "labels": {"app": "a"}}
    before = copy.deepcopy(plain)

    assert create_problems(plain) == ()
    assert plain == before
    assert (await ask(Server(seed=1), "POST", path_of(plain), plain)).status == 201


def test_an_object_from_a_cluster_may_be_created_anew() -> None:
    """What a server has written into metadata does not count."""
    meta = {"name": "a", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"}

    assert create_problems(deployment("a") | {"metadata": meta}) == ()


def test_the_namespace_is_a_label() -> None:
    """A server has no such namespace; here the name is judged."""
    plain = pod("a")
    plain["metadata"]["namespace"] = "A_b"

    assert [str(each) for each in create_problems(plain) or ()] == [
        f'metadata.namespace: Invalid value: "A_b": {LABEL}'
    ]


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("karpenter.sh/v1", "NodePool"),
        ("apps/v1beta1", "Deployment"),
        ("authentication.k8s.io/v1", "TokenReview"),
        ("", ""),
    ],
    ids=["a custom kind", "an older version", "a question", "nothing"],
)
def test_kinds_that_are_not_served(api_version: str, kind: str) -> None:
    """Custom kinds need their definition, and questions are not stored."""
    assert create_problems({"apiVersion": api_version, "kind": kind}) is None


def nested(depth: int) -> dict[str, Any]:
    """Return a schema in a schema in a schema."""
    found: dict[str, Any] = {}
    for _ in range(depth):
        found = {"properties": {"a": found}}
    return found


@pytest.mark.parametrize(
    ("plain", "problem"),
    [
        (configmap("a", {"a": "\ud800"}), "cannot be written as JSON"),
        (
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": nested(400)}}]},
            },
            "is nested deeper than any object",
        ),
        (
            {
                "apiVersion": "autoscaling/v1",
                "kind": "HorizontalPodAutoscaler",
                "metadata": {"annotations": {"autoscaling.alpha.kubernetes.io/metrics": "["}},
            },
            "metadata.annotations[autoscaling.alpha.kubernetes.io/metrics]: Input data was truncated",
        ),
    ],
    ids=["half a character", "nested without end", "an annotation that holds metrics"],
)
def test_what_no_server_could_read_is_one_problem(plain: dict[str, Any], problem: str) -> None:
    """The object as a whole is refused."""
    (found,) = create_problems(plain) or ()

    assert found.field == ""
    assert found.message.startswith(problem)


async def test_bytes_may_be_null() -> None:
    """A secret may hold a key without a value, as in the API."""
    plain = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"a": None}}

    assert create_problems(plain) == ()
    assert (await ask(Server(seed=1), "POST", path_of(plain), plain)).status == 201


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=str(path.relative_to(EXAMPLES)))
        for path in sorted(EXAMPLES.rglob("*.yaml"))
        if "apiVersion" in path.read_text("utf-8") and path.parent.name != "gitops"
    ],
)
def test_the_examples_are_accepted(path: Path) -> None:
    """No object of the examples would be refused."""
    found = list(documents_or_refusals(path.read_text("utf-8"), path.name))

    assert found
    assert not any(isinstance(each, InvalidObject) for each in found)
    outcomes = [
        str(o)
        for each in found
        for o in check_document(each, rules=create_problems)
        if isinstance(o, Finding)
    ]
    assert outcomes == []
