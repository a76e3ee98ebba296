"""Kinds that public charts bring beside their workloads: autoscalers, ingresses, policies, webhooks."""

from typing import Any

import pytest

from tests.contract.kubernetes.api import Api, Object, done
from tests.contract.kubernetes.tables import table

RULE: Object = {
    "apiGroups": ["x.example"],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["things"],
}
HOOK: Object = {
    "name": "a.example.com",
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "clientConfig": {"service": {"name": "s", "namespace": "default"}},
    "rules": [RULE],
}
FULL_RULE: Object = {**RULE, "scope": "*"}
MATCHES: Object = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
FULL_HOOK: Object = {
    **HOOK,
    **MATCHES,
    "clientConfig": {"service": {"name": "s", "namespace": "default", "port": 443}},
    "failurePolicy": "Fail",
    "rules": [FULL_RULE],
    "timeoutSeconds": 10,
}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
SERVICE = {"name": "m", "namespace": "kube-system"}
ALL_OF = {"type": "Percent", "value": 100, "periodSeconds": 15}
PATHS = [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}}]

FULL_MATCHES: Object = {**MATCHES, "resourceRules": [FULL_RULE]}

KINDS = [
    pytest.param(
        "horizontalpodautoscalers",
        {
            "spec": {
                "scaleTargetRef": TARGET,
                "maxReplicas": 5,
                "behavior": {"scaleDown": {"selectPolicy": "Min"}},
            }
        },
        {
            "spec": {
                "scaleTargetRef": TARGET,
                "minReplicas": 1,
                "maxReplicas": 5,
                "metrics": [CPU],
                "behavior": {
                    "scaleUp": {
                        "stabilizationWindowSeconds": 0,
                        "selectPolicy": "Max",
                        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, ALL_OF],
                    },
                    "scaleDown": {"selectPolicy": "Min", "policies": [ALL_OF]},
                },
            },
            "status": {"currentMetrics": None, "desiredReplicas": 0},
        },
        id="autoscaler",
    ),
    pytest.param(
        "ingresses",
        {"spec": {"ingressClassName": "nginx", "rules": [{"host": "a.example", "http": {"paths": PATHS}}]}},
        {
            "spec": {"ingressClassName": "nginx", "rules": [{"host": "a.example", "http": {"paths": PATHS}}]},
            "status": {"loadBalancer": {}},
        },
        id="ingress",
    ),
    pytest.param(
        "ingressclasses",
        {"spec": {"controller": "example.com/a", "parameters": {"kind": "ConfigMap", "name": "b"}}},
        {
            "spec": {
                "controller": "example.com/a",
                "parameters": {"kind": "ConfigMap", "name": "b", "scope": "Cluster"},
            }
        },
        id="ingress class",
    ),
    pytest.param(
        "networkpolicies",
        {"spec": {"podSelector": {}, "egress": [{"ports": [{"port": 53}]}]}},
        {
            "spec": {
                "podSelector": {},
                "egress": [{"ports": [{"port": 53, "protocol": "TCP"}]}],
                "policyTypes": ["Ingress", "Egress"],
            }
        },
        id="network policy",
    ),
    pytest.param(
        "validatingwebhookconfigurations",
        {"webhooks": [HOOK]},
        {"webhooks": [FULL_HOOK]},
        id="validating webhook",
    ),
    pytest.param(
        "mutatingwebhookconfigurations",
        {"webhooks": [HOOK]},
        {"webhooks": [{**FULL_HOOK, "reinvocationPolicy": "Never"}]},
        id="mutating webhook",
    ),
    pytest.param(
        "validatingadmissionpolicies",
        {"spec": {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "true"}]}},
        {
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": FULL_MATCHES,
                "validations": [{"expression": "true"}],
            },
            "status": {},
        },
        id="admission policy",
    ),
    pytest.param(
        "validatingadmissionpolicybindings",
        {
            "spec": {
                "policyName": "none",
                "validationActions": ["Deny"],
                "matchResources": {"resourceRules": [RULE]},
            }
        },
        {
            "spec": {
                "policyName": "none",
                "validationActions": ["Deny"],
                "matchResources": FULL_MATCHES,
            }
        },
        id="binding of an admission policy",
    ),
    pytest.param(
        "prioritylevelconfigurations",
        {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}},
        {
            "spec": {
                "type": "Limited",
                "limited": {
                    "lendablePercent": 0,
                    "limitResponse": {"type": "Reject"},
                    "nominalConcurrencyShares": 30,
                },
            },
            "status": {},
        },
        id="priority level",
    ),
    pytest.param(
        "flowschemas",
        {"spec": {"priorityLevelConfiguration": {"name": "exempt"}}},
        {
            "spec": {"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 1000},
            "status": {},
        },
        id="flow schema",
    ),
]


@pytest.mark.parametrize(("resource", "sent", "stored"), KINDS)
def test_kinds_of_charts_are_stored(api: Api, resource: str, sent: Object, stored: Object) -> None:
    """Each is stored with its defaults, found again, changed and deleted."""
    made = api.make(resource, {"metadata": {"name": api.unique}, **sent})
    patched = done(api.patch(resource, api.unique, {"metadata": {"labels": {"a": "b"}}}))
    found = api.names(resource, labelSelector="a=b")
    removed = api.delete(resource, api.unique)

    assert _content(made) == stored
    assert patched["metadata"]["labels"] == {"a": "b"}
    assert api.unique in found
    assert removed.status == 200


def _content(made: Object) -> dict[str, Any]:
    return {key: part for key, part in made.items() if key not in {"kind", "apiVersion", "metadata"}}


def test_an_aggregated_api_is_stored(api: Api) -> None:
    """A chart that brings an API server of its own installs; its service is reached over HTTPS."""
    group = f"{api.unique}.example.com"
    spec = {"group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100}
    body = {
        "metadata": {"name": f"v1.{group}"},
        "spec": {**spec, "service": SERVICE, "insecureSkipTLSVerify": True},
    }

    made = api.make("apiservices", body)

    assert made["spec"]["service"]["port"] == 443
    assert "generation" not in made["metadata"]


@pytest.mark.parametrize(
    ("metrics", "percent"),
    [pytest.param([CPU], 80, id="cpu"), pytest.param([], 80, id="none is cpu")],
)
def test_autoscalers_of_the_first_version(api: Api, metrics: list[Object], percent: int) -> None:
    """An autoscaler is the same object in both versions of its group."""
    api.make(
        "horizontalpodautoscalers",
        {"metadata": {"name": "a"}, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3, "metrics": metrics}},
    )
    old = f"/apis/autoscaling/v1/namespaces/{api.namespace}/horizontalpodautoscalers"

    found = api.read(old, "a")
    made = api.make(
        old,
        {
            "metadata": {"name": "b"},
            "spec": {"scaleTargetRef": TARGET, "maxReplicas": 2, "targetCPUUtilizationPercentage": 50},
        },
    )

    assert (found["apiVersion"], found["spec"]["targetCPUUtilizationPercentage"]) == (
        "autoscaling/v1",
        percent,
    )
    assert made["spec"] == {
        "scaleTargetRef": TARGET,
        "minReplicas": 1,
        "maxReplicas": 2,
        "targetCPUUtilizationPercentage": 50,
    }
    target = api.read("horizontalpodautoscalers", "b")["spec"]["metrics"][0]["resource"]["target"]
    assert target == {"type": "Utilization", "averageUtilization": 50}


@pytest.mark.parametrize(
    ("resource", "sent", "cells"),
    [
        pytest.param(
            "horizontalpodautoscalers",
            {"spec": {"scaleTargetRef": TARGET, "maxReplicas": 5}},
            ["Deployment/web", "cpu: <unknown>/80%", "1", 5, 0],
            id="autoscaler",
        ),
        pytest.param(
            "ingresses",
            {
                "spec": {
                    "tls": [{"secretName": "s"}],
                    "rules": [{"host": f"{name}.example", "http": {"paths": PATHS}} for name in "abcd"],
                }
            },
            ["<none>", "a.example,b.example,c.example + 1 more...", "", "80, 443"],
            id="ingress",
        ),
        pytest.param(
            "networkpolicies",
            {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}},
            ["a=b"],
            id="network policy",
        ),
        pytest.param("validatingwebhookconfigurations", {"webhooks": [HOOK]}, [1], id="webhook"),
        pytest.param(
            "validatingadmissionpolicybindings",
            {
                "spec": {
                    "policyName": "p",
                    "validationActions": ["Deny"],
                    "paramRef": {"name": "n", "parameterNotFoundAction": "Deny"},
                }
            },
            ["p", "*/n"],
            id="binding",
        ),
    ],
)
def test_columns_of_kinds_of_charts(api: Api, resource: str, sent: Object, cells: list[Any]) -> None:
    """A table shows each in the columns that it has elsewhere."""
    made = api.make(resource, {"metadata": {"name": api.unique}, **sent})

    found = table(api, api.path(resource, made["metadata"]["name"]))["rows"][0]["cells"]

    assert found[1:-1] == cells
