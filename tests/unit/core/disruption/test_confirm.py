"""A second look at a command before it is carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from karpenter.api.nodepool import Budget
from karpenter.core.disruption.command import DRIFTED, EMPTY, UNDERUTILIZED, Command
from karpenter.core.disruption.confirm import Confirmed, Rejected, confirm
from karpenter.core.disruption.propose import Rules, propose
from karpenter.core.scheduling.intake.intake import Policy
from karpenter.core.scheduling.problem import Options
from karpenter.core.state.view import view_of
from tests.unit.core.disruption.clusters import MARKET, NOW, machine, pod, pool

if TYPE_CHECKING:
    from karpenter.api.meta import Resource
    from karpenter.core.disruption.confirm import Second
    from karpenter.core.state.view import ClusterView

OPTIONS, POLICY = Options(), Policy()


def again(command: Command, view: ClusterView, **more: Any) -> Second:
    """Look at a command again."""
    return confirm(command, view, MARKET, now=NOW, options=OPTIONS, policy=POLICY, **more)


def why(found: Second) -> str:
    """Return why a command was rejected."""
    assert isinstance(found, Rejected)
    return found.why


def first(view: ClusterView) -> Command:
    """Return what would be done about a cluster."""
    (command,) = propose(
        view, MARKET, now=NOW, options=OPTIONS, policy=POLICY, rules=Rules(strategy="classic")
    ).commands
    return command


def wasteful(*more: Resource, **disruption: Any) -> ClusterView:
    """Return a large machine with one small pod."""
    return view_of([pool(**disruption), *machine("m", "xlarge"), pod("web-1", "m"), *more])


EMPTY_TWO = Command(reason=EMPTY, candidates=("m", "n"))


def test_empty_machines_go_if_they_are_still_empty() -> None:
    """Those that are not empty, or hold room for a buffer, stay; the rest goes."""
    view = view_of([pool(), *machine("m"), *machine("n"), pod("web-1", "n")])
    found = again(EMPTY_TWO, view)

    assert isinstance(found, Confirmed)
    assert found.command.candidates == ("m",)
    assert why(again(EMPTY_TWO, view, buffered=frozenset({"m"}))) == "churn"


def test_budgets_count_at_the_second_look_too() -> None:
    """A budget that closed meanwhile keeps everything."""
    tight = view_of([pool(budgets=(Budget(nodes="0"),)), *machine("m"), *machine("n")])
    assert why(again(EMPTY_TWO, tight)) == "budget"

    command = first(wasteful())
    assert why(again(command, wasteful(budgets=(Budget(nodes="0"),)))) == "budget"


def test_a_saving_holds_while_nothing_changes() -> None:
    """The same cluster gives the same answer."""
    view = wasteful()
    found = again(first(view), view)

    assert isinstance(found, Confirmed)
    assert [each.name for each in found.candidates] == ["m"]


def test_a_machine_that_was_promised_meanwhile_stays() -> None:
    """A promise counts like a budget; any other reason is churn."""
    view = wasteful()
    command = first(view)

    assert why(again(command, view, nominated=frozenset({"m"}))) == "budget"
    assert why(again(command, view_of([pool()]))) == "churn"
    assert why(again(command, wasteful(consolidate_after="Never"))) == "churn"


def test_pods_must_still_have_the_same_places() -> None:
    """More pods, or fewer choices, end a saving."""
    command = first(wasteful())
    crowded = wasteful(pod("web-2", "m", cpu="15"))
    stuck = wasteful(pod("web-3", "m", cpu="900"))

    assert why(again(command, crowded)) == "scheduling"
    assert why(again(command, stuck)) == "scheduling"
    deletion = msgspec.structs.replace(command, replacements=())
    assert why(again(deletion, wasteful())) == "scheduling"


def test_drift_asks_only_that_the_machine_may_go() -> None:
    """Drifted machines are exchanged whatever it costs."""
    view = wasteful(consolidate_after="Never")

    assert isinstance(again(Command(reason=DRIFTED, candidates=("m",)), view), Confirmed)
    assert first(wasteful()).reason == UNDERUTILIZED
