"""Requests to the API server, as metrics show them."""

from __future__ import annotations

import pytest

from karpenter.controllers.metrics.client import client_request_metrics, request_labels
from karpenter.kube.transport import Request
from karpenter.telemetry.metrics import Metrics, runtime
from tests.unit.telemetry.clocks import HandClock


def test_requests() -> None:
    """Requests are counted by the code of their answer, or as errors without one, and timed."""
    metrics = Metrics(clock=HandClock())
    note = client_request_metrics(metrics, "api.example:6443")
    for code in (200, 200, 0):
        note(Request(method="GET", path="/api/v1/pods"), code, 0.25)
    place = {"host": "api.example:6443", "method": "GET"}

    assert metrics[runtime.CLIENT_REQUESTS].value(code="200", **place) == 2.0
    assert metrics[runtime.CLIENT_REQUESTS].value(code="<error>", **place) == 1.0
    assert metrics[runtime.CLIENT_REQUEST_DURATION].count(**place) == 3
    assert metrics[runtime.CLIENT_GO_REQUESTS].value(code="200", method="GET") == 2.0
    labels = {"verb": "LIST", "group": "", "version": "v1", "kind": "pods", "subresource": ""}
    assert metrics[runtime.CLIENT_GO_REQUEST_DURATION].count(**labels) == 3


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/api/v1/nodes", "LIST  v1 nodes "),
        ("GET", "/api/v1/nodes/a", "GET  v1 nodes "),
        ("GET", "/api/v1/namespaces/kube-system", "GET  v1 namespaces "),
        ("GET", "/api/v1/namespaces", "LIST  v1 namespaces "),
        ("GET", "/api/v1/namespaces/x/pods", "LIST  v1 pods "),
        ("POST", "/api/v1/namespaces/x/pods/p/eviction", "CREATE  v1 pods eviction"),
        ("POST", "/apis/karpenter.sh/v1/nodeclaims", "CREATE karpenter.sh v1 nodeclaims "),
        ("PATCH", "/apis/karpenter.sh/v1/nodeclaims/a/status", "PATCH karpenter.sh v1 nodeclaims status"),
        (
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l",
            "UPDATE coordination.k8s.io v1 leases ",
        ),
        ("DELETE", "/apis/karpenter.sh/v1/nodeclaims/a", "DELETE karpenter.sh v1 nodeclaims "),
        ("GET", "/version", None),
        ("GET", "/apis", None),
        ("GET", "/apis/karpenter.sh/v1", None),
        ("GET", "/api/v1", None),
    ],
)
def test_what_a_request_does(method: str, path: str, expected: str | None) -> None:
    """Requests are told apart as client-go tells them apart, but not by the names of objects."""
    labels = request_labels(method, path)

    assert (" ".join(labels.values()) if labels is not None else None) == expected
