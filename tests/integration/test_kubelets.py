"""Simulated kubelets on a real control plane: its controllers and its scheduler, our nodes."""

from pathlib import Path
from random import Random

import pytest

from karpenter.api.node import Node
from karpenter.base.clock import SystemClock
from karpenter.kube.client import Client
from karpenter.kube.http import HttpTransport
from karpenter.kube.kubeconfig import from_kubeconfig
from karpenter_local.controllers.informers import DEPLOYMENTS
from karpenter_local.controlplane import RealControlPlane, find_binaries
from karpenter_local.kubelet.machine import demo_node
from karpenter_local.kubelets import Kubelets
from tests.integration.settling import until

REAL_TIME = True


@pytest.mark.controlplane
async def test_a_deployment_runs_on_simulated_nodes(tmp_path: Path) -> None:
    """Nodes join, a deployment becomes available on them, and a node that is unready is noticed."""
    async with RealControlPlane(tmp_path, binaries=find_binaries()) as plane:
        found = await from_kubeconfig(str(plane.kubeconfig), environ={}, clock=SystemClock())
        client = Client(HttpTransport(found.endpoint, found.credentials), chance=Random(1))  # noqa: S311  jitter
        async with Kubelets(client) as kubelets:
            for number in (1, 2):
                await client.create(Node, demo_node(number, zones=("a", "b")))
            template = {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "pause"}]},
            }
            spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
            await client.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec}, namespace="default")

            deployment = lambda: client.get(DEPLOYMENTS, "web", namespace="default")  # noqa: E731
            await until(deployment, lambda each: each.get("status", {}).get("availableReplicas") == 3)
            kubelets.hollow_nodes.make("node-1", "unready", why="runtime is down")
            node = lambda: client.get(Node, "node-1")  # noqa: E731
            await until(
                node, lambda each: "node.kubernetes.io/not-ready" in [t.key for t in each.spec.taints]
            )
        await client.close()
