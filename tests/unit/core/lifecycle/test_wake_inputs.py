"""
Controllers wake only when what a decision reads has changed: the lists of what it reads are complete.

Every field of an object is changed, one at a time. Where the list says that nothing has changed, the decision
must be the same: whatever it would write, create, delete or tell. What is compared of a written list of
conditions is what the decision changes in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karpenter.api.labels import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NODEPOOL,
    NODEPOOL_HASH,
    NODEPOOL_HASH_VERSION,
    TERMINATION_FINALIZER,
    TERMINATION_TIMESTAMP,
    ZONE,
)
from karpenter.core.effects import Amend, Announce, Effect, Launch, Step, Terminate
from karpenter.core.lifecycle.conditions import render_conditions
from karpenter.core.lifecycle.consistency import check_consistency, consistency_inputs
from karpenter.core.lifecycle.disruption_conditions import (
    disruption_conditions,
    disruption_inputs,
    disruption_inputs_of_pool,
    instance_type_found_at,
)
from karpenter.core.lifecycle.hydration import hydrate
from karpenter.core.lifecycle.liveness import lifecycle_inputs, reconcile_nodeclaim
from karpenter.core.lifecycle.termination import finalize_nodeclaim
from tests.unit.core.disruption.clusters import MARKET
from tests.unit.core.lifecycle.objects import BORN, CLASS_LABEL, ID, NOW, OWNER, REF, at, claim, node, pool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.nodepool import NodePool

    Decide = Callable[[Any], Any]
    Inputs = Callable[[Any], object]

CHECKED = ("ConsistentStateFound",)
DISRUPTED = ("Drifted", "Consolidatable")
LASTING = frozenset({"name", "generate_name", "namespace", "uid", "creation_timestamp", "generation"})
"""What of an object never changes, or only together with its spec."""

LATER = datetime(2030, 1, 1, tzinfo=UTC)
TAINT = {"key": "dedicated", "value": "web", "effect": "NoSchedule"}
STARTUP = {"key": "example.com/starting", "effect": "NoSchedule"}
HASHES = {NODEPOOL_HASH: "1", NODEPOOL_HASH_VERSION: "v3"}
LABELS = {
    NODEPOOL: "default",
    CLASS_LABEL: "default",
    INSTANCE_TYPE: "small",
    ZONE: "test-zone-a",
    CAPACITY_TYPE: "on-demand",
    "team": "web",
}
KINDS = (
    *("Launched", "Registered", "Initialized", "Drifted", "Consolidatable", "ConsistentStateFound"),
    *("DisruptionReason", "Drained", "VolumesDetached", "InstanceTerminating"),
)


def changed(value: Any) -> Iterator[Any]:
    match value:
        case msgspec.Struct():
            yield from _changed_struct(value)
        case bool():
            yield not value
        case int():
            yield from (value + 1, value - 1)
        case str():
            yield from (f"{value}1", "", "true", "5h")
        case datetime():
            yield from (value + timedelta(days=1), value - timedelta(days=1), None)
        case dict():
            for key, held in value.items():
                yield {name: each for name, each in value.items() if name != key}
                yield from ({**value, key: after} for after in changed(held))
            yield {**value, "example.com/new": "true"}
        case tuple():
            for place, held in enumerate(value):
                before, after = value[:place], value[place + 1 :]
                yield (*before, *after)
                yield from ((*before, each, *after) for each in changed(held))
        case _:
            raise TypeError(f"it is not known how to change {value!r}")


def _changed_struct(value: msgspec.Struct) -> Iterator[Any]:
    hints = {each.encode_name: each.type for each in _fields(type(value))}
    for name, wire in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
        if name in LASTING:
            continue
        before = getattr(value, name)
        for after in changed(before) if before is not None else _made(hints.get(wire)):
            yield msgspec.structs.replace(value, **{name: after})


def _fields(kind: type) -> Sequence[Any]:
    found = msgspec.inspect.type_info(kind)
    assert isinstance(found, msgspec.inspect.StructType)
    return found.fields


def _made(kind: object) -> Iterator[Any]:
    members = getattr(kind, "types", (kind,))
    for each in members:
        match each:
            case msgspec.inspect.DateTimeType():
                yield from (NOW, LATER)
            case msgspec.inspect.IntType():
                yield from (0, 1)
            case msgspec.inspect.StrType():
                yield "5h"
            case msgspec.inspect.BoolType():
                yield True


def outcome(item: Any, decided: Any, own: frozenset[str]) -> Any:
    """Return what a decision about an object comes to, without what it repeats of the object."""
    if isinstance(decided, Step):
        return outcome(item, decided.effects, own), decided.again
    effects = (_effect(item, each, own) for each in decided)
    return tuple(each for each in effects if each is not None)


def _effect(item: Any, effect: Effect, own: frozenset[str]) -> Any:
    match effect:
        case Launch():
            return "Launch"  # of the claim as the cluster state has it then
        case Announce():
            return effect.about.name, effect.reason, effect.message
        case Terminate():
            return effect.provider_id, outcome(item, effect.going, own), outcome(item, effect.gone, own)
        case Amend():
            return _write(item, effect, own)
        case _:
            return effect


def _write(item: Any, effect: Amend, own: frozenset[str]) -> Any:
    status = dict(effect.status)
    if "conditions" in status and effect.kind == item.kind:
        held = render_conditions(item.status.conditions)
        # Ready, and conditions that are not there yet, are brought in order by the lifecycle.
        written = status.pop("conditions")
        new = [each for each in written if each not in held and each["type"] in own]
        status |= {"conditions": new} if new else {}
    return (effect.kind, effect.name, effect.changes, status) if status or effect.changes else None


def lacking(item: Any, inputs: Inputs, decide: Decide, own: Sequence[str] = KINDS) -> list[str]:
    """
    Return the changes of an object after which a decision is another one, and its inputs are not.

    `own` are the conditions that the decision keeps.
    """
    kinds = frozenset(own)
    known, expected = inputs(item), outcome(item, decide(item), kinds)
    found = []
    for other in changed(item):
        try:
            differs = inputs(other) == known and outcome(other, decide(other), kinds) != expected
        except (ValueError, AssertionError):  # another answer, too
            differs = inputs(other) == known
        if differs:
            found.append(str(_difference(item, other)))
    return found


def _difference(one: Any, other: Any) -> Any:
    if isinstance(one, msgspec.Struct):
        for name in one.__struct_fields__:
            if getattr(one, name) != getattr(other, name):
                return f"{name}: {_difference(getattr(one, name), getattr(other, name))}"
    if isinstance(one, tuple) and len(one) == len(other):
        return next(_difference(*pair) for pair in zip(one, other, strict=True) if pair[0] != pair[1])
    return f"{one!r} -> {other!r}"


@dataclass(frozen=True)
class Moment:
    """A claim with its node and NodePool at a moment of its life."""

    claim: NodeClaim
    node: Node
    pool: NodePool
    now: datetime


@st.composite
def moments(draw: st.DrawFn) -> Moment:
    """Return a claim at any moment of its life."""
    reached = dict.fromkeys(KINDS[: draw(st.sampled_from((0, 1, 2, 3, 3, 3)))], "True")
    states = st.sampled_from(("True", "False", "Unknown"))
    statuses = {**draw(st.dictionaries(st.sampled_from(KINDS), states, max_size=4)), **reached}
    leaving = draw(st.booleans())
    notes = {**HASHES, **({TERMINATION_TIMESTAMP: at(LATER)} if draw(st.booleans()) else {})}
    made = claim(
        meta={
            "labels": LABELS,
            "annotations": notes,
            "finalizers": [TERMINATION_FINALIZER] if draw(st.booleans()) else ["example.com/other"],
            **({"deletionTimestamp": at(NOW)} if leaving else {}),
        },
        spec={
            "taints": [TAINT],
            "startupTaints": [STARTUP],
            "requirements": [{"key": "team", "operator": "In", "values": ["web"]}],
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
            "expireAfter": draw(st.sampled_from(("1h", "Never"))),
            "terminationGracePeriod": draw(st.sampled_from(("5m", None))),
        },
        status={
            "providerID": draw(st.sampled_from((ID, ID, ID, ""))),
            "nodeName": draw(st.sampled_from(("node-1", ""))),
            "imageID": "ami-1",
            "capacity": {"cpu": "2", "memory": "2Gi"},
            "allocatable": {"cpu": "2", "memory": "2Gi"},
            "lastPodEventTime": draw(st.sampled_from((at(BORN), at(NOW), None))),
        },
        **statuses,
    )
    there = node(
        ready=draw(st.booleans()),
        meta={
            "labels": {**LABELS, **draw(_MARKS)},
            "annotations": {"team": "web"},
            "finalizers": ["example.com/other"],
            "ownerReferences": [OWNER],
            **({"deletionTimestamp": at(NOW)} if draw(st.booleans()) else {}),
        },
        spec={"taints": draw(st.sampled_from(([], [TAINT], [TAINT, STARTUP], [_UNREGISTERED])))},
        status={
            "capacity": {"cpu": draw(st.sampled_from(("1", "2"))), "memory": "2Gi"},
            "allocatable": {"cpu": "2", "memory": "2Gi"},
        },
    )
    of = pool(
        meta={
            "annotations": draw(st.sampled_from((HASHES, {**HASHES, NODEPOOL_HASH: "2"}))),
            "labels": {"a": "b"},
        },
        template={
            "metadata": {"labels": {"team": "web"}},
            "spec": {"requirements": [{"key": "team", "operator": "In", "values": ["web", "db"]}]},
        },
        spec={
            "disruption": {"consolidateAfter": draw(st.sampled_from(("0s", "1m", "5m", "Never")))},
            "replicas": draw(st.sampled_from((None, None, 1))),
            "limits": {"cpu": "100"},
            "weight": 1,
        },
        status={"resources": {"cpu": "2"}},
        Ready="True",
    )
    return Moment(made, there, of, NOW + draw(st.sampled_from((0, 3, 20, 90))) * timedelta(minutes=1))


_MARKS = st.dictionaries(
    st.sampled_from(("karpenter.sh/registered", "karpenter.sh/initialized")), st.just("true")
)
_UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}


def _lifecycle(moment: Moment, nodes: Sequence[Node]) -> Decide:
    def decide(item: NodeClaim) -> Step:
        if item.metadata.deletion_timestamp is not None:
            return finalize_nodeclaim(item, nodes, moment.now)
        return reconcile_nodeclaim(item, nodes, moment.now)

    return decide


@given(moment=moments(), joined=st.booleans())
def test_the_lifecycle_reads_only_its_inputs(moment: Moment, joined: bool) -> None:
    """What of a claim is not among its inputs does not change what is done about it."""
    assert not lacking(moment.claim, lifecycle_inputs, _lifecycle(moment, (moment.node,) * joined))


@given(moment=moments())
def test_consistency_reads_only_its_inputs_of_claims(moment: Moment) -> None:
    """What of a claim is not among the inputs of its check does not change that, nor hydration."""
    nodes = (moment.node,)
    assert not lacking(
        moment.claim, consistency_inputs, lambda item: check_consistency(item, nodes, moment.now), CHECKED
    )
    assert not lacking(moment.claim, consistency_inputs, lambda item: hydrate(item, nodes))


@given(moment=moments())
def test_consistency_reads_only_its_inputs_of_nodes(moment: Moment) -> None:
    """What of a node is not among the inputs of the check does not change that, nor hydration."""
    assert not lacking(
        moment.node,
        consistency_inputs,
        lambda item: check_consistency(moment.claim, (item,), moment.now),
        CHECKED,
    )
    assert not lacking(moment.node, consistency_inputs, lambda item: hydrate(moment.claim, (item,)))


def _disruption(claim: NodeClaim, pool: NodePool, now: datetime) -> Step:
    found = instance_type_found_at(claim, pool, MARKET, now, None)
    return disruption_conditions(claim, pool, MARKET, now, found_at=found)


@given(moment=moments())
def test_disruption_conditions_read_only_their_inputs_of_claims(moment: Moment) -> None:
    """What of a claim is not among the inputs of its disruption conditions does not change them."""
    assert not lacking(
        moment.claim, disruption_inputs, lambda item: _disruption(item, moment.pool, moment.now), DISRUPTED
    )


@given(moment=moments())
def test_disruption_conditions_read_only_their_inputs_of_pools(moment: Moment) -> None:
    """What of a NodePool is not among the inputs of its claims' conditions does not change them."""
    assert not lacking(
        moment.pool,
        disruption_inputs_of_pool,
        lambda item: _disruption(moment.claim, item, moment.now),
        DISRUPTED,
    )


COMPLETE = claim(
    meta={"labels": LABELS, "annotations": HASHES},
    spec={"resources": {"requests": {"cpu": "1"}}},
    status={"providerID": ID, "nodeName": "node-1", "capacity": {"cpu": "2"}, "lastPodEventTime": at(NOW)},
    Launched="True",
    Registered="True",
    Initialized="True",
)
WAITS = pool(meta={"annotations": HASHES}, spec={"disruption": {"consolidateAfter": "1m"}}, Ready="True")


@pytest.mark.parametrize(
    ("item", "decide", "field"),
    [
        pytest.param(COMPLETE, lambda item: _disruption(item, WAITS, NOW), "pod_event_time", id="a time"),
        pytest.param(COMPLETE, lambda item: _disruption(item, WAITS, NOW), "conditions", id="conditions"),
        pytest.param(WAITS, lambda item: _disruption(COMPLETE, item, NOW), "consolidate", id="a pool's spec"),
        pytest.param(WAITS, lambda item: _disruption(COMPLETE, item, NOW), "annotations", id="a pool's hash"),
        pytest.param(
            COMPLETE,
            lambda item: check_consistency(item, (node(),), NOW),
            "capacity",
            id="what it has",
        ),
        pytest.param(
            COMPLETE, lambda item: hydrate(item, (node(meta={"labels": LABELS}),)), "labels", id="labels"
        ),
        pytest.param(
            COMPLETE, lambda item: finalize_nodeclaim(item, (), NOW), "provider_id", id="a machine's id"
        ),
    ],
)
def test_an_input_that_is_forgotten_is_found(item: Any, decide: Decide, field: str) -> None:
    """Where the inputs are nothing at all, what the decision reads is named."""
    assert any(field in each for each in lacking(item, lambda _: (), decide))


def test_the_class_of_a_claim_is_hydrated() -> None:
    """The objects of these tests have the label of their node class."""
    assert COMPLETE.metadata.labels[CLASS_LABEL] == REF["name"]
