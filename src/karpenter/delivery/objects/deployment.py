"""
The Deployment: replicas of which one leads, away from the nodes that they manage and from each other.

A replica runs as nobody, cannot write to its own file system, and holds no capability.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karpenter.api.labels import NODEPOOL, ZONE
from karpenter.delivery.objects.environment import variables
from karpenter.delivery.objects.naming import SELECTOR, metadata
from karpenter.delivery.tree import Copy, Either, Entries, Fact, Items, Text, Value, given

if TYPE_CHECKING:
    from karpenter.delivery.tree import Tree

USER: Final = 65532
"""Nobody in particular."""

_PROBES: Final = {
    "livenessProbe": {
        "initialDelaySeconds": 30,
        "timeoutSeconds": 30,
        "httpGet": {"path": "/healthz", "port": "http"},
    },
    "readinessProbe": {
        "initialDelaySeconds": 5,
        "timeoutSeconds": 30,
        "httpGet": {"path": "/readyz", "port": "http"},
    },
}
_AFFINITY: Final[dict[str, Tree]] = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": NODEPOOL, "operator": "DoesNotExist"}]}]
        }
    },
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": SELECTOR}}
        ]
    },
}
_SPREAD: Final[list[Tree]] = [
    {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": SELECTOR},
    }
]


def deployment() -> Tree:
    """Return the Deployment."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(),
        "spec": {
            "replicas": Value("replicas"),
            "revisionHistoryLimit": Value("revisionHistoryLimit"),
            "strategy": Copy("strategy"),
            "selector": {"matchLabels": SELECTOR},
            "template": {
                "metadata": {
                    "labels": Entries(SELECTOR, ("additionalLabels", "podLabels")),
                    "annotations": given("podAnnotations", Copy("podAnnotations")),
                },
                "spec": _pod(),
            },
        },
    }


def _pod() -> dict[str, Any]:
    return {
        "automountServiceAccountToken": True,
        "serviceAccountName": Fact("account"),
        "securityContext": Copy("podSecurityContext"),
        "priorityClassName": given("priorityClassName", Text("priorityClassName")),
        "terminationGracePeriodSeconds": Value("terminationGracePeriodSeconds"),
        "hostNetwork": given("hostNetwork", True),
        "schedulerName": given("schedulerName", Text("schedulerName")),
        "dnsPolicy": Text("dnsPolicy"),
        "dnsConfig": given("dnsConfig", Copy("dnsConfig")),
        "imagePullSecrets": given("imagePullSecrets", Copy("imagePullSecrets")),
        "nodeSelector": given("nodeSelector", Copy("nodeSelector")),
        "affinity": Either("affinity", _AFFINITY),
        "topologySpreadConstraints": Either("topologySpreadConstraints", _SPREAD),
        "tolerations": given("tolerations", Copy("tolerations")),
        "initContainers": given("initContainers", Copy("initContainers")),
        "containers": [_container(), Items("controller.sidecarContainer")],
        "volumes": given("extraVolumes", Copy("extraVolumes")),
    }


def _container() -> dict[str, Any]:
    return {
        "name": Text("controller.containerName"),
        "image": Fact("image"),
        "imagePullPolicy": Text("imagePullPolicy"),
        "args": ["run", "--log-form", "json"],
        "securityContext": {
            "runAsUser": USER,
            "runAsGroup": USER,
            "runAsNonRoot": True,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "env": variables(),
        "envFrom": given("controller.envFrom", Copy("controller.envFrom")),
        "ports": [
            {"name": "http-metrics", "containerPort": Value("controller.metrics.port"), "protocol": "TCP"},
            {"name": "http", "containerPort": Value("controller.healthProbe.port"), "protocol": "TCP"},
        ],
        **_PROBES,
        "resources": given("controller.resources", Copy("controller.resources")),
        "volumeMounts": given("controller.extraVolumeMounts", Copy("controller.extraVolumeMounts")),
    }
