import sys
from pathlib import Path

import pytest

from karpenter_local.controlplane import process
from karpenter_local.controlplane.ports import free_ports
from karpenter_local.controlplane.process import ComponentProcess, ProcessFailed


async def start(tmp_path: Path, program: str) -> ComponentProcess:
    return await ComponentProcess.start("worker", [sys.executable, "-c", program], directory=tmp_path)


async def test_a_process_that_ends_too_early_says_why(tmp_path: Path) -> None:
    """The error carries the code and the last lines that were written."""
    worker = await start(tmp_path, "print('no such flag'); raise SystemExit(3)")

    async def never() -> bool:
        return False

    with pytest.raises(ProcessFailed, match=r"(?s)worker ended with code 3; its last lines.*no such flag"):
        await worker.until(never, within=30)


async def test_a_process_that_never_gets_ready(tmp_path: Path) -> None:
    """Waiting has an end."""
    worker = await start(tmp_path, "import time; time.sleep(60)")

    async def never() -> bool:
        return False

    with pytest.raises(ProcessFailed, match=r"was not ready within 0\.1 s"):
        await worker.until(never, within=0.1)
    await worker.stop()


async def test_stopping_waits_for_the_end(tmp_path: Path) -> None:
    """After stop there is no such process, and stopping again is nothing."""
    worker = await start(tmp_path, "import time; time.sleep(60)")

    await worker.stop()
    await worker.stop()

    assert not worker.running


async def test_a_process_that_will_not_go_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ignores the signal is killed."""
    monkeypatch.setattr(process, "STOP_SECONDS", 0.1)
    ready = tmp_path / "ready"
    worker = await start(
        tmp_path,
        "import pathlib, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"pathlib.Path({str(ready)!r}).touch(); time.sleep(60)",
    )

    async def is_ready() -> bool:
        return ready.exists()

    await worker.until(is_ready, within=30)
    await worker.stop()

    assert not worker.running


def test_free_ports_differ() -> None:
    """Ports that are asked for together are different ones."""
    assert len(set(free_ports(5))) == 5
