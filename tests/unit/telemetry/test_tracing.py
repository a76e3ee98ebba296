"""Whether traces are made, where they go, and what happens when they cannot."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from structlog.testing import capture_logs

from karpenter.telemetry import tracing
from karpenter.telemetry.tracing import note, traced

if TYPE_CHECKING:
    from collections.abc import Iterator


@traced("decision")
async def decide(problem: str = "") -> int:
    note(pods=3, names=("a", "b"), failed=problem)
    if problem == "raise":
        raise ValueError(problem)
    return 7


class Receiver(BaseHTTPRequestHandler):
    """Takes traces by OTLP over HTTP, as a collector does."""

    bodies: ClassVar[list[tuple[str, bytes]]] = []

    def do_POST(self) -> None:
        self.bodies.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        del args


@pytest.fixture
def collector() -> Iterator[str]:
    """Return the address of a collector that keeps what it is sent."""
    Receiver.bodies.clear()
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in os.environ if each.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def test_spans_reach_a_collector(collector: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an endpoint is named, spans go there by OTLP, with their facts and the name of the service."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=blue")
    with tracing.sending(os.environ):
        assert asyncio.run(decide()) == 7
    ((path, body),) = Receiver.bodies
    (sent,) = ExportTraceServiceRequest.FromString(body).resource_spans
    named = {each.key: each.value.string_value for each in sent.resource.attributes}
    (span,) = sent.scope_spans[0].spans

    assert path == "/v1/traces"
    assert (named["service.name"], named["k8s.cluster.name"]) == ("karpenter", "blue")
    assert span.name == "decision"
    assert {each.key for each in span.attributes} == {"karpenter.pods", "karpenter.names"}


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        pytest.param("", (StatusCode.UNSET, None), id="one that is done"),
        pytest.param("sold out", (StatusCode.ERROR, "sold out"), id="one that says it failed"),
        pytest.param("raise", (StatusCode.ERROR, "ValueError: raise"), id="one that raises"),
    ],
)
def test_a_span_says_whether_it_failed(problem: str, said: tuple[StatusCode, str | None]) -> None:
    """A failure is the status of the span."""
    exporter = InMemorySpanExporter()
    with tracing.recording(SimpleSpanProcessor(exporter)):
        try:
            asyncio.run(decide(problem))
        except ValueError:
            assert problem == "raise"
    (span,) = exporter.get_finished_spans()

    assert (span.status.status_code, span.status.description) == said


@pytest.mark.parametrize(
    ("variables", "because"),
    [
        pytest.param({}, "", id="no endpoint"),
        pytest.param({"OTEL_SDK_DISABLED": "true"}, "", id="the SDK is disabled"),
        pytest.param({"OTEL_TRACES_EXPORTER": "none"}, "", id="another exporter"),
        pytest.param(
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTLP over grpc is not known; http/protobuf is",
            id="another protocol",
        ),
    ],
)
def test_nothing_is_traced_unless_asked(variables: dict[str, str], because: str) -> None:
    """Without an endpoint, or where it is disabled, there are no spans; what is not known is logged."""
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"} if variables else {}
    with capture_logs() as logs, tracing.sending(endpoint | variables):
        assert asyncio.run(decide()) == 7
        assert tracing._tracer is None

    assert [each["because"] for each in logs] == ([because] if because else [])


def test_without_the_extra_the_operator_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the library is missing that is logged, and what is traced works as before."""
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    with capture_logs() as logs, tracing.sending(endpoint):
        assert asyncio.run(decide()) == 7

    assert [each["event"] for each in logs] == ["traces.not_sent"]
    assert "pip install opentelemetry-sdk" in logs[0]["hint"]


def test_no_library_is_imported_when_off() -> None:
    """An operator that sends no traces loads nothing of OpenTelemetry."""
    program = "import sys, karpenter.cli.run; print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603

    assert done.stdout == "False\n"
