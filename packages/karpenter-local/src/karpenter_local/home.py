"""
A directory that holds one cluster: its objects, its certificates, its token and its port.

A cluster that is started again from its home is the same cluster to its clients: the same objects at the
same revisions, and the same kubeconfig, so that watches resume where they were.
"""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Self

from karpenter_local.apiserver.http import SecureServer
from karpenter_local.apiserver.journal import FileJournal
from karpenter_local.apiserver.store import ObjectStore
from karpenter_local.certificates import ServerCertificates, server_certificates

if TYPE_CHECKING:
    from pathlib import Path

    from karpenter_local.apiserver.server import Server

_CERTIFICATES = {"authority": "ca.crt", "certificate": "tls.crt", "key": "tls.key"}


class Home:
    """An opened directory. Only one process at a time may have it open."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.journal = FileJournal(directory)
        self.store = ObjectStore()
        self.journal.open(self.store)
        self.certificates = _certificates(directory)
        path = directory / "token"
        if not path.exists():
            _write(path, secrets.token_urlsafe(32).encode())
        self.token = path.read_text(encoding="utf-8").strip()

    def front(self, server: Server) -> SecureServer:
        """Return the HTTP front of `server`, with the certificates and the token that clients know."""
        return SecureServer(server, token=self.token, certificates=self.certificates)

    async def listen(self, front: SecureServer, port: int = 0) -> None:
        """Begin to listen: where the caller says, else where the last time, else anywhere."""
        kept = self.directory / "port"
        last = int(kept.read_text()) if kept.exists() else 0
        try:
            await front.start(port or last)
        except OSError:
            if port or not last:
                raise
            await front.start()  # another process has taken the old one
        _write(kept, front.url.rpartition(":")[2].encode())

    async def close(self) -> None:
        """Write what is left and let go of the directory."""
        await self.journal.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _certificates(directory: Path) -> ServerCertificates:
    paths = {key: directory / name for key, name in _CERTIFICATES.items()}
    if all(path.exists() for path in paths.values()):
        return ServerCertificates(**{key: path.read_bytes() for key, path in paths.items()})
    made = server_certificates()
    for key, path in paths.items():
        _write(path, getattr(made, key))
    return made


def _write(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    draft = path.with_name(f".{path.name}.draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
