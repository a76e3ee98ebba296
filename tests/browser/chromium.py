"""
A real Chromium without a window, driven over the Chrome DevTools Protocol.

Only what the tests of the console need: pages, keys, the pointer, screenshots, and what a page logs. The
protocol is JSON over a WebSocket: https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import shutil
import tempfile
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_KEYS = {
    "Enter": 13,
    "Escape": 27,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    " ": 32,
}

_TRIED = """
(() => {
  try {
    const found = CODE;
    return found instanceof Element ? true : found;
  } catch {
    return null;
  }
})()
"""


def find_chromium() -> str:
    """Return the program; empty where it is not installed."""
    return next(
        (
            found
            for name in ("chromium", "chromium-browser", "google-chrome")
            if (found := shutil.which(name))
        ),
        "",
    )


class Tab:
    """One page."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._loaded = asyncio.Event()
        self.problems: list[str] = []
        """What the page logged as an error, and exceptions that it did not catch."""

    async def listen(self) -> None:
        """Take in answers and events until the socket closes."""
        async for message in self._socket:
            found = json.loads(message.data)
            if "id" in found:
                self._answers.pop(found["id"]).set_result(found)
            elif found["method"] == "Page.loadEventFired":
                self._loaded.set()
            else:
                self._note(found["method"], found["params"])

    def _note(self, method: str, facts: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(facts["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled" and facts["type"] in {"error", "warning"}:
            self.problems.append(json.dumps(facts["args"])[:500])
        elif method == "Log.entryAdded" and facts["entry"]["level"] in {"error", "warning"}:
            self.problems.append(facts["entry"]["text"])

    async def call(self, method: str, **facts: Any) -> dict[str, Any]:
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": facts})
        found = await asyncio.wait_for(answer, 60)
        assert "error" not in found, found
        result: dict[str, Any] = found["result"]
        return result

    async def go(self, url: str) -> None:
        """Open a URL, and wait until it is loaded."""
        self._loaded.clear()
        await self.call("Page.navigate", url=url)
        await asyncio.wait_for(self._loaded.wait(), 30)

    async def run(self, code: str) -> Any:
        """Return the value of an expression, promises awaited."""
        found = await self.call(
            "Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    async def until(self, code: str, within: float = 15.0) -> Any:
        """Wait until an expression is true, and return it."""
        async with asyncio.timeout(within):
            while True:
                found = await self.run(_TRIED.replace("CODE", code))
                if found:
                    return found
                await asyncio.sleep(0.05)

    async def press(self, key: str, *, modifiers: int = 0) -> None:
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        code = {"windowsVirtualKeyCode": _KEYS[key]} if key in _KEYS else {}
        facts: dict[str, Any] = {"key": key, "modifiers": modifiers, **code}
        await self.call("Input.dispatchKeyEvent", type="keyDown", **facts, **text)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **facts)

    async def write(self, text: str) -> None:
        """Type a text into what has the focus."""
        await self.call("Input.insertText", text=text)

    async def mouse(self, kind: str, x: float, y: float, **facts: Any) -> None:
        await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **facts)

    async def click(self, x: float, y: float) -> None:
        await self.mouse("mousePressed", x, y, button="left", clickCount=1, buttons=1)
        await self.mouse("mouseReleased", x, y, button="left", clickCount=1)

    async def prefer(self, **features: str) -> None:
        """Set media features, such as ``prefers_color_scheme="dark"``."""
        named = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        await self.call("Emulation.setEmulatedMedia", features=named)

    async def size(self, width: int, height: int) -> None:
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    async def screenshot(self) -> bytes:
        found = await self.call("Page.captureScreenshot", format="png", optimizeForSpeed=False)
        return base64.b64decode(found["data"])


@asynccontextmanager
async def open_tab(width: int = 1280, height: int = 760) -> AsyncIterator[Tab]:
    """Start a Chromium with one page, and end it."""
    profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    process = await asyncio.create_subprocess_exec(
        find_chromium(),
        "--headless=new",
        "--remote-debugging-port=0",
        f"--user-data-dir={profile.name}",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--hide-scrollbars",
        f"--window-size={width},{height}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with aiohttp.ClientSession() as session:
            async with session.ws_connect(await _page_address(process, session), max_msg_size=0) as socket:
                tab = Tab(socket)
                listening = asyncio.create_task(tab.listen())
                for domain in ("Page", "Runtime", "Log"):
                    await tab.call(f"{domain}.enable")
                await tab.size(width, height)
                yield tab
            await listening
    finally:
        process.terminate()
        await process.wait()
        profile.cleanup()


async def _page_address(process: asyncio.subprocess.Process, session: aiohttp.ClientSession) -> str:
    assert process.stderr is not None
    async with asyncio.timeout(120):
        async for line in process.stderr:
            _, listening, address = line.decode().partition("DevTools listening on ")
            if listening:
                host = address.split("/")[2]
                async with session.get(f"http://{host}/json/list") as answer:
                    pages = await answer.json()
                return str(next(each for each in pages if each["type"] == "page")["webSocketDebuggerUrl"])
    raise AssertionError("Chromium ended before it listened")
