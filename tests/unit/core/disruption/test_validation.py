"""A second look at a command before it is carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from karpenter.api.labels import DO_NOT_DISRUPT
from karpenter.api.nodepool import Budget
from karpenter.api.pod import Container, Pod, ResourceRequirements
from karpenter.core.disruption.command import DRIFTED, EMPTY, UNDERUTILIZED, Command
from karpenter.core.disruption.memory import DisruptionMemory
from karpenter.core.disruption.validation import InvalidCommand, Validation, ValidCommand, validate
from karpenter.core.model.catalog import Catalog
from karpenter.core.state.cluster import ClusterView, view_of
from tests.unit.core.disruption.clusters import MARKET, NOW, decided, facts, kind, machine, pod, pool

if TYPE_CHECKING:
    from karpenter.api.meta import Resource


def again(command: Command, view: ClusterView, *, market: Catalog = MARKET, **more: Any) -> Validation:
    return validate(command, view, market, DisruptionMemory(), now=NOW, context=facts(more))


def why(found: Validation) -> str:
    assert isinstance(found, InvalidCommand)
    return found.why


def first(view: ClusterView) -> Command:
    """Return what would be done about a cluster."""
    (command,) = decided(view, strategy="classic").commands
    return command


def wasteful(*more: Resource, **disruption: Any) -> ClusterView:
    """Return a large machine with one small pod."""
    return view_of([pool(**disruption), *machine("m", "xlarge"), pod("web-1", "m"), *more])


EMPTY_TWO = Command(reason=EMPTY, candidates=("m", "n"))


def test_empty_machines_go_if_they_are_still_empty() -> None:
    """Those that are not empty, or hold room for a buffer, stay; the rest goes."""
    view = view_of([pool(), *machine("m"), *machine("n"), pod("web-1", "n")])
    found = again(EMPTY_TWO, view)

    assert isinstance(found, ValidCommand)
    assert found.command.candidates == ("m",)
    assert why(again(EMPTY_TWO, view, buffered=frozenset({"m"}))) == "churn"


def test_of_empty_machines_those_go_first_that_were_to_go_first() -> None:
    """When a budget has shrunk meanwhile, the order of the command decides who still goes."""
    view = view_of([pool(budgets=(Budget(nodes="1"),)), *machine("m"), *machine("n", "xlarge")])
    found = again(Command(reason=EMPTY, candidates=("n", "m")), view)

    assert isinstance(found, ValidCommand)
    assert found.command.candidates == ("n",)


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

    assert isinstance(found, ValidCommand)
    assert [each.name for each in found.candidates] == ["m"]


def test_a_machine_that_was_promised_meanwhile_stays() -> None:
    """A promise counts like a budget; any other reason is churn."""
    view = wasteful()
    command = first(view)

    assert why(again(command, view, nominated=frozenset({"m"}))) == "budget"
    assert why(again(command, view_of([pool()]))) == "churn"
    assert why(again(command, wasteful(consolidate_after="Never"))) == "churn"
    assert why(again(command, wasteful(consolidation_policy="WhenEmpty"))) == "churn"
    unpriced = view_of([pool(), *machine("m", "xlarge", zone="zone-9"), pod("web-1", "m")])
    assert why(again(command, unpriced)) == "churn"


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

    assert isinstance(again(Command(reason=DRIFTED, candidates=("m",)), view), ValidCommand)
    assert first(wasteful()).reason == UNDERUTILIZED


SPLIT = Catalog(types=(kind("small", 2, 0.1), kind("huge", 64, 6.4)))


def split(*more: Resource) -> tuple[Command, ClusterView]:
    """Return a command that replaces one machine by two, and the cluster that it is about."""
    parts: list[Resource] = [
        pool(),
        *machine("m", "huge"),
        *machine("n", "small"),
        pod("kept-0", "n", cpu="250m", annotations={DO_NOT_DISRUPT: "true"}),
        *(pod(f"web-{n}", "m", cpu="1500m") for n in range(3)),
    ]
    (command,) = decided(view_of(parts), market=SPLIT, strategy="global").commands
    assert len(command.replacements) == 2
    assert len(command.moves) == 1
    return command, view_of([*parts, *more])


def test_several_replacements_hold_while_the_other_places_are_free() -> None:
    """What is bought was decided; what has to be there still is the room on machines that stay."""
    command, view = split()
    assert isinstance(again(command, view, market=SPLIT, strategy="global"), ValidCommand)

    command, view = split(pod("rival-0", "n", cpu="1"))
    assert why(again(command, view, market=SPLIT, strategy="global")) == "scheduling"


def test_a_pod_that_came_since_stops_several_replacements() -> None:
    """A pod for which no place was foreseen would be left without one."""
    command, view = split(pod("late-0", "m", cpu="1"))

    assert why(again(command, view, market=SPLIT, strategy="global")) == "churn"


def test_pods_that_were_promised_a_place_do_not_look_for_another() -> None:
    """The pods of a command under way take what they were promised, and nothing else."""
    leaving = pod("gone-0", "o", cpu="1")
    command, view = split(*machine("o", "small"), leaving)
    view = msgspec.structs.replace(view, marked=frozenset({"o"}))

    assert isinstance(again(command, view, market=SPLIT, destinations={leaving.key: ""}), ValidCommand)
    assert why(again(command, view, market=SPLIT, destinations={leaving.key: "n"})) == "scheduling"


def once_more(command: Command, view: ClusterView, later: ClusterView, **more: Any) -> Validation:
    """Look at a command again, and once more when that is over."""
    confirmed = again(command, view)
    assert isinstance(confirmed, ValidCommand)
    return validate(
        confirmed.command,
        later,
        MARKET,
        DisruptionMemory(),
        now=NOW,
        context=facts(more),
        simulated=confirmed.pods,
    )


def test_what_comes_to_a_machine_during_the_second_look_counts() -> None:
    """Nothing that was asked about has changed, or the command is dropped: the newcomer has no place yet."""
    view = wasteful()
    command = first(view)

    assert isinstance(once_more(command, view, wasteful()), ValidCommand)
    assert why(once_more(command, view, wasteful(pod("late-1", "m", cpu="100m")))) == "churn"
    kept = pod("web-1", "m", annotations={DO_NOT_DISRUPT: "true"})
    assert why(once_more(command, view, wasteful(kept))) == "churn"
    assert why(once_more(command, view, view, nominated=frozenset({"m"}))) == "budget"


def test_machines_that_fill_during_the_second_look_stay() -> None:
    """Those that are still empty go."""
    view = view_of([pool(), *machine("m"), *machine("n")])
    found = once_more(EMPTY_TWO, view, view_of([pool(), *machine("m"), *machine("n"), pod("web-1", "n")]))

    assert isinstance(found, ValidCommand)
    assert found.command.candidates == ("m",)


def test_every_machine_of_a_command_must_still_be_free_to_go() -> None:
    """Of two machines that become one the second was nominated, or asks to be left alone, meanwhile."""
    sold = Catalog(types=(kind("large", 8, 0.4), kind("wide", 10, 0.45)))
    parts = [
        *machine("m", "large"),
        *machine("n", "large"),
        pod("a-1", "m", cpu="5"),
        pod("a-2", "n", cpu="5"),
    ]
    view = view_of([pool(), *parts])
    (command,) = decided(view, market=sold).commands
    guarded = view_of([pool(), *parts, pod("b-1", "n", cpu="100m", annotations={DO_NOT_DISRUPT: "true"})])

    assert set(command.candidates) == {"m", "n"}
    assert isinstance(again(command, view, market=sold), ValidCommand)
    for name in command.candidates:
        assert why(again(command, view, market=sold, nominated=frozenset({name}))) == "budget"
    assert why(again(command, guarded, market=sold)) == "churn"


def test_an_empty_machine_that_the_budget_keeps_is_named() -> None:
    """The budget's obstacle is that of the first machine of the command, also where it is the only one."""
    tight = view_of([pool(budgets=(Budget(nodes="0"),)), *machine("m")])
    found = again(Command(reason=EMPTY, candidates=("m",)), tight)

    assert why(found) == "budget"


def needing(name: str, node: str, cpu: str, memory: str, **meta: Any) -> Pod:
    """Return a pod with requests of its own."""
    found = pod(name, node, **meta)
    box = Container(name="main", resources=ResourceRequirements(requests={"cpu": cpu, "memory": memory}))
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, containers=(box,)))


def test_the_second_look_fills_nodes_in_the_order_of_the_first() -> None:
    """
    Two cores are free on two nodes, 2 GiB beside them on one and nearly 8 GiB on the other.

    The fullest first, the pod of 2 cores takes the one, and the pod of 4 GiB has the other; in order of
    names there would be no room left for the second.
    """
    kept = {"annotations": {DO_NOT_DISRUPT: "true"}}
    view = view_of(
        [
            pool(),
            *machine("a"),
            *machine("b"),
            *machine("c"),
            needing("x-1", "a", "2", "256Mi"),
            needing("x-2", "a", "1", "4Gi"),
            needing("y-1", "b", "2", "256Mi", **kept),
            needing("z-1", "c", "2", "6Gi", **kept),
        ]
    )
    (command,) = decided(view, strategy="global").commands

    assert command.moves == {"default/x-1": "c", "default/x-2": "b"}
    assert isinstance(again(command, view, strategy="global"), ValidCommand)
    assert why(again(command, view, strategy="classic")) == "scheduling"
