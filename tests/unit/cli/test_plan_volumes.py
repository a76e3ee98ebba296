"""``karpenter plan`` with volumes whose StorageClass is not in the files."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cli.test_plan import POOL, run

HINT = "--assume-storage-classes plans as if volumes were made where their pods go"


def database(storage_class: str | None, *, ephemeral: bool = False) -> list[dict[str, Any]]:
    spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}
    source: dict[str, Any] = {"persistentVolumeClaim": {"claimName": "data"}}
    if ephemeral:
        source = {"ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
    containers = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "100m"}}}]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "db"},
        "spec": {"containers": containers, "volumes": [{"name": "v", **source}]},
    }
    return [POOL, pod, *([] if ephemeral else [claim])]


@pytest.mark.parametrize(
    ("objects", "what"),
    [
        pytest.param(database("gp3"), "StorageClass gp3 is not in the files", id="a claim"),
        pytest.param(
            database("gp3", ephemeral=True), "StorageClass gp3 is not in the files", id="an ephemeral volume"
        ),
        pytest.param(
            database(None), "A default StorageClass is not in the files", id="a claim that names no class"
        ),
    ],
)
def test_a_missing_class_is_told_with_what_helps(objects: list[dict[str, Any]], what: str) -> None:
    """The pod has no place, and the option that gives it one is named; with it the pod has a place."""
    refused, placed = run(objects=objects), run("--assume-storage-classes", "--strict", objects=objects)

    assert f"{what}: {HINT}" in " ".join(refused.stdout.split())
    assert "1 without a place" in refused.stdout
    assert (placed.exit_code, HINT in placed.stdout) == (0, False)


def test_a_class_in_the_files_is_not_missed() -> None:
    """Only what is not there is assumed."""
    given = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "gp3"},
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "Immediate",
    }
    found = run("--assume-storage-classes", objects=[*database("gp3"), given])

    assert "binds claims before pods are placed" in " ".join(found.stdout.split())
    assert HINT not in found.stdout
