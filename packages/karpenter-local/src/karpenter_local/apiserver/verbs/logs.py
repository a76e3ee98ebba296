"""
What a container has written, for pods that have a process on this machine.

Nodes are simulated, and so most pods have no log. The operator that is installed as a Deployment runs as a
process (:mod:`karpenter_local.deployed`), which says here where its output is. Lines have no times of their
own, so what asks for times is refused.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.kube.rest import Response
from karpenter_local.apiserver import errors
from karpenter_local.apiserver.verbs.refusing import refusal

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.request import RequestInfo

# kubectl asks without a type, and real servers answer with text:
# https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#get-read-log-of-the-specified-pod
TEXT: Final = (("content-type", "text/plain"),)
_TIMES: Final = ("sinceSeconds", "sinceTime", "timestamps")
_EVERY: Final = 0.5
"""Seconds between two looks at a log that is followed."""


class ContainerLog(msgspec.Struct, frozen=True, kw_only=True):
    """The output of a pod's container."""

    path: Path | None = None
    begin: int = 0
    """Where in the file the output of this pod begins; what is before is another pod's."""

    text: str = ""
    """The output of a container that has no file."""

    def read(self, begin: int | None = None) -> bytes:
        """Return what was written, all of it or from some byte of the file on."""
        if self.path is None:
            return self.text.encode() if begin is None else b""
        try:
            with self.path.open("rb") as file:
                file.seek(self.begin if begin is None else begin)
                return file.read()
        except FileNotFoundError:
            return b""


class FollowedLog:
    """A log that goes on, until its pod ends or the client leaves."""

    def __init__(self, backend: Backend, uid: str, found: ContainerLog, *, lines: int | None) -> None:
        self._backend = backend
        self._uid = uid
        self._found = found
        text = found.read()
        text = text[: text.rfind(b"\n") + 1]  # the rest of a line comes with its end
        self._first = _last(text, lines)
        self._at = found.begin + len(text)

    async def batches(self) -> AsyncGenerator[Sequence[bytes], None]:
        """Yield lines, as many at a time as there are."""
        if lines := self._first.splitlines():
            yield lines
        while self._uid in self._backend.container_logs:
            await asyncio.sleep(_EVERY)
            new = self._found.read(self._at)
            new = new[: new.rfind(b"\n") + 1]
            self._at += len(new)
            if new:
                yield new.splitlines()

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Yield lines one by one."""
        async for batch in self.batches():
            for line in batch:
                yield line


def read_log(backend: Backend, call: RequestInfo) -> Response | FollowedLog:
    """
    Answer with the log of a pod.

    Raises:
        APIStatusError: there is no such pod, it has no log, or times are asked for.
    """
    entry = backend.entry(call.resource, call.namespace, call.name)
    uid = entry.object()["metadata"]["uid"] if entry is not None else ""
    found = backend.container_logs.get(uid)
    if found is None:
        raise refusal(backend, call)
    if asked := [name for name in _TIMES if call.request.parameter(name) not in {"", "false"}]:
        raise errors.bad_request(f"{asked[0]}: the embedded cluster keeps no times of lines")
    if call.flag("previous"):
        # The sentence of kubelets.
        container = call.request.parameter("container")
        raise errors.bad_request(
            f'previous terminated container "{container}" in pod "{call.name}" not found'
        )
    lines, most = _number(call, "tailLines"), _number(call, "limitBytes")
    if call.flag("follow"):
        return FollowedLog(backend, uid, found, lines=lines)
    text = _last(found.read(), lines)
    return Response(status=200, headers=TEXT, body=text if most is None else text[:most])


def _last(text: bytes, lines: int | None) -> bytes:
    if lines is None:
        return text
    return b"".join(text.splitlines(keepends=True)[-lines:]) if lines else b""


def _number(call: RequestInfo, name: str) -> int | None:
    """Return a query parameter that is a whole number; None where it is not given."""
    text = call.request.parameter(name)
    if not text:
        return None
    if not text.isdecimal():
        raise errors.bad_request(f"{name}: {text!r} is not a whole number of at least zero")
    return int(text)
