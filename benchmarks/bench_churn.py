"""
A day of steady clusters: the same workloads, whose sizes follow the sun, under both strategies.

Every few minutes replicas come and go, pods that wait get machines, and disruption looks for
savings until it finds no more; its commands are carried out at once. What counts is how many pods were
evicted, and what the machines cost over the day. Some clusters are added up, because a single
one may favour either strategy by chance.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from benchmarks.table import Table, count, seconds
from benchmarks.workloads.fleets import NOW, bound, carried_out, machine, market, pods_of, pool_of
from benchmarks.workloads.waves import bill, rules_of
from karpenter.core.disruption.candidates import survey
from karpenter.core.disruption.command import UNDERUTILIZED
from karpenter.core.disruption.lives import expected_lives, grown, saved
from karpenter.core.disruption.payback import remember
from karpenter.core.disruption.propose import propose
from karpenter.core.scheduling.intake.intake import Policy, take_in
from karpenter.core.scheduling.problem import Options
from karpenter.core.scheduling.solve import solve
from karpenter.core.state.guards import Guards
from karpenter.core.state.nodes import state_nodes
from karpenter.core.state.view import view_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from karpenter.api.meta import Resource
    from karpenter.api.pod import Pod
    from karpenter.core.disruption.command import Command
    from karpenter.core.disruption.lives import Lives
    from karpenter.core.disruption.payback import Past
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
_BEFORE: Final = 2
"""Days that pass before the one that counts; by then, whoever learns has seen a few."""

SEEDS: Final = (1, 2, 7)
"""One cluster each."""


class Day(NamedTuple):
    """What became of a cluster over a day."""

    evicted: int
    cost: float
    most: int
    """The most machines at any time."""

    launched: int
    spent: float


def suite(pods: int = PODS, step: int = STEP, seeds: Sequence[int] = SEEDS) -> Table:
    """Return what a day costs, in money and in evictions."""
    known = rules_of("global")
    every = {
        "classic": (rules_of("classic"), False),
        "global": (known, True),
        "global, nothing learned": (known, False),
    }
    found = {
        name: _sum([day(rules, pods=pods, step=step, seed=seed, learns=learns) for seed in seeds])
        for name, (rules, learns) in every.items()
    }
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
        f"{len(seeds)} clusters of {pods:,} pods at noon, {_NIGHT:.0%} at midnight, added up",
        f"the load changes every {step} minutes; day {_BEFORE + 1} counts",
        "evicted counts pods moved for savings or drift, not those that their workloads took away",
        "nothing learned: as after a restart, with no memory of commands and of how long savings lasted",
    )
    return Table("a day of a steady cluster", headers, tuple(rows), notes)


def day(rules: Rules, *, pods: int, step: int, seed: int, learns: bool) -> Day:
    """Return what happens to a cluster on the day that counts."""
    life = _Life(pods, rules, seed, learns=learns)
    begun = time.process_time()
    for minute in range(0, (_BEFORE + 1) * _DAY, step):
        life.tick(minute, step, counts=minute >= _BEFORE * _DAY)
    return Day(life.evicted, life.cost, life.most, life.launched, time.process_time() - begun)


def _sum(days: Sequence[Day]) -> Day:
    return Day(
        sum(each.evicted for each in days),
        sum(each.cost for each in days),
        sum(each.most for each in days),
        sum(each.launched for each in days),
        sum(each.spent for each in days),
    )


class _Life:
    """A cluster, minute by minute; `learns` lets the operator remember what it has done."""

    def __init__(self, pods: int, rules: Rules, seed: int, *, learns: bool) -> None:
        rng = random.Random(seed)  # noqa: S311  workloads, not secrets
        self._rules = rules
        self._learns = learns
        self._past: tuple[Past, ...] = ()
        self._lives: Lives = ()
        self._workloads: dict[str, list[Pod]] = {}
        for pod in pods_of(pods, rng):
            self._workloads.setdefault(pod.metadata.labels["app"], []).append(pod)
        self._shift = {name: rng.uniform(-_WEIGHT, _WEIGHT) for name in self._workloads}
        self._view: ClusterView = view_of([pool_of("10%")])
        self._turn = 0
        self.evicted, self.cost, self.most, self.launched = 0, 0.0, 0, 0

    def tick(self, minute: int, step: int, *, counts: bool) -> None:
        """Let some minutes pass."""
        now = NOW + timedelta(minutes=minute)
        self._scale(minute)
        self._provision(now, counts=counts)
        for _ in range(_LOOKS * step):
            verdict = propose(
                self._view, market(), now=now, options=Options(), policy=Policy(), rules=self._known(now)
            )
            if not verdict.commands:
                break
            for command in verdict.commands:
                self._turn += 1
                self._note(command, now)
                self._view = carried_out(self._view, command, self._turn)
                if counts:
                    self.evicted += command.pods_moved
                    self.launched += len(command.replacements)
        if counts:
            self.cost += bill(self._view) * step / 60
            self.most = max(self.most, len(self._view.nodes))

    def _known(self, now: datetime) -> Rules:
        """Return the rules with what the operator has learned by now."""
        if not self._learns:
            return self._rules
        payback = self._rules.payback.learned((), expected_lives(self._lives, now))
        return msgspec.structs.replace(self._rules, past=self._past, payback=payback)

    def _note(self, command: Command, now: datetime) -> None:
        """Let the operator remember a command."""
        if self._learns and command.reason == UNDERUTILIZED:
            nodes = state_nodes(self._view)
            every = survey(nodes, self._view, market(), Guards(self._view), now).candidates
            going = [each for each in every if each.name in command.candidates]
            recent = (each for each in self._past if now - each.when < self._rules.no_return)
            self._past = (*recent, remember(command, going, now))
            self._lives = saved(self._lives, (each.pool.name for each in going), now)

    def _scale(self, minute: int) -> None:
        wanted: dict[str, Pod] = {}
        for name, pods in self._workloads.items():
            hour = minute / 60 - 12 + self._shift[name]
            share = _NIGHT + (1 - _NIGHT) * (1 + math.cos(2 * math.pi * hour / 24)) / 2
            for pod in pods[: max(1, round(share * len(pods)))]:
                wanted[pod.key] = self._view.pods.get(pod.key, pod)
        self._view = msgspec.structs.replace(self._view, pods=wanted)

    def _provision(self, now: datetime, *, counts: bool) -> None:
        intake = take_in(self._view, market(), now=now, options=Options(prove=False), policy=Policy())
        plan = solve(intake.problem)
        homes = {key: node for node, keys in plan.placed.items() for key in keys}
        objects: list[Resource] = []
        for new in plan.new_nodes:
            self._turn += 1
            name = f"bought-{self._turn}"
            objects += machine(new, name)
            homes.update(dict.fromkeys(new.pods, name))
        self._lives = grown(self._lives, {new.pool for new in plan.new_nodes}, now)
        if counts:
            self.launched += len(plan.new_nodes)
        pods = [bound(pod, homes[key]) if key in homes else pod for key, pod in self._view.pods.items()]
        old = (*self._view.pools.values(), *self._view.nodes.values(), *self._view.claims.values())
        self._view = view_of([*old, *objects, *pods])


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m benchmarks.bench_churn", description=__doc__)
    parser.add_argument("--pods", type=int, default=PODS, help="how many pods there are at noon")
    parser.add_argument("--step", type=int, default=STEP, help="minutes between two changes of the load")
    parser.add_argument("--seed", type=int, action="append", help="of a cluster; may be repeated")
    chosen = parser.parse_args()
    print(suite(chosen.pods, chosen.step, tuple(chosen.seed or SEEDS)))
