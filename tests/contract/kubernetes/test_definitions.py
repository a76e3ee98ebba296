"""Our definitions and the whole schema language, on both servers: answered alike, word for word."""

from pathlib import Path
from typing import Any

from karpenter.api.crd.definitions import DEFINITIONS, render
from karpenter.api.kinds import KINDS
from tests.contract.kubernetes.api import Api, Object, done, eventually
from tests.unit.api.cases.case import Case
from tests.unit.api.schema.thing import DEFINITION, PATH, Answer, decode_answers
from tests.unit.api.test_cases import ALL

ANSWERS = Path(__file__).parents[2] / "data/definitions/answers.json"
OK = 200
CREATED = (OK, 201)


def define(api: Api, definition: Object) -> None:
    """Create a definition and wait until its objects can be created."""
    done(api.create("customresourcedefinitions", definition))
    spec = definition["spec"]
    place = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    eventually(lambda: api.find(place).status == OK)


def ask(api: Api, path: str, plain: dict[str, Any], old: dict[str, Any] | None, **query: Any) -> Any:
    """Create `plain`, or let it replace `old`, without leaving anything behind."""
    if old is None:
        return api.send("POST", path, plain, dryRun="All", **query)
    before = done(api.send("POST", path, old))
    version = before["metadata"]["resourceVersion"]
    new = {**plain, "metadata": {**plain["metadata"], "resourceVersion": version}}
    place = f"{path}/{plain['metadata']['name']}"
    answer = api.send("PUT", place, new, dryRun="All", **query)
    done(api.send("DELETE", place))
    return answer


def path_of(case: Case) -> str:
    kind = KINDS[case.plain["apiVersion"], case.plain["kind"]]
    room = "namespaces/default/" if kind.namespaced else ""
    return f"/apis/{kind.api_version}/{room}{kind.plural}"


def test_our_definitions_hold_what_the_cases_say(api: Api) -> None:
    """A server that knows our definitions accepts and refuses what the table says it does."""
    for definition in DEFINITIONS:
        define(api, render(definition))

    wrong = [
        (case.what, answer.status, answer.message)
        for case in ALL
        for answer in [ask(api, path_of(case), case.plain, case.old, fieldValidation="Strict")]
        if (answer.status in CREATED) is not case.accepted_by_server
    ]

    assert wrong == []


def test_every_part_of_the_schema_language(api: Api) -> None:
    """A server answers every question about a thing with what is on record: problems, or what it stores."""
    define(api, DEFINITION)

    wrong = [
        (answer.spec, answer.old, given)
        for answer in decode_answers(ANSWERS.read_bytes())
        for given in [_given(api, answer)]
        if given != (answer.problems or answer.stored)
    ]

    assert wrong == []


def _given(api: Api, answer: Answer) -> object:
    old = None if answer.old is None else answer.object(answer.old)
    given = ask(api, PATH, answer.object(answer.spec), old)
    return given.json["spec"] if given.status in CREATED else tuple(sorted(given.causes))
