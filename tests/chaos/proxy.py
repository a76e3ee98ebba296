"""
A proxy in front of the API server that breaks what passes: only operators reach the server through it.

Which answers are broken is chance. A watch is cut, delayed or ended as well as any other answer.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from enum import StrEnum
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp import web

from karpenter_local import kubeconfig
from karpenter_local.certificates import LOOPBACK, server_certificates

if TYPE_CHECKING:
    from collections.abc import Mapping

_HOP: frozenset[str] = frozenset(
    ("connection", "content-length", "host", "keep-alive", "transfer-encoding", "content-encoding")
)
_REASONS = {410: "Expired", 429: "TooManyRequests", 500: "InternalError"}
_STALL = 8.0
_LATE = 4.0


class Breakage(StrEnum):
    """How answers are broken."""

    NONE = "none"
    RESET = "reset"
    STALL = "stall"
    TRUNCATE = "truncate"
    GONE = "410"
    BUSY = "429"
    FAILED = "500"
    SLOW_WATCH = "slow watch"


class FaultProxy:
    """Passes requests on, and breaks a share of the answers."""

    def __init__(self, *, url: str, authority: str, token: str, seed: int) -> None:
        self.mode = Breakage.NONE
        self.share = 0.0
        self.broken = 0
        self.token = token
        self.certificates = server_certificates()
        self._upstream = url
        self._trust = ssl.create_default_context(cadata=authority)
        self._chance = Random(seed)  # noqa: S311  which answers break, not secrets
        self._runner: web.ServerRunner | None = None
        self._session: aiohttp.ClientSession | None = None
        self.url = ""

    async def start(self) -> None:
        own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        with TemporaryDirectory() as folder:
            chain, key = Path(folder) / "tls.crt", Path(folder) / "tls.key"
            chain.write_bytes(self.certificates.certificate)
            key.write_bytes(self.certificates.key)
            own.load_cert_chain(chain, key)
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None, connect=10), auto_decompress=False
        )
        self._runner = web.ServerRunner(web.Server(self._serve), shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, LOOPBACK, 0, ssl_context=own)
        await site.start()
        self.url = f"https://{LOOPBACK}:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    def kubeconfig(self) -> str:
        """Return the kubeconfig by which operators reach the server."""
        return kubeconfig.render(
            name="chaos", url=self.url, authority=self.certificates.authority, token=self.token
        )

    async def _serve(self, incoming: web.BaseRequest) -> web.StreamResponse:
        assert self._session is not None
        breaks = self.mode if self._chance.random() < self.share else Breakage.NONE
        watches = "watch=" in incoming.query_string
        match breaks:
            case Breakage.RESET:
                return self._reset(incoming)
            case Breakage.GONE if incoming.method != "GET":
                breaks = Breakage.NONE
            case Breakage.GONE | Breakage.BUSY | Breakage.FAILED:
                self.broken += 1
                return _refusal(int(breaks.value))
            case Breakage.STALL:
                self.broken += 1
                await asyncio.sleep(self._chance.uniform(0.5, _STALL))
        headers = {name: value for name, value in incoming.headers.items() if name.lower() not in _HOP}
        body = await incoming.read()
        try:
            async with self._session.request(
                incoming.method,
                self._upstream + incoming.raw_path,
                data=body or None,
                headers=headers,
                ssl=self._trust,
            ) as found:
                return await self._answer(incoming, found, breaks, watches=watches)
        except (aiohttp.ClientError, TimeoutError, ConnectionError):
            return self._reset(incoming)

    async def _answer(
        self, incoming: web.BaseRequest, found: aiohttp.ClientResponse, breaks: Breakage, *, watches: bool
    ) -> web.StreamResponse:
        kept = _headers(found.headers)
        if not watches:
            whole = await found.read()
            if breaks is Breakage.TRUNCATE and whole:
                self.broken += 1
                answer = web.StreamResponse(
                    status=found.status, headers={**kept, "Content-Length": str(len(whole))}
                )
                await answer.prepare(incoming)
                await answer.write(whole[: self._chance.randrange(len(whole))])
                return self._reset(incoming)
            encoding = found.headers.get("content-encoding")
            more = {"Content-Encoding": encoding} if encoding else {}
            return web.Response(status=found.status, headers={**kept, **more}, body=whole)
        stream = web.StreamResponse(status=found.status, headers=kept)
        await stream.prepare(incoming)
        async for part in found.content.iter_any():
            if self.mode is Breakage.SLOW_WATCH:
                self.broken += 1
                await asyncio.sleep(_LATE * self.share)
            if self.mode in {Breakage.RESET, Breakage.TRUNCATE} and self._chance.random() < self.share:
                self.broken += 1
                await stream.write(part[: self._chance.randrange(len(part) + 1)])
                return self._reset(incoming)
            if self.mode is Breakage.GONE and self._chance.random() < self.share:
                self.broken += 1
                gone = {"type": "ERROR", "object": _status(410)}
                await stream.write(json.dumps(gone).encode() + b"\n")
                break
            await stream.write(part)
        await stream.write_eof()
        return stream

    def _reset(self, incoming: web.BaseRequest) -> web.StreamResponse:
        self.broken += 1
        if incoming.transport is not None:
            incoming.transport.abort()
        raise ConnectionResetError


def _headers(found: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in found.items() if name.lower() not in _HOP}


def _status(code: int) -> dict[str, Any]:
    reason = _REASONS[code]
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"chaos: {reason}",
        "reason": reason,
        "code": code,
    }


def _refusal(code: int) -> web.Response:
    headers = {"Retry-After": "1"} if code == 429 else {}
    return web.json_response(_status(code), status=code, headers=headers)
