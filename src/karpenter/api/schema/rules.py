"""
Whether an object keeps the CEL rules that stand beside its schema.

A rule that mentions ``oldSelf`` judges a change and is asked only where there is an old value to
compare with, unless it says it can do without. A rule that does not is not asked again about a
value that an update leaves unchanged. Where a rule cannot be evaluated, that is a problem of its own.

The texts are those of an API server: a broken rule shows the value unless it is an object or a list, and
a rule that cannot be evaluated shows its type.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from karpenter.api.errors import InvalidObject
from karpenter.api.schema import paths, problems
from karpenter.api.schema.correlation import ABSENT, old_item, old_member, unchanged
from karpenter.api.schema.engine import engine
from karpenter.api.schema.problems import OMITTED, FieldProblem, invalid
from karpenter.api.schema.programs import Program, RuleFailed, compile_program
from karpenter.api.schema.structural import Rule, Schema
from karpenter.api.schema.views import align, view

_QUOTED_STEP = re.compile(r"\['((?:[^'\\]|\\.)*)'\]")
_LONGEST_MESSAGE = 5 * 1024
_JUDGES = "judges_changes"


def check_rules(
    schema: Schema, value: Any, path: str = "", *, old: object = ABSENT, root: bool = False
) -> Iterator[FieldProblem]:
    """Find the rules that `value` breaks, beside `schema` and below it."""
    if value is None or (unchanged(old, value) and not judges_changes(schema)):
        return
    if schema.rules:
        yield from _check_here(schema, value, path, old, root=root)
    for each in schema.all_of:
        yield from check_rules(each, value, path, old=old)
    if isinstance(value, list) and schema.items is not None:
        for i, item in enumerate(value):
            past = old_item(schema, old, item)
            yield from check_rules(schema.items, item, paths.index(path, i), old=past)
    elif isinstance(value, dict):
        for name, member in value.items():
            known = schema.member(name)
            if known is not None:
                place = paths.child(path, name) if name in schema.properties else paths.key(path, name)
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


def _uses_old_self(rule: Rule) -> bool:
    try:
        return compile_program(rule.rule).uses_old_self
    except InvalidObject:
        return True


def has_rules(schema: Schema) -> bool:
    """Say whether any rule stands beside a schema or below it."""
    below = (*schema.properties.values(), schema.values, schema.items, *schema.all_of)
    return bool(schema.rules) or any(each is not None and has_rules(each) for each in below)


def find_bad_rules(schema: Schema, path: str = "") -> Iterator[FieldProblem]:
    """Find the rules of a schema that cannot be compiled; their definition is to be refused."""
    for i, rule in enumerate(schema.rules):
        place = f"{paths.index(paths.child(path, 'x-kubernetes-validations'), i)}.rule"
        try:
            compile_program(rule.rule)
        except InvalidObject as error:
            yield invalid(place, rule.rule, f"compilation failed: {error.problem}")
    below = {
        paths.key(paths.child(path, "properties"), name): each for name, each in schema.properties.items()
    }
    if schema.values is not None:
        below[paths.child(path, "additionalProperties")] = schema.values
    if schema.items is not None:
        below[paths.child(path, "items")] = schema.items
    below |= {paths.index(paths.child(path, "allOf"), i): each for i, each in enumerate(schema.all_of)}
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
        """Say whether there is an old value to compare with."""
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


def _applies(rule: Rule, program: Program, subject: _Subject) -> bool:
    changed = not unchanged(subject.old, subject.value)
    if program.uses_old_self:
        # The commonest rule of all holds of whatever is as it was.
        return rule.optional_old_self or (subject.has_past() and (changed or rule.rule != "self == oldSelf"))
    return changed


def _variables_for(rule: Rule, subject: _Subject) -> dict[str, Any]:
    if not rule.optional_old_self:
        return subject.variables
    past = subject.variables.get("oldSelf")
    optional = engine().OptionalValue
    had = optional.of(past) if subject.has_past() else optional.none()
    return {**subject.variables, "oldSelf": had}


def _judge(rule: Rule, program: Program, subject: _Subject) -> Iterator[FieldProblem]:
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


def _message(rule: Rule, variables: dict[str, Any]) -> str:
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
        case problems.FORBIDDEN:
            return problems.forbidden(path, detail)
        case problems.REQUIRED:
            return problems.required(path, detail)
        case problems.DUPLICATE:
            return problems.duplicate(path, shown)
        case _:
            return invalid(path, shown, detail)


def _place(path: str, field_path: str) -> str:
    """Return where a rule says its failure belongs: ``.spec.x`` or ``.spec['a.b']`` below `path`."""
    below = _QUOTED_STEP.sub(lambda match: "." + match[1].replace("\\", ""), field_path)
    return path + below if path else below.removeprefix(".")
