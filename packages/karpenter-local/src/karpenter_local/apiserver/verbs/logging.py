"""
Logs of pods that stand for a process with a log file: the operator of this cluster, above all.

Other pods run nothing and have no logs. Which file belongs to a pod is decided where the cluster is started.
Lines of the operator carry their time, by which ``--since`` selects; lines without one go with the line
before.
"""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from karpenter.kube.rest import Response
from karpenter_local.apiserver import errors
from karpenter_local.apiserver.verbs.refusing import refusal

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from pathlib import Path

    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.request import RequestInfo

CONTENT_TYPE = "text/plain"
_PERIOD = 0.25
"""Seconds between two looks at a file that is followed."""
_LONGEST_LOOK = 16 * 1024 * 1024
"""Bytes at the end of a file that are read at most."""
_TIME = re.compile(rb'"time": ?"(?P<time>[^"]+)"|^(?P<start>\d{4}-\d\d-\d\dT[\d:.]+Z)')


class LogStream:
    """The lines of a log that are there, and those that come."""

    content_type = CONTENT_TYPE

    def __init__(self, path: Path, first: Sequence[bytes], offset: int) -> None:
        self._path = path
        self._first = first
        self._offset = offset

    async def batches(self) -> AsyncGenerator[Sequence[bytes], None]:
        """Yield lines, as many at a time as there are."""
        if self._first:
            yield self._first
        rest = b""
        while True:
            await asyncio.sleep(_PERIOD)
            try:
                more = await asyncio.to_thread(_read, self._path, self._offset)
            except OSError:
                return
            self._offset += len(more)
            *lines, rest = (rest + more).split(b"\n")
            if lines:
                yield lines


def logs(backend: Backend, call: RequestInfo) -> Response | LogStream:
    """
    Show the log of a pod.

    Raises:
        APIStatusError: there is no such pod, or it has no logs.
    """
    entry = backend.entry(call.resource, call.namespace, call.name)
    path = backend.log_of(entry.object()) if entry is not None and backend.log_of is not None else None
    if path is None or not path.is_file():
        raise refusal(backend, call)
    if call.flag("previous"):
        raise errors.bad_request(f'previous terminated container in pod "{call.name}" not found')
    offset = max(0, path.stat().st_size - _LONGEST_LOOK)
    raw = _read(path, offset)
    whole, _, _ = raw.rpartition(b"\n")
    lines = _select(whole.split(b"\n") if whole else [], call, backend.clock.now())
    if call.flag("follow"):
        return LogStream(path, lines, offset + (len(whole) + 1 if whole else 0))
    body = b"\n".join((*lines, b"")) if lines else b""
    most = call.request.parameter("limitBytes")
    if most.isdigit():
        body = body[: int(most)]
    return Response(status=200, headers=(("content-type", CONTENT_TYPE),), body=body)


def _read(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read()


def _select(lines: list[bytes], call: RequestInfo, now: datetime) -> list[bytes]:
    since, seconds = call.request.parameter("sinceTime"), call.request.parameter("sinceSeconds")
    begins = None
    if seconds.isdigit():
        begins = now - timedelta(seconds=int(seconds))
    elif since:
        begins = _moment(since)
    if begins is not None:
        first = next((i for i, line in enumerate(lines) if _is_after(line, begins)), len(lines))
        lines = lines[first:]
    last = call.request.parameter("tailLines")
    if last.isdigit():
        lines = lines[len(lines) - min(int(last), len(lines)) :]
    return lines


def _is_after(line: bytes, begins: datetime) -> bool:
    found = _TIME.search(line)
    if found is None:
        return False
    moment = _moment((found["time"] or found["start"]).decode(errors="replace"))
    return moment is not None and moment >= begins


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
