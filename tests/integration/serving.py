"""A server on a port, in a thread of its own, for tests that wait for other programs."""

import asyncio
import threading

from karpenter_local.apiserver.http import SecureServer
from karpenter_local.apiserver.server import Server


class Running:
    """An embedded API server that runs until it is stopped; no controllers, no scheduler, no kubelets."""

    def __init__(self) -> None:
        self.front: SecureServer | None = None
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(10), "the server did not start within ten seconds"

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._loop.run_forever()

    async def _start(self) -> None:
        self.front = SecureServer(Server())
        await self.front.start()
        self._ready.set()

    def stop(self) -> None:
        assert self.front is not None
        asyncio.run_coroutine_threadsafe(self.front.stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
