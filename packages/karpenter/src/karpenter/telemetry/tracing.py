"""
Traces of decisions and launches, sent by OTLP where OpenTelemetry's own variables say where to.

Controllers mark the methods that call the core with :func:`traced`, and say what was decided with
:func:`note`; the core knows nothing of it. Until :func:`sending` has begun both do nothing, and no library is
imported.
The variables are those of https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

import structlog

from karpenter import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping

    from opentelemetry.sdk.trace import SpanProcessor

P = ParamSpec("P")
T = TypeVar("T")

log = structlog.get_logger("karpenter.telemetry.tracing")

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL: Final = "http/protobuf"

_tracer: Any = None


def traced(name: str) -> Callable[[Callable[P, Coroutine[Any, Any, T]]], Callable[P, Coroutine[Any, Any, T]]]:
    """Let each call of a coroutine function be a span; one that raises has failed."""

    def decorate(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        @wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> T:
            if _tracer is None:
                return await function(*args, **kwargs)
            with _tracer.start_as_current_span(name):
                return await function(*args, **kwargs)

        return call

    return decorate


def note(*, failed: str = "", **facts: object) -> None:
    """Add facts to the span that the caller is in; `failed` says why it has failed."""
    if _tracer is None:
        return
    from opentelemetry import trace  # noqa: PLC0415  an extra

    span = trace.get_current_span()
    span.set_attributes({f"karpenter.{name}": _value(fact) for name, fact in facts.items()})
    if failed:
        span.set_status(trace.StatusCode.ERROR, failed)


@contextmanager
def sending(environment: Mapping[str, str]) -> Iterator[None]:
    """Send traces where the environment says; where it says nothing, or they cannot be sent, make none."""
    if not _is_asked(environment):
        yield
        return
    protocol = _first(environment, _PROTOCOLS)
    if protocol not in {"", _PROTOCOL}:
        log.warning("traces.not_sent", because=f"OTLP over {protocol} is not known; {_PROTOCOL} is")
        yield
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ModuleNotFoundError as error:
        # Operators of OpenTelemetry set these variables in every pod, so that this is no reason to stop.
        hint = "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
        log.warning("traces.not_sent", because=f"{error.name} is not installed here", hint=hint)
        yield
        return
    with _problems_logged(), recording(BatchSpanProcessor(OTLPSpanExporter())):
        log.info("traces.begun", endpoint=_first(environment, ENDPOINTS))
        yield


@contextmanager
def recording(processor: SpanProcessor) -> Iterator[None]:
    """Give every span to a processor, and end it with what is left."""
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415  an extra
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415

    global _tracer  # noqa: PLW0603  like logs, it is of the whole process
    ours = Resource.create({"service.name": "karpenter", "service.version": __version__})
    provider = TracerProvider(resource=ours.merge(OTELResourceDetector().detect()))
    provider.add_span_processor(processor)
    before, _tracer = _tracer, provider.get_tracer("karpenter", __version__)
    try:
        yield
    finally:
        _tracer = before
        provider.shutdown()


def _is_asked(environment: Mapping[str, str]) -> bool:
    is_disabled = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    exporters = environment.get("OTEL_TRACES_EXPORTER") or "otlp"
    return bool(_first(environment, ENDPOINTS)) and not is_disabled and "otlp" in exporters.split(",")


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((found for name in names if (found := environment.get(name, "").strip())), "")


def _value(fact: object) -> Any:
    """Return a fact as OpenTelemetry takes it: scalars, and texts of everything else."""
    if isinstance(fact, str | bool | int | float):
        return fact
    return [str(each) for each in fact] if isinstance(fact, tuple | list | set | frozenset) else str(fact)


class _LogProblems(logging.Handler):
    """Logs what the library has to say, such as that nothing listens there, as the operator logs."""

    def emit(self, record: logging.LogRecord) -> None:
        log.warning("traces.not_sent", because=record.getMessage())


@contextmanager
def _problems_logged() -> Iterator[None]:
    library, handler = logging.getLogger("opentelemetry"), _LogProblems(logging.WARNING)
    library.addHandler(handler)
    library.propagate = False
    try:
        yield
    finally:
        library.removeHandler(handler)
        library.propagate = True
