"""
One pass of disruption: which machines go now, and what holds each of the others.

Reasons are tried in a fixed order (empty, drifted, underutilized) and the first that finds
something ends the pass, so that every command is decided about the cluster as it is.
Expired machines go in any case.

Until when a cluster in which nothing changes stays as it is: the next moment at which time alone matters.

A pass that found nothing need not be repeated before something changes or such a moment comes:
a quiet time ends, a budget's window opens or closes, a pod's own protection runs out, a claim
is old enough for its instance type to count as gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, DO_NOT_DISRUPT, NODEPOOL, ZONE
from karpenter.api.meta import ObjectMeta
from karpenter.api.pod import Pod, PodSpec, Toleration
from karpenter.core.disruption import global_search, multinodeconsolidation
from karpenter.core.disruption.budgets import Headroom, read_budgets
from karpenter.core.disruption.candidates import find_candidates
from karpenter.core.disruption.churn import PastCommand, Payback, undoes
from karpenter.core.disruption.command import (
    DRIFTED,
    EMPTY,
    EXPIRED,
    UNDERUTILIZED,
    Command,
    KeptNode,
    SavingsBound,
    DisruptionDecision,
)
from karpenter.core.disruption.consolidation import Consolidation, PoolTotals, RefusedMove
from karpenter.core.disruption.cost import moving_cost, price_of
from karpenter.core.disruption.drift import OUT_OF_TIME, replace_drifted, replace_static_drifted
from karpenter.core.disruption.global_search import least_cost
from karpenter.core.disruption.simulate import Simulator
from karpenter.core.lifecycle.disruption_conditions import (
    SETTLING,
    consolidate_after,
    expires_at,
    is_expired,
    is_quiet,
    quiet_until,
)
from karpenter.core.scheduling.build.build import as_pool, overlaid_catalog
from karpenter.core.scheduling.problem import Options, Problem
from karpenter.core.scheduling.solve import solve
from karpenter.core.state.pdb import Guards
from karpenter.core.state.pod import protected_until, runs_again
from karpenter.core.state.statenode import state_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from karpenter.core.disruption.budgets import BudgetWindow
    from karpenter.core.disruption.candidates import Candidate, CandidateSurvey
    from karpenter.core.disruption.drift import Obstacles
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.scheduling.build.build import SchedulingPolicy
    from karpenter.core.scheduling.problem import NewNode
    from karpenter.core.state.view import ClusterView


UNEXPLAINED: Final = "no saving was found"
"""What is said of a machine that stays for want of a saving, where nothing closer is known."""

_MOST_REPLACEMENTS: Final = 100
_ANY_TAINT: Final = Toleration(operator="Exists")


class DisruptionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the operator that change what disruption may do."""

    strategy: Literal["global", "classic"] = "global"
    spot_to_spot: bool = False
    static_capacity: bool = False
    payback: Payback = Payback()
    past: tuple[PastCommand, ...] = ()
    """Commands carried out before, as far as they are remembered."""

    no_return: timedelta = timedelta(hours=1)
    """For how long a command may not be undone by another."""

    surge: bool = False
    """Whether successors of pods that must not be missed are started before they go."""

    resting: frozenset[str] = frozenset()
    """Pools in which savings did not come out as planned lately, and are not looked for."""

    explain: int = 200
    """For how many machines that stay it is worked out what they would cost elsewhere."""

    explained: frozenset[str] = frozenset()
    """Machines of which that was worked out a short while ago, and is not again."""

    prove: bool = False
    """Whether it is worked out how far savings could go at the very most."""

    overdue: frozenset[str] = frozenset()
    """Drifted machines that the last pass had no time for."""

    stop: Callable[[], bool] | None = None
    """Says when the time for one reason is up; what was found by then counts."""

    tried: Callable[[str], None] | None = None
    """Is told every reason that was tried, when that is over."""


def propose(
    view: ClusterView,
    catalog: Catalog,
    *,
    now: datetime,
    options: Options,
    policy: SchedulingPolicy,
    rules: DisruptionSettings,
    nominated: frozenset[str] = frozenset(),
    buffered: frozenset[str] = frozenset(),
) -> DisruptionDecision:
    """
    Decide which machines go now.

    `nominated` machines are promised to waiting pods; `buffered` ones hold room for a buffer.
    """
    return _Pass(view, catalog, now, options, policy, rules, nominated, buffered).decide()


def expired(view: ClusterView, catalog: Catalog, now: datetime) -> list[Command]:
    """Return the commands for machines that are too old; no budget applies to them."""
    found = []
    for node in state_nodes(view):
        if (
            node.claim is not None
            and node.node is not None
            and not node.is_leaving
            and is_expired(node.claim, now)
        ):
            pods = [pod for pod in node.pods if runs_again(pod)]
            price = price_of(node, catalog) or 0.0
            found.append(
                Command(reason=EXPIRED, candidates=(node.name,), hourly_before=price, pods_moved=len(pods))
            )
    return found


class _Pass:
    def __init__(  # noqa: PLR0917  made in one place, by the function above
        self,
        view: ClusterView,
        catalog: Catalog,
        now: datetime,
        options: Options,
        policy: SchedulingPolicy,
        rules: DisruptionSettings,
        nominated: frozenset[str],
        buffered: frozenset[str],
    ) -> None:
        self._view, self._catalog, self._now = view, catalog, now
        self._priced = overlaid_catalog(view, catalog, policy)
        self._options, self._rules, self._buffered = options, rules, buffered
        self._nodes = state_nodes(view)
        guards = Guards(view)
        self._survey: CandidateSurvey = find_candidates(
            self._nodes, view, self._priced, guards, now, nominated=nominated, surge=rules.surge
        )
        quiet = frozenset(
            node.name for node in self._nodes if is_quiet(node.claim, view.pools.get(node.pool), now)
        )
        self._simulator = Simulator(
            view,
            catalog,
            self._nodes,
            guards,
            now,
            movable=(*self._survey.candidates, *self._survey.eventual),
            quiet=quiet,
            options=options,
            policy=policy,
            fullest_first=rules.strategy == "global",
        )
        self._why: Obstacles = {}
        self._stop = rules.stop or (lambda: False)
        self._late: frozenset[str] = frozenset()

    def decide(self) -> DisruptionDecision:
        commands: tuple[Command, ...] = ()
        methods = {EMPTY: self._empty, DRIFTED: self._drift, UNDERUTILIZED: self._underutilized}
        for reason, method in methods.items():
            commands = tuple(method())
            if self._rules.tried is not None:
                self._rules.tried(reason)
            if commands:
                break
        kept = tuple(self._kept(commands))
        light = () if commands else tuple(self._consolidation.outweighed.values())
        reach = self._reach() if self._rules.prove else None
        return DisruptionDecision(
            commands=commands, kept=kept, outweighed=light, reach=reach, unreached=self._late
        )

    def _reach(self) -> SavingsBound:
        """Return how far savings could go."""
        every = [c for c in self._survey.candidates if not self._obstacle(c)[1]]
        hourly = sum(c.price or 0.0 for c in every)
        return SavingsBound(
            machines=len(every), hourly=hourly, least=least_cost(self._simulator.as_it_is(), every)
        )

    def _headroom(self, reason: str) -> Headroom:
        return Headroom(self._nodes, self._view, reason, self._now)

    def _empty(self) -> list[Command]:
        headroom = self._headroom(EMPTY)
        empties = [
            c
            for c in self._survey.candidates
            if c.is_empty and _is_dynamic(c) and c.name not in self._buffered
        ]
        ready = [c for c in empties if not c.quiet]
        going = headroom.within(sorted(ready, key=lambda c: (-c.worth, c.name)))
        for candidate in ready:
            self._why[candidate.name] = ("Budget", headroom.obstacle(candidate))
        if not going:
            return []
        return [
            Command(
                reason=EMPTY,
                candidates=tuple(c.name for c in going),
                hourly_before=sum(c.price or 0.0 for c in going),
                pods_moved=sum(len(c.pods) for c in going),
            )
        ]

    def _drifted(self, *, static: bool) -> list[Candidate]:
        every = (*self._survey.candidates, *self._survey.eventual)
        return [c for c in every if c.drift and _is_dynamic(c) != static]

    def _drift(self) -> list[Command]:
        found = self._static_drift() or self._dynamic_drift()
        self._late = frozenset(name for name, (code, _) in self._why.items() if code == OUT_OF_TIME)
        return found

    def _static_drift(self) -> list[Command]:
        drifted = self._drifted(static=True)
        if not self._rules.static_capacity:
            message = "its NodePool is static, and the feature gate StaticCapacity is off"
            self._why |= {c.name: ("StaticCapacity", message) for c in drifted}
            return []
        headroom = self._headroom(DRIFTED)
        sizes = Counter(node.pool for node in self._nodes if not node.is_leaving)
        self._note_budget(drifted, headroom)
        return replace_static_drifted(
            drifted, sizes, headroom, self._why, template_node=self._template_node, stop=self._stop
        )

    def _dynamic_drift(self) -> list[Command]:
        drifted, headroom = self._drifted(static=False), self._headroom(DRIFTED)
        self._note_budget(drifted, headroom)
        overdue = self._rules.overdue
        command = replace_drifted(
            drifted, self._simulator, headroom, self._why, stop=self._stop, overdue=overdue
        )
        return [command] if command is not None else []

    def _note_budget(self, candidates: Iterable[Candidate], headroom: Headroom) -> None:
        for candidate in candidates:
            if not headroom.allows(candidate):
                self._why[candidate.name] = ("Budget", headroom.obstacle(candidate))

    def _underutilized(self) -> list[Command]:
        headroom = self._headroom(UNDERUTILIZED)
        ready = [c for c in self._survey.candidates if not c.is_empty and not self._not_yet(c)]
        self._note_budget(ready, headroom)
        consolidation = self._consolidation
        if self._rules.strategy == "classic":
            known = multinodeconsolidation.consolidate(ready, consolidation, headroom, self._stop)
            found = [known] if known is not None else []
        else:
            found = global_search.consolidate(
                ready,
                consolidation,
                self._simulator,
                lambda: self._headroom(UNDERUTILIZED),
                self._stop,
                least=self._payback.least,
            )
        return [command for command in found if self._is_worth_it(command)]

    def _is_worth_it(self, command: Command) -> bool:
        """Whether a saving pays for what it moves and does not undo an earlier command."""
        going = [c for c in self._survey.candidates if c.name in command.candidates]
        rules = self._rules
        code, message = "", ""
        if not self._payback.earns(command, going):
            price = self._payback.price(command, going)
            code = "NoPayback"
            message = (
                f"saving ${command.saving:.4f} an hour does not pay soon enough for moving (${price:.4f})"
            )
        elif undoes(command, going, rules.past, self._now, within=rules.no_return):
            code = "WouldUndo"
            message = "the saving would undo a command that was carried out a short while ago"
        for candidate in going if code else ():
            self._why[candidate.name] = (code, message)
        return not code

    @cached_property
    def _payback(self) -> Payback:
        """What savings must earn, now that it is known what a pod costs in each pool."""
        sizes = Counter(node.pool for node in self._nodes if not node.is_leaving)
        pods = {name: total.cost - sizes[name] for name, total in self._totals.items()}
        rates = {name: self._totals[name].price / cost for name, cost in pods.items() if cost > 0}
        return msgspec.structs.replace(self._rules.payback, rates=rates)

    @cached_property
    def _totals(self) -> dict[str, PoolTotals]:
        """What every pool costs, and what emptying it would."""
        known = {c.name: c.cost for c in (*self._survey.candidates, *self._survey.eventual)}
        totals: dict[str, PoolTotals] = {}
        for node in self._nodes:
            if node.pool and not node.is_leaving:
                had = totals.get(node.pool, PoolTotals(0.0, 0.0))
                cost = known.get(node.name) or moving_cost(pod for pod in node.pods if runs_again(pod))
                price = price_of(node, self._priced) or 0.0
                totals[node.pool] = PoolTotals(had.price + price, had.cost + cost)
        return totals

    @cached_property
    def _consolidation(self) -> Consolidation:
        most = 1 if self._rules.strategy == "classic" else _MOST_REPLACEMENTS
        return Consolidation(
            self._simulator, self._totals, spot_to_spot=self._rules.spot_to_spot, most_replacements=most
        )

    def _not_yet(self, candidate: Candidate) -> str:
        """Return why a candidate may not be consolidated at all."""
        code, message = self._obstacle(candidate)
        if message:
            self._why.setdefault(candidate.name, (code, message))
        return message

    def _obstacle(self, candidate: Candidate) -> tuple[str, str]:
        """Return the first thing that keeps a candidate from being consolidated, as a code and a sentence."""
        pool, labels = candidate.pool.name, candidate.node.labels
        missing = next((key for key in (CAPACITY_TYPE, ZONE) if key not in labels), "")
        only_empty = candidate.pool.spec.disruption.consolidation_policy == "WhenEmpty"
        checks = (
            (not _is_dynamic(candidate), "StaticCapacity", f"NodePool {pool} is static"),
            (bool(missing), "Unpriced", f"the node has no label {missing}, so it has no price to compare"),
            (
                candidate.price is None,
                "Unpriced",
                "no price is known for the node's instance type, zone and capacity type",
            ),
            (consolidate_after(candidate.pool) is None, "ConsolidateAfter", candidate.quiet),
            (
                only_empty and not candidate.is_empty,
                "WhenEmpty",
                f"the node is not empty, and NodePool {pool} consolidates WhenEmpty",
            ),
            (bool(candidate.quiet), "ConsolidateAfter", candidate.quiet),
            (
                pool in self._rules.resting,
                "Resting",
                f"NodePool {pool} rests from savings: pods did not land where they were planned",
            ),
        )
        return next(((code, message) for holds, code, message in checks if holds), ("", ""))

    def _template_node(self, candidate: Candidate) -> NewNode | None:
        """Return a new node of a static pool: whatever is cheapest."""
        pool = as_pool(candidate.pool, self._catalog, {})
        pool = msgspec.structs.replace(pool, limits={})
        stand_in = Pod(
            metadata=ObjectMeta(name="static", namespace="default"),
            spec=PodSpec(node_selector={NODEPOOL: pool.name}, tolerations=(_ANY_TAINT,)),
        )
        rules = self._catalog.label_rules
        plan = solve(Problem(pods=(stand_in,), pools=(pool,), rules=rules, options=Options(prove=False)))
        return msgspec.structs.replace(plan.new_nodes[0], pods=()) if plan.new_nodes else None

    def _kept(self, commands: Sequence[Command]) -> Iterable[KeptNode]:
        gone = {name for command in commands for name in command.candidates}
        by_name = {c.name: c for c in (*self._survey.eventual, *self._survey.candidates)}
        consolidation, explained = self._consolidation, 0
        for node in self._nodes:
            if not node.is_managed or node.name in gone:
                continue
            held = self._survey.held.get(node.name)
            candidate = by_name.get(node.name)
            if node.name in self._why:
                code, message = self._why[node.name]
                yield KeptNode(node=node.name, code=code, message=message, hourly=_price(candidate))
            elif held is not None or candidate is None:
                yield held or KeptNode(
                    node=node.name, code="Unknown", message="nothing is known about the node"
                )
            elif commands:
                yield KeptNode(
                    node=node.name,
                    code="Waiting",
                    message=f"it is looked at again after what goes now ({commands[0].reason})",
                    hourly=_price(candidate),
                )
            else:
                closely = node.name not in self._rules.explained and explained < self._rules.explain
                explained += closely
                yield self._explained(candidate, consolidation, closely)

    def _explained(self, candidate: Candidate, consolidation: Consolidation, closely: bool) -> KeptNode:
        code, message = self._obstacle(candidate)
        if not message and candidate.is_empty:
            code, message = "CapacityBuffer", "the node is empty but holds room for a CapacityBuffer"
        elif not message and closely:
            found = consolidation.decide([candidate])
            if isinstance(found, RefusedMove):
                code, message = found.code, found.message
            elif not self._is_worth_it(found):
                code, message = self._why[candidate.name]
        if not message:
            code, message = "NoSaving", UNEXPLAINED
        return KeptNode(node=candidate.name, code=code, message=message, hourly=_price(candidate))


def _price(candidate: Candidate | None) -> float:
    return (candidate.price or 0.0) if candidate is not None else 0.0


def _is_dynamic(candidate: Candidate) -> bool:
    return candidate.pool.spec.replicas is None


_TICK: Final = timedelta(seconds=1)


def next_moment(view: ClusterView, now: datetime) -> datetime | None:
    """Return when time alone may change what a pass decides; None when it never does."""
    return min((moment for moment in _moments(view, now) if moment > now), default=None)


def _moments(view: ClusterView, now: datetime) -> Iterator[datetime]:
    for claim in view.claims.values():
        pool = view.pools.get(claim.metadata.labels.get(NODEPOOL, ""))
        found = [expires_at(claim), quiet_until(claim, pool) if pool is not None else None]
        if claim.metadata.creation_timestamp is not None:
            found.append(claim.metadata.creation_timestamp + SETTLING)
        yield from (moment for moment in found if moment is not None)
    for pool in view.pools.values():
        for budget in read_budgets(pool.spec.disruption.budgets):
            if budget.window is not None:
                yield from _turns(budget.window, now)
    for pod in view.pods.values():
        if DO_NOT_DISRUPT in pod.metadata.annotations:
            until = protected_until(pod)
            if until is not None:
                yield until


def _turns(window: BudgetWindow, now: datetime) -> Iterator[datetime]:
    """Yield when a window opens next, and when it closes if it is open."""
    begun = window.schedule.next_after(now - window.duration)
    closes = begun + window.duration + _TICK if begun is not None and begun <= now else None
    yield from (moment for moment in (window.schedule.next_after(now), closes) if moment is not None)
