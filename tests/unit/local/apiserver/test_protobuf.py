import struct
from typing import Any

import pytest

from karpenter_local.apiserver import protobuf
from karpenter_local.apiserver.server import Server
from tests.unit.local.apiserver.asking import CONFIGMAPS, ask


def varint(number: int) -> bytes:
    """Return a number as protobuf writes it."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, value: Any) -> bytes:
    """Return one field: a message or text by its bytes, a number as such."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def envelope(api_version: str, kind: str, message: bytes) -> bytes:
    return protobuf.MAGIC + field(1, field(1, api_version) + field(2, kind)) + field(2, message)


META = field(1, field(1, "a") + field(11, field(1, "app") + field(2, "web")))


def test_messages_become_objects() -> None:
    """Names, maps, lists, quantities and inline structs are read by their numbers."""
    requests = field(2, field(1, "cpu") + field(2, field(1, "500m")))
    probe = field(1, field(2, field(1, "/ready") + field(2, field(1, 0) + field(2, 8080)))) + field(4, 7)
    container = field(1, "main") + field(8, requests) + field(11, probe)
    volume = field(1, "v") + field(2, field(19, field(1, field(1, "settings"))))
    spec = field(1, volume) + field(2, container) + field(4, 30)

    value = protobuf.decode(envelope("v1", "Pod", META + field(2, spec)))

    assert value == {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "a", "labels": {"app": "web"}},
        "spec": {
            "volumes": [{"name": "v", "configMap": {"name": "settings"}}],
            "containers": [
                {
                    "name": "main",
                    "resources": {"requests": {"cpu": "500m"}},
                    "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 7},
                }
            ],
            "terminationGracePeriodSeconds": 30,
        },
    }


def test_times_and_signs() -> None:
    """Times are seconds since 1970; negative numbers are two's complement."""
    spec = field(2, field(1, 1735689600)) + field(3, (1 << 64) - 5)
    value = protobuf.decode(envelope("v1", "Node", field(1, field(8, field(1, 1735689600)))))

    assert value["metadata"] == {"creationTimestamp": "2025-01-01T00:00:00Z"}
    assert protobuf._one((1 << 64) - 5, _type("i")) == -5
    assert protobuf._one(struct.pack("<d", 0.5), _type("d")) == 0.5
    assert spec


def _type(code: str) -> Any:
    from karpenter_local.apiserver.schema.types import FieldType  # noqa: PLC0415  only this test needs it

    return FieldType(code)


async def test_a_client_may_send_it() -> None:
    """A body in protobuf is stored as if it had been JSON; the answer is JSON."""
    server = Server(seed=1)
    body = envelope("v1", "ConfigMap", META + field(2, field(1, "k") + field(2, "v")))

    answer = await ask(server, "POST", CONFIGMAPS, body, kind="application/vnd.kubernetes.protobuf")

    assert (answer.status, answer.json["data"]) == (201, {"k": "v"})


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"{}", id="no envelope"),
        pytest.param(protobuf.MAGIC + b"\x0a\xff", id="cut short"),
        pytest.param(protobuf.MAGIC + b"\x0b", id="an odd wire type"),
        pytest.param(envelope("v1", "Nothing", b""), id="an unknown kind"),
        pytest.param(envelope("v1", "ConfigMap", field(1, field(1, b"\xff\xfe"))), id="not UTF-8"),
    ],
)
async def test_what_cannot_be_read_is_a_bad_request(body: bytes) -> None:
    """Broken bytes never get further than the door."""
    answer = await ask(Server(seed=1), "POST", CONFIGMAPS, body, kind="application/vnd.kubernetes.protobuf")

    assert (answer.status, answer.reason) == (400, "BadRequest")
