"""What stands around the Deployment: its account, its budget, the way to its metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.delivery.objects.naming import SELECTOR, metadata
from karpenter.delivery.tree import Entries, Fact, Text, Value, given

if TYPE_CHECKING:
    from karpenter.delivery.tree import Tree


def service_account() -> Tree:
    """Return the account as which the operator talks to the API server, and by IRSA to AWS."""
    return given(
        "serviceAccount.create",
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata(name=Fact("account"), annotations=("serviceAccount.annotations",)),
            # The pods ask for the token themselves; nobody else who uses the account gets one by accident.
            "automountServiceAccountToken": False,
        },
    )


def budget() -> Tree:
    """Return the budget that keeps a replica while nodes are drained."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(name=Text("podDisruptionBudget.name")),
        "spec": {
            "maxUnavailable": Value("podDisruptionBudget.maxUnavailable"),
            "selector": {"matchLabels": SELECTOR},
        },
    }


def service() -> Tree:
    """Return the Service in front of the metrics."""
    port = {
        "name": "http-metrics",
        "port": Value("controller.metrics.port"),
        "targetPort": "http-metrics",
        "protocol": "TCP",
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(annotations=("service.annotations",)),
        "spec": {"type": "ClusterIP", "ports": [port], "selector": SELECTOR},
    }


def service_monitor() -> Tree:
    """Return what tells the Prometheus operator where the metrics are."""
    endpoint = Entries({"port": "http-metrics", "path": "/metrics"}, ("serviceMonitor.endpointConfig",))
    return given(
        "serviceMonitor.enabled",
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "ServiceMonitor",
            "metadata": metadata(labels=("serviceMonitor.additionalLabels",)),
            "spec": {
                "namespaceSelector": {"matchNames": [Fact("namespace")]},
                "selector": {"matchLabels": SELECTOR},
                "endpoints": [endpoint],
            },
        },
    )
