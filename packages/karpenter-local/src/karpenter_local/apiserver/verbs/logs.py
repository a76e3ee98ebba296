"""
What a container has written, for pods that have a process on this machine.

Nodes are simulated, and so most pods have no log. The operator that is installed as a Deployment runs as a
process (:mod:`karpenter_local.deployed`), which says here where its output is; the operator that runs with
the cluster is found by its pod. Its lines carry their time, by which ``--since`` selects; lines without one
go with the line before, and times are not added to lines.
"""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.kube.transport import Response
from karpenter_local.apiserver import errors
from karpenter_local.apiserver.verbs.refusing import refusal

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.entry import Object
    from karpenter_local.apiserver.request import RequestInfo

# kubectl asks without a type, and real servers answer with text:
# https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#get-read-log-of-the-specified-pod
TEXT: Final = (("content-type", "text/plain"),)
_TIME: Final = re.compile(rb'"time": ?"(?P<time>[^"]+)"|^(?P<start>\d{4}-\d\d-\d\dT[\d:.]+Z)')
_MAX_TAIL_BYTES: Final = 16 * 1024 * 1024
"""Bytes at the end of a file that are read at most."""

_FOLLOW_SECONDS: Final = 0.25
"""Seconds between two looks at a log that is followed."""


class ContainerLog(msgspec.Struct, frozen=True, kw_only=True):
    """The output of a pod's container."""

    path: Path | None = None
    begin: int = 0
    """Where in the file the output of this pod begins; what is before is another pod's."""

    text: str = ""
    """The output of a container that has no file."""

    def size(self) -> int:
        """Return how many bytes its file has."""
        try:
            return self.path.stat().st_size if self.path is not None else 0
        except FileNotFoundError:
            return 0

    def read(self, begin: int | None = None) -> bytes:
        """Return what was written, all of it or from some byte of the file on."""
        if self.path is None:
            return self.text.encode() if begin is None else b""
        try:
            with self.path.open("rb") as file:
                latest = max(self.begin, self.path.stat().st_size - _MAX_TAIL_BYTES)
                file.seek(latest if begin is None else begin)
                return file.read()
        except FileNotFoundError:
            return b""


class FollowedLog:
    """A log that goes on, until its pod ends or the client leaves."""

    content_type = "text/plain"

    def __init__(self, backend: Backend, pod: Object, found: ContainerLog, call: RequestInfo) -> None:
        self._backend = backend
        self._pod = pod
        self._found = found
        text = found.read()
        # The rest of a line comes with its end.
        self._at = (found.size() if found.path is not None else 0) - (len(text) - text.rfind(b"\n") - 1)
        self._first = _selected(text[: text.rfind(b"\n") + 1], call, backend.clock.now())

    async def batches(self) -> AsyncGenerator[Sequence[bytes], None]:
        if lines := self._first.splitlines():
            yield lines
        while log_of_pod(self._backend, self._pod) is not None:
            await asyncio.sleep(_FOLLOW_SECONDS)
            new = self._found.read(self._at)
            new = new[: new.rfind(b"\n") + 1]
            self._at += len(new)
            if new:
                yield new.splitlines()

    async def lines(self) -> AsyncGenerator[bytes, None]:
        async for batch in self.batches():
            for line in batch:
                yield line


def log_of_pod(backend: Backend, pod: Object) -> ContainerLog | None:
    """Return where the output of a pod is; None where it has none."""
    found = backend.container_logs.get(pod["metadata"]["uid"])
    if found is None and backend.log_of is not None:
        path = backend.log_of(pod)
        found = ContainerLog(path=path) if path is not None and path.is_file() else None
    return found


def read_log(backend: Backend, call: RequestInfo) -> Response | FollowedLog:
    """
    Answer with the log of a pod.

    Raises:
        APIStatusError: there is no such pod, it has no log, or times are asked for.
    """
    entry = backend.entry(call.resource, call.namespace, call.name)
    found = log_of_pod(backend, entry.object()) if entry is not None else None
    if entry is None or found is None:
        raise refusal(backend, call)
    if call.flag("timestamps"):
        raise errors.bad_request("timestamps: the embedded cluster keeps no times of lines")
    if call.flag("previous"):
        # The sentence of kubelets.
        container = call.request.parameter("container")
        raise errors.bad_request(
            f'previous terminated container "{container}" in pod "{call.name}" not found'
        )
    most = _number(call, "limitBytes")
    if call.flag("follow"):
        return FollowedLog(backend, entry.object(), found, call)
    text = found.read()
    text = _selected(text[: text.rfind(b"\n") + 1], call, backend.clock.now())
    return Response(status=200, headers=TEXT, body=text if most is None else text[:most])


def _selected(text: bytes, call: RequestInfo, now: datetime) -> bytes:
    """Return the lines that a request asks for: since a time, and the last of them."""
    lines = text.splitlines(keepends=True)
    seconds, since = _number(call, "sinceSeconds"), call.request.parameter("sinceTime")
    begins = now - timedelta(seconds=seconds) if seconds is not None else _moment(since)
    if begins is not None:
        first = next((number for number, line in enumerate(lines) if _is_after(line, begins)), len(lines))
        lines = lines[first:]
    last = _number(call, "tailLines")
    return b"".join(lines if last is None else lines[len(lines) - min(last, len(lines)) :])


def _is_after(line: bytes, begins: datetime) -> bool:
    found = _TIME.search(line)
    moment = _moment((found["time"] or found["start"]).decode(errors="replace")) if found else None
    return moment is not None and moment >= begins


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _number(call: RequestInfo, name: str) -> int | None:
    """Return a query parameter that is a whole number; None where it is not given."""
    text = call.request.parameter(name)
    if not text:
        return None
    if not text.isdecimal():
        raise errors.bad_request(f"{name}: {text!r} is not a whole number of at least zero")
    return int(text)
