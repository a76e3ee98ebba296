"""
A real Prometheus scrapes an operator on the embedded AWS, and answers every expression of the dashboards.

It takes two minutes of real time. ``make prometheus`` runs it, with ``-s`` for the table of answers.
"""

from __future__ import annotations

import asyncio
import math
from functools import partial
from pathlib import Path

import pytest

from karpenter.api.labels import NODEPOOL
from karpenter.api.manifests import render_documents
from karpenter.dashboards.boards import DASHBOARDS
from karpenter.dashboards.objects import ALERTS, groups
from karpenter_local.aws.room import InstanceTimings
from karpenter_local.demo.aws import TYPES
from karpenter_local.sandbox.options import AwsOptions
from karpenter_local.sandbox.sandbox import Sandbox
from tests.prometheus import Prometheus, program, promtool, running
from tests.unit.dashboards.promql import CHOSEN, expressions, substituted

pytestmark = pytest.mark.prometheus
REAL_TIME = True

CASES = Path(__file__).parents[1] / "data" / "prometheus" / "alerts.yaml"
QUICK = InstanceTimings(pending=0.5, boot=1.0, shutdown=1.0)
SHORT = {**CHOSEN, "$__rate_interval": "30s", "$__range": "2m"}
FREELY = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
BOTH = [
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
    # Several small machines, from which pods are moved together: one large one would stay as it is.
    {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": ["5"]},
]
HEALTHY = {"KarpenterPodsWaiting", "KarpenterCommandsUndone"}
"""Alerts whose value has no series while nothing is wrong; ``promtool test rules`` sees them fire."""


async def much_happens(sandbox: Sandbox) -> None:
    """Let machines come, fill, empty, be replaced, be held by a budget, and come again."""
    limits = {"cpu": "1000", "memory": "4000Gi"}
    await sandbox.create_node_pool(
        disruption=FREELY, template={"spec": {"requirements": BOTH}}, limits=limits
    )
    await sandbox.create_node_pool("held", disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "0"}]})
    missing = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "missing"}
    await sandbox.create_node_pool("classless", template={"spec": {"nodeClassRef": missing}})
    await sandbox.deploy("huge", replicas=1, cpu="9000")
    await sandbox.deploy("batch", replicas=1, nodeSelector={"karpenter.sh/nodepool": "held"})
    await sandbox.deploy("web", replicas=12, nodeSelector={"karpenter.sh/nodepool": "default"})
    await sandbox.until(lambda: _run(sandbox, 13), within=90)
    await sandbox.scale("batch", 0)
    for pods in (3, 12, 2):
        there = await _machines(sandbox)
        await sandbox.scale("web", pods)
        await sandbox.until(partial(_run, sandbox, pods), within=90)
        if pods < 12:
            await sandbox.until(partial(_has_lost, sandbox, there), within=180)
            await asyncio.sleep(20)  # what is left is consolidated, too, so that the next pods end a saving
    await asyncio.sleep(10)


async def _run(sandbox: Sandbox, pods: int) -> bool:
    return await sandbox.running_pods() == pods


async def _machines(sandbox: Sandbox) -> set[str]:
    claims = await sandbox.node_claims()
    return {each.name for each in claims if each.metadata.labels[NODEPOOL] == "default"}


async def _has_lost(sandbox: Sandbox, there: set[str]) -> bool:
    """Whether one of the machines that were there is gone: consolidated, or replaced by a smaller one."""
    return not there <= await _machines(sandbox)


def written(values: list[float]) -> str:
    """Return the first values of an answer, short."""
    return ", ".join(f"{value:.4g}" for value in values[:3]) + (" …" if len(values) > 3 else "")


async def test_every_expression_has_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every expression of every panel gives series with numbers, and so does the value of every alert."""
    program("prometheus")
    sandbox = Sandbox(name="blue", clock="real", cloud=AwsOptions(types=TYPES, pace=QUICK), operators=0)
    async with sandbox:
        for name, value in sandbox.cloud.environment.items():
            monkeypatch.setenv(name, value)
        environ = {**sandbox.cloud.environment, "CONSOLIDATION_PAYBACK": "0s", "BATCH_IDLE_DURATION": "500ms"}
        async with sandbox.serve_operator(environ, provider="aws") as process:
            target = f"127.0.0.1:{process.endpoints.ports['metrics']}"
            scrape = {"job_name": "karpenter", "static_configs": [{"targets": [target]}]}
            config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [scrape]}
            async with running(tmp_path, config) as prometheus:
                await much_happens(sandbox)
                table, silent = await answers(prometheus)
                exposition = process.operator.metrics.exposition() if process.operator else b""
    print("\n".join(table))  # noqa: T201  the table of the proof

    assert silent == []
    checked = promtool("check", "metrics", stdin=exposition.decode())
    assert "error while linting" not in checked.stderr


async def answers(prometheus: Prometheus) -> tuple[list[str], list[str]]:
    """Return a table of all answers, and the expressions that have none."""
    asked = expressions(DASHBOARDS) | {f"alert {each.name}": each.value for each in ALERTS}
    table, silent = ["| where | expression | series | value |", "|---|---|--:|---|"], []
    for where, expr in asked.items():
        found = await prometheus.query(substituted(expr, SHORT))
        values = [series.points[0][1] for series in found if not math.isnan(series.points[0][1])]
        shown = expr.replace("|", "\\|")
        table.append(f"| {where} | `{shown}` | {len(found)} | {written(values)} |")
        if not values and where.removeprefix("alert ") not in HEALTHY:
            silent.append(where)
    return table, silent


def test_rules_are_sound(tmp_path: Path) -> None:
    """Promtool reads every alert, and every expression of the dashboards as a rule."""
    recorded = [
        {"record": f"expression_{number}", "expr": substituted(expr)}
        for number, expr in enumerate(expressions(DASHBOARDS).values())
    ]
    for name, rules in (("alerts", groups()), ("boards", {"groups": [{"name": "b", "rules": recorded}]})):
        path = tmp_path / f"{name}.yaml"
        path.write_text(render_documents([rules]), "utf-8")
        checked = promtool("check", "rules", path)
        assert checked.returncode == 0, checked.stderr
        assert "SUCCESS" in checked.stdout


def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    """Every alert fires on what it is for, and not before; promtool evaluates the cases."""
    cases = CASES.read_text("utf-8")
    (tmp_path / "rules.yaml").write_text(render_documents([groups()]), "utf-8")
    (tmp_path / "alerts.yaml").write_text(cases, "utf-8")
    done = promtool("test", "rules", tmp_path / "alerts.yaml")

    assert done.returncode == 0, done.stdout + done.stderr
    assert [each.name for each in ALERTS if f"alertname: {each.name}\n" not in cases] == []
