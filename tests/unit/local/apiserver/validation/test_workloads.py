"""What is wrong with workloads."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter_local.apiserver.validation.workloads import stateful_set


def a_set(mounted: str) -> dict[str, Any]:
    """Return a StatefulSet with one claim called data, whose container mounts something."""
    container = {"name": "app", "image": "app", "volumeMounts": [{"name": mounted, "mountPath": "/data"}]}
    container |= {"imagePullPolicy": "Always", "terminationMessagePolicy": "File"}
    pod: dict[str, Any] = {"containers": [container], "restartPolicy": "Always", "dnsPolicy": "ClusterFirst"}
    pod["terminationGracePeriodSeconds"] = 30
    return {
        "metadata": {"name": "db"},
        "spec": {
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": {"type": "RollingUpdate"},
            "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": pod},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
        },
    }


@pytest.mark.parametrize(
    ("mounted", "wrong"),
    [
        pytest.param("data", [], id="a claim of the set"),
        pytest.param(
            "cache",
            ["spec.template.spec.containers[0].volumeMounts[0].name"],
            id="a volume that does not exist",
        ),
    ],
)
def test_a_stateful_set_may_mount_what_it_claims(mounted: str, wrong: list[str]) -> None:
    """The volumes that a set claims for each of its pods can be mounted in its template."""
    assert [each.field for each in stateful_set(a_set(mounted), None)] == wrong
