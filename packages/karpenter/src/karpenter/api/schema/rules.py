"""
The CEL validation rules of a schema (``x-kubernetes-validations``), and the data that they see.

A transition rule, one that mentions ``oldSelf``, is evaluated only where there is an old value, unless it
has ``optionalOldSelf``. Other rules are not evaluated again for a value that an update leaves unchanged
(ratcheting). A rule that cannot be evaluated is a problem of its own. See
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/

The messages are those of an API server: a broken rule shows the value unless it is an object or a list, and
a rule that cannot be evaluated shows its type.

A rule sees only fields that the schema knows, under names that CEL can spell. Dates and durations are
values rather than texts; a number is a float wherever the schema says ``number``. At the root,
``apiVersion``, ``kind`` and the object's name are always visible.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import msgspec

from karpenter.api.meta import InvalidObject
from karpenter.api.schema import field
from karpenter.api.schema.cel import Program, RuleFailed, compile_program, engine
from karpenter.api.schema.field import OMITTED, FieldProblem, invalid
from karpenter.api.schema.formats import parse_date_time, parse_duration
from karpenter.api.schema.structural import (
    ABSENT,
    Schema,
    ValidationRule,
    held,
    identity,
    is_whole,
    item_key,
    old_item,
    old_member,
    to_double,
    unchanged,
)

_KEYWORDS = frozenset(
    "true false null in as break const continue else for "  # noqa: SIM905  words read best as words
    "function if import let loop package namespace return var void while".split()
)
_NAME = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
# CEL cannot name such fields; the escapes are those of
# https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
_SPELLINGS = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))


@lru_cache(maxsize=4096)
def spell(name: str) -> str | None:
    """Return a field's name as rules spell it, or None when they cannot."""
    if name in _KEYWORDS:
        return f"__{name}__"
    if not _NAME.fullmatch(name):
        return None
    for sign, spelled in _SPELLINGS:
        name = name.replace(sign, spelled)
    return name


def view(schema: Schema, value: Any, *, root: bool = False) -> Any:
    """Return what a rule beside `schema` sees of `value`."""
    if isinstance(value, dict):
        return _view_object(schema, value, root=root)
    if isinstance(value, list):
        return [view(schema.items, item) for item in value] if schema.items else value
    return _view_scalar(schema, value)


def _view_object(schema: Schema, value: dict[str, Any], *, root: bool) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    if root or schema.embedded:
        seen |= {name: value[name] for name in ("apiVersion", "kind") if name in value}
        metadata = value.get("metadata")
        if isinstance(metadata, dict):
            seen["metadata"] = {n: metadata[n] for n in ("name", "generateName") if n in metadata}
    if schema.values is not None:
        return seen | {name: view(schema.values, member) for name, member in value.items()}
    for name, known in schema.properties.items():
        spelled = spell(name)
        if name in value and spelled is not None and spelled not in seen:
            seen[spelled] = view(known, value[name])
    return seen


def _view_scalar(schema: Schema, value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        if schema.type == "number":
            return to_double(value)
        return held(int(value)) if schema.type == "integer" and is_whole(value) else held(value)
    if schema.type == "string" and isinstance(value, str):
        read = _READERS.get(schema.format)
        text = value.encode(errors="replace").decode()
        return text if read is None else _read_or_keep(read, text)
    return value


def _read_or_keep(read: Callable[[str], Any], text: str) -> Any:
    """Return the value that a text stands for; a text that stands for none stays one."""
    try:
        return read(text)
    except (ValueError, OverflowError, binascii.Error):
        return text


_READERS: Mapping[str, Callable[[str], Any]] = MappingProxyType(
    {"date-time": parse_date_time, "duration": parse_duration, "byte": base64.b64decode}
)


def align(schema: Schema, old: Any, new: Any) -> Any:
    """
    Return `old` with its sets and maps in the order of `new` where both hold the same members.

    The order of such lists has no meaning, but CEL compares lists item by item.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        return {name: _align_member(schema.member(name), old[name], new.get(name)) for name in old}
    if not isinstance(old, list) or not isinstance(new, list) or schema.list_type not in {"set", "map"}:
        return old
    by_key = {_key(schema, item): item for item in old}
    keys = [_key(schema, item) for item in new]
    if len(by_key) != len(old) or sorted(keys) != sorted(by_key):
        return old
    return [_align_member(schema.items, by_key[key], item) for key, item in zip(keys, new, strict=True)]


def _align_member(schema: Schema | None, old: Any, new: Any) -> Any:
    return old if schema is None else align(schema, old, new)


def _key(schema: Schema, item: Any) -> str:
    named = schema.list_type == "map" and isinstance(item, dict)
    return identity(item_key(schema, item) if named else item)


_QUOTED_STEP = re.compile(r"\['((?:[^'\\]|\\.)*)'\]")
# A messageExpression that is longer than 5 KiB is ignored, as the API server does.
_LONGEST_MESSAGE = 5 * 1024
_JUDGES = "judges_changes"
_HAS_RULES = "has_rules"


def check_rules(
    schema: Schema, value: Any, path: str = "", *, old: object = ABSENT, root: bool = False
) -> Iterator[FieldProblem]:
    if value is None or not has_rules(schema) or (unchanged(old, value) and not judges_changes(schema)):
        return
    if schema.rules:
        yield from _check_here(schema, value, path, old, root=root)
    for each in schema.all_of:
        yield from check_rules(each, value, path, old=old)
    if isinstance(value, list) and schema.items is not None:
        for i, item in enumerate(value):
            past = old_item(schema, old, item)
            yield from check_rules(schema.items, item, field.index(path, i), old=past)
    elif isinstance(value, dict):
        for name, member in value.items():
            known = schema.member(name)
            if known is not None:
                place = field.child(path, name) if name in schema.properties else field.key(path, name)
                yield from check_rules(known, member, place, old=old_member(old, name))


def judges_changes(schema: Schema) -> bool:
    """Say whether a rule beside a schema or below it compares with the past, or cannot be compiled."""
    known: bool | None = schema.__dict__.get(_JUDGES)
    if known is None:
        below = (*schema.properties.values(), schema.values, schema.items, *schema.all_of)
        known = any(map(_uses_old_self, schema.rules)) or any(
            each is not None and judges_changes(each) for each in below
        )
        schema.__dict__[_JUDGES] = known
    return known


def _uses_old_self(rule: ValidationRule) -> bool:
    try:
        return compile_program(rule.rule).uses_old_self
    except InvalidObject:
        return True


def has_rules(schema: Schema) -> bool:
    """Say whether any rule stands beside a schema or below it."""
    known: bool | None = schema.__dict__.get(_HAS_RULES)
    if known is None:
        below = (*schema.properties.values(), schema.values, schema.items, *schema.all_of)
        known = bool(schema.rules) or any(each is not None and has_rules(each) for each in below)
        schema.__dict__[_HAS_RULES] = known
    return known


def find_bad_rules(schema: Schema, path: str = "") -> Iterator[FieldProblem]:
    """Find the rules of a schema that cannot be compiled; their definition is to be refused."""
    for i, rule in enumerate(schema.rules):
        place = f"{field.index(field.child(path, 'x-kubernetes-validations'), i)}.rule"
        try:
            compile_program(rule.rule)
        except InvalidObject as error:
            yield invalid(place, rule.rule, f"compilation failed: {error.problem}")
    below = {
        field.key(field.child(path, "properties"), name): each for name, each in schema.properties.items()
    }
    if schema.values is not None:
        below[field.child(path, "additionalProperties")] = schema.values
    if schema.items is not None:
        below[field.child(path, "items")] = schema.items
    below |= {field.index(field.child(path, "allOf"), i): each for i, each in enumerate(schema.all_of)}
    for place, each in below.items():
        yield from find_bad_rules(each, place)


class _Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A value that rules are asked about, and what they see of it."""

    type: str
    path: str
    value: Any
    old: Any
    variables: dict[str, Any]

    def has_past(self) -> bool:
        return self.old is not ABSENT and self.old is not None


def _check_here(schema: Schema, value: Any, path: str, old: object, *, root: bool) -> Iterator[FieldProblem]:
    variables: dict[str, Any] = {}
    subject = _Subject(type=schema.type, path=path, value=value, old=old, variables=variables)
    for rule in schema.rules:
        try:
            program = compile_program(rule.rule)
        except InvalidObject as error:
            yield invalid(path, schema.type, f"rule compile error: {error.problem}")
            continue
        if not _applies(rule, program, subject):
            continue
        if not variables:
            variables["self"] = view(schema, value, root=root)
            if subject.has_past():
                variables["oldSelf"] = view(schema, align(schema, old, value), root=root)
        yield from _judge(rule, program, subject)


def _applies(rule: ValidationRule, program: Program, subject: _Subject) -> bool:
    changed = not unchanged(subject.old, subject.value)
    if program.uses_old_self:
        # The commonest rule of all holds of whatever is as it was.
        return rule.optional_old_self or (subject.has_past() and (changed or rule.rule != "self == oldSelf"))
    return changed


def _variables_for(rule: ValidationRule, subject: _Subject) -> dict[str, Any]:
    if not rule.optional_old_self:
        return subject.variables
    past = subject.variables.get("oldSelf")
    optional = engine().OptionalValue
    had = optional.of(past) if subject.has_past() else optional.none()
    return {**subject.variables, "oldSelf": had}


def _judge(rule: ValidationRule, program: Program, subject: _Subject) -> Iterator[FieldProblem]:
    said = rule.message.strip() or rule.rule.strip()
    variables = _variables_for(rule, subject)
    try:
        verdict = program.run(variables)
    except RuleFailed as failure:
        how = f"{failure} evaluating rule"
        if str(failure) == "no such overload":
            how = (
                f"'{failure}': call arguments did not match a supported operator, function or macro "
                "signature for rule"
            )
        yield invalid(subject.path, subject.type, f"{how}: {said}")
        return
    if verdict is not True:
        own = _message(rule, variables)
        detail = own or rule.message.strip() or f"failed rule: {rule.rule.strip()}"
        shown = OMITTED if own or isinstance(subject.value, dict | list) else subject.value
        yield _problem(rule.reason, _place(subject.path, rule.field_path), shown, detail)


def _message(rule: ValidationRule, variables: dict[str, Any]) -> str:
    """Return what the rule's own expression says about the failure; nothing when it says nothing usable."""
    if not rule.message_expression:
        return ""
    try:
        text = compile_program(rule.message_expression).run(variables)
    except (RuleFailed, InvalidObject):
        return ""
    if not isinstance(text, str) or "\n" in text.strip() or len(text) > _LONGEST_MESSAGE:
        return ""
    return text.strip()


def _problem(reason: str, path: str, shown: object, detail: str) -> FieldProblem:
    match reason:
        case field.FORBIDDEN:
            return field.forbidden(path, detail)
        case field.REQUIRED:
            return field.required(path, detail)
        case field.DUPLICATE:
            return field.duplicate(path, shown)
        case _:
            return invalid(path, shown, detail)


def _place(path: str, field_path: str) -> str:
    """Return where a rule says its failure belongs: ``.spec.x`` or ``.spec['a.b']`` below `path`."""
    below = _QUOTED_STEP.sub(lambda match: "." + match[1].replace("\\", ""), field_path)
    return path + below if path else below.removeprefix(".")
