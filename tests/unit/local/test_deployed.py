"""A pod of an installed operator, as a process."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

from karpenter.kube.errors import ServerFailed
from karpenter.kube.targets import untyped
from karpenter_local import deployed as module
from karpenter_local.cluster import LocalCluster
from karpenter_local.deployed import container_environment, deployed, process_environment

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PODS = untyped("v1", "pods", kind="Pod", namespaced=True)
ROLE = "arn:aws:iam::123456789012:role/KarpenterControllerRole-blue"
POD: dict[str, Any] = {
    "metadata": {"name": "karpenter-0", "namespace": "kube-system", "uid": "1"},
    "spec": {
        "containers": [
            {
                "env": [
                    {"name": "CLUSTER_NAME", "value": "blue"},
                    {"name": "METRICS_PORT", "value": "8080"},
                    {"name": "WHERE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                    {
                        "name": "MEMORY_LIMIT",
                        "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}},
                    },
                ]
            }
        ]
    },
}


def test_the_environment_of_a_container() -> None:
    """Values and fields of the pod are there; what only a kubelet knows is not."""
    assert container_environment(POD) == {
        "CLUSTER_NAME": "blue",
        "METRICS_PORT": "8080",
        "WHERE": "kube-system",
    }


def test_a_role_instead_of_keys() -> None:
    """With a role, the keys of the person who started the cluster are not used."""
    around = {"PATH": "/bin", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_REGION": "r"}
    found = process_environment(POD, kubeconfig="k", role=ROLE, token="t", around=around)

    assert found == {
        "PATH": "/bin",
        "AWS_REGION": "r",
        "CLUSTER_NAME": "blue",
        "WHERE": "kube-system",
        "METRICS_PORT": "0",
        "HEALTH_PROBE_PORT": "0",
        "KUBECONFIG": "k",
        "LEADER_ELECTION_NAMESPACE": "kube-system",
        "AWS_ROLE_ARN": ROLE,
        "AWS_WEB_IDENTITY_TOKEN_FILE": "t",
    }


def test_keys_where_there_is_no_role() -> None:
    """Without a role the process has the keys that are around."""
    found = process_environment(POD, kubeconfig="k", role="", token="t", around={"AWS_ACCESS_KEY_ID": "x"})

    assert found["AWS_ACCESS_KEY_ID"] == "x"
    assert "AWS_ROLE_ARN" not in found


async def log_of(cluster: LocalCluster, name: str) -> str:
    """Return the log of a pod, as soon as it has one."""
    for _ in range(100):
        try:
            return await cluster.client.log(name, namespace="default", lines=9)
        except ServerFailed:
            await asyncio.sleep(0.1)
    raise AssertionError(name)


def test_the_process_lives_as_long_as_the_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process begins with the first pod that runs, and ends with it; other pods get none."""
    program = "import os, time; print(os.environ['CLUSTER_NAME'], flush=True); time.sleep(60)"
    monkeypatch.setattr(module, "COMMAND", (sys.executable, "-c", program))
    said = tmp_path / "karpenter.log"
    read: list[str] = []

    async def lines(count: int) -> None:
        for _ in range(200):
            if said.exists() and len(said.read_text().splitlines()) >= count:
                return
            await asyncio.sleep(0.1)

    async def scenario() -> None:
        async with LocalCluster(seed=1) as cluster:
            await cluster.add_nodes(1)
            logs = cluster.server.backend.container_logs
            async with deployed(cluster.client, kubeconfig="", environment={}, logs=tmp_path, published=logs):
                for name in ("karpenter-0", "karpenter-1"):
                    body = {
                        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "karpenter"}},
                        "spec": {
                            "containers": [
                                {"name": "c", "image": "i", "env": [{"name": "CLUSTER_NAME", "value": name}]}
                            ]
                        },
                    }
                    await cluster.client.create(PODS, body, namespace="default")
                await lines(1)
                read.extend([await log_of(cluster, name) for name in ("karpenter-0", "karpenter-1")])
                await cluster.client.delete(PODS, "karpenter-0", namespace="default")
                await lines(2)
                read.append(await log_of(cluster, "karpenter-1"))

    asyncio.run(scenario())

    assert said.read_text() == "karpenter-0\nkarpenter-1\n"
    assert read[0] == "karpenter-0\n"
    assert read[1].startswith("This replica stands by")
    assert read[2] == "karpenter-1\n"
