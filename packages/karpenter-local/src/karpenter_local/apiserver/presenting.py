"""
Responses: objects, lists and watch events as bytes.

Bytes are reused wherever the client wants what is stored; only other versions, tables and metadata-only
views are encoded again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from karpenter.kube.transport import Pairs, Response
from karpenter_local.apiserver.entry import encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter_local.apiserver import errors

JSON_HEADERS: Pairs = (("content-type", "application/json"),)


def reply(value: Any, status: int = 200, headers: Pairs = ()) -> Response:
    """Return `value` as a JSON response."""
    return Response(status=status, headers=(*JSON_HEADERS, *headers), body=encode(value))


def reply_raw(raw: bytes, status: int = 200, headers: Pairs = ()) -> Response:
    return Response(status=status, headers=(*JSON_HEADERS, *headers), body=raw)


def refuse(fault: errors.APIStatusError) -> Response:
    if fault.text:
        plain = (("content-type", "text/plain; charset=utf-8"), *fault.headers)
        return Response(status=fault.code, headers=plain, body=fault.text.encode())
    return Response(status=fault.code, headers=(*JSON_HEADERS, *fault.headers), body=fault.encode())


class _Dumper(yaml.SafeDumper):
    """Writes YAML as the API does: texts that could be read as something else in double quotes."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = None
    if "\n" in value:
        style = "|"
    elif dumper.resolve(yaml.ScalarNode, value, (True, False)) != _STRING:  # type: ignore[no-untyped-call]  # the stubs leave it out
        style = '"'
    return dumper.represent_scalar(_STRING, value, style=style)


_STRING = "tag:yaml.org,2002:str"
_YAML_WIDTH = 1 << 20
_Dumper.add_representer(str, _text)


def as_yaml(response: Response) -> Response:
    if response.header("content-type") != "application/json":
        return response
    headers = tuple(
        (key, "application/yaml" if key == "content-type" else value) for key, value in response.headers
    )
    text = yaml.dump(msgspec.json.decode(response.body), Dumper=_Dumper, sort_keys=True, width=_YAML_WIDTH)
    return Response(status=response.status, headers=headers, body=text.encode())


def list_raw(kind: str, api_version: str, meta: dict[str, Any], items: Iterable[bytes]) -> bytes:
    head = {"kind": kind, "apiVersion": api_version, "metadata": meta}
    opened = msgspec.json.encode(head)[:-1] + b',"items":['
    parts = list(items)
    if not parts:
        return opened + b"]}"
    parts[0] = opened + parts[0]
    parts[-1] += b"]}"
    return b",".join(parts)  # one copy: a list may have tens of megabytes


def warnings(sentences: Iterable[str]) -> Pairs:
    """Return warnings as HTTP headers, the way kubectl prints them."""
    return tuple(("warning", f'299 - "{_quote(sentence)}"') for sentence in sentences)


def _quote(sentence: str) -> str:
    flat = " ".join(sentence.split())
    return flat.replace("\\", "\\\\").replace('"', '\\"')
