"""
What is wrong with the text of an IAM policy: broken, too wide, or without what the operator needs.

A text is read even where commas are missing, so that one run finds everything; findings carry the line and
the column of the text as it was given. Also says how two documents differ. Pure; nothing here asks AWS.

The grammar is that of https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_grammar.html.
"""

from __future__ import annotations

import difflib
import json
from collections import Counter
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec
import yaml

from karpenter.cloud.aws.policy import PolicyScope, policies

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# The only versions of the policy language; the older one knows no policy variables:
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_version.html
VERSIONS: Final = ("2012-10-17", "2008-10-17")
LONGEST: Final = {"managed": 6144, "inline": 10240}
"""Characters without white space. https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"""

_MOST_REPAIRS: Final = 100
_MISSING_COMMA: Final = "Expecting ',' delimiter"
_KEYS: Final = frozenset(
    {
        "Sid",
        "Effect",
        "Principal",
        "NotPrincipal",
        "Action",
        "NotAction",
        "Resource",
        "NotResource",
        "Condition",
    }
)
_SAFE_ON_EVERYTHING: Final = ("Describe", "Get", "List")
"""Verbs of actions that only read, and that seldom can be narrowed."""


class PolicyFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong with a policy document."""

    rule: str
    """Which rule says so, such as ``wildcard-action``."""

    severity: Literal["error", "warning"]
    message: str
    hint: str = ""
    line: int = 1
    column: int = 1
    statement: str = ""
    """Its Sid, or its number."""


class PolicyStatement(msgspec.Struct, frozen=True, kw_only=True):
    """One statement, with every list as a list."""

    sid: str
    effect: str
    actions: tuple[str, ...] = ()
    not_actions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    not_resources: tuple[str, ...] = ()
    principal: Any = None
    condition: dict[str, dict[str, tuple[str, ...]]] = {}


class _TextPlace(NamedTuple):
    line: int
    column: int


class _LocatedDocument(NamedTuple):
    """Plain data, and where each part of it stands."""

    data: Any
    places: dict[tuple[str | int, ...], _TextPlace]


def statements_of(document: Mapping[str, Any]) -> tuple[PolicyStatement, ...]:
    return tuple(_statement(raw) for _, raw in _raw_statements(document))


def policy_differences(have: Mapping[str, Any], want: Mapping[str, Any]) -> tuple[str, ...]:
    """Return how a document differs from the one that is wanted, one phrase each; order does not matter."""
    old = {_identity(each): each for each in statements_of(have)}
    new = {_identity(each): each for each in statements_of(want)}
    lines = [f"statement {name} is missing" for name in new if name not in old]
    lines += [f"statement {name} is not of this version" for name in old if name not in new]
    for name, statement in new.items():
        if name in old:
            lines += _changes(name, old[name], statement)
    return tuple(lines)


def lint_policy(text: str, *, sort: str = "") -> tuple[PolicyFinding, ...]:
    """Return what is wrong with the text of a policy; `sort` is ``managed``, ``inline`` or not known."""
    repaired, broken = _repair(text)
    if repaired is None:
        return tuple(broken)
    located = _locate(repaired)
    found = [*broken, *_grammar(located), *_breadth(located), *_size(located.data, sort)]
    return tuple(sorted(found, key=lambda each: (each.line, each.column)))


@cache
def needed_actions() -> frozenset[str]:
    documents = policies(PolicyScope(cluster="c", region="r", account="0"))
    found = [each for document in documents.values() for each in statements_of(document)]
    return frozenset(action for statement in found for action in statement.actions)


def missing_actions(documents: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the actions that the operator calls and that no statement of the documents allows."""
    allowed = [
        action.lower()
        for document in documents
        for statement in statements_of(document)
        if statement.effect == "Allow"
        for action in statement.actions
    ]
    # IAM compares actions without regard to case:
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_action.html
    return tuple(
        action
        for action in sorted(needed_actions())
        if not any(fnmatchcase(action.lower(), pattern) for pattern in allowed)
    )


def is_controller_policy(documents: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether documents are meant for the operator: together they allow it to launch instances."""
    return "ec2:CreateFleet" not in missing_actions(documents)


def repaired_document(text: str) -> dict[str, Any] | None:
    """Return the document of a text, missing commas added; None where it cannot be read."""
    repaired, _ = _repair(text)
    found = json.loads(repaired) if repaired is not None else None
    return found if isinstance(found, dict) else None


def _repair(text: str) -> tuple[str | None, list[PolicyFinding]]:
    """Return the text with its missing commas, and where they are missing; None where it stays unreadable."""
    found: list[PolicyFinding] = []
    current = text
    for _ in range(_MOST_REPAIRS):
        try:
            json.loads(current)
        except json.JSONDecodeError as error:
            missing = error.msg == _MISSING_COMMA and current[error.pos : error.pos + 1] in {'"', "{", "["}
            at = len(current[: error.pos].rstrip()) if missing else error.pos
            line, column = current.count("\n", 0, at) + 1, at - (current.rfind("\n", 0, at) + 1) + 1
            message = "a comma is missing here" if missing else f"not JSON: {error.msg.lower()}"
            found.append(
                PolicyFinding(
                    rule="invalid-json",
                    severity="error",
                    message=message,
                    hint="add the comma" if missing else "",
                    line=line,
                    column=column,
                )
            )
            if not missing:
                return None, found
            current = f"{current[:at]},{current[at:]}"
        else:
            return current, found
    return None, found


def _locate(text: str) -> _LocatedDocument:
    """Return the data of a JSON text; JSON is YAML, whose parser says where things stand."""
    data = json.loads(text)  # first: what is JSON has no anchors
    places: dict[tuple[str | int, ...], _TextPlace] = {}
    # Tabs may indent JSON, but not YAML; a column counts either as one character.
    root = yaml.compose(text.replace("\t", " "), Loader=yaml.CSafeLoader)

    def walk(node: Any, path: tuple[str | int, ...]) -> None:
        places[path] = _TextPlace(node.start_mark.line + 1, node.start_mark.column + 1)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                walk(value, (*path, key.value))
        elif isinstance(node, yaml.SequenceNode):
            for number, value in enumerate(node.value):
                walk(value, (*path, number))

    if root is not None:
        walk(root, ())
    return _LocatedDocument(data, places)


def _finding(
    located: _LocatedDocument, path: tuple[str | int, ...], *, statement: str = "", **facts: Any
) -> PolicyFinding:
    place = next(
        (located.places[path[:n]] for n in range(len(path), -1, -1) if path[:n] in located.places),
        _TextPlace(1, 1),
    )
    return PolicyFinding(line=place.line, column=place.column, statement=statement, **facts)


def _grammar(located: _LocatedDocument) -> Iterator[PolicyFinding]:
    document = located.data
    if not isinstance(document, dict) or not document.get("Statement"):
        yield _finding(located, (), rule="no-statement", severity="error", message="there is no Statement")
        return
    if document.get("Version") not in VERSIONS:
        yield _finding(
            located,
            ("Version",),
            rule="version",
            severity="error" if "Version" in document else "warning",
            message=f"Version is {document.get('Version', 'missing')!r}",
            hint=f'"Version": "{VERSIONS[0]}"; without it, policy variables are not replaced',
        )
    for path, raw in _raw_statements(document):
        for key in sorted(set(raw) - _KEYS):
            yield _finding(
                located,
                (*path, key),
                statement=_name(raw, path),
                rule="unknown-key",
                severity="error",
                message=f"{key} is no element of a statement",
                hint=", ".join(sorted(_KEYS)),
            )
        if raw.get("Effect") not in ("Allow", "Deny"):
            yield _finding(
                located,
                (*path, "Effect"),
                statement=_name(raw, path),
                rule="effect",
                severity="error",
                message=f"Effect is {raw.get('Effect', 'missing')!r}; it is Allow or Deny",
            )
    sids = Counter(str(raw["Sid"]) for _, raw in _raw_statements(document) if raw.get("Sid"))
    for sid in sorted(name for name, count in sids.items() if count > 1):
        yield _finding(
            located,
            ("Statement",),
            statement=sid,
            rule="duplicate-sid",
            severity="error",
            message=f"{sids[sid]} statements have the Sid {sid}",
        )


def _breadth(located: _LocatedDocument) -> Iterator[PolicyFinding]:
    if not isinstance(located.data, dict):
        return
    for path, raw in _raw_statements(located.data):
        if raw.get("Effect") == "Allow":
            name = _name(raw, path)
            yield from _wide_actions(located, path, raw, name)
            yield from _wide_resources(located, path, raw, name)


def _wide_actions(
    located: _LocatedDocument, path: tuple[str | int, ...], raw: Mapping[str, Any], name: str
) -> Iterator[PolicyFinding]:
    if "NotAction" in raw:
        yield _finding(
            located,
            (*path, "NotAction"),
            statement=name,
            rule="not-action",
            severity="error",
            message="NotAction with Allow allows everything else, whatever AWS adds",
            hint="list the actions",
        )
    for at, action in _items(raw.get("Action"), (*path, "Action")):
        service, _, verb = action.partition(":")
        if action == "*" or verb == "*":
            yield _finding(
                located,
                at,
                statement=name,
                rule="wildcard-action",
                severity="error",
                message=f"{action} allows every action of {'AWS' if action == '*' else service}",
                hint="list actions; karpenter manifests --iam prints those that the operator needs",
            )
        elif not verb:
            yield _finding(
                located,
                at,
                statement=name,
                rule="bad-action",
                severity="error",
                message=f"{action!r} is no action, such as ec2:RunInstances",
            )
        elif (meant := _meant(action)) is not None:
            yield _finding(
                located,
                at,
                statement=name,
                rule="misspelt-action",
                severity="error",
                message=f"{action} is not an action that the operator calls",
                hint=f"did you mean {meant}?",
            )


def _meant(action: str) -> str | None:
    """Return the action that a misspelt one stands for; None where it may be meant as it is."""
    known = {each.lower(): each for each in needed_actions()}
    if "*" in action or "?" in action or action.lower() in known:
        return None
    # One letter more, less or other: actions of AWS that exist differ by more from those that we call.
    close = difflib.get_close_matches(action.lower(), known, n=1, cutoff=0.95)
    return known[close[0]] if close and abs(len(close[0]) - len(action)) <= 1 else None


def _wide_resources(
    located: _LocatedDocument, path: tuple[str | int, ...], raw: Mapping[str, Any], name: str
) -> Iterator[PolicyFinding]:
    everything = [at for at, each in _items(raw.get("Resource"), (*path, "Resource")) if each == "*"]
    if not everything:
        return
    changing = [
        action
        for _, action in _items(raw.get("Action"), (*path, "Action"))
        if not action.partition(":")[2].startswith(_SAFE_ON_EVERYTHING) and not action.endswith("*")
    ]
    passing = [each for each in changing if each == "iam:PassRole"]
    if passing:
        yield _finding(
            located,
            everything[0],
            statement=name,
            rule="pass-any-role",
            severity="error",
            message="iam:PassRole on every role lets the operator give away an administrator's",
            hint="name the role of the nodes",
        )
    others = [each for each in changing if each not in passing]
    if others and not raw.get("Condition"):
        yield _finding(
            located,
            everything[0],
            statement=name,
            rule="unconditional-change",
            severity="warning",
            message=f"{', '.join(others)} on every resource, without a condition",
            hint="narrow it by the tags of the cluster",
        )


def _size(document: Any, sort: str) -> Iterator[PolicyFinding]:
    size = len(json.dumps(document, separators=(",", ":"), ensure_ascii=False))
    if sort in LONGEST and size > LONGEST[sort]:
        yield PolicyFinding(
            rule="too-long",
            severity="error",
            message=f"{size} characters, of which IAM takes {LONGEST[sort]} in an {sort} policy",
        )


def _raw_statements(document: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Mapping[str, Any]]]:
    found = document.get("Statement")
    if isinstance(found, dict):
        yield ("Statement",), found
    elif isinstance(found, list):
        for number, each in enumerate(found):
            if isinstance(each, dict):
                yield ("Statement", number), each


def _items(
    value: str | list[str] | None, path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        yield from (((*path, number), str(each)) for number, each in enumerate(value))


def _name(raw: Mapping[str, Any], path: tuple[str | int, ...]) -> str:
    number = path[-1] if isinstance(path[-1], int) else 0
    return str(raw.get("Sid") or f"{number + 1}")


def _statement(raw: Mapping[str, Any]) -> PolicyStatement:
    condition = raw.get("Condition")
    return PolicyStatement(
        sid=str(raw.get("Sid") or ""),
        effect=str(raw.get("Effect", "")),
        actions=_listed(raw.get("Action")),
        not_actions=_listed(raw.get("NotAction")),
        resources=_listed(raw.get("Resource")),
        not_resources=_listed(raw.get("NotResource")),
        principal=_canonical(raw.get("Principal")),
        condition={
            str(operator): {str(key): _listed(value) for key, value in keys.items()}
            for operator, keys in (condition.items() if isinstance(condition, dict) else ())
            if isinstance(keys, dict)
        },
    )


def _listed(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return tuple(sorted(str(each) for each in (value if isinstance(value, list | tuple) else [value])))


def _canonical(principal: Any) -> Any:
    if isinstance(principal, dict):
        return {key: _listed(value) for key, value in principal.items()}
    return principal


def _identity(statement: PolicyStatement) -> str:
    """Return by what a statement is known: its Sid, or else what it says."""
    return statement.sid or f"{statement.effect} {', '.join(statement.actions or statement.not_actions)}"


def _changes(name: str, old: PolicyStatement, new: PolicyStatement) -> Iterator[str]:
    for field, label in (("actions", "action"), ("resources", "resource")):
        before, after = set(getattr(old, field)), set(getattr(new, field))
        yield from (f"statement {name}: + {label} {each}" for each in sorted(after - before))
        yield from (f"statement {name}: - {label} {each}" for each in sorted(before - after))
    for field in ("effect", "not_actions", "not_resources", "principal", "condition"):
        if getattr(old, field) != getattr(new, field):
            yield f"statement {name}: {field.replace('_', ' ')} differs"
