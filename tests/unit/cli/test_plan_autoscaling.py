"""``karpenter plan`` with autoscalers of pods: as many replicas as they would ask for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.cli.test_plan import POOL, run

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def deployment(replicas: int | None) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec: dict[str, Any] = {"selector": {"matchLabels": labels}, "template": template}
    if replicas is not None:
        spec["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def hpa(least: object = 12, most: object = 40, **spec: Any) -> dict[str, Any]:
    bounds = {"minReplicas": least, "maxReplicas": most, "scaleTargetRef": TARGET}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {name: value for name, value in (bounds | spec).items() if value is not None},
    }


def scaled_object(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": {"name": "web"}, "triggers": [], **spec},
    }


@pytest.mark.parametrize(
    ("replicas", "autoscaler", "options", "expected"),
    [
        pytest.param(None, hpa(), (), 12, id="minReplicas, where the manifest names no replicas"),
        pytest.param(5, hpa(), (), 12, id="minReplicas, where the manifest asks for fewer"),
        pytest.param(20, hpa(), (), 20, id="the replicas of the manifest, between the bounds"),
        pytest.param(50, hpa(), (), 40, id="maxReplicas, where the manifest asks for more"),
        pytest.param(None, hpa(least=None), (), 1, id="one without minReplicas"),
        pytest.param(0, hpa(), (), 0, id="none, where the manifest switches the autoscaler off"),
        pytest.param(None, hpa(), ("--hpa", "max"), 40, id="the ceiling with --hpa max"),
        pytest.param(None, scaled_object(minReplicaCount=3), (), 3, id="minReplicaCount of KEDA"),
        pytest.param(None, scaled_object(), (), 1, id="one, where KEDA may scale to zero"),
        pytest.param(
            None, scaled_object(maxReplicaCount=7), ("--hpa", "max"), 7, id="maxReplicaCount of KEDA"
        ),
    ],
)
def test_replicas(
    replicas: int | None, autoscaler: dict[str, Any], options: tuple[str, ...], expected: int
) -> None:
    """A workload has the replicas of its manifest within the bounds of its autoscaler."""
    found = run("-o", "json", *options, objects=[POOL, deployment(replicas), autoscaler])

    assert found.exit_code == 0, found.output
    assert sum(len(node["pods"]) for node in json.loads(found.stdout)["newNodes"]) == expected
    assert found.stderr == ""


def test_an_autoscaler_without_its_workload_is_noted() -> None:
    """What it scales is named, so that a missing file is noticed."""
    found = run(objects=[POOL, hpa()])

    assert (
        "HorizontalPodAutoscaler/web scales Deployment default/web, which is not here, and is left out"
        in found.stderr
    )


@pytest.mark.parametrize(
    ("autoscaler", "sentence"),
    [
        pytest.param(hpa(most=None), "spec.maxReplicas is required", id="without maxReplicas"),
        pytest.param(
            hpa(least="two"), "spec.minReplicas must be a whole number from 0 on, not 'two'", id="no number"
        ),
        pytest.param(
            hpa(least=12, most=3), "spec.maxReplicas must not be less than minReplicas (12)", id="crossed"
        ),
        pytest.param(
            hpa(scaleTargetRef={}), "spec.scaleTargetRef must name the kind and the name", id="no target"
        ),
    ],
)
def test_bounds_that_cannot_be_used(autoscaler: dict[str, Any], sentence: str) -> None:
    """The field and what is allowed are named."""
    found = run(objects=[POOL, deployment(None), autoscaler])

    assert found.exit_code == 2
    assert sentence in found.stderr.replace(": ", " ")
