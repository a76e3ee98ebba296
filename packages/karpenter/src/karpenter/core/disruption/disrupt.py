"""
One decision of disruption: which nodes go now, and what keeps each of the others.

Reasons are tried in a fixed order (empty, drifted, underutilized) and the first that finds something ends
the decision, so that every command is decided about the cluster as it is. Expired claims go in any case
(``core.lifecycle.expiration``), and no budget applies to them.

A decision that found nothing need not be made again before something changes or a known moment comes:
``consolidateAfter`` has passed, the window of a budget opens or closes, the protection of a pod runs out, a
claim is old enough for its instance type to count as gone.

Commands are validated by :mod:`.validation` before they are carried out by :mod:`.queue`.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import DO_NOT_DISRUPT, NODEPOOL
from karpenter.core.disruption.balanced import PoolTotals
from karpenter.core.disruption.budgets import BudgetWindow, Headroom, read_budgets
from karpenter.core.disruption.candidates import Candidate, CandidateSurvey, find_candidates
from karpenter.core.disruption.churn import undoes
from karpenter.core.disruption.codes import DisruptionCode
from karpenter.core.disruption.command import (
    DRIFTED,
    EMPTY,
    UNDERUTILIZED,
    Command,
    KeptNode,
    MoveScore,
    Obstacle,
    Obstacles,
    SavingsBound,
)
from karpenter.core.disruption.consolidation import Consolidation, RefusedMove, consolidation_obstacle
from karpenter.core.disruption.cost import moving_cost, price_of
from karpenter.core.disruption.drift import replace_drifted
from karpenter.core.disruption.emptiness import remove_empty
from karpenter.core.disruption.events import candidate_events, kept_events, score_effects
from karpenter.core.disruption.global_search import consolidate_globally, least_cost
from karpenter.core.disruption.memory import DisruptionMemory
from karpenter.core.disruption.multinodeconsolidation import consolidate_classic
from karpenter.core.disruption.preferred import (
    ReturnRules,
    ReturnSurvey,
    pool_weights,
    preferences,
    return_to_preferred,
)
from karpenter.core.disruption.simulate import Simulator
from karpenter.core.disruption.staticdrift import note_static_gate, replace_static_drifted, template_node
from karpenter.core.disruption.validation import PERIOD, WAIT
from karpenter.core.effects import Effect
from karpenter.core.lifecycle.disruption_conditions import (
    INSTANCE_TYPE_DRIFT_AGE,
    consolidatable_at,
    expires_at,
    within_consolidate_after,
)
from karpenter.core.provisioning.static import count_claims
from karpenter.core.scheduling.build.offered import overlaid_catalog
from karpenter.core.state.pdb import PdbLimits
from karpenter.core.state.pod import do_not_disrupt_until, is_reschedulable
from karpenter.core.state.statenode import state_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from karpenter.core.disruption.payback import Payback
    from karpenter.core.disruption.settings import DisruptionContext
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import ClusterView


UNEXPLAINED: Final = "no saving was found"
"""The message of a node that is kept for want of a saving, where it was not simulated what it would cost."""

RELOOK: Final = timedelta(minutes=5)
"""Time after which a decision is made again though nothing has changed."""

SAMPLE: Final = timedelta(minutes=1)
"""Time after which it is looked again at nodes whose pods may soon go back to a preferred NodePool."""

_MOST_REPLACEMENTS: Final = 100
_WAITING_PODS: Final = 20
"""Pods that wait which make a simulation cost about as much again."""

_TICK: Final = timedelta(seconds=1)


class DisruptionDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Which nodes go, why the others stay, and what to remember."""

    commands: tuple[Command, ...] = ()
    kept: tuple[KeptNode, ...] = ()
    rejected: tuple[MoveScore, ...] = ()
    """Of NodePools with the policy Balanced, the best move that scored too little."""

    bound: SavingsBound | None = None
    """How far savings could go, where that was asked."""

    effects: tuple[Effect, ...] = ()
    """Events and metrics."""

    memory: DisruptionMemory = DisruptionMemory()
    """What the next decision is made with."""

    validate_after: float = 0.0
    """In how many seconds the commands are to be validated."""

    again: float = PERIOD
    """In how many seconds to decide again if no command is carried out."""


def disrupt(
    view: ClusterView,
    catalog: Catalog,
    memory: DisruptionMemory,
    *,
    now: datetime,
    context: DisruptionContext,
) -> DisruptionDecision:
    found = _Pass(view, catalog, memory, now, context)
    commands = tuple(
        msgspec.structs.replace(
            command, number=number, pools={node.pool: view.pools[node.pool] for node in command.replacements}
        )
        for number, command in enumerate(found.commands(), start=memory.commands + 1)
    )
    kept = tuple(found.kept(commands))
    rejected = () if commands else found.rejected
    explained = [each for each in kept if each.message != UNEXPLAINED]
    late = [command for command in commands if command.reason != DRIFTED]
    fruitless = not commands and not found.unreached and all(each.code.is_lasting for each in kept)
    return DisruptionDecision(
        commands=commands,
        kept=kept,
        rejected=rejected,
        bound=found.bound() if context.settings.prove else None,
        effects=(
            *kept_events(explained, view),
            *score_effects(commands, rejected, view),
            *(effect for command in late for effect in candidate_events(command, view)),
        ),
        memory=msgspec.structs.replace(
            memory,
            commands=memory.commands + len(commands),
            returnable=found.returns.returnable,
            asked=found.returns.asked,
            overdue=found.unreached,
            explained={
                **memory.lately_explained(now),
                **{each.node: now for each in explained if each.code.is_simulated},
            },
            fruitless=context.fingerprint if fruitless else None,
            # Everything else that changes a decision changes the fingerprint.
            fruitless_until=min(next_moment(view, now) or now + RELOOK, now + found.relook)
            if fruitless
            else None,
        ),
        validate_after=WAIT if late else 0.0,
    )


def savings_bound(
    view: ClusterView, catalog: Catalog, *, now: datetime, context: DisruptionContext
) -> SavingsBound:
    """Return how far savings could go at a moment, without a decision."""
    return _Pass(view, catalog, DisruptionMemory(), now, context).bound()


def next_moment(view: ClusterView, now: datetime) -> datetime | None:
    """Return when time alone may change a decision; None when it never does."""
    return min((moment for moment in _moments(view, now) if moment > now), default=None)


class _Pass:
    """One look at all nodes, reason by reason."""

    def __init__(
        self,
        view: ClusterView,
        catalog: Catalog,
        memory: DisruptionMemory,
        now: datetime,
        context: DisruptionContext,
    ) -> None:
        self._view, self._catalog, self._memory, self._now = view, catalog, memory, now
        self._context, self._settings = context, context.settings
        policy = context.policy.at(now)
        self._priced = overlaid_catalog(view, catalog, policy)
        self._nodes = state_nodes(view)
        pdbs = PdbLimits(view)
        self._survey: CandidateSurvey = find_candidates(
            self._nodes,
            view,
            self._priced,
            pdbs,
            now,
            nominated=context.nominated,
            surge=self._settings.surge,
        )
        quiet = frozenset(
            node.name
            for node in self._nodes
            if within_consolidate_after(node.claim, view.pools.get(node.pool), now)
        )
        self._simulator = Simulator(
            view,
            catalog,
            self._nodes,
            pdbs,
            now,
            movable=(*self._survey.candidates, *self._survey.eventual),
            quiet=quiet,
            options=context.options,
            policy=policy,
            fullest_first=self._settings.strategy == "global",
        )
        self._resting = memory.pools_at_rest(now)
        self._obstacles: Obstacles = {}
        self._stop = context.stop or (lambda: False)
        self.unreached: frozenset[str] = frozenset()
        """Drifted nodes that there was no time for."""

        self.returns = ReturnSurvey(returnable=memory.returnable, asked=memory.asked)
        """Nodes whose pods may go back to preferred NodePools."""

    @property
    def relook(self) -> timedelta:
        """After which time to decide again though nothing has changed."""
        return SAMPLE if self.returns.returnable else RELOOK

    @property
    def rejected(self) -> tuple[MoveScore, ...]:
        """The best moves that scored too little."""
        return tuple(self._consolidation.rejected.values())

    def commands(self) -> list[Command]:
        """Return the commands of the first reason that has any."""
        methods = {EMPTY: self._empty, DRIFTED: self._drift, UNDERUTILIZED: self._underutilized}
        for reason, method in methods.items():
            found = method()
            if self._context.tried is not None:
                self._context.tried(reason)
            if found:
                return found
        return []

    def bound(self) -> SavingsBound:
        every = [
            each for each in self._survey.candidates if consolidation_obstacle(each, self._resting) is None
        ]
        hourly = sum(each.price or 0.0 for each in every)
        least = least_cost(self._simulator.as_it_is(), every)
        return SavingsBound(nodes=len(every), hourly=hourly, least=least)

    def kept(self, commands: Sequence[Command]) -> Iterator[KeptNode]:
        """Yield what keeps each node that no command removes."""
        gone = {name for command in commands for name in command.candidates}
        by_name = {each.name: each for each in (*self._survey.eventual, *self._survey.candidates)}
        lately, explained = self._memory.lately_explained(self._now), 0
        # Pods that wait take part in every simulation: while there are thousands, they are what matters, and
        # explaining two hundred nodes would keep the provisioner waiting for a minute.
        effort = 1 + self._simulator.waiting // _WAITING_PODS
        for node in self._nodes:
            if not node.is_managed or node.name in gone:
                continue
            if node.name in self._obstacles:
                yield _kept(by_name[node.name], self._obstacles[node.name])
            elif node.name in self._survey.held:
                yield self._survey.held[node.name]
            elif commands:
                message = f"it is looked at again after what goes now ({commands[0].reason})"
                yield _kept(by_name[node.name], (DisruptionCode.WAITING, message))
            else:
                # Each explanation is a simulation, and users are told at most every quarter of an hour.
                closely = node.name not in lately and explained < self._settings.explain
                explained += effort if closely else 0
                candidate = by_name[node.name]
                yield _kept(candidate, self._explained(candidate, closely=closely))

    def _headroom(self, reason: str) -> Headroom:
        return Headroom.at(self._view, reason, self._now)

    def _empty(self) -> list[Command]:
        return remove_empty(
            self._survey.candidates, self._headroom(EMPTY), self._context.buffered, self._obstacles
        )

    def _drift(self) -> list[Command]:
        found = self._static_drift() or self._dynamic_drift()
        self.unreached = frozenset(
            name for name, (code, _) in self._obstacles.items() if code == DisruptionCode.OUT_OF_TIME
        )
        return found

    def _drifted(self, *, static: bool) -> list[Candidate]:
        every = (*self._survey.candidates, *self._survey.eventual)
        drifted = [each for each in every if each.drift and each.is_dynamic != static]
        return [each for each in drifted if self._may_be_replaced(each)]

    def _may_be_replaced(self, candidate: Candidate) -> bool:
        """Whether the last replacement of a node has not failed a short while ago."""
        rest = self._memory.failed.get(candidate.claim.name)
        if rest is None or self._now >= rest.until:
            return True
        message = f"its last replacement did not become ready; it is tried again at {rest.until:%H:%M:%S} UTC"
        self._obstacles.setdefault(candidate.name, (DisruptionCode.RESTING, message))
        return False

    def _static_drift(self) -> list[Command]:
        drifted = self._drifted(static=True)
        if not self._settings.static_capacity:
            note_static_gate(drifted, self._obstacles)
            return []
        headroom = self._headroom(DRIFTED)
        self._note_budget(drifted, headroom)
        return replace_static_drifted(
            drifted,
            {
                pool: count_claims(pool, self._view.claims.values(), self._view.marked)
                for pool in {each.pool.name for each in drifted}
            },
            headroom,
            self._obstacles,
            replacement=lambda pool: template_node(pool, self._catalog),
            stop=self._stop,
        )

    def _dynamic_drift(self) -> list[Command]:
        drifted, headroom = self._drifted(static=False), self._headroom(DRIFTED)
        self._note_budget(drifted, headroom)
        return replace_drifted(
            drifted,
            self._simulator,
            headroom,
            self._obstacles,
            stop=self._stop,
            overdue=self._memory.overdue,
        )

    def _note_budget(self, candidates: Iterable[Candidate], headroom: Headroom) -> None:
        for each in candidates:
            if not headroom.allows(each):
                self._obstacles[each.name] = (DisruptionCode.BUDGET, headroom.obstacle(each))

    def _underutilized(self) -> list[Command]:
        headroom = self._headroom(UNDERUTILIZED)
        ready = [
            each
            for each in self._survey.candidates
            if not each.is_empty and self._may_be_consolidated(each) and self._may_be_replaced(each)
        ]
        self._note_budget(ready, headroom)
        if self._settings.strategy == "classic":
            known = consolidate_classic(ready, self._consolidation, headroom, self._stop)
            found = [known] if known is not None else []
        else:
            found = consolidate_globally(
                ready,
                self._consolidation,
                self._simulator,
                headroom,
                self._stop,
                least=self._payback.least,
            )
        worthwhile = [command for command in found if self._is_worth_it(command)]
        return worthwhile or self._preferred(ready, headroom)

    def _preferred(self, ready: Sequence[Candidate], headroom: Headroom) -> list[Command]:
        """Return what brings pods back to NodePools of higher weight, where that is asked for."""
        wanted = preferences(self._view.pools, self._settings.preferred_price)
        if wanted:
            rules = ReturnRules(
                preferences=wanted,
                weights=pool_weights(self._view.pools),
                payback=self._payback,
                past=self._memory.past,
                no_return=self._settings.no_return,
                after=self._settings.return_after,
                by_price=self._settings.strategy == "global",
                now=self._now,
            )
            self.returns = return_to_preferred(
                ready,
                self._simulator,
                headroom,
                rules,
                self._stop,
                known=self._memory.returnable,
                asked=self._memory.asked,
            )
            self._obstacles |= self.returns.obstacles
        return list(self.returns.commands)

    def _may_be_consolidated(self, candidate: Candidate) -> bool:
        obstacle = consolidation_obstacle(candidate, self._resting)
        if obstacle is not None:
            self._obstacles.setdefault(candidate.name, obstacle)
        return obstacle is None

    def _is_worth_it(self, command: Command) -> bool:
        """Whether a saving pays for what it moves and does not undo an earlier command."""
        going = [each for each in self._survey.candidates if each.name in command.candidates]
        obstacle = self._churn(command, going)
        if obstacle is not None:
            self._obstacles |= {each.name: obstacle for each in going}
        return obstacle is None

    def _churn(self, command: Command, going: Sequence[Candidate]) -> Obstacle | None:
        """Return why a saving is not worth what it moves, or None where it is."""
        if not self._payback.earns(command, going):
            price = self._payback.price(command, going)
            saved = f"saving ${command.saving:.4f} an hour"
            return DisruptionCode.NO_PAYBACK, f"{saved} does not pay soon enough for moving (${price:.4f})"
        if undoes(command, going, self._memory.past, self._now, within=self._settings.no_return):
            message = "the saving would undo a command that was carried out a short while ago"
            return DisruptionCode.WOULD_UNDO, message
        return None

    def _explained(self, candidate: Candidate, *, closely: bool) -> Obstacle:
        """Return what keeps a node that no reason has taken; `closely` simulates its replacement."""
        obstacle = consolidation_obstacle(candidate, self._resting)
        if obstacle is not None:
            return obstacle
        if candidate.is_empty:
            message = "the node is empty but holds room for a CapacityBuffer"
            return DisruptionCode.CAPACITY_BUFFER, message
        if closely:
            # Packing by price would take five times as long, for a sentence.
            found, _ = self._consolidation.decide_greedily([candidate])
            if isinstance(found, RefusedMove):
                return found.code, found.message
            return self._churn(found, [candidate]) or (DisruptionCode.NO_SAVING, UNEXPLAINED)
        return DisruptionCode.NO_SAVING, UNEXPLAINED

    @cached_property
    def _payback(self) -> Payback:
        """What savings must earn, given what a pod costs in each NodePool."""
        sizes = Counter(node.pool for node in self._nodes if not node.is_deleting)
        pods = {name: total.cost - sizes[name] for name, total in self._totals.items()}
        rates = {name: self._totals[name].price / cost for name, cost in pods.items() if cost > 0}
        learned = self._memory.learned(self._settings.payback, self._now)
        return msgspec.structs.replace(learned, rates=rates)

    @cached_property
    def _totals(self) -> dict[str, PoolTotals]:
        """What every NodePool costs, and what emptying it would."""
        known = {each.name: each.cost for each in (*self._survey.candidates, *self._survey.eventual)}
        totals: dict[str, PoolTotals] = {}
        for node in self._nodes:
            if node.pool and not node.is_deleting:
                had = totals.get(node.pool, PoolTotals(0.0, 0.0))
                cost = known.get(node.name) or moving_cost(pod for pod in node.pods if is_reschedulable(pod))
                price = price_of(node, self._priced) or 0.0
                totals[node.pool] = PoolTotals(had.price + price, had.cost + cost)
        return totals

    @cached_property
    def _consolidation(self) -> Consolidation:
        spot_to_spot = self._settings.spot_to_spot
        if self._settings.strategy == "classic":
            return Consolidation(
                self._simulator, self._totals, spot_to_spot=spot_to_spot, most_replacements=1
            )
        # What is refused in the end must not keep the search from what is worse and is not refused.
        return Consolidation(
            self._simulator,
            self._totals,
            spot_to_spot=spot_to_spot,
            most_replacements=_MOST_REPLACEMENTS,
            refused=self._churn,
        )


def _kept(candidate: Candidate, obstacle: Obstacle) -> KeptNode:
    code, message = obstacle
    return KeptNode(node=candidate.name, code=code, message=message, hourly=candidate.price or 0.0)


def _moments(view: ClusterView, now: datetime) -> Iterator[datetime]:
    for claim in view.claims.values():
        pool = view.pools.get(claim.metadata.labels.get(NODEPOOL, ""))
        found = [expires_at(claim), consolidatable_at(claim, pool, now) if pool is not None else None]
        if claim.metadata.creation_timestamp is not None:
            found.append(claim.metadata.creation_timestamp + INSTANCE_TYPE_DRIFT_AGE)
        yield from (moment for moment in found if moment is not None)
    for pool in view.pools.values():
        for budget in read_budgets(pool.spec.disruption.budgets):
            if budget.window is not None:
                yield from _turns(budget.window, now)
    for pod in view.pods.values():
        if DO_NOT_DISRUPT in pod.metadata.annotations:
            until = do_not_disrupt_until(pod)
            if until is not None:
                yield until


def _turns(window: BudgetWindow, now: datetime) -> Iterator[datetime]:
    """Yield when a window opens next, and when the one closes that is open, or is the next."""
    opens, begun = window.schedule.next_after(now), window.schedule.next_after(now - window.duration)
    closes = None if begun is None else begun + window.duration + _TICK
    yield from (moment for moment in (opens, closes) if moment is not None)
