"""
One child process: started with its output in a file, asked whether it is ready, stopped and waited for.

A process that ends before it is ready is an error that carries the last lines it wrote, because those say
why. What the process is for is not known here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

POLL_SECONDS = 0.05
"""Seconds between two questions whether a process is ready."""

STOP_SECONDS = 10.0
"""Seconds that a process has to end after it was asked to."""

LAST_LINES = 12


class ProcessFailed(Exception):  # noqa: N818  reads as what happened
    """A component of the control plane ended, or did not become ready in time."""

    def __init__(self, *, name: str, what: str, log: Path) -> None:
        written = log.read_text(errors="replace").splitlines() if log.exists() else []
        tail = "\n".join(written[-LAST_LINES:])
        super().__init__(f"{name} {what}; its last lines in {log}:\n{tail}")
        self.name = name
        self.log = log


class ComponentProcess:
    """A running program called `name`."""

    def __init__(self, name: str, child: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self.log = log
        self._child = child

    @classmethod
    async def start(cls, name: str, command: Sequence[str | Path], *, directory: Path) -> "ComponentProcess":
        """Start `command` in `directory`; its output goes to ``NAME.log`` there."""
        log = directory / f"{name}.log"
        with log.open("ab") as output:
            child = await asyncio.create_subprocess_exec(
                *command,
                cwd=directory,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,  # Ctrl-C is for us: we stop the children, in order
            )
        return cls(name, child, log)

    @property
    def pid(self) -> int:
        """The system's number for the process."""
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child.returncode is None

    async def until(self, ready: Callable[[], Awaitable[bool]], *, within: float) -> None:
        """Wait until `ready` says so.

        Raises:
            ProcessFailed: the process ended first, or `within` seconds went by.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        while not await ready():
            if not self.running:
                raise ProcessFailed(
                    name=self.name, what=f"ended with code {self._child.returncode}", log=self.log
                )
            if loop.time() > deadline:
                raise ProcessFailed(name=self.name, what=f"was not ready within {within:g} s", log=self.log)
            await asyncio.sleep(POLL_SECONDS)

    async def stop(self) -> None:
        """Ask the process to end, insist if it does not, and wait until it has."""
        if not self.running:
            return
        self._child.terminate()
        try:
            await asyncio.wait_for(self._child.wait(), STOP_SECONDS)
        except TimeoutError:
            self._child.kill()
            await self._child.wait()
