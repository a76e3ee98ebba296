"""``karpenter top`` and ``karpenter demo`` in a real terminal, as people see them."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
import time
import uuid
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from karpenter.api.node import Node
from karpenter.base.clock import SystemClock
from karpenter.kube.client import Client
from karpenter.kube.http import HttpTransport
from karpenter.kube.kubeconfig import find_cluster
from karpenter_local import kubeconfig
from tests.integration.serving import Running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.terminal,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux; hint: apt-get install tmux"),
]
ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
LABELS = {
    "node.kubernetes.io/instance-type": "m5.large",
    "topology.kubernetes.io/zone": "us-east-1a",
    "karpenter.sh/capacity-type": "spot",
}


class Terminal:
    """A terminal of a size, in which a command runs and a shell waits after it."""

    def __init__(self, width: int, height: int, command: str) -> None:
        self._server = f"karpenter-{uuid.uuid4()}"
        after = f"{command}; echo it ended with $?; cat"
        self._tmux("new-session", "-d", "-x", str(width), "-y", str(height), after)

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(  # noqa: S603  words of ours
            ["tmux", "-L", self._server, *words],  # noqa: S607  found on the path
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def screen(self) -> list[str]:
        return [line.rstrip() for line in self._tmux("capture-pane", "-p").splitlines()]

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def wait(self, holds: Callable[[list[str]], bool]) -> list[str]:
        """Wait until the screen is as it should be, and return it."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            lines = self.screen()
            if holds(lines):
                return lines
            time.sleep(0.1)
        raise AssertionError("\n".join(self.screen()))

    def state(self) -> tuple[str, str]:
        """Return whether the cursor is shown, and whether the other screen is."""
        cursor, other = self._tmux("display", "-p", "#{cursor_flag} #{alternate_on}").split()
        return cursor, other

    def close(self) -> None:
        """End the terminal and what runs in it."""
        self._tmux("kill-server")


@pytest.fixture
def terminal() -> Iterator[Callable[[int, int, str], Terminal]]:
    """A function that opens a terminal; all are closed in the end."""
    opened: list[Terminal] = []

    def run(width: int, height: int, command: str) -> Terminal:
        path = shlex.quote(os.pathsep.join(sys.path))
        # The size is that of the terminal, whatever the tests are run with.
        clean = f"env -u COLUMNS -u LINES PYTHONPATH={path}"
        opened.append(Terminal(width, height, f"cd {ROOT} && {clean} {command}"))
        return opened[-1]

    yield run
    for each in opened:
        each.close()


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of a cluster without Karpenter."""
    running = Running()
    front = running.front
    assert front is not None
    path = tmp_path / "kubeconfig"
    text = kubeconfig.render(
        name="embedded", url=front.url, authority=front.certificates.authority, token=front.token
    )
    kubeconfig.write(path, text)
    yield path
    running.stop()


def _add_node(config: Path, name: str) -> None:
    async def add() -> None:
        cluster = await find_cluster(environ={}, clock=SystemClock(), kubeconfig=str(config))
        client = Client(HttpTransport(cluster.endpoint, cluster.credentials), chance=Random(1))  # noqa: S311  retries
        room = {"cpu": "2", "memory": "8Gi", "pods": "29"}
        await client.create(
            Node, {"metadata": {"name": name, "labels": LABELS}, "status": {"allocatable": room}}
        )
        await client.close()

    asyncio.run(add())


def _shows(word: str) -> Callable[[list[str]], bool]:
    return lambda lines: any(word in line for line in lines)


def test_a_live_cluster_at_80_by_24(terminal: Callable[[int, int, str], Terminal], config: Path) -> None:
    """Nodes and prices of a cluster without Karpenter fit; a new node appears; Ctrl-C leaves it clean."""
    _add_node(config, "first")
    shown = terminal(80, 24, f"{sys.executable} -m karpenter.cli top --kubeconfig {config}")
    lines = shown.wait(_shows("m5.large/$0.0"))
    assert lines[0].startswith("1 nodes")
    assert "/hour | $" in lines[0]
    assert any(line.startswith("first") and "Spot" in line for line in lines)
    _add_node(config, "second")
    shown.wait(_shows("second"))
    shown.press("C-c")
    lines = shown.wait(_shows("it ended with 0"))
    assert [line for line in lines if line] == ["it ended with 0"]
    assert shown.state() == ("1", "0")


def test_a_cluster_of_files_at_160_by_50(terminal: Callable[[int, int, str], Terminal]) -> None:
    """A wide screen has bars, pods, what would go, pool and zone; keys list why nodes stay, and end it."""
    moment = "--now 2026-03-02T12:00:00Z"
    shown = terminal(160, 50, f"{sys.executable} -m karpenter.cli top -f examples/top {moment}")
    lines = shown.wait(_shows("goes: Underutilized"))
    assert lines[0].startswith("11 nodes")
    (row,) = [line for line in lines if line.startswith("ip-10-0-2-90") and "█" in line]
    for words in ("█", " 51%  (2/58 pods)", "r5.xlarge/$0.2520", "On-Demand", "general", "us-east-1b"):
        assert words in row
    assert any(line.startswith("llm-0        NodePool gpu: the pod is too large") for line in lines)
    assert any("karpenter.sh/do-not-disrupt is true" in line for line in lines)
    shown.press("Tab")
    shown.wait(_shows("tab: stays"))
    shown.wait(_shows("It would go now (Underutilized), which saves $281.92 a month."))
    shown.press("5")
    shown.wait(_shows("1,953.47       100.0%"))
    shown.press("q")
    shown.wait(_shows("it ended with 0"))
    assert shown.state() == ("1", "0")


def test_the_demo_at_80_by_24(terminal: Callable[[int, int, str], Terminal]) -> None:
    """It says at once that it starts, types and prices are whole, and Ctrl-C leaves the terminal clean."""
    call = "from karpenter_local.cli.demo import demo; demo()"
    shown = terminal(80, 24, f"{sys.executable} -c {shlex.quote(call)}")
    shown.wait(_shows("Starting"))
    shown.wait(_shows("amd64-linux/$0.1086  On-Demand"))
    shown.press("C-c")
    lines = shown.wait(_shows("it ended with"))
    assert not any("╭" in line or "cpu" in line for line in lines)
    assert shown.state() == ("1", "0")
