"""
A plain HTTP client: a request line, a few headers, JSON in both directions.

It knows TLS and a token and nothing of Kubernetes, so that what a test sees is what the server sent.
"""

import http.client
import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

JSON = "application/json"
PATIENCE = 20.0
"""Seconds that a server has to answer, or a watch to say the next thing."""


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """How a server is reached."""

    url: str
    authority: bytes
    token: str


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        """The word by which a Status names its kind of refusal."""
        return str(self.json.get("reason", ""))

    @property
    def message(self) -> str:
        return str(self.json.get("message", ""))

    @property
    def causes(self) -> list[tuple[str, str, str]]:
        """What is wrong with an invalid object: field, reason and message of each complaint."""
        found = self.json.get("details", {}).get("causes", [])
        return [(each.get("field", ""), each.get("reason", ""), each.get("message", "")) for each in found]

    @property
    def warnings(self) -> list[str]:
        joined = self.headers.get("warning", "")
        return [part.strip().removeprefix('299 - "').removesuffix('"') for part in joined.split(", 299")]


class Wire:
    """Connections to one server; keeps one open between requests."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._trust = ssl.create_default_context(cadata=address.authority.decode())
        self._place = urlsplit(address.url).netloc
        self._kept: http.client.HTTPSConnection | None = None

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request; `body` is JSON unless it is bytes, and None is no body."""
        target, data, sent = self._prepare(path, query, body, headers)
        try:
            return self._exchange(method, target, data, sent)
        except (http.client.RemoteDisconnected, ConnectionError, ssl.SSLEOFError):
            self.close()  # the server may let go of an idle connection at any time
            return self._exchange(method, target, data, sent)

    @contextmanager
    def stream(
        self, path: str, *, query: Mapping[str, object], headers: Mapping[str, str] | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        """Open a connection of its own and yield the response, to be read line by line."""
        target, data, sent = self._prepare(path, query, None, headers)
        connection = self._connect()
        try:
            connection.request("GET", target, data, sent)
            yield connection.getresponse()
        finally:
            connection.close()

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _exchange(self, method: str, target: str, data: bytes | None, headers: dict[str, str]) -> Answer:
        if self._kept is None:
            self._kept = self._connect()
        self._kept.request(method, target, data, headers)
        response = self._kept.getresponse()
        body = response.read()
        if response.will_close:
            self.close()
        joined: dict[str, str] = {}
        for name, value in response.getheaders():
            key = name.lower()
            joined[key] = f"{joined[key]}, {value}" if key in joined else value
        return Answer(status=response.status, headers=joined, body=body)

    def _connect(self) -> http.client.HTTPSConnection:
        connection = http.client.HTTPSConnection(self._place, context=self._trust, timeout=PATIENCE)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _prepare(
        self,
        path: str,
        query: Mapping[str, object] | None,
        body: object,
        headers: Mapping[str, str] | None,
    ) -> tuple[str, bytes | None, dict[str, str]]:
        target = quote(path, safe="/:%")
        if query:
            target += "?" + urlencode({key: str(value) for key, value in query.items()})
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        sent = {"Authorization": f"Bearer {self.address.token}", "Accept": JSON, "User-Agent": "suite/1"}
        if data is not None:
            sent["Content-Type"] = JSON
        sent.update(headers or {})
        return target, data, {name: value for name, value in sent.items() if value}
