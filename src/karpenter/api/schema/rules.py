"""
Whether an object keeps the CEL rules that stand beside its schema.

A rule that mentions ``oldSelf`` judges a change and is asked only where there is an old value to
compare with, unless it says it can do without. A rule that does not is not asked again about a
value that an update leaves unchanged. Where a rule cannot be evaluated, that is a problem of its own.

The texts are those of an API server; a value that is an object or a list is shown as its type.
"""

import re
from collections.abc import Iterator
from typing import Any

import cel

from karpenter.api.errors import InvalidObject
from karpenter.api.schema import paths, problems
from karpenter.api.schema.correlation import ABSENT, old_item, old_member, unchanged
from karpenter.api.schema.problems import FieldProblem, invalid
from karpenter.api.schema.programs import Program, RuleFailed, compile_program
from karpenter.api.schema.structural import Rule, Schema
from karpenter.api.schema.views import align, view

_QUOTED_STEP = re.compile(r"\['((?:[^'\\]|\\.)*)'\]")
_LONGEST_MESSAGE = 5 * 1024


def check_rules(
    schema: Schema, value: Any, path: str = "", *, old: object = ABSENT, root: bool = False
) -> Iterator[FieldProblem]:
    """Find the rules that `value` breaks, beside `schema` and below it."""
    if value is None:
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


def _check_here(schema: Schema, value: Any, path: str, old: object, *, root: bool) -> Iterator[FieldProblem]:
    variables = {"self": view(schema, value, root=root)}
    if old is not ABSENT and old is not None:
        variables["oldSelf"] = view(schema, align(schema, old, value), root=root)
    for rule in schema.rules:
        try:
            program = compile_program(rule.rule)
        except InvalidObject as error:
            yield invalid(path, schema.type, f"rule compile error: {error.problem}")
            continue
        if _applies(rule, program, value, old):
            yield from _judge(rule, program, schema, path, _variables_for(rule, variables))


def _applies(rule: Rule, program: Program, value: object, old: object) -> bool:
    if program.uses_old_self:
        return rule.optional_old_self or (old is not ABSENT and old is not None)
    return not unchanged(old, value)


def _variables_for(rule: Rule, variables: dict[str, Any]) -> dict[str, Any]:
    if not rule.optional_old_self:
        return variables
    had = cel.OptionalValue.of(variables["oldSelf"]) if "oldSelf" in variables else cel.OptionalValue.none()
    return {**variables, "oldSelf": had}


def _judge(
    rule: Rule, program: Program, schema: Schema, path: str, variables: dict[str, Any]
) -> Iterator[FieldProblem]:
    said = rule.message.strip() or rule.rule.strip()
    try:
        verdict = program.run(variables)
    except RuleFailed as failure:
        if str(failure) == "no such overload":
            detail = f"'{failure}': call arguments did not match a supported operator, function or macro"
            yield invalid(path, schema.type, f"{detail} signature for rule: {said}")
        else:
            yield invalid(path, schema.type, f"{failure} evaluating rule: {said}")
        return
    if verdict is not True:
        detail = _message(rule, variables) or rule.message.strip() or f"failed rule: {rule.rule.strip()}"
        yield _problem(rule.reason, _place(path, rule.field_path), schema.type, detail)


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


def _problem(reason: str, path: str, shown: str, detail: str) -> FieldProblem:
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
