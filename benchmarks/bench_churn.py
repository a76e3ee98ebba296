"""
Days of a cluster in virtual time, with the whole operator: the load follows one of four curves.

One process holds everything: API server, kube-scheduler, ReplicaSets, kubelets, a cloud in memory that sells
EC2 machines at their prices, and the operator as it is shipped, which sees all that over the API. What
users do is the same under every strategy, see :mod:`benchmarks.workloads.sun`; nothing goes wrong. The last
day counts: by then, a strategy that learns has seen some.

Evictions are those that the API server granted to the operator. The bill is the sum of the prices of the
machines that exist, minute by minute, whether they work yet or not. Every two hours it is held against the
cheapest machines for the pods of that moment if all could be chosen anew: no strategy can stay there, because
that would move every pod all the time. Some clusters are added up, because a single one may favour any
strategy by chance.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from statistics import fmean
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.table import Table, count, seconds
from benchmarks.workloads.fleets import loose
from benchmarks.workloads.sun import DAY, EVERY, LOADS, NIGHT, SHIFT, market, script
from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from karpenter.base.memory import SHORT, few_collections
from karpenter.core.scheduling.build.policy import SchedulingPolicy
from karpenter.core.scheduling.problem import Options
from karpenter.core.scheduling.solve import solve
from karpenter.core.state.cluster import view_of
from karpenter_local.simulation.apply import apply
from karpenter_local.simulation.cluster import SimulatedCluster
from karpenter_local.simulation.kwok import kwok_options
from karpenter_local.simulation.timeline import Timeline, capture_logs
from karpenter_local.testing.cluster_problem import build_problem
from karpenter_local.virtual import run_virtual

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karpenter.kube.transport import Request, Response
    from karpenter_local.simulation.actions import Action

PODS: Final = 300
"""About how many pods there are at noon."""

DAYS: Final = 2
SEEDS: Final = (1, 2)
"""One cluster each."""

STRATEGIES: Final[Mapping[str, Mapping[str, str]]] = {
    "classic": {"consolidation-strategy": "classic", "consolidation-payback": "0s"},
    "global": {},
    "global, steering": {"steer-scale-down": "true"},
}
"""What the rows are called, and the settings that are not as shipped."""

_LOADS: Final[Mapping[str, str]] = {
    "sun": f"the load follows the sun: {NIGHT:.0%} of the pods at midnight",
    "week": "the load is a web site's week: peaks at 10 and 20 o'clock, half as high on days 6 and 7",
    "batch": "the load is a batch queue's: all pods for an hour of every five, a tenth else",
    "office": "the load follows working hours: all pods from 8 to 18 o'clock on days 1 to 5, 15% else",
}

_BASE: Final = "classic"
_SAMPLE: Final = 120
"""Minutes between two looks at what the cheapest machines would cost."""

_MACHINES: Final = 100
"""So many that kubelets report seldom."""

_HEADERS: Final = (
    "strategy",
    "evicted",
    "to classic",
    "bill",
    "to classic",
    "above the cheapest",
    "launched",
    "pods waiting",
    "most machines",
    "cpu",
)


class Day(NamedTuple):
    """What became of clusters on the day that counts."""

    evicted: int
    cost: float
    above: float
    """By which share the bill is above the cheapest packing, on average."""

    launched: int
    waiting: float
    """Minutes that pods were without a node, together."""

    most: int
    """The most machines at any time."""

    spent: float
    """Processor seconds of the whole run, without those for finding the cheapest packings."""

    errors: int
    """What was logged that should not have been."""


def suite(
    pods: int = PODS,
    days: int = DAYS,
    seeds: Sequence[int] = SEEDS,
    only: Sequence[str] = tuple(STRATEGIES),
    load: str = "sun",
) -> Table:
    """Return what a day costs, in money and in evictions."""
    found = {
        name: _together([day(STRATEGIES[name], pods=pods, days=days, seed=seed, load=load) for seed in seeds])
        for name in only
    }
    notes = (
        f"clusters: {len(seeds)}, of about {pods:,} pods at most; day {days} counts",
        _LOADS[load],
        f"workloads change their size every {EVERY} minutes, their noon is up to {SHIFT} hours early or late",
        "evicted, bill and launched are added up; waiting are pod-minutes per cluster, seen every minute",
        f"above the cheapest: above machines all chosen anew, every {_SAMPLE // 60} hours, on average",
        *(f"{name}: {each.errors} errors were logged" for name, each in found.items() if each.errors),
    )
    rows = tuple(_row(name, each, found.get(_BASE)) for name, each in found.items())
    return Table(f"a day of a cluster: {load}", _HEADERS, rows, notes)


def day(settings: Mapping[str, str], *, pods: int, days: int, seed: int, load: str = "sun") -> Day:
    """Return what happens to a cluster on the last of some days."""

    async def main() -> Day:
        run = _Run(settings, days=days, seed=seed, steps=script(pods, days, seed, load))
        with capture_logs(run.logged):
            return await run.run()

    with few_collections(SHORT):
        found = run_virtual(main())
    gc.collect()  # a run leaves reference cycles behind that nothing else finds
    return found


def _together(days: Sequence[Day]) -> Day:
    return Day(
        evicted=sum(each.evicted for each in days),
        cost=sum(each.cost for each in days),
        above=fmean(each.above for each in days),
        launched=sum(each.launched for each in days),
        waiting=fmean(each.waiting for each in days),
        most=max(each.most for each in days),
        spent=sum(each.spent for each in days),
        errors=sum(each.errors for each in days),
    )


def _row(name: str, found: Day, base: Day | None) -> tuple[str, ...]:
    return (
        name,
        count(found.evicted),
        f"{found.evicted / max(base.evicted, 1):.0%}" if base else "-",
        f"${found.cost:,.2f}",
        f"{found.cost / base.cost - 1:+.1%}" if base else "-",
        f"{found.above:.1%}",
        count(found.launched),
        count(found.waiting),
        count(found.most),
        seconds(found.spent),
    )


class _Run:
    """A cluster, minute by minute."""

    def __init__(self, settings: Mapping[str, str], *, days: int, seed: int, steps: list[Action]) -> None:
        self._simulated = SimulatedCluster(
            seed=seed,
            machines=_MACHINES,
            settings=settings,
            on_write=self._on_write,
            cloud=kwok_options(market()),
        )
        self._timeline = Timeline(self._simulated, enabled=False)
        self._steps = steps
        self._begins, self._ends = (days - 1) * DAY, days * DAY
        self._prices = {
            (kind.name, each.zone, each.capacity_type): each.price
            for kind in market().types
            for each in kind.offerings
        }
        self._evicted, self._cost, self._waiting, self._most, self._errors = 0, 0.0, 0, 0, 0
        self._above: list[float] = []
        self._aside = 0.0

    async def run(self) -> Day:
        """Run all days, and return what became of the last."""
        begun = time.process_time()
        async with self._simulated:
            self._simulated.sandbox.begin_operator()
            await self._until(self._begins)
            self._evicted, before = 0, self._timeline.launched
            for minute in range(self._begins + 1, self._ends + 1):
                await self._until(minute)
                self._look()
                if minute % _SAMPLE == 0:
                    self._compare()
            launched = self._timeline.launched - before
        spent = time.process_time() - begun - self._aside
        above = fmean(self._above)
        return Day(self._evicted, self._cost, above, launched, self._waiting, self._most, spent, self._errors)

    def logged(self, _level: str, _event: str, _facts: str) -> None:
        """Count what should not have been logged."""
        self._errors += 1

    async def _until(self, minute: int) -> None:
        """Let users do what they do until a minute is over."""
        while self._steps and self._steps[0].at <= minute * 60:
            await self._sleep(self._steps[0].at)
            await apply(self._simulated, self._steps.pop(0))
        await self._sleep(minute * 60)

    async def _sleep(self, moment: float) -> None:
        await asyncio.sleep(max(0.0, moment - self._simulated.clock.monotonic()))

    def _look(self) -> None:
        simulated = self._simulated
        self._cost += self._bill() / 60
        self._most = max(self._most, len(simulated.cloud.machines()))
        self._waiting += sum(not pod.spec.node_name for pod in simulated.mirror.pods.values())

    def _compare(self) -> None:
        """Hold the bill against the cheapest packing of the pods that there are."""
        begun, simulated = time.process_time(), self._simulated
        going = [pod for pod in simulated.mirror.pods.values() if pod.metadata.deletion_timestamp is None]
        alone = view_of([*simulated.mirror.pools.values(), *map(loose, going)])
        options = Options(packing="price")
        built = build_problem(
            alone, simulated.catalog, now=simulated.clock.now(), options=options, policy=SchedulingPolicy()
        )
        self._above.append(self._bill() / solve(built.problem).cost.hourly - 1)
        self._aside += time.process_time() - begun

    def _bill(self) -> float:
        """Return what the machines cost per hour that exist."""
        every = (each.labels for each in self._simulated.cloud.machines())
        return sum(self._prices[each[INSTANCE_TYPE], each[ZONE], each[CAPACITY_TYPE]] for each in every)

    def _on_write(self, request: Request, response: Response) -> None:
        if request.path.endswith("/eviction") and response.status < 300:
            self._evicted += 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m benchmarks.bench_churn", description=__doc__)
    parser.add_argument("--pods", type=int, default=PODS, help="about how many pods there are at noon")
    parser.add_argument("--days", type=int, default=DAYS, help="how many days there are; the last one counts")
    parser.add_argument("--seed", type=int, action="append", help="of a cluster; may be repeated")
    names = " or ".join(f'"{name}"' for name in STRATEGIES)
    parser.add_argument(
        "--only", choices=STRATEGIES, metavar="ROW", action="append", help=f"{names}; may be repeated"
    )
    parser.add_argument("--load", choices=LOADS, default="sun", help="when workloads are how large")
    chosen = parser.parse_args()
    rows = tuple(chosen.only or STRATEGIES)
    print(suite(chosen.pods, chosen.days, tuple(chosen.seed or SEEDS), rows, chosen.load))
