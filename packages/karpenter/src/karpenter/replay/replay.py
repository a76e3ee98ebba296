"""
Making every decision of a record again.

The state is built up line by line as the operator's was; each question is put to the same function of the
core, and the answer compared with the one that was given. An answer that was cut short by time is made again
but not held against anybody.

The questions that are recorded: which functions of the core, what they depend on, and what came out.

A question is a call of a pure function, as a value (:class:`functools.partial`). The view and the catalogue
are told by other lines; time limits are left out, since they cannot be repeated. A command that is looked at
again is named by the decision that it comes from.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from karpenter.api.wire import explain
from karpenter.core.disruption.command import DisruptionDecision
from karpenter.core.disruption.disrupt import DisruptionSettings, propose
from karpenter.core.disruption.validation import ValidCommand, confirm
from karpenter.core.provisioning.nominations import Nomination
from karpenter.core.provisioning.provisioner import ProvisioningDecision, provision
from karpenter.core.scheduling.build.build import SchedulingPolicy
from karpenter.core.scheduling.problem import Options
from karpenter.core.state.cluster import Store
from karpenter.replay.record import (
    DECODER,
    FORMAT,
    KINDS,
    Answered,
    Asked,
    CatalogReader,
    Done,
    Lost,
    RecordBegun,
    Seen,
    Sold,
    event_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from karpenter.core.disruption.command import Command
    from karpenter.core.disruption.validation import Second
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.scheduling.problem import NewNode
    from karpenter.core.state.cluster import ClusterView
    from karpenter.replay.record import Line


Outcome: TypeAlias = Any
"""What came out of a decision, as plain data."""

QUESTIONS: Final[dict[str, Callable[..., Any]]] = {
    each.__name__: each for each in (provision, propose, confirm)
}

_STRUCTS: Final = {"options": Options, "policy": SchedulingPolicy, "rules": DisruptionSettings}
_SETS: Final = ("nominated", "buffered")
_OTHERS: Final[dict[str, Any]] = {
    "promises": dict[str, Nomination],
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
        case ProvisioningDecision():
            found: Any = _decision(result)
        case DisruptionDecision():
            found = {"commands": [_command(each) for each in result.commands], "kept": result.kept}
        case _:
            found = _second(result)
    return msgspec.json.decode(msgspec.json.encode(found))


def _decision(decision: ProvisioningDecision) -> dict[str, Any]:
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
    if isinstance(second, ValidCommand):
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


_MOST_DIFFERENCES: Final = 20
_ABSENT: Final = "nothing"


class Unreadable(ValueError):  # noqa: N818  says what is wrong
    """A line that does not belong in a record."""

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(f"line {number}: {problem}")
        self.number = number


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
        self._store: Store | None = None
        self._catalogs = CatalogReader()
        self._answers: dict[int, tuple[Asked, Any]] = {}
        self._commands: dict[Origin, Command] = {}
        self.version = ""
        """The version that wrote the record."""

        self.torn = False
        """Whether the last line is not whole: the writer died over it."""

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
        else:
            self.torn = True

    def _take(self, number: int, text: bytes) -> Iterator[Replayed]:
        try:
            line = DECODER.decode(text)
            yield from self._read(line, number)
        except msgspec.ValidationError as error:
            place, problem = explain(str(error))
            where = place or "this is no line of a flight record"
            raise Unreadable(number, f"{where}: {problem}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Unreadable(number, "this is not JSON") from error
        except (KeyError, IndexError) as error:
            raise Unreadable(number, f"something is missing that it refers to ({error})") from error

    def _read(self, line: Line, number: int) -> Iterator[Replayed]:
        match line:
            case RecordBegun():
                self._begin(line, number)
            case _ if self._store is None:
                raise Unreadable(number, "a record begins with what it is, and this does not")
            case Sold():
                self._catalogs.read(line)
            case _ if problem := self._problem(line):
                raise Unreadable(number, problem)
            case Asked():
                self._ask(line, self._store, number)
            case Answered():
                yield self._compare(line)
            case Done():
                return
            case _:
                self._store.apply(event_of(line))

    def _problem(self, line: Line) -> str:
        """Return what a line refers to that is not there; nothing where all is."""
        match line:
            case Asked(catalog=catalog) if catalog not in self._catalogs:
                return f"what was sold is not in the record (catalogue {catalog})"
            case Asked(question=question) if question not in QUESTIONS:
                return f"nobody knows the question {question}"
            case Answered(number=asked) if asked not in self._answers:
                return f"it answers decision {asked}, which was not asked for"
            case Seen(kind=kind) | Lost(kind=kind) if kind not in KINDS:
                return f"nobody knows the kind {kind}"
        return ""

    def _begin(self, line: RecordBegun, number: int) -> None:
        if line.format != FORMAT:
            raise Unreadable(number, f"a record of format {line.format}; this version reads {FORMAT}")
        self.version = line.version
        self._store = Store(serves=line.serves)
        self._catalogs = CatalogReader()

    def _ask(self, line: Asked, store: Store, number: int) -> None:
        store.unmark(store.marked)
        store.mark(line.marked)
        origin = origin_of(line.given)
        if origin is not None and origin not in self._commands:
            # It was proposed then and is not now: a difference that was shown there already has consequences.
            self._answers[line.number] = (line, {"command": "was not proposed"})
            return
        call = call_of(
            line.question,
            store.view(),
            self._catalogs[line.catalog],
            line.given,
            command=self._commands[origin] if origin is not None else None,
        )
        try:
            signature(call).bind(now=line.now)
        except TypeError as error:
            raise Unreadable(number, f"the question {line.question} is not whole: {error}") from error
        result = call(now=line.now)
        if commands := getattr(result, "commands", ()):
            self._commands = {Origin(line.number, place): each for place, each in enumerate(commands)}
        self._answers[line.number] = (line, outcome_of(result))

    def _compare(self, line: Answered) -> Replayed:
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
    """Return what was decided, in a few words."""
    if "claims" in outcome:
        new, placed = len(outcome["claims"]), sum(map(len, outcome["placed"].values()))
        return f"{new} new machines, {placed} pods on nodes, {len(outcome['refusals'])} refused"
    if "commands" in outcome:
        going = sum(len(each["candidates"]) for each in outcome["commands"])
        return f"{going} machines to go, {len(outcome['kept'])} kept"
    if "confirmed" in outcome:
        return f"confirmed for {len(outcome['candidates'])} machines"
    return f"rejected: {outcome['rejected']['message']}"
