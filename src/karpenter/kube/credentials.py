"""
Proving who we are, with credentials that change while we run.

A transport asks for headers before each request, and says so when the server refused them; what lies behind
(a token that never changes, a file that is rewritten every hour, a program that is run) stays behind.
Programs and providers of a kubeconfig are in :mod:`.kubeconfig`.
"""

import asyncio
from pathlib import Path
from typing import Protocol

import msgspec
import structlog

from karpenter.base.clock import Clock
from karpenter.kube.transport import Pairs

log = structlog.stdlib.get_logger(__name__)

REREAD = 60.0
"""Seconds after which a token file is read again; the kubelet rewrites it well before its end."""


class Certificate(msgspec.Struct, frozen=True):
    """A client certificate and its key, as files."""

    cert_file: str
    key_file: str


class Credentials(Protocol):
    """What a transport shows to the server."""

    @property
    def certificate(self) -> Certificate | None:
        """The certificate to show when connecting."""
        ...

    async def headers(self) -> Pairs:
        """Return the headers to send now, renewed if they are about to expire."""
        ...

    async def renew(self, refused: Pairs) -> bool:
        """Get new headers after the server refused these; return whether there are others to try."""
        ...


class Fixed:
    """Credentials that never change."""

    def __init__(self, *, token: str = "", certificate: Certificate | None = None, extra: Pairs = ()) -> None:
        self.certificate = certificate
        self._headers = (*bearer(token), *extra)

    async def headers(self) -> Pairs:
        """Return the same headers as always."""
        return self._headers

    async def renew(self, refused: Pairs) -> bool:  # noqa: ARG002  there is nothing else to try
        """Say that there is nothing else to try."""
        return False


class TokenFile:
    """A token in a file that someone else keeps fresh, such as the kubelet."""

    def __init__(
        self, path: Path, *, clock: Clock, certificate: Certificate | None = None, extra: Pairs = ()
    ) -> None:
        self.certificate = certificate
        self._path = path
        self._clock = clock
        self._extra = extra
        self._token = path.read_text().strip()
        self._read_at = clock.monotonic()

    async def headers(self) -> Pairs:
        """Return the token, read again if that was a while ago."""
        if self._clock.monotonic() - self._read_at >= REREAD:
            await self._read()
        return (*bearer(self._token), *self._extra)

    async def renew(self, refused: Pairs) -> bool:
        """Read the file again."""
        await self._read()
        return (*bearer(self._token), *self._extra) != refused

    async def _read(self) -> None:
        self._read_at = self._clock.monotonic()
        try:
            token = (await asyncio.to_thread(self._path.read_text)).strip()
        except OSError as error:
            log.warning("token.unreadable", path=str(self._path), error=str(error))
        else:
            # A file that is being rewritten may be empty for a moment; the old token serves until then.
            self._token = token or self._token


def bearer(token: str) -> Pairs:
    """Return the header that shows a token; none if there is no token."""
    return (("authorization", f"Bearer {token}"),) if token else ()
