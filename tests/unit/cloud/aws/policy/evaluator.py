"""
Whether policies allow a request, as IAM decides it: some statement must allow, and none may deny.

Knows the parts of the language that our policies use, and refuses to judge by any other.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

Context = Mapping[str, str | tuple[str, ...]]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A question to IAM: may we do this to that, now?"""

    action: str
    resource: str = "*"
    context: Context = {}


class Use(msgspec.Struct, frozen=True, order=True):
    """An action that a statement allows."""

    policy: str
    sid: str
    action: str


def uses(policies: Mapping[str, Any], request: Request) -> set[Use]:
    """Return the statements that allow a request; none means that it is denied."""
    allowing: set[Use] = set()
    for name, document in policies.items():
        for statement in document["Statement"]:
            pattern = _covers(statement, request)
            if pattern is None:
                continue
            assert statement["Effect"] == "Allow", "a statement that denies is not understood"
            allowing.add(Use(name, statement["Sid"], pattern))
    return allowing


def granted(policies: Mapping[str, Any]) -> set[Use]:
    return {
        Use(name, statement["Sid"], action)
        for name, document in policies.items()
        for statement in document["Statement"]
        for action in _listed(statement["Action"])
    }


def _covers(statement: Mapping[str, Any], request: Request) -> str | None:
    """Return the action of a statement that covers a request; None when it does not."""
    action = next((each for each in _listed(statement["Action"]) if _like(each, request.action)), None)
    if action is None or not any(_like(each, request.resource) for each in _listed(statement["Resource"])):
        return None
    holds = (
        _holds(operator, key, tuple(_listed(wanted)), request.context)
        for operator, keys in statement.get("Condition", {}).items()
        for key, wanted in keys.items()
    )
    return action if all(holds) else None


def _holds(operator: str, key: str, wanted: tuple[str, ...], context: Context) -> bool:
    value = context.get(key)
    match operator:
        case "StringEquals":
            return isinstance(value, str) and value in wanted
        case "StringEqualsIfExists":
            return value is None or value in wanted
        case "StringLike":
            return isinstance(value, str) and any(_like(each, value) for each in wanted)
        case "ForAllValues:StringEquals":
            return all(each in wanted for each in (value or ()))
        case _:
            raise NotImplementedError(f"condition {operator} is not understood")


def _like(pattern: str, text: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), text) is not None


def _listed(value: str | Iterable[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
