"""
Replicas of the operator as processes, and which of them leads.

``python -m tests.chaos.replicas KUBECONFIG`` is one replica: as ``karpenter run``, with a lease so short that
a failover takes seconds. What it logs comes through a pipe, so that a limit on its files is none on its log.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from karpenter.base.clock import SystemClock
from karpenter.cli.run import refused
from karpenter.kube.leaderelection import Terms
from karpenter.operator.options import parse_settings
from karpenter.operator.run import OperatorTarget, run
from karpenter.telemetry.logging import Logs

if TYPE_CHECKING:
    from collections.abc import Mapping

LEASE_SECONDS = 10.0
SETTINGS = {"metrics-port": "0", "health-probe-port": "0", "batch-idle-duration": "200ms"}
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
"""Debian's package libfaketime: https://packages.debian.org/libfaketime"""


class Use(NamedTuple):
    """What a process uses now."""

    resident: int
    files: int


class ReplicaProcess:
    """One replica."""

    def __init__(self, directory: Path, number: int, environment: Mapping[str, str]) -> None:
        self.number = number
        self.flight = directory / f"flight-{number}"
        self.log = directory / f"replica-{number}.log"
        self.clock = directory / f"clock-{number}"
        self._environment = {**os.environ, **environment, "FLIGHT_RECORD": str(self.flight)}
        self._child: asyncio.subprocess.Process
        self._reader: asyncio.Task[None]
        self.lines: list[str] = []
        self.leads = False

    async def start(self, kubeconfig: Path, *, own_clock: bool = False) -> None:
        """Start it; with a clock of its own that :meth:`jump` moves."""
        environment = dict(self._environment)
        if own_clock:
            self.clock.write_text("+0\n")
            environment |= {"LD_PRELOAD": str(FAKETIME), "FAKETIME_TIMESTAMP_FILE": str(self.clock)}
            environment |= {"FAKETIME_CACHE_DURATION": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        self._child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", __spec__.name, str(kubeconfig)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
            limit=2**24,
        )
        self._reader = asyncio.get_running_loop().create_task(self._read())

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def runs(self) -> bool:
        return self._child.returncode is None

    def signal(self, number: int) -> None:
        """Send a signal to it, if it runs."""
        if self.runs:
            self._child.send_signal(number)

    async def ended(self, within: float = 30.0) -> int:
        async with asyncio.timeout(within):
            code = await self._child.wait()
            await self._reader
        self.leads = False
        return code

    async def kill(self) -> None:
        """Kill it, and wait until it has ended."""
        self.signal(signal.SIGKILL)
        await self.ended()

    def jump(self, seconds: int) -> None:
        """Move its clock, from that of the machine."""
        self.clock.write_text(f"{seconds:+d}\n")

    def fill_disk(self) -> None:
        """Let no file of it grow from now on."""
        size = self.flight.stat().st_size if self.flight.exists() else 0
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (size + 1, size + 1))

    def use(self) -> Use | None:
        """Return what it uses; None once it has ended."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
            files = sum(1 for _ in Path(f"/proc/{self.pid}/fd").iterdir())
        except (OSError, IndexError):
            return None
        return Use(pages * os.sysconf("SC_PAGE_SIZE"), files)

    async def _read(self) -> None:
        assert self._child.stdout is not None
        with self.log.open("ab") as kept:
            async for line in self._child.stdout:
                kept.write(line)
                kept.flush()
                text = line.decode(errors="replace")
                if "operator.leads" in text:
                    self.leads = True
                if "Traceback" in text or "reconciler.crashed" in text:
                    self.lines.append(text.strip())


class ReplicaSetOfOperators:
    """Two replicas, of which one leads."""

    def __init__(self, directory: Path, kubeconfig: Path, environment: Mapping[str, str]) -> None:
        self._directory = directory
        self._kubeconfig = kubeconfig
        self._environment = environment
        self.all: list[ReplicaProcess] = []
        self.past: list[ReplicaProcess] = []

    async def add(self, *, own_clock: bool = False) -> ReplicaProcess:
        made = ReplicaProcess(self._directory, len(self.past) + len(self.all) + 1, self._environment)
        await made.start(self._kubeconfig, own_clock=own_clock)
        self.all.append(made)
        return made

    async def keep(self, count: int = 2) -> None:
        """Forget those that have ended, and start others in their place."""
        for each in [each for each in self.all if not each.runs]:
            await each.ended()
            self.all.remove(each)
            self.past.append(each)
        while len(self.all) < count:
            await self.add()

    async def leader(
        self, *, other_than: ReplicaProcess | None = None, within: float = 90.0
    ) -> ReplicaProcess:
        """Return the replica that leads; wait until there is one."""
        async with asyncio.timeout(within):
            while True:
                await self.keep()
                for each in self.all:
                    if each.leads and each.runs and each is not other_than:
                        return each
                await asyncio.sleep(0.05)

    async def stop(self) -> list[int]:
        """End all in order, and return their exit codes."""
        for each in self.all:
            each.signal(signal.SIGCONT)
            each.signal(signal.SIGTERM)
        return [await each.ended() for each in self.all]


def main(kubeconfig: str) -> None:
    """Run until a signal comes or the lease is lost, with the exit codes of ``karpenter run``."""
    target = OperatorTarget(kubeconfig=kubeconfig, provider="aws", cluster=os.environ["CLUSTER_NAME"])
    terms = Terms(duration=LEASE_SECONDS, renew_within=LEASE_SECONDS - 2.0, retry=0.5)
    settings = parse_settings(SETTINGS, os.environ)
    with Logs(clock=SystemClock(), outputs=("stderr",)), refused():
        asyncio.run(run(settings, target, clock=SystemClock(), environ=os.environ, terms=terms))


if __name__ == "__main__":
    main(sys.argv[1])
