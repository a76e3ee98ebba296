"""We say about an object what a real API server says, to the word."""

import json
from pathlib import Path

import pytest

from karpenter.api.schema import (
    ABSENT,
    FieldProblem,
    apply_defaults,
    check,
    find_bad_rules,
    load,
    prune_unknown_fields,
)
from karpenter.api.schema.field import NOWHERE
from tests.unit.api.schema.thing import SCHEMA, Answer, decode_answers

ANSWERS = decode_answers((Path(__file__).parents[3] / "data/definitions/answers.json").read_bytes())
THING = load(SCHEMA)


def name_of(answer: Answer) -> str:
    """Return what tells one question from another."""
    before = f" after {json.dumps(answer.old)}" if answer.old else ""
    return f"{answer.name} {json.dumps(answer.spec)}{before}"


def told(problem: FieldProblem) -> tuple[str, str, str]:
    """Return a problem as an API server reports it; to it, a wrong type is an invalid value."""
    return problem.field or NOWHERE, problem.reason, problem.message


@pytest.mark.parametrize("answer", ANSWERS, ids=name_of)
def test_problems(answer: Answer) -> None:
    """The same problems, in the same words."""
    known, _ = prune_unknown_fields(THING, answer.object(answer.spec))
    old = ABSENT if answer.old is None else apply_defaults(THING, answer.object(answer.old))

    found = check(THING, apply_defaults(THING, known), old=old)

    assert sorted(told(problem) for problem in found) == list(answer.problems)


@pytest.mark.parametrize("answer", [each for each in ANSWERS if each.stored is not None], ids=name_of)
def test_stored(answer: Answer) -> None:
    """The same defaults filled in, and the same fields taken out."""
    known, _ = prune_unknown_fields(THING, answer.object(answer.spec))

    assert apply_defaults(THING, known)["spec"] == answer.stored


def test_rules_compile() -> None:
    """Every rule of the definition can be evaluated here."""
    assert list(find_bad_rules(THING)) == []
