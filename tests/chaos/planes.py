"""
The control planes that faults are injected into, as processes that can be killed and started again.

``python -m tests.chaos.planes DIRECTORY`` is the embedded one: API server, controllers and scheduler in one
process, with its objects in a directory. Kubelets run elsewhere, so that they outlive it as they do in life.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from karpenter_local import kubeconfig
from karpenter_local.cluster import LocalCluster
from karpenter_local.controlplane import RealControlPlane, find_binaries

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from karpenter.base.queue import Supervisor
    from karpenter_local.controlplane.components import Command
    from karpenter_local.kubelet.hollownodes import HollowNodes

READY_WITHIN = 60.0


class KillablePlane(RealControlPlane):
    """etcd and the programs of Kubernetes, each of which can be killed and started again."""

    name = "real"
    kills = ("kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler")

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, binaries=find_binaries())
        self._commands: dict[str, tuple[Command, tuple[str, ...], ssl.SSLContext]] = {}

    async def kill(self, name: str) -> None:
        """Kill a component, and wait until it has ended."""
        (process,) = [each for each in self._processes if each.name == name]
        os.kill(process.pid, signal.SIGKILL)
        self._processes.remove(process)
        await process.stop()

    async def revive(self, name: str) -> None:
        """Start a component again with the arguments that it had, and wait until it is ready."""
        command, probes, trust = self._commands[name]
        await self._run(name, command, *probes, trust=trust)

    async def _run(self, name: str, command: Command, *probes: str, trust: ssl.SSLContext) -> None:
        self._commands[name] = command, probes, trust
        await super()._run(name, command, *probes, trust=trust)


class EmbeddedPlane:
    """Our own control plane in a process of its own, whose objects are in a directory."""

    name = "embedded"
    kills = ("karpenter-local",)

    def __init__(self, directory: Path) -> None:
        self.kubeconfig = directory / "kubeconfig"
        self._directory = directory
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, and wait until it answers."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self.kubeconfig.unlink(missing_ok=True)
        command = (sys.executable, "-m", __spec__.name, str(self._directory))
        with (self._directory / "log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
        ends = time.monotonic() + READY_WITHIN
        while not self.kubeconfig.exists():
            assert self._process.returncode is None, f"the control plane ended: {self._directory / 'log'}"
            assert time.monotonic() < ends, "the control plane did not start"
            await asyncio.sleep(0.05)

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            await self._process.wait()

    async def kill(self, _name: str) -> None:
        """Kill it, and wait until it has ended."""
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    async def revive(self, _name: str) -> None:
        await self.start()


class _NoKubelets:
    """Kubelets of an embedded cluster whose kubelets are another process."""

    def start(self, _supervisor: Supervisor) -> None: ...


async def _serve(directory: Path) -> None:
    cluster = LocalCluster(data_dir=directory / "state", http=True)
    none: Callable[[], HollowNodes] = _NoKubelets  # type: ignore[assignment]
    cluster.hollow_nodes = none()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with cluster:
        kubeconfig.write(directory / "kubeconfig", cluster.kubeconfig())
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
