"""Programs of ours as processes of their own, and a client for the cluster that they serve."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Any

from karpenter.base.clock import SystemClock
from karpenter.kube.client import Client
from karpenter.kube.http import HttpTransport
from karpenter.kube.kubeconfig import from_kubeconfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

CLASS = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[Client]:
    """Talk to the cluster of a kubeconfig."""
    cluster = await from_kubeconfig(str(kubeconfig), environ={}, clock=SystemClock())
    client = Client(
        HttpTransport(cluster.endpoint, cluster.credentials),
        chance=Random(1),  # noqa: S311  jitter
        manager="kubectl",
    )
    try:
        yield client
    finally:
        await client.close()


async def started(*arguments: str, log: Path, **environment: str) -> asyncio.subprocess.Process:
    """Start ``karpenter`` with these arguments; what it says goes to a file."""
    with log.open("ab") as output:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "karpenter.cli",
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **environment},
        )


def pool(**disruption: str) -> dict[str, Any]:
    """Return a NodePool of Linux machines on demand."""
    wanted = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    wanted["karpenter.sh/capacity-type"] = "on-demand"
    requirements = [{"key": key, "operator": "In", "values": [value]} for key, value in wanted.items()]
    return {
        "metadata": {"name": "default"},
        "spec": {
            "template": {"spec": {"nodeClassRef": CLASS, "requirements": requirements}},
            "disruption": {"consolidateAfter": "Never", **disruption},
        },
    }


def inflate(replicas: int, *, cpu: str = "1", **pod: Any) -> dict[str, Any]:
    """Return the Deployment that every tutorial scales."""
    labels = {"app": "inflate"}
    container = {"name": "inflate", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    template = {
        "metadata": {"labels": labels},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container], **pod},
    }
    return {
        "metadata": {"name": "inflate"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }
