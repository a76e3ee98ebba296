"""
A small AWS on loopback: answers the five questions of a refresh over real HTTP.

Answers are given as the SDK would return them and are put into the wire format with the
SDK's own description of the service, so that a real client has to take them apart again.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs
from xml.etree.ElementTree import Element, SubElement, tostring

from botocore.model import ListShape, Shape, StructureShape
from botocore.session import get_session

if TYPE_CHECKING:
    from collections.abc import Iterator


EC2 = get_session().get_service_model("ec2")


class Aws:
    """What the endpoint answers, page by page, and what it was asked."""

    def __init__(self, pages: dict[str, list[dict[str, Any]]]) -> None:
        self.pages = pages
        self.refusals: dict[str, str] = {}
        """Action to the error code it ends in."""
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def questions(self, action: str) -> list[dict[str, Any]]:
        """Return the parameters of every request for `action`."""
        return [parameters for name, parameters in self.asked if name == action]

    def answer(self, action: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return one page: the first, or the one that the token asks for."""
        self.asked.append((action, parameters))
        pages = self.pages.get(action, [{}])
        index = int(parameters.get("NextToken", 0))
        more = {"NextToken": str(index + 1)} if index + 1 < len(pages) else {}
        return {**pages[index], **more}


@contextmanager
def serving(aws: Aws) -> Iterator[str]:
    """Serve `aws` on loopback and lend its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            target = self.headers.get("X-Amz-Target")
            # A service with a REST protocol, such as that of Savings Plans, has the action in its path.
            named = self.path.strip("/")
            if target or named:
                action, parameters = named or str(target).rpartition(".")[2], json.loads(body)
            else:
                form = {key: values[0] for key, values in parse_qs(body).items()}
                action, parameters = form["Action"], form
            if action in aws.refusals:
                self._send(403, _refusal(aws.refusals[action]))
                return
            answer = aws.answer(action, parameters)
            self._send(200, json.dumps(answer).encode() if target or named else _xml(action, answer))

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is inherited
            ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def _xml(action: str, answer: dict[str, Any]) -> bytes:
    shape = EC2.operation_model(action).output_shape
    assert shape is not None
    root = Element(f"{action}Response")
    _fill(root, shape, answer)
    return bytes(tostring(root))


def _fill(element: Element, shape: Shape, value: Any) -> None:
    if isinstance(shape, StructureShape):
        for name, item in value.items():
            member = shape.members[name]
            _fill(SubElement(element, member.serialization.get("name", name)), member, item)
    elif isinstance(shape, ListShape):
        for item in value:
            _fill(SubElement(element, "item"), shape.member, item)
    else:
        element.text = str(value).lower() if isinstance(value, bool) else str(value)


def _refusal(code: str) -> bytes:
    return (
        f"<Response><Errors><Error><Code>{code}</Code><Message>You are not\nauthorized.</Message></Error>"
        "</Errors><RequestID>1</RequestID></Response>"
    ).encode()
