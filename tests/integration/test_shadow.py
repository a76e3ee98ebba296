"""
A shadow of the operator beside another one that leads, in virtual time.

The cluster is led by the classic strategy. The shadow decides as the operator does by default, and its
figures are held against those of a cluster in which it takes over at that moment: the same users, the same
machines on sale, the same machines to begin with. Both were counted by others than the shadow: evictions by
the API server, the bill by the cloud.
"""

from __future__ import annotations

import asyncio
import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import pytest
from benchmarks.workloads.sun import DAY, market, script
from click.testing import CliRunner

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from karpenter.base.memory import SHORT, few_collections
from karpenter.chart.chart import manifests
from karpenter.chart.tree import Release
from karpenter.chart.values import values_of
from karpenter.cli import main
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.operator.options import parse_settings
from karpenter_local.sandbox.operators import DirectSeams, Replica
from karpenter_local.sandbox.sandbox import Sandbox
from karpenter_local.simulation.actions import Action, AddPool, Deploy, Scale
from karpenter_local.simulation.apply import apply
from karpenter_local.simulation.cluster import SimulatedCluster
from karpenter_local.simulation.kwok import kwok_options
from karpenter_local.virtual import run_virtual
from tests.integration.calls import Call, Grant, Recording, granted
from tests.integration.sandboxes import in_aws
from tests.integration.test_aws import apply as apply_aws
from tests.integration.test_aws import scale as scale_aws

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from karpenter.core.model.catalog import Catalog
    from karpenter.kube.transport import Request, Response
    from karpenter.shadow.account import ShadowAccount

CLASSIC: Final = {
    "consolidation-strategy": "classic",
    "consolidation-payback": "0s",
    "packing-policy": "greedy",
}
MACHINES: Final = 100
"""So many that kubelets report seldom."""


class Measured(NamedTuple):
    """What a cluster has come to, as the cloud and the API server count."""

    cost: float
    evicted: int
    report: dict[str, Any]


class _Cluster:
    """A cluster that users scale, and the operator that leads it."""

    def __init__(self, steps: Sequence[Action], begins_with: Mapping[str, str], sold: Catalog) -> None:
        self._steps = sorted(steps, key=lambda each: each.at)
        self._prices = {
            (kind.name, each.zone, each.capacity_type): each.price
            for kind in sold.types
            for each in kind.offerings
        }
        self._evicted = 0
        self._cost = 0.0
        self.simulated = SimulatedCluster(
            seed=1,
            machines=MACHINES,
            settings=begins_with,
            on_write=self._on_write,
            cloud=kwok_options(sold),
        )

    def _on_write(self, request: Request, response: Response) -> None:
        if request.path.endswith("/eviction") and response.status < 300:
            self._evicted += 1

    async def run(
        self, begins: int, ends: int, *, record: Path | None = None, then: Mapping[str, str] | None = None
    ) -> Measured:
        """
        Let minutes pass; from `begins` on they count.

        From then on a shadow runs where a `record` is named, or an operator with other settings leads.
        """
        simulated, shadow = self.simulated, None
        async with simulated:
            simulated.sandbox.begin_operator()
            await self._until(begins)
            self._evicted = 0
            if then is not None:
                await simulated.sandbox.stop_operator()
                simulated.sandbox.settings = parse_settings(then)
                await simulated.sandbox.start_operator()
            if record is not None:
                shadow = await start_shadow(simulated.sandbox, record)
            for second in range(begins * 60, ends * 60, 15):
                await self._until(second / 60)
                self._cost += self._bill() * 15 / 3600
            await self._until(ends)
            if shadow is not None:
                await shadow.stop()
        report = {}
        if record is not None:
            result = CliRunner().invoke(main, ["shadow", "report", "-o", "json", str(record)])
            assert result.exit_code == 0, result.output
            report = json.loads(result.stdout)
        return Measured(self._cost, self._evicted, report)

    async def _until(self, minute: float) -> None:
        while self._steps and self._steps[0].at <= minute * 60:
            await self._sleep(self._steps[0].at)
            await apply(self.simulated, self._steps.pop(0))
        await self._sleep(minute * 60)

    async def _sleep(self, moment: float) -> None:
        await asyncio.sleep(max(0.0, moment - self.simulated.clock.monotonic()))

    def _bill(self) -> float:
        every = (each.labels for each in self.simulated.cloud.machines())
        return sum(self._prices[each[INSTANCE_TYPE], each[ZONE], each[CAPACITY_TYPE]] for each in every)


def measure(
    steps: Sequence[Action],
    begins: int,
    ends: int,
    *,
    record: Path | None = None,
    then: Mapping[str, str] | None = None,
    sold: Catalog | None = None,
) -> Measured:
    """Run a cluster that the classic strategy leads, `then` perhaps another, and return what it comes to."""

    async def run() -> Measured:
        return await _Cluster(steps, CLASSIC, sold or few()).run(begins, ends, record=record, then=then)

    with few_collections(SHORT):
        return run_virtual(run())


@cache
def few() -> Catalog:
    """Return a market of a few instance types, in which decisions are quick."""
    kinds = [each for each in load_catalog("kwok").types if each.name.endswith("-amd64-linux")]
    return msgspec.structs.replace(load_catalog("kwok"), types=tuple(kinds))


def swings(hours: int) -> list[Action]:
    """Return workloads that grow and shrink by half, each at its own minutes."""
    pool = AddPool(at=0.0, name="default", consolidate_after="0s", budgets=("100%",))
    sizes = ((6, 500, 1024), (4, 1000, 1024), (8, 250, 1024), (3, 1500, 4096), (5, 750, 2048))
    steps: list[Action] = [pool]
    for number, (most, milli, mebi) in enumerate(sizes):
        name = f"app-{number}"
        steps.append(Deploy(at=2.0 + number, name=name, replicas=most, milli=milli, mebi=mebi))
        for turn in range(1, hours * 3):
            replicas = most if turn % 2 == 0 else max(1, most // 2)
            steps.append(Scale(at=(turn * 20 + number * 3) * 60.0, name=name, replicas=replicas))
    return steps


async def start_shadow(sandbox: Sandbox, record: Path | None, recording: Recording | None = None) -> Replica:
    """Start a shadow beside the operator that leads the cluster."""
    shadow = Replica(
        recording or sandbox.running.transport(),
        sandbox.cloud,
        name="shadow",
        clock=sandbox.clock,
        settings=parse_settings({"shadow": "true", "shadow-record": str(record or "")}),
        seams=DirectSeams,
    )
    shadow.start()
    await shadow.started()
    return shadow


def test_what_the_chart_starts_as_a_shadow_reads_only() -> None:
    """The process with the chart's environment makes calls that its ClusterRole grants: get, list, watch."""
    values = values_of([], ["mode=shadow,settings.clusterName=test,settings.cloudProvider=kwok"])
    objects = manifests(Release(values=values), definitions=False)
    [role] = [each for each in objects if each["kind"] == "ClusterRole"]
    [deployment] = [each for each in objects if each["kind"] == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    environment = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    grants = granted(role["rules"])

    async def scenario() -> tuple[set[Call], ShadowAccount]:
        async with Sandbox(name="test") as sandbox:
            await sandbox.create_node_pool(disruption={"consolidateAfter": "0s"})
            await sandbox.deploy(replicas=2)
            await sandbox.until_running(2)
            recording = Recording(sandbox.running.transport())
            ports = {"METRICS_PORT": "0", "HEALTH_PROBE_PORT": "0"}
            async with sandbox.serve_operator({**environment, **ports}, transport=recording) as process:
                await sandbox.scale("inflate", 40)
                await sandbox.until_running(40)
                await asyncio.sleep(120)
                await sandbox.scale("inflate", 4)
                await asyncio.sleep(300)
                assert process.operator is not None
                assert process.operator.shadow is not None
                return recording.calls, process.operator.shadow.account

    calls, account = run_virtual(scenario())

    assert {grant.verb for grant in grants} == {"get", "list", "watch"}
    assert {Grant(*each.grant[:3]) for each in calls} - grants == set()
    assert account.shadow.launched > 0
    assert account.shadow.removed > 0
    assert account.shadow.placed == account.real.placed == 38


@in_aws()
async def test_a_shadow_only_reads_aws(sandbox: Sandbox) -> None:
    """Machines that a shadow launches exist in thought only: AWS is asked, and told nothing."""
    await apply_aws(sandbox)
    await asyncio.sleep(45)  # until the class is ready
    await sandbox.stop_operator()
    sandbox.aws.site.account.forget_calls()
    recording = Recording(sandbox.running.transport())
    shadow = await start_shadow(sandbox, None, recording)
    await scale_aws(sandbox, 4)
    await asyncio.sleep(300)
    assert shadow.operator.shadow is not None
    totals = shadow.operator.shadow.account.shadow
    await shadow.stop()

    assert (totals.placed, totals.launched > 0) == (4, True)
    assert totals.hourly > 0
    assert {each.grant.verb for each in recording.calls} <= {"get", "list", "watch"}
    told = {each.operation for each in sandbox.aws.site.account.calls()}
    assert {each for each in told if not each.startswith(("Describe", "Get", "List"))} == set()
    assert not sandbox.aws.control.instances()


@pytest.mark.long
def test_the_report_equals_two_lives_run_apart(tmp_path: Path) -> None:
    """For an hour: what was paid, and what the default would have paid, are those of two clusters."""
    beside = measure(swings(2), 10, 70, record=tmp_path / "record.jsonl")
    apart = measure(swings(2), 10, 70, then={})
    real, shadow = beside.report["real"], beside.report["shadow"]

    assert real["cost"] == pytest.approx(beside.cost, rel=0.01)
    assert real["evicted"] == beside.evicted
    assert shadow["cost"] == pytest.approx(apart.cost, rel=0.03)
    assert shadow["evicted"] == pytest.approx(apart.evicted, rel=0.25)


@pytest.mark.long
def test_the_report_of_a_day_equals_two_lives_run_apart(tmp_path: Path) -> None:
    """For a day that follows the sun: money within 3 %, evictions within a quarter, of two clusters."""
    beside = measure(script(60, 1, 1), 60, DAY, record=tmp_path / "record.jsonl", sold=market())
    apart = measure(script(60, 1, 1), 60, DAY, then={}, sold=market())
    real, shadow = beside.report["real"], beside.report["shadow"]

    assert real["cost"] == pytest.approx(beside.cost, rel=0.01)
    assert real["evicted"] == pytest.approx(beside.evicted, rel=0.02)
    assert shadow["cost"] == pytest.approx(apart.cost, rel=0.03)
    assert shadow["evicted"] == pytest.approx(apart.evicted, rel=0.25)
