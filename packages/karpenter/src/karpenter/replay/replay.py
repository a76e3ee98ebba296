"""
Makes every decision of a flight record again, and compares.

The state is built up line by line as the operator's was; each question is put to the same function of the
core (``provision``, ``disrupt``, ``validate``) and the answer is compared with the one that was recorded. A
decision that was cut short by time is made again to its end, and a difference there is not counted as one.

A question is a call of a pure function, as a value (:class:`functools.partial`). The view and the catalog
have lines of their own; time limits are left out, since they cannot be repeated. A command that is
validated is named by the decision that it comes from.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from karpenter.core.disruption.disrupt import DisruptionDecision, disrupt
from karpenter.core.disruption.memory import DisruptionMemory
from karpenter.core.disruption.settings import DisruptionContext
from karpenter.core.disruption.validation import Validation, ValidCommand, validate
from karpenter.core.provisioning.provisioner import (
    ProvisioningDecision,
    ProvisioningMemory,
    ProvisioningSettings,
    provision,
)
from karpenter.replay.record import DECODER, Answered, Asked, RecordedCluster, Unreadable, reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from karpenter.core.disruption.command import Command
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.scheduling.problem import NewNode
    from karpenter.core.state.cluster import ClusterView


PlainOutcome: TypeAlias = Any
"""What came out of a decision, as plain data."""

QUESTIONS: Final[dict[str, Callable[..., Any]]] = {
    each.__name__: each for each in (provision, disrupt, validate)
}

_FACTS: Final[dict[str, type[Any]]] = {"settings": ProvisioningSettings, "context": DisruptionContext}
"""The argument with the settings of a question, and what it is."""

_MEMORIES: Final[dict[str, type[Any]]] = {
    "provision": ProvisioningMemory,
    "disrupt": DisruptionMemory,
    "validate": DisruptionMemory,
}
_NOT_RECORDED: Final = frozenset(
    {"stop", "tried", "fingerprint", "told", "claims", "launched", "expected", "unreadable", "fruitless"}
)
"""Facts that change no answer: clocks, and what is remembered for other purposes than a decision."""

_MEMORY: Final = "memory"
_COMMAND: Final = "command"
_SIMULATED: Final = "simulated"
_STOP: Final = "stop"


class Origin(msgspec.Struct, frozen=True):
    """Which command: the number of the decision, and its place in it."""

    decision: int
    place: int


def view_and_catalog(call: partial[Any]) -> tuple[ClusterView, Catalog]:
    """Return the two arguments that have lines of their own."""
    view, catalog = call.args[-3:-1]
    return view, catalog


def given(call: partial[Any], origin: Callable[[Command], Origin]) -> dict[str, Any]:
    """Return the other arguments but for the time, as plain data."""
    found: dict[str, Any] = {_MEMORY: _plain(call.args[-1])}
    for name, value in call.keywords.items():
        if name in _FACTS:
            found[name] = _plain(value)
        elif name == _SIMULATED:
            found[name] = sorted(value)
    if call.func is validate:
        found[_COMMAND] = msgspec.to_builtins(origin(call.args[0]))
    return found


def recorded_settings(
    plain: Mapping[str, Any],
) -> tuple[ProvisioningSettings | None, DisruptionContext | None]:
    """
    Return the settings that arguments of questions hold; None where no such question was asked.

    Raises:
        KeyError, TypeError, msgspec.ValidationError: they are none.
    """
    found = {name: _struct(kind, plain[name]) for name, kind in _FACTS.items() if name in plain}
    return found.get("settings"), found.get("context")


def origin_of(plain: dict[str, Any]) -> Origin | None:
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
    first = () if command is None else (command,)
    memory = _struct(_MEMORIES[question], plain[_MEMORY])
    keywords: dict[str, Any] = {
        name: _struct(kind, plain[name]) for name, kind in _FACTS.items() if name in plain
    }
    if _SIMULATED in plain:
        keywords[_SIMULATED] = frozenset(plain[_SIMULATED])
    return partial(QUESTIONS[question], *first, view, catalog, memory, **keywords)


def watched(call: partial[Any], note: Callable[[], None]) -> partial[Any]:
    """Return the same call, which says when its time has run out."""
    keywords = dict(call.keywords)
    for name in _FACTS:
        stop = getattr(keywords.get(name), _STOP, None)
        if stop is not None:
            keywords[name] = msgspec.structs.replace(keywords[name], stop=_noting(stop, note))
    return partial(call.func, *call.args, **keywords)


def outcome_of(result: Any) -> PlainOutcome:
    """Return what came out, as plain data in which the same always looks the same."""
    match result:
        case ProvisioningDecision():
            found: Any = _provisioning(result)
        case DisruptionDecision():
            found = {"commands": [_command(each) for each in result.commands], "kept": result.kept}
        case _:
            found = _validation(result)
    return msgspec.json.decode(msgspec.json.encode(found))


def commands_of(result: Any) -> tuple[Command, ...]:
    """Return the commands of an answer, which later questions may be about."""
    if isinstance(result, DisruptionDecision):
        return result.commands
    return (result.command,) if isinstance(result, ValidCommand) else ()


def _provisioning(decision: ProvisioningDecision) -> dict[str, Any]:
    plan = decision.plan
    return {
        "claims": decision.claims,
        "effects": decision.effects,
        "placed": dict(plan.placed),
        "refusals": plan.refusals,
        "cost": plan.cost,
        "considered": decision.considered,
        "ignored": decision.ignored,
        "skipped": decision.skipped,
        "buffered": sorted(decision.memory.buffered),
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
        **({"preferred": command.preferred} if command.preferred else {}),
    }


def _node(node: NewNode) -> dict[str, Any]:
    return {
        "pool": node.pool,
        "purchase": node.purchase,
        "pods": node.pods,
        "instance_types": node.instance_types,
        "labels": dict(node.labels),
    }


def _validation(found: Validation) -> dict[str, Any]:
    if isinstance(found, ValidCommand):
        return {"valid": _command(found.command), "candidates": [each.name for each in found.candidates]}
    return {"invalid": {"why": found.why, "message": found.message}}


def _plain(value: msgspec.Struct) -> dict[str, Any]:
    """Return a struct as plain data, without what is not recorded."""
    return {
        name: _plain(each) if isinstance(each, msgspec.Struct) else msgspec.to_builtins(each, order="sorted")
        for name in value.__struct_fields__
        if name not in _NOT_RECORDED
        for each in (getattr(value, name),)
    }


def _struct(kind: type[Any], plain: dict[str, Any]) -> Any:
    types = {each.name: each.type for each in msgspec.structs.fields(kind) if each.name not in _NOT_RECORDED}
    return kind(**{name: _converted(types[name], value) for name, value in plain.items()})


def _converted(kind: Any, value: Any) -> Any:
    is_struct = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    return _struct(kind, value) if is_struct else msgspec.convert(value, kind)


def _noting(stop: Callable[[], bool], note: Callable[[], None]) -> Callable[[], bool]:
    def asked() -> bool:
        if stop():
            note()
            return True
        return False

    return asked


_MOST_DIFFERENCES: Final = 20
_ABSENT: Final = "nothing"


class Difference(msgspec.Struct, frozen=True):
    """A place where two answers differ."""

    place: str
    recorded: str
    replayed: str


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that was made again."""

    number: int
    question: str
    at: datetime
    result: Literal["same", "different", "cut short"]
    summary: str
    differences: tuple[Difference, ...] = ()


class Replay:
    """Reads one record."""

    def __init__(self) -> None:
        self._cluster = RecordedCluster()
        self._answers: dict[int, tuple[Asked, Any]] = {}
        self._commands: dict[Origin, Command] = {}
        self.torn = False
        """Whether the last line is not whole: the writer died over it."""

    @property
    def version(self) -> str:
        return self._cluster.version

    def run(self, lines: Iterable[bytes]) -> Iterator[Replayed]:
        """
        Yield every decision that was answered, made again.

        Raises:
            Unreadable: naming the line.
        """
        before: tuple[int, bytes] | None = None
        for here in enumerate(lines, start=1):
            if before is not None:
                yield from self._take(*before)
            before = here
        if before is None:
            raise Unreadable(1, "there is nothing in the record")
        if before[1].endswith(b"\n"):
            yield from self._take(*before)
        elif before[0] == 1:
            raise Unreadable(1, "a record begins with a whole line, and this has none")
        else:
            self.torn = True

    def _take(self, number: int, text: bytes) -> Iterator[Replayed]:
        with reading(number):
            line = DECODER.decode(text)
            self._cluster.read(line)
            match line:
                case Asked():
                    self._ask(line)
                case Answered():
                    yield self._compare(line)

    def _ask(self, line: Asked) -> None:
        if line.question not in QUESTIONS:
            raise ValueError(f"there is no question {line.question}; expected one of {', '.join(QUESTIONS)}")
        origin = origin_of(line.given)
        if origin is not None and origin not in self._commands:
            # The record has the command and this run does not: the difference is shown where it was decided.
            self._answers[line.number] = (line, {"command": "was not decided"})
            return
        call = call_of(
            line.question,
            self._cluster.store.view(),
            self._cluster.catalog(line),
            line.given,
            command=self._commands[origin] if origin is not None else None,
        )
        try:
            signature(call).bind(now=line.now)
        except TypeError as error:
            raise ValueError(f"the question {line.question} is not whole: {error}") from error
        result = call(now=line.now)
        if isinstance(result, DisruptionDecision):
            self._commands.clear()
        for place, each in enumerate(commands_of(result)):
            self._commands[Origin(line.number, place)] = each
        self._answers[line.number] = (line, outcome_of(result))

    def _compare(self, line: Answered) -> Replayed:
        if line.number not in self._answers:
            raise ValueError(f"it answers decision {line.number}, which was not asked for")
        asked, ours = self._answers.pop(line.number)
        theirs = msgspec.json.decode(line.outcome)
        found = tuple(_differences(theirs, ours, ""))[:_MOST_DIFFERENCES]
        return Replayed(
            number=line.number,
            question=asked.question,
            at=asked.now,
            result="same" if not found else "cut short" if line.cut else "different",
            summary=_summary(theirs),
            differences=found,
        )


def _differences(theirs: Any, ours: Any, place: str) -> Iterator[Difference]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in dict.fromkeys([*theirs, *ours]):
            yield from _differences(
                theirs.get(key, _ABSENT), ours.get(key, _ABSENT), f"{place}.{key}" if place else key
            )
    elif isinstance(theirs, list) and isinstance(ours, list):
        for number in range(max(len(theirs), len(ours))):
            pair = [each[number] if number < len(each) else _ABSENT for each in (theirs, ours)]
            yield from _differences(pair[0], pair[1], f"{place}[{number}]")
    elif theirs != ours:
        yield Difference(place, _text(theirs), _text(ours))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _summary(outcome: dict[str, Any]) -> str:
    if "claims" in outcome:
        new, placed = len(outcome["claims"]), sum(map(len, outcome["placed"].values()))
        return f"{new} new machines, {placed} pods on nodes, {len(outcome['refusals'])} refused"
    if "commands" in outcome:
        going = sum(len(each["candidates"]) for each in outcome["commands"])
        return f"{going} machines to go, {len(outcome['kept'])} kept"
    if "valid" in outcome:
        return f"valid for {len(outcome['candidates'])} machines"
    return f"invalid: {outcome['invalid']['message']}"
