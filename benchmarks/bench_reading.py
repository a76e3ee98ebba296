"""Reading pods as kubectl prints them: JSON, YAML in block style, and the same YAML with libyaml alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from benchmarks.measure import Case, compare
from karpenter.api import manifests
from karpenter.api.manifests import documents, read_object
from karpenter.api.meta import MAX_DEPTH

if TYPE_CHECKING:
    from benchmarks.table import Table

PODS = 300


def _container(number: int, app: str) -> dict[str, Any]:
    return {
        "args": ["--port=8080", "--log-level=info"],
        "env": [
            {
                "name": "POD_NAME",
                "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
            },
            {"name": "GOMAXPROCS", "value": "2"},
        ],
        "image": f"registry.example.com/team/{app}:v1.{number % 20}.0",
        "imagePullPolicy": "IfNotPresent",
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
            "periodSeconds": 10,
        },
        "name": app,
        "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
        "resources": {"limits": {"memory": "512Mi"}, "requests": {"cpu": "250m", "memory": "512Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "terminationMessagePath": "/dev/termination-log",
        "volumeMounts": [{"mountPath": "/var/run/secrets", "name": f"access-{number:x}", "readOnly": True}],
    }


def _pod(number: int) -> dict[str, Any]:
    app = f"app-{number % 40}"
    labels = {"app.kubernetes.io/name": app, "pod-template-hash": f"x{number * 7919 % 10_000_019:x}"}
    moment = f"2026-01-{number % 28 + 1:02}T08:{number % 60:02}:12Z"
    gone = [
        {
            "effect": "NoExecute",
            "key": f"node.kubernetes.io/{why}",
            "operator": "Exists",
            "tolerationSeconds": 300,
        }
        for why in ("not-ready", "unreachable")
    ]
    spread = {
        "labelSelector": {"matchLabels": {"app.kubernetes.io/name": app}},
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "annotations": {"prometheus.io/port": "8080", "prometheus.io/scrape": "true"},
            "creationTimestamp": moment,
            "labels": labels,
            "name": f"{app}-{number:x}",
            "namespace": f"team-{number % 10}",
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "controller": True,
                    "kind": "ReplicaSet",
                    "name": app,
                    "uid": f"u-{app}",
                }
            ],
            "resourceVersion": str(number * 7919),
            "uid": f"uid-{number}",
        },
        "spec": {
            "containers": [_container(number, app)],
            "dnsPolicy": "ClusterFirst",
            "nodeName": f"ip-10-0-{number % 255}-7.example.internal",
            "priority": 0,
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 30,
            "tolerations": gone,
            "topologySpreadConstraints": [spread],
            "volumes": [{"emptyDir": {}, "name": f"access-{number:x}"}],
        },
        "status": {
            "conditions": [
                {"lastProbeTime": None, "lastTransitionTime": moment, "status": "True", "type": kind}
                for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "hostIP": f"10.0.{number % 255}.7",
            "phase": "Running",
            "podIP": f"10.1.{number % 255}.{number // 255}",
            "startTime": moment,
        },
    }


def _objects(text: str) -> int:
    return sum(read_object(each) is not None for each in documents(text, "pods"))


def _alone(text: str) -> int:
    return sum(1 for _ in manifests._libyaml_documents(text, MAX_DEPTH, len(text), None))  # noqa: SLF001


def suite() -> Table:
    pods = [_pod(number) for number in range(PODS)]
    listed = {"apiVersion": "v1", "items": pods, "kind": "List", "metadata": {"resourceVersion": ""}}
    stream = yaml.dump_all(pods, Dumper=yaml.CSafeDumper, explicit_start=True)
    one = yaml.dump(listed, Dumper=yaml.CSafeDumper)
    text = json.dumps(listed, indent=4)
    return compare(
        "reading pods",
        [
            Case("YAML, libyaml alone, plain data only", lambda: _alone(stream), PODS),
            Case("YAML, a document for each", lambda: _objects(stream), PODS),
            Case("YAML, one list", lambda: _objects(one), PODS),
            Case("JSON, one list", lambda: _objects(text), PODS),
        ],
        notes=(
            f"a pod is {len(stream) // PODS} characters of YAML in {stream.count(chr(10)) // PODS} lines",
        ),
    )
