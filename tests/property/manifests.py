"""Manifests with everything in them, and ways to spoil them, for tests that feed garbage."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
from hypothesis import strategies as st

_META = {"name": "web", "namespace": "shop", "labels": {"app": "web"}, "uid": "u-1"}
_WHEN = "2026-01-01T00:00:00Z"
_SELECTOR = {
    "matchLabels": {"app": "web"},
    "matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}],
}
_TERM = {
    "matchExpressions": [
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]},
        {"key": "cpu", "operator": "Gt", "values": ["3"]},
    ]
}
_NEAR = {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": _SELECTOR, "namespaceSelector": {}}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_AFFINITY = {
    "nodeAffinity": {
        _REQUIRED: {"nodeSelectorTerms": [_TERM]},
        _PREFERRED: [{"weight": 5, "preference": _TERM}],
    },
    "podAffinity": {_REQUIRED: [_NEAR], _PREFERRED: [{"weight": 1, "podAffinityTerm": _NEAR}]},
    "podAntiAffinity": {_REQUIRED: [_NEAR], _PREFERRED: [{"weight": 1, "podAffinityTerm": _NEAR}]},
}
_CONTAINER = {
    "name": "app",
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}},
    "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1", "protocol": "TCP"}],
}
_POD_SPEC = {
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "affinity": _AFFINITY,
    "tolerations": [{"key": "x", "operator": "Equal", "value": "y", "effect": "NoSchedule"}],
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": _SELECTOR,
            "minDomains": 2,
            "matchLabelKeys": ["app"],
        }
    ],
    "containers": [_CONTAINER],
    "initContainers": [{**_CONTAINER, "name": "init", "restartPolicy": "Always"}],
    "overhead": {"cpu": "10m"},
    "priority": 5,
    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
}
_TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {**_POD_SPEC, "volumes": []}}
_REF = {"group": "example.com", "kind": "ThingClass", "name": "main"}
_OWNER = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1", "controller": True}
_CONDITION = {"type": "Ready", "status": "True", "lastTransitionTime": _WHEN}
_SIZE = {"cpu": "4", "memory": "8Gi", "pods": "110"}


def _object(api_version: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": _META, **fields}


_WRITTEN = (
    _object("v1", "Pod", spec=_POD_SPEC),
    _object(
        "v1",
        "Pod",
        metadata={
            **_META,
            "name": "bound",
            "creationTimestamp": _WHEN,
            "annotations": {"karpenter.sh/do-not-disrupt": "10m"},
            "ownerReferences": [_OWNER],
        },
        spec={**_POD_SPEC, "nodeName": "node-1"},
        status={"phase": "Running", "startTime": _WHEN, "conditions": [_CONDITION]},
    ),
    _object(
        "v1",
        "Pod",
        metadata={**_META, "name": "agent", "creationTimestamp": _WHEN, "ownerReferences": [_OWNER]},
        spec={"nodeName": "node-1", "containers": [_CONTAINER]},
    ),
    _object(
        "v1",
        "Pod",
        metadata={**_META, "name": "moves", "annotations": {"karpenter.sh/do-not-disrupt": "10m"}},
        spec={**_POD_SPEC, "nodeName": "node-2"},
        status={"phase": "Running", "startTime": _WHEN, "conditions": [_CONDITION]},
    ),
    _object("v1", "Node", metadata={"name": "node-2", "deletionTimestamp": _WHEN}),
    _object(
        "v1",
        "Node",
        metadata={"name": "node-1", "labels": {"kubernetes.io/hostname": "node-1"}},
        spec={"providerID": "kwok://1", "taints": [{"key": "x", "effect": "NoSchedule", "value": "y"}]},
        status={"capacity": _SIZE, "allocatable": _SIZE, "conditions": [_CONDITION]},
    ),
    _object(
        "karpenter.sh/v1",
        "NodeClaim",
        metadata={"name": "claim-1", "labels": {"karpenter.sh/nodepool": "default"}},
        spec={"nodeClassRef": _REF, "requirements": [], "taints": [], "startupTaints": []},
        status={"providerID": "kwok://1", "nodeName": "node-1", "capacity": _SIZE, "allocatable": _SIZE},
    ),
    _object(
        "karpenter.sh/v1",
        "NodePool",
        metadata={"name": "default"},
        spec={
            "template": {
                "metadata": {"labels": {"team": "web"}, "annotations": {"note": "x"}},
                "spec": {
                    "nodeClassRef": _REF,
                    "requirements": [
                        {
                            "key": "topology.kubernetes.io/zone",
                            "operator": "In",
                            "values": ["a"],
                            "minValues": 1,
                        },
                        {"key": "size", "operator": "Gt", "values": ["3"]},
                    ],
                    "taints": [{"key": "x", "effect": "PreferNoSchedule"}],
                    "expireAfter": "720h",
                    "terminationGracePeriod": "10m",
                },
            },
            "limits": {"cpu": "100", "nodes": "10"},
            "weight": 10,
        },
        status={"conditions": [_CONDITION]},
    ),
    _object(
        "karpenter.sh/v1alpha1",
        "NodeOverlay",
        metadata={"name": "o"},
        spec={
            "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
            "priceAdjustment": "-10%",
            "capacity": {"example.com/gpu": "1"},
            "weight": 5,
        },
    ),
    _object(
        "autoscaling.x-k8s.io/v1beta1",
        "CapacityBuffer",
        spec={
            "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"},
            "replicas": 2,
            "percentage": 10,
            "limits": {"cpu": "10"},
        },
    ),
    _object("apps/v1", "Deployment", spec={"replicas": 2, "selector": _SELECTOR, "template": _TEMPLATE}),
    _object(
        "apps/v1",
        "StatefulSet",
        spec={
            "replicas": 1,
            "selector": _SELECTOR,
            "template": _TEMPLATE,
            "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {"storageClassName": "fast"}}],
        },
    ),
    _object(
        "apps/v1",
        "DaemonSet",
        metadata={**_META, "name": "agent"},
        spec={"selector": _SELECTOR, "template": _TEMPLATE},
    ),
    _object("batch/v1", "Job", spec={"parallelism": 2, "completions": 3, "template": _TEMPLATE}),
    _object(
        "batch/v1", "CronJob", spec={"schedule": "@daily", "jobTemplate": {"spec": {"template": _TEMPLATE}}}
    ),
    _object("v1", "Service", spec={"selector": {"app": "web"}}),
    _object("v1", "Namespace", metadata={"name": "shop", "labels": {"team": "web"}}),
    _object(
        "v1",
        "PersistentVolumeClaim",
        metadata={
            "name": "data",
            "namespace": "shop",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        spec={"volumeName": "v", "storageClassName": "fast"},
    ),
    _object(
        "v1",
        "PersistentVolume",
        metadata={"name": "v"},
        spec={
            "csi": {"driver": "csi.example.com"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [_TERM]}},
        },
    ),
    _object(
        "storage.k8s.io/v1",
        "StorageClass",
        metadata={"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        provisioner="csi.example.com",
        volumeBindingMode="WaitForFirstConsumer",
        allowedTopologies=[
            {"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["a"]}]}
        ],
    ),
    _object(
        "storage.k8s.io/v1",
        "CSINode",
        metadata={"name": "node-1"},
        spec={"drivers": [{"name": "csi.example.com", "nodeID": "1", "allocatable": {"count": 5}}]},
    ),
    _object(
        "policy/v1",
        "PodDisruptionBudget",
        spec={"selector": _SELECTOR, "maxUnavailable": "50%"},
    ),
    _object("scheduling.k8s.io/v1", "PriorityClass", metadata={"name": "high"}, value=5, globalDefault=True),
)

OBJECTS: tuple[dict[str, Any], ...] = tuple(
    msgspec.json.decode(msgspec.json.encode(each)) for each in _WRITTEN
)
"""One object of every kind that a decision depends on, with most of its fields; no part is in two places."""


def _deep(levels: int) -> Any:
    found: Any = "x"
    for _ in range(levels):
        found = [found]
    return found


GARBAGE: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(
        [
            None,
            True,
            0,
            -1,
            2**31,
            2**63,
            10**30,
            -(10**30),
            1.5,
            "",
            " ",
            "0",
            "-1",
            "1e30",
            "-5Gi",
            "9" * 400,
            "NaN",
            "100%",
            "\u00b2",
            "a/b/c",
            "line\nbreak",
            "2026-01-01T00:00:00",
            "2026-01-01",
            "Exists",
            "DoesNotExist",
            "Gt",
            "true",
            [],
            {},
            [None],
            [[]],
            {"": ""},
            {"key": "x"},
            _deep(300),
        ]
    ),
    st.text(max_size=8),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
)
"""What a field might hold that nobody foresaw."""


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, member in members:
        found += _places(member, (*path, key))
    return found


_ALL_PLACES = tuple((number, path) for number, each in enumerate(OBJECTS) for path in _places(each))


def _spoiled(spots: list[tuple[tuple[int, tuple[Any, ...]], Any]]) -> list[dict[str, Any]]:
    objects = copy.deepcopy(list(OBJECTS))
    for (number, path), garbage in spots:
        target: Any = objects[number]
        for key in path[:-1]:
            try:
                target = target[key]
            except (KeyError, IndexError, TypeError):
                break  # an earlier spot has swept it away
        else:
            if isinstance(target, dict) or (isinstance(target, list) and path[-1] in range(len(target))):
                target[path[-1]] = garbage
    return objects


SPOILED: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.tuples(st.sampled_from(_ALL_PLACES), GARBAGE), min_size=1, max_size=3
).map(_spoiled)
"""The objects with garbage in a few places."""
