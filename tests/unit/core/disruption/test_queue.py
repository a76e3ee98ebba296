"""Carrying out a command: closed first, replaced first, undone if need be."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from karpenter.api.labels import DISRUPTED, NODEPOOL
from karpenter.api.node import Taint
from karpenter.api.nodepool import NodeClaimTemplate, NodePool, NodeTemplateMeta
from karpenter.core.disruption.candidates import find_candidates
from karpenter.core.disruption.codes import DisruptionCode
from karpenter.core.disruption.command import EMPTY, UNDERUTILIZED, Command, KeptNode
from karpenter.core.disruption.events import command_text, kept_events
from karpenter.core.disruption.queue import (
    count_disrupted,
    delete_candidates,
    is_tainted,
    nominate_destinations,
    progress,
    replacement,
    taint_disrupted,
    tainted_without_command,
    time_limit,
    untaint,
)
from karpenter.core.effects import Amend, Announce, Count, DeleteObject, Nominate
from karpenter.core.model.catalog import Catalog
from karpenter.core.state.cluster import view_of
from karpenter.core.state.pdb import PdbLimits
from karpenter.core.state.statenode import StateNode, state_nodes
from tests.unit.core.disruption.clusters import MARKET, cluster, decided, machine, pod, pool
from tests.unit.core.disruption.clusters import NOW as THEN
from tests.unit.core.lifecycle.objects import NOW, complete, launched, node

TAINT = {"key": DISRUPTED, "effect": "NoSchedule"}
OPEN = StateNode(node=node(), claim=complete(Ready="True"))
CLOSED = StateNode(node=node(spec={"taints": [TAINT]}), claim=complete(Ready="True", DisruptionReason="True"))


def test_a_machine_is_closed_and_says_why() -> None:
    """The node is tainted and the claim names the reason; what is closed is not written again."""
    taint, reason = taint_disrupted(OPEN, "Empty", NOW)

    assert isinstance(taint, Amend)
    assert taint.changes["spec"]["taints"] == [TAINT]
    assert isinstance(reason, Amend)
    assert any(
        (each["type"], each["reason"]) == ("DisruptionReason", "Empty")
        for each in reason.status["conditions"]
    )
    assert taint_disrupted(CLOSED, "DisruptionReason", NOW) == ()
    assert taint_disrupted(StateNode(node=node(spec={"taints": [TAINT]})), "Empty", NOW) == ()
    assert len(taint_disrupted(StateNode(claim=launched()), "Empty", NOW)) == 1


def test_a_machine_is_opened_again() -> None:
    """Taint and reason both go; what is open is not written."""
    effects = untaint(CLOSED, NOW)

    assert [type(each) for each in effects] == [Amend, Amend]
    assert untaint(OPEN, NOW) == ()
    assert untaint(StateNode(node=node()), NOW) == ()
    assert is_tainted(CLOSED)
    assert not is_tainted(StateNode(claim=launched()))


@pytest.mark.parametrize(
    ("taint", "expected"),
    [
        pytest.param(TAINT, True, id="the taint of a disruption"),
        pytest.param({**TAINT, "effect": "NoExecute"}, False, id="its key with another effect"),
        pytest.param({**TAINT, "key": "dedicated"}, False, id="another key"),
    ],
)
def test_which_taint_closes_a_machine(taint: dict[str, str], expected: bool) -> None:
    """Key and effect are both Karpenter's own."""
    assert is_tainted(StateNode(node=node(spec={"taints": [taint]}))) is expected


def test_other_taints_stay_when_a_machine_is_opened_again() -> None:
    """Only the taint of the disruption goes."""
    other = {"key": "dedicated", "effect": "NoSchedule"}
    (found,) = untaint(StateNode(node=node(spec={"taints": [TAINT, other]})), NOW)

    assert isinstance(found, Amend)
    assert found.changes["spec"]["taints"] == [other]


def test_nodes_that_were_tainted_by_an_unknown_command_are_found() -> None:
    """Closed machines that stay and that no command is about are strays."""
    assert CLOSED.node is not None
    assert CLOSED.claim is not None
    view = view_of([CLOSED.node, CLOSED.claim])

    assert [each.name for each in tainted_without_command(view, frozenset())] == ["node-1"]
    assert tainted_without_command(view, {"claim-1"}) == ()
    reason_only = view_of([node(), CLOSED.claim])
    assert len(tainted_without_command(reason_only, frozenset())) == 1
    assert tainted_without_command(view_of([node(spec={"taints": [TAINT]})]), frozenset()) == ()


@pytest.mark.parametrize(
    ("claims", "minutes", "expected"),
    [
        pytest.param((), 0, "ready", id="nothing to wait for"),
        pytest.param((complete(),), 60, "ready", id="all are complete"),
        pytest.param((complete(), launched()), 9, "waiting", id="one is on its way"),
        pytest.param((launched(),), 10, "waiting", id="one has taken as long as it may"),
        pytest.param((launched(),), 11, "late", id="one takes too long"),
        pytest.param((launched(), None), 0, "lost", id="one is gone"),
    ],
)
def test_replacements_come_first(claims: tuple[object, ...], minutes: int, expected: str) -> None:
    """Nothing goes before every replacement is complete."""
    found = progress(
        claims,  # type: ignore[arg-type]  # a table of claims and gaps
        started=NOW,
        now=NOW + timedelta(minutes=minutes),
        queued=1,
    )

    assert found == expected


@pytest.mark.parametrize(
    ("queued", "seconds"),
    [(100, 600), (4000, 600), (10000, 800), (40000, 3200), (45000, 3600), (90000, 3600)],
)
def test_patience_grows_with_the_queue(queued: int, seconds: int) -> None:
    """Many machines may take longer, between ten minutes and an hour."""
    assert time_limit(queued) == timedelta(seconds=seconds)


def test_machines_that_go_are_told_and_deleted() -> None:
    """Node and claim both learn why."""
    effects = delete_candidates([complete()], [OPEN, StateNode(claim=launched())], "Empty")

    assert [type(each) for each in effects] == [Announce, Announce, Announce, DeleteObject]


@pytest.mark.parametrize(
    ("reason", "policy"),
    [
        ("Underutilized", "when_empty_or_underutilized"),
        ("Empty", "when_empty_or_underutilized"),
        ("Drifted", ""),
    ],
)
def test_what_goes_is_counted(reason: str, policy: str) -> None:
    """Claims and their pods are counted by reason; pods by the policy too, unless they drifted."""
    view = view_of([pool(), *machine("m")])
    found = find_candidates(state_nodes(view), view, MARKET, PdbLimits(view), THEN).candidates
    claims, pods = count_disrupted(found, reason)

    assert isinstance(claims, Count)
    assert isinstance(pods, Count)
    assert claims.labels.keys() == {"reason", "nodepool", "capacity_type"}
    assert (pods.labels["reason"], pods.labels["consolidation_policy"]) == (reason.lower(), policy)
    assert pods.amount == 0.0


def test_a_command_is_one_line() -> None:
    """Reason, decision, pools, machines and savings."""
    command = Command(reason=UNDERUTILIZED, candidates=("m", "n"), hourly_before=1.234, number=7)
    view = view_of([pool(), *machine("m"), *machine("n")])

    assert command_text(command, view) == (
        "Underutilized/0007: delete: nodepools=[default]: [m, n] (savings: $1.23)"
    )


def test_what_holds_machines_is_told_where_it_belongs() -> None:
    """Savings, other obstacles and budgets are told to nodes and pools; what is of no interest is not."""
    view = view_of([pool(), *machine("m"), *machine("n", pool="other")])
    kept = [
        KeptNode(node="m", code=DisruptionCode("NoSaving"), message="nothing cheaper"),
        KeptNode(node="m", code=DisruptionCode("PodDoNotDisrupt"), message="a pod"),
        KeptNode(node="m", code=DisruptionCode("Budget"), message="none left"),
        KeptNode(node="n", code=DisruptionCode("Budget"), message="none left"),
        KeptNode(node="m", code=DisruptionCode("Waiting"), message="later"),
        KeptNode(node="gone", code=DisruptionCode("NoSaving"), message="nothing"),
    ]
    effects = kept_events(kept, view)

    assert [(each.reason, each.about.kind) for each in effects if isinstance(each, Announce)] == [
        ("Unconsolidatable", "Node"),
        ("Unconsolidatable", "NodeClaim"),
        ("DisruptionBlocked", "Node"),
        ("DisruptionBlocked", "NodeClaim"),
        ("DisruptionBlocked", "NodePool"),
    ]
    assert not all(each.code.is_lasting for each in kept)
    assert all(each.code.is_lasting for each in kept[:2])


def test_a_machine_without_its_node_is_told_once() -> None:
    """Only what is there is told."""
    claim = launched(meta={"name": "c", "labels": {}})

    assert (
        len(kept_events([KeptNode(node="c", code=DisruptionCode("NoSaving"), message="x")], view_of([claim])))
        == 1
    )
    assert Catalog(types=()).types_of("any") == ()


def _limited(cpu: str) -> NodePool:
    full = pool()
    return msgspec.structs.replace(full, spec=msgspec.structs.replace(full.spec, limits={"cpu": cpu}))


@pytest.mark.parametrize(
    ("objects", "problem"),
    [
        pytest.param([], "NodePool default is gone", id="the NodePool is gone"),
        pytest.param(
            [_limited("1"), machine("node-1", "xlarge")],
            "NodePool default has 16 of cpu and its limit is 1",
            id="the NodePool has exceeded its limits",
        ),
    ],
)
def test_a_replacement_needs_its_nodepool(objects: list[Any], problem: str) -> None:
    """No claim is created for a NodePool that is gone or that has exceeded its limits already."""
    view = cluster(pool(), machine("node-1", "xlarge"), pod("web-0", "node-1", cpu="1"))
    (command,) = decided(view).commands

    with pytest.raises(LookupError, match=problem):
        replacement(command.replacements[0], command, cluster(*objects), MARKET.label_rules)


def test_destinations_are_nominated_though_a_pod_is_gone() -> None:
    """A node that takes pods of a command is nominated; a pod that is gone meanwhile gets no Event."""
    command = Command(reason=UNDERUTILIZED, candidates=("node-1",), moves={"default/gone": "node-2"})

    (effect,) = nominate_destinations(command, view_of([]), THEN)

    assert isinstance(effect, Nominate)
    assert effect.node == "node-2"


def test_pods_of_a_command_hear_where_they_go() -> None:
    """A pod that is still there gets the Event of its nomination."""
    command = Command(reason=UNDERUTILIZED, candidates=("node-1",), moves={"default/web-0": "node-2"})

    _, told = nominate_destinations(command, cluster(pod("web-0", "node-1")), THEN)

    assert isinstance(told, Announce)
    assert (told.reason, told.about.name) == ("Nominated", "web-0")


def test_a_replacement_says_what_it_replaces() -> None:
    """The claim is created for the reason of the command, in the words of metrics."""
    view = cluster(pool(), machine("node-1", "xlarge"), pod("web-0", "node-1", cpu="1"))
    (command,) = decided(view).commands

    effect = replacement(command.replacements[0], command, view, MARKET.label_rules)

    assert effect.reason == "underutilized"
    assert effect.claim.metadata.labels[NODEPOOL] == "default"


def test_a_replacement_is_of_the_template_of_its_decision() -> None:
    """A template that changes before the claim is created changes nothing of it: it drifts as a whole."""
    bound = (machine("node-1", "xlarge"), pod("web-0", "node-1", cpu="1"))
    view = cluster(pool(), *bound)
    (command,) = decided(view).commands
    before = replacement(command.replacements[0], command, view, MARKET.label_rules)

    after = replacement(command.replacements[0], command, cluster(_changed(), *bound), MARKET.label_rules)

    assert after == before


def _changed() -> NodePool:
    """Return the NodePool with a template that differs in everything that a claim takes from it."""
    full = pool()
    template = NodeClaimTemplate(
        metadata=NodeTemplateMeta(labels={"version": "2"}, annotations={"version": "2"}),
        spec=msgspec.structs.replace(
            full.spec.template.spec,
            taints=(Taint(key="version", value="2", effect="NoSchedule"),),
            startup_taints=(Taint(key="starts", value="2", effect="NoSchedule"),),
            node_class_ref=msgspec.structs.replace(full.spec.template.spec.node_class_ref, name="second"),
            expire_after="2h",
            termination_grace_period="2m",
        ),
    )
    return msgspec.structs.replace(
        full,
        metadata=msgspec.structs.replace(full.metadata, uid="second"),
        spec=msgspec.structs.replace(full.spec, template=template),
    )


@pytest.mark.parametrize(
    ("reason", "candidates", "expected"),
    [
        (UNDERUTILIZED, ("node-1",), "single"),
        (UNDERUTILIZED, ("node-1", "node-2"), "multi"),
        (EMPTY, ("node-1", "node-2"), "empty"),
        ("Drifted", ("node-1",), ""),
    ],
)
def test_commands_are_counted_as_karpenter_does(
    reason: str, candidates: tuple[str, ...], expected: str
) -> None:
    """The label consolidation_type says how many nodes a saving takes; other reasons have none."""
    assert Command(reason=reason, candidates=candidates).consolidation_type == expected
