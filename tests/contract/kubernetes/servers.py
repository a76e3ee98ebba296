"""
The two servers that the suite is asked of, started once per test process and reached over TLS alike.

Each runs on an event loop of its own in a thread, because tests are plain functions that block.
"""

import asyncio
import base64
import ssl
import threading
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from karpenter_local.cluster import LocalCluster
from karpenter_local.controlplane import RealControlPlane, find_binaries
from tests.contract.kubernetes.wire import Address

T = TypeVar("T")

START_OR_STOP = 300.0
"""Seconds within which a server must have started, or stopped."""


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """A server that answers."""

    kind: str
    address: Address
    compact: Callable[[], None]
    """Make the server forget its history, as it does by itself after some minutes."""


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do `work` on the loop and wait for it, but not for ever."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(START_OR_STOP)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def embedded() -> Iterator[Running]:
    """Run our server, its controllers and its scheduler; the tests' nodes want no kubelet."""
    loop = Loop()
    cluster = LocalCluster(http=True)
    loop.run(cluster.__aenter__())
    front = cluster.front
    assert front is not None

    async def compact() -> None:
        cluster.server.store.compact()

    try:
        yield Running(
            kind="embedded",
            address=Address(url=front.url, authority=front.certificates.authority, token=front.token),
            compact=lambda: loop.run(compact()),
        )
    finally:
        loop.run(cluster.__aexit__(None, None, None))
        loop.close()


@contextmanager
def real(directory: Path) -> Iterator[Running]:
    """Run etcd, kube-apiserver, kube-controller-manager and kube-scheduler."""
    loop = Loop()
    plane = RealControlPlane(directory, binaries=find_binaries())
    loop.run(plane.start())
    try:
        yield Running(
            kind="real",
            address=Address(url=plane.url, authority=plane.authority.read_bytes(), token=plane.token),
            compact=lambda: _compact_etcd(plane),
        )
    finally:
        loop.run(plane.stop())
        loop.close()


def _compact_etcd(plane: RealControlPlane) -> None:
    trust = ssl.create_default_context(cafile=str(plane.authority))
    pki = plane.directory / "pki"
    trust.load_cert_chain(pki / "server.crt", pki / "server.key")

    def call(path: str, body: object) -> Any:
        url = f"https://127.0.0.1:{plane.ports.etcd}{path}"
        request = urllib.request.Request(url, msgspec.json.encode(body))
        with urllib.request.urlopen(request, context=trust) as response:  # noqa: S310  likewise
            return msgspec.json.decode(response.read())

    revision = call("/v3/kv/range", {"key": _base64("none")})["header"]["revision"]
    # kube-apiserver announces its own compactions under this key, and forgets what it has cached by it
    call("/v3/kv/put", {"key": _base64("compact_rev_key"), "value": _base64(revision)})
    call("/v3/kv/compaction", {"revision": revision, "physical": True})


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
