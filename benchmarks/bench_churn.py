"""
A day of a steady cluster: the same workloads, whose sizes follow the sun, under both strategies.

Every few minutes replicas come and go, pods that wait get machines, and disruption looks for
savings until it finds no more; its commands are carried out at once. What counts is how many pods were
evicted, and what the machines cost over the day.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from benchmarks.table import Table, count, seconds
from benchmarks.workloads.fleets import NOW, bound, carried_out, machine, market, pods_of, pool_of
from benchmarks.workloads.waves import bill, rules_of
from karpenter.core.disruption.payback import Payback
from karpenter.core.disruption.propose import propose
from karpenter.core.scheduling.intake.intake import Policy, take_in
from karpenter.core.scheduling.problem import Options
from karpenter.core.scheduling.solve import solve
from karpenter.core.state.view import view_of

if TYPE_CHECKING:
    from karpenter.api.meta import Resource
    from karpenter.api.pod import Pod
    from karpenter.core.disruption.propose import Rules
    from karpenter.core.state.view import ClusterView

PODS: Final = 500
"""How many pods there are at noon."""

STEP: Final = 30
"""Minutes between two changes of the load."""

_NIGHT: Final = 0.45
"""The share of pods that is left at midnight."""

_LOOKS: Final = 3
"""How often a minute disruption looks again while it finds something; each command takes its time."""

_WEIGHT: Final = 3
_DAY: Final = 24 * 60
_PRICES: Final = (0.03, 0.06)
"""Other prices of an eviction (the setting eviction-price)."""


class Day(NamedTuple):
    """What became of a cluster over a day."""

    evicted: int
    cost: float
    most: int
    """The most machines at any time."""

    launched: int
    spent: float


def suite(pods: int = PODS, step: int = STEP) -> Table:
    """Return what a day costs, in money and in evictions."""
    every = {"classic": rules_of("classic"), "global": rules_of("global")}
    for price in _PRICES:
        payback = Payback(eviction_price=price)
        every[f"global, ${price:g} a pod"] = msgspec.structs.replace(every["global"], payback=payback)
    found = {name: day(rules, pods=pods, step=step) for name, rules in every.items()}
    base = found["classic"]
    rows = [
        (
            strategy,
            count(each.evicted),
            f"{each.evicted / max(base.evicted, 1):.0%}",
            f"${each.cost:,.2f}",
            f"{each.cost / base.cost - 1:+.1%}",
            count(each.launched),
            count(each.most),
            seconds(each.spent),
        )
        for strategy, each in found.items()
    ]
    headers = ("strategy", "evicted", "to classic", "bill", "to classic", "launched", "most machines", "cpu")
    notes = (
        f"{pods:,} pods at noon, {_NIGHT:.0%} at midnight, changing every {step} minutes; day two counts",
        "evicted counts pods moved for savings or drift, not those that their workloads took away",
    )
    return Table("a day of a steady cluster", headers, tuple(rows), notes)


def day(rules: Rules, *, pods: int, step: int) -> Day:
    """Return what happens to a cluster on its second day."""
    life = _Life(pods, rules)
    begun = time.process_time()
    for minute in range(0, 2 * _DAY, step):
        life.tick(minute, step, counts=minute >= _DAY)
    return Day(life.evicted, life.cost, life.most, life.launched, time.process_time() - begun)


class _Life:
    """A cluster, minute by minute."""

    def __init__(self, pods: int, rules: Rules) -> None:
        rng = random.Random(7)  # noqa: S311  workloads, not secrets
        self._rules = rules
        self._workloads: dict[str, list[Pod]] = {}
        for pod in pods_of(pods, rng):
            self._workloads.setdefault(pod.metadata.labels["app"], []).append(pod)
        self._shift = {name: rng.uniform(-_WEIGHT, _WEIGHT) for name in self._workloads}
        self._view: ClusterView = view_of([pool_of("10%")])
        self._turn = 0
        self.evicted, self.cost, self.most, self.launched = 0, 0.0, 0, 0

    def tick(self, minute: int, step: int, *, counts: bool) -> None:
        """Let some minutes pass."""
        self._scale(minute)
        self._provision(counts=counts)
        for _ in range(_LOOKS * step):
            verdict = propose(
                self._view, market(), now=NOW, options=Options(), policy=Policy(), rules=self._rules
            )
            if not verdict.commands:
                break
            for command in verdict.commands:
                self._turn += 1
                self._view = carried_out(self._view, command, self._turn)
                if counts:
                    self.evicted += command.pods_moved
                    self.launched += len(command.replacements)
        if counts:
            self.cost += bill(self._view) * step / 60
            self.most = max(self.most, len(self._view.nodes))

    def _scale(self, minute: int) -> None:
        wanted: dict[str, Pod] = {}
        for name, pods in self._workloads.items():
            hour = minute / 60 - 12 + self._shift[name]
            share = _NIGHT + (1 - _NIGHT) * (1 + math.cos(2 * math.pi * hour / 24)) / 2
            for pod in pods[: max(1, round(share * len(pods)))]:
                wanted[pod.key] = self._view.pods.get(pod.key, pod)
        self._view = msgspec.structs.replace(self._view, pods=wanted)

    def _provision(self, *, counts: bool) -> None:
        intake = take_in(self._view, market(), now=NOW, options=Options(prove=False), policy=Policy())
        plan = solve(intake.problem)
        homes = {key: node for node, keys in plan.placed.items() for key in keys}
        objects: list[Resource] = []
        for new in plan.new_nodes:
            self._turn += 1
            name = f"bought-{self._turn}"
            objects += machine(new, name)
            homes.update(dict.fromkeys(new.pods, name))
        if counts:
            self.launched += len(plan.new_nodes)
        pods = [bound(pod, homes[key]) if key in homes else pod for key, pod in self._view.pods.items()]
        old = (*self._view.pools.values(), *self._view.nodes.values(), *self._view.claims.values())
        self._view = view_of([*old, *objects, *pods])


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m benchmarks.bench_churn", description=__doc__)
    parser.add_argument("--pods", type=int, default=PODS, help="how many pods there are at noon")
    parser.add_argument("--step", type=int, default=STEP, help="minutes between two changes of the load")
    chosen = parser.parse_args()
    print(suite(chosen.pods, chosen.step))
