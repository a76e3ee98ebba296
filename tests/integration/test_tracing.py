"""Traces of an operator that works, as an exporter in memory sees them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from karpenter.telemetry.tracing import recording
from tests.integration.sandboxes import in_sandbox

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.trace import ReadableSpan

    from karpenter_local.sandbox.sandbox import Sandbox

EAGER = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}


def facts(spans: Iterator[ReadableSpan] | tuple[ReadableSpan, ...], name: str) -> list[dict[str, object]]:
    """Return the attributes of each span of a name."""
    return [
        {key.removeprefix("karpenter."): value for key, value in (span.attributes or {}).items()}
        for span in spans
        if span.name == name
    ]


@in_sandbox()
async def test_decisions_and_launches_are_traced(sandbox: Sandbox) -> None:
    """A pod that comes and goes leaves spans of the decision, its NodeClaim, the launch, and the removal."""
    exporter = InMemorySpanExporter()
    with recording(SimpleSpanProcessor(exporter)):
        await sandbox.create_node_pool(disruption=EAGER)
        await sandbox.deploy(replicas=1)
        await sandbox.until_running(1)
        (claim,) = await sandbox.node_claims()
        await sandbox.scale("inflate", 0)
        await sandbox.until(sandbox.is_empty)
    spans = exporter.get_finished_spans()
    by_id = {span.context.span_id: span.name for span in spans if span.context}
    parents = Counter((by_id.get(span.parent.span_id) if span.parent else None, span.name) for span in spans)
    (made,) = facts(spans, "nodeclaim.create")
    (launch,) = facts(spans, "launch")
    (command,) = facts(spans, "command")

    assert facts(spans, "provision")[0]["pods"] == 1
    assert (made["nodeclaim"], made["nodepool"]) == (claim.name, "default")
    assert launch["provider_id"] == claim.status.provider_id
    assert launch["instance_type"] == claim.metadata.labels["node.kubernetes.io/instance-type"]
    assert (command["reason"], command["valid"]) == ("Empty", True)
    assert parents["provision", "nodeclaim.create"] == 1
    assert parents["command", "validate"] >= 1
    assert parents[None, "disrupt"] >= 1
