"""
The questions that are recorded: which functions of the core, what they depend on, and what came out.

A question is a call of a pure function, as a value (:class:`functools.partial`). The view and the catalogue
are told by other lines; time limits are left out, since they cannot be repeated. A command that is looked at
again is named by the decision that it comes from.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from karpenter.core.disruption.command import Verdict
from karpenter.core.disruption.confirm import Confirmed, confirm
from karpenter.core.disruption.propose import Rules, propose
from karpenter.core.provisioning.decide import Decision, provision
from karpenter.core.provisioning.promises import Promise
from karpenter.core.scheduling.intake.intake import Policy
from karpenter.core.scheduling.problem import Options

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter.core.disruption.command import Command
    from karpenter.core.disruption.confirm import Second
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.scheduling.plan import NewNode
    from karpenter.core.state.view import ClusterView

Outcome: TypeAlias = Any
"""What came out of a decision, as plain data."""

QUESTIONS: Final[dict[str, Callable[..., Any]]] = {
    each.__name__: each for each in (provision, propose, confirm)
}

_STRUCTS: Final = {"options": Options, "policy": Policy, "rules": Rules}
_SETS: Final = ("nominated", "buffered")
_OTHERS: Final[dict[str, Any]] = {
    "promises": dict[str, Promise],
    "promised": dict[str, str],
    "surge": bool,
    "fullest_first": bool,
}
_COMMAND: Final = "command"
_STOP: Final = "stop"
_CALLS: Final = (_STOP, "tried")
"""Settings that are not values: they ask and tell what time it is."""


class Origin(msgspec.Struct, frozen=True):
    """Which command: the number of the decision, and its place in it."""

    decision: int
    place: int


def view_and_catalog(call: partial[Any]) -> tuple[ClusterView, Catalog]:
    """Return the two arguments that have lines of their own."""
    view, catalog = call.args[-2:]
    return view, catalog


def given(call: partial[Any], origin: Callable[[Command], Origin]) -> dict[str, Any]:
    """Return the other arguments but for the time, as plain data."""
    found: dict[str, Any] = {}
    for name, value in call.keywords.items():
        if name in _STRUCTS:
            plain = {each: getattr(value, each) for each in value.__struct_fields__ if each not in _CALLS}
            found[name] = msgspec.to_builtins(plain)
        elif name in _SETS:
            found[name] = sorted(value)
        elif name != "now":
            found[name] = msgspec.to_builtins(value)
    if call.func is confirm:
        found[_COMMAND] = msgspec.to_builtins(origin(call.args[0]))
    return found


def origin_of(plain: dict[str, Any]) -> Origin | None:
    """Return which command a question is about, if it is about one."""
    return msgspec.convert(plain[_COMMAND], Origin) if _COMMAND in plain else None


def call_of(
    question: str,
    view: ClusterView,
    catalog: Catalog,
    plain: dict[str, Any],
    *,
    command: Command | None,
) -> partial[Any]:
    """Return the call that a line stands for, but for the time.

    Raises:
        KeyError, msgspec.ValidationError: it stands for none.
    """
    keywords: dict[str, Any] = {}
    first = () if command is None else (command,)
    for name, value in plain.items():
        if name in _STRUCTS:
            keywords[name] = _struct(_STRUCTS[name], value)
        elif name in _SETS:
            keywords[name] = frozenset(value)
        elif name != _COMMAND:
            keywords[name] = msgspec.convert(value, _OTHERS.get(name, datetime))
    return partial(QUESTIONS[question], *first, view, catalog, **keywords)


def watched(call: partial[Any], note: Callable[[], None]) -> partial[Any]:
    """Return the same call, which says when its time has run out."""
    keywords = dict(call.keywords)
    for name in ("options", "rules"):
        stop = getattr(keywords.get(name), _STOP, None)
        if stop is not None:
            keywords[name] = msgspec.structs.replace(keywords[name], stop=_noting(stop, note))
    return partial(call.func, *call.args, **keywords)


def outcome_of(result: Any) -> Outcome:
    """Return what came out, as plain data in which the same always looks the same."""
    match result:
        case Decision():
            found: Any = _decision(result)
        case Verdict():
            found = {"commands": [_command(each) for each in result.commands], "kept": result.kept}
        case _:
            found = _second(result)
    return msgspec.json.decode(msgspec.json.encode(found))


def _decision(decision: Decision) -> dict[str, Any]:
    plan = decision.plan
    return {
        "claims": decision.claims,
        "effects": decision.effects,
        "placed": dict(plan.placed),
        "refusals": plan.refusals,
        "cost": plan.cost,
        "considered": decision.considered,
        "ignored": decision.ignored,
        "buffered": sorted(decision.buffered),
    }


def _command(command: Command) -> dict[str, Any]:
    return {
        "reason": command.reason,
        "candidates": command.candidates,
        "replacements": [_node(each) for each in command.replacements],
        "moves": dict(command.moves),
        "hourly_before": command.hourly_before,
        "hourly_after": command.hourly_after,
        "pods_moved": command.pods_moved,
    }


def _node(node: NewNode) -> dict[str, Any]:
    return {
        "pool": node.pool,
        "purchase": node.purchase,
        "pods": node.pods,
        "instance_types": node.instance_types,
        "labels": dict(node.labels),
    }


def _second(second: Second) -> dict[str, Any]:
    if isinstance(second, Confirmed):
        return {
            "confirmed": _command(second.command),
            "candidates": [each.name for each in second.candidates],
        }
    return {"rejected": second}


def _struct(kind: type[Any], plain: dict[str, Any]) -> Any:
    types = {each.name: each.type for each in msgspec.structs.fields(kind) if each.name not in _CALLS}
    return kind(**{name: msgspec.convert(value, types[name]) for name, value in plain.items()})


def _noting(stop: Callable[[], bool], note: Callable[[], None]) -> Callable[[], bool]:
    def asked() -> bool:
        if stop():
            note()
            return True
        return False

    return asked
