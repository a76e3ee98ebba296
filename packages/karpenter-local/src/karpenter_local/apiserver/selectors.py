"""
Label and field selectors: from their text in a query to a question about an entry.

The grammar is that of the Kubernetes API: ``a=b,c!=d,e in (x,y),!f,g>3`` for labels and ``a=b,c!=d`` for
fields. Which fields a kind lets one ask for is in :mod:`.fields`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from karpenter_local.apiserver import errors
from karpenter_local.apiserver.validation import names

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from karpenter_local.apiserver.entry import Entry

_TOKEN = re.compile(r"\s*(?:(==|!=|>=|<=|[=<>!(),])|([^\s=<>!(),]+))")


class _Between(ValueError):  # noqa: N818  says where the trouble is
    """The trouble is between two requirements, and not in one."""


class SelectorRequirement(msgspec.Struct, frozen=True):
    """One condition on one key."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "absent":
                return value is None
            case _:
                try:
                    number, limit = int(value or ""), int(next(iter(self.values)))
                except ValueError:
                    return False
                return number > limit if self.operator == ">" else number < limit


class ListSelector(msgspec.Struct, frozen=True):
    """Conditions that must all hold: some on labels, some on fields."""

    labels: tuple[SelectorRequirement, ...] = ()
    fields: tuple[SelectorRequirement, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.labels or self.fields)

    def matches(self, entry: Entry) -> bool:
        for requirement in self.labels:
            if not requirement.matches(entry.labels):
                return False
        for requirement in self.fields:
            if requirement.key == "metadata.name":
                value = entry.name
            elif requirement.key == "metadata.namespace":
                value = entry.namespace
            else:
                value = entry.fields.get(requirement.key, "")
            if (value in requirement.values) is not (requirement.operator == "in"):
                return False
        return True

    @property
    def only_name(self) -> str | None:
        """The one name that can match, if the selector says so."""
        for requirement in self.fields:
            if requirement.key == "metadata.name" and requirement.operator == "in":
                return next(iter(requirement.values))
        return None


def parse_labels(text: str) -> tuple[SelectorRequirement, ...]:
    try:
        return tuple(_requirements(text))
    except _Between as error:
        raise errors.bad_request(str(error)) from None
    except ValueError as error:
        raise errors.bad_request(f"unable to parse requirement: {error}") from None


def parse_fields(
    text: str, known: Collection[str], *, custom: bool = False
) -> tuple[SelectorRequirement, ...]:
    """Return the conditions of a field selector; a field outside `known` is refused."""
    found = []
    for term in [term for term in re.split(r"(?<!\\),", text) if term]:
        match = re.search(r"(?<!\\)(!=|==|=)", term)
        if match is None:
            raise errors.bad_request(f"invalid selector: '{term}'; can't understand '{term}'")
        key, value = term[: match.start()], re.sub(r"\\([\\,=])", r"\1", term[match.end() :])
        if key not in known and key not in {"metadata.name", "metadata.namespace"}:
            if known or custom:
                raise errors.bad_request(f"field label not supported: {key}")
            why = f'"{key}" is not a known field selector: only "metadata.name", "metadata.namespace"'
            raise errors.bad_request(why)
        operator = "notin" if match.group() == "!=" else "in"
        found.append(SelectorRequirement(key, operator, frozenset({value})))
    return tuple(found)


def from_object(selector: Mapping[str, Any] | None) -> tuple[SelectorRequirement, ...] | None:
    """Return the conditions of a ``LabelSelector`` object; None selects nothing, an empty one everything."""
    if selector is None:
        return None
    found = [
        SelectorRequirement(key, "in", frozenset({value}))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    operators = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}
    for item in selector.get("matchExpressions") or ():
        values = frozenset(item.get("values") or ())
        found.append(SelectorRequirement(item["key"], operators.get(item["operator"], "exists"), values))
    return tuple(found)


def _requirements(text: str) -> list[SelectorRequirement]:
    tokens = _tokens(text)
    found: list[SelectorRequirement] = []
    position = 0
    while position < len(tokens):
        requirement, position = _requirement(tokens, position)
        found.append(requirement)
        if position < len(tokens):
            if tokens[position] != ",":
                raise _Between(f"found '{tokens[position]}', expected: ',' or 'end of string'")
            position += 1
            after = tokens[position] if position < len(tokens) else ""
            if after in {"", ","}:
                raise _Between(f"found '{after}', expected: identifier after ','")
    return found


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"found '{text[position:]}', expected: identifier")
        tokens.append(match.group(1) or match.group(2))
        position = match.end()
    return tokens


def _requirement(tokens: list[str], position: int) -> tuple[SelectorRequirement, int]:
    token = tokens[position]
    if token in {"=", "==", "!=", "(", ")", ",", "<", ">"}:
        raise _Between(f"found '{token}', expected: !, identifier, or 'end of string'")
    if token == "!":  # noqa: S105  an operator
        key = _key(tokens, position + 1)
        return SelectorRequirement(key, "absent"), position + 2
    key = _key(tokens, position)
    position += 1
    operator = tokens[position] if position < len(tokens) else ","
    match operator:
        case ",":
            return SelectorRequirement(key, "exists"), position
        case "=" | "==":
            value, position = _one_value(tokens, position + 1, key)
            return SelectorRequirement(key, "in", frozenset({value})), position
        case "!=":
            value, position = _one_value(tokens, position + 1, key)
            return SelectorRequirement(key, "notin", frozenset({value})), position
        case "in" | "notin":
            values, position = _many_values(tokens, position + 1, key)
            return SelectorRequirement(key, operator, frozenset(values)), position
        case "<" | ">":
            value, position = _one_value(tokens, position + 1, key)
            if not value.lstrip("-").isdigit():
                why = "for 'Gt', 'Lt' operators, the value must be an integer"
                raise ValueError(f'values[0]: Invalid value: "{value}": {why}')
            return SelectorRequirement(key, operator, frozenset({value})), position
        case _:
            raise ValueError(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")


def _key(tokens: list[str], position: int) -> str:
    key = tokens[position] if position < len(tokens) else ""
    if names.qualified(key):
        if not key or key in {"=", "==", "!=", "(", ")", ","}:
            raise ValueError(f"found '{key}', expected: identifier")
        raise ValueError(f'<nil>: Invalid value: "{key}": {names.qualified(key)[0]}')
    return key


def _one_value(tokens: list[str], position: int, key: str) -> tuple[str, int]:
    if position >= len(tokens) or tokens[position] == ",":
        return "", position
    if tokens[position] in {"=", "==", "!=", "(", ")", "!", "<", ">"}:
        raise ValueError(f"found '{tokens[position]}', expected: identifier")
    return _value(tokens[position], key), position + 1


def _many_values(tokens: list[str], position: int, key: str) -> tuple[list[str], int]:
    if position >= len(tokens) or tokens[position] != "(":
        found = tokens[position] if position < len(tokens) else ""
        raise ValueError(f"found '{found}' expected: '('")
    position += 1
    values: list[str] = []
    expect_value = True
    while position < len(tokens) and tokens[position] != ")":
        if tokens[position] == ",":
            if expect_value:
                values.append("")
            expect_value = True
        else:
            values.append(_value(tokens[position], key, len(values)))
            expect_value = False
        position += 1
    if position == len(tokens):
        raise ValueError("found '', expected: ',' or ')'")
    if expect_value:
        values.append("")
    return values, position + 1


def _value(value: str, key: str, index: int = 0) -> str:
    trouble = names.value(value)
    if trouble:
        raise ValueError(f'values[{index}][{key}]: Invalid value: "{value}": {trouble[0]}')
    return value
