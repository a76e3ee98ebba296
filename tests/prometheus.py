"""A real Prometheus and promtool, for tests and pictures that ask them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

MISSING = "no prometheus and promtool on the PATH; hint: apt-get install prometheus"
_STARTED_WITHIN = 30.0


class Series(NamedTuple):
    """One series of an answer: its labels, and its values with their times."""

    labels: dict[str, str]
    points: tuple[tuple[float, float], ...]


def program(name: str) -> str:
    """Return where a program is; skip the test where there is none."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(MISSING)
    return found


def promtool(*words: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run promtool, and return what came of it."""
    return subprocess.run(  # noqa: S603  our own words
        [program("promtool"), *map(str, words)], input=stdin, capture_output=True, text=True, check=False
    )


class Prometheus:
    """A running Prometheus, and the questions that can be put to it."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    async def query(self, expr: str, at: float | None = None) -> list[Series]:
        """Return the answer to an expression at a moment, now if none is given."""
        moment = {"time": str(at)} if at is not None else {}
        data = await self._ask("query", {"query": expr, **moment})
        if data["resultType"] == "scalar":
            return [Series({}, (_point(data["result"]),))]
        return [Series(each["metric"], (_point(each["value"]),)) for each in data["result"]]

    async def query_range(self, expr: str, start: float, end: float, step: float) -> list[Series]:
        """Return the answers to an expression over some time."""
        words = {"query": expr, "start": str(start), "end": str(end), "step": str(step)}
        data = await self._ask("query_range", words)
        return [Series(each["metric"], tuple(map(_point, each["values"]))) for each in data["result"]]

    async def alerts(self) -> list[dict[str, Any]]:
        """Return the alerts that fire or are about to."""
        return list((await self._ask("alerts", {}))["alerts"])

    async def _ask(self, what: str, words: dict[str, str]) -> dict[str, Any]:
        async with self._session.post(f"{self._url}/api/v1/{what}", data=words) as response:
            found = json.loads(await response.text())
        if found["status"] != "success":
            raise AssertionError(f"{words.get('query', what)}: {found['error']}")
        return dict(found["data"])


def _point(pair: list[Any]) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])


@asynccontextmanager
async def running(
    home: Path, config: dict[str, Any], *, retention: str = "100y"
) -> AsyncIterator[Prometheus]:
    """Run Prometheus with a configuration, and its data in a folder; it ends with the context."""
    (home / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        program("prometheus"),
        f"--config.file={home / 'prometheus.yml'}",
        f"--storage.tsdb.path={home / 'data'}",
        f"--storage.tsdb.retention.time={retention}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--query.lookback-delta=5m",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "NO_PROXY": "127.0.0.1"},
    )
    url = f"http://127.0.0.1:{port}"
    try:
        async with aiohttp.ClientSession() as session:
            await asyncio.wait_for(_ready(session, url), _STARTED_WITHIN)
            yield Prometheus(url, session)
    finally:
        process.terminate()
        await process.wait()


async def _ready(session: aiohttp.ClientSession, url: str) -> None:
    while True:
        try:
            async with session.get(f"{url}/-/ready") as response:
                if response.ok:
                    return
        except aiohttp.ClientConnectionError:
            pass
        await asyncio.sleep(0.2)
