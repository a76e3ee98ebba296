from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from karpenter.api.labels import CAPACITY_TYPE
from karpenter.cloud.catalogs.kwok_format import InvalidCatalog, parse_catalog
from tests.unit.cloud.catalogs.written import RESERVATION_ID, entry, offering, parse, requirement

NOT_A_PRICE = "must be a number from 0 to a million, not"
NOT_A_NAME = (
    "must be text of 1 to 63 letters, digits, '-', '_' or '.', with a letter or digit at both ends, not"
)
NOT_A_QUANTITY = (
    "is not a quantity: expected a number such as 2, 0.5 or 1e3, "
    "optionally with one of the suffixes n u m k M G T P E or Ki Mi Gi Ti Pi Ei"
)
NOT_A_KEY = "must be a label key such as topology.kubernetes.io/zone, not"
NO_FIELD = "is not a field here; the fields are"
NO_OFFERINGS = "must be a list of at least one offering"
NO_REQUIREMENTS = "must be a list of at least one requirement"
ONE_VALUE = "with the operator In and one value"
ONLY_RESERVED = f"must name {RESERVATION_ID} if karpenter.sh/capacity-type is reserved, and only then"
RACK = requirement("rack", "r1")


def problems(*entries: object) -> list[str]:
    """Return the lines that refuse the entries."""
    with pytest.raises(InvalidCatalog) as refused:
        parse(*entries)
    return str(refused.value).splitlines()


def changed(path: str, value: object) -> dict[str, Any]:
    """Return a valid entry with one field changed; the value `...` removes it."""
    result = deepcopy(entry())
    at: Any = result
    *parents, last = [int(step) if step.isdigit() else step for step in path.split("/")]
    for step in parents:
        at = at[step]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return result


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        pytest.param("Price", -1, f"{NOT_A_PRICE} -1", id="a negative price"),
        pytest.param("Price", float("nan"), f"{NOT_A_PRICE} nan", id="a price that is not a number"),
        pytest.param("Price", float("inf"), f"{NOT_A_PRICE} inf", id="an endless price"),
        pytest.param("Price", 10**400, f"{NOT_A_PRICE} an integer of 1329 bits", id="a huge price"),
        pytest.param("Price", "1", f"{NOT_A_PRICE} '1'", id="a price in quotes"),
        pytest.param("Price", True, f"{NOT_A_PRICE} true", id="a price that is true"),
        pytest.param("Price", ..., f"{NOT_A_PRICE} null", id="no price"),
        pytest.param(
            "InterruptionRate",
            "seldom",
            "must be a number or one of <5%, 5-10%, 10-15%, 15-20%, >20%, not 'seldom'",
            id="a band in words",
        ),
        pytest.param("InterruptionRate", -1, f"{NOT_A_PRICE} -1", id="a negative rate"),
        pytest.param("Available", "yes", "must be true or false, not 'yes'", id="a flag in words"),
        pytest.param(
            "ReservationCapacity", -2, "must be a whole number of 0 or more, not -2", id="a negative count"
        ),
        pytest.param(
            "price",
            1,
            f"{NO_FIELD} Available, InterruptionRate, Price, Requirements, ReservationCapacity",
            id="an unknown field",
        ),
        pytest.param("Requirements", "x", NO_REQUIREMENTS, id="requirements in words"),
    ],
)
def test_refused_fields_of_an_offering(field: str, value: object, expected: str) -> None:
    """A refusal names the file, the type, the field of the offering, and what is allowed there."""
    told = problems(changed(f"offerings/0/{field}", value))

    assert told == [f"types.json: type small: offerings[0].{field}: {expected}"]


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        pytest.param("0", RACK, f": must name topology.kubernetes.io/zone, {ONE_VALUE}", id="no zone"),
        pytest.param(
            "1", RACK, f": must name karpenter.sh/capacity-type, {ONE_VALUE}", id="no capacity type"
        ),
        pytest.param(
            "0/values",
            ["a", "b"],
            ": must give topology.kubernetes.io/zone exactly one value, not 2: one offering each",
            id="two zones",
        ),
        pytest.param(
            "1/values",
            ["dear"],
            ": must give karpenter.sh/capacity-type one of on-demand, reserved, spot, not 'dear'",
            id="an unknown capacity type",
        ),
        pytest.param(
            "0/operator",
            "NotIn",
            "[0].operator: must be In or DoesNotExist, not 'NotIn'",
            id="another operator",
        ),
        pytest.param(
            "0/operator",
            "DoesNotExist",
            "[0].values: must be left out with the operator DoesNotExist",
            id="values of an absent label",
        ),
        pytest.param("0/values", [], "[0].values: must be a list of at least one value", id="no values"),
        pytest.param(
            "0/values", ["a b"], f"[0].values[0]: {NOT_A_NAME} 'a b'", id="a value that is no label value"
        ),
        pytest.param("0/key", "a b/c", f"[0].key: {NOT_A_KEY} 'a b/c'", id="a key with a bad domain"),
        pytest.param("0/key", "a/", f"[0].key: {NOT_A_KEY} 'a/'", id="a key without a name"),
        pytest.param("0/key", 3, f"[0].key: {NOT_A_KEY} 3", id="a key that is a number"),
        pytest.param(
            "0/key",
            CAPACITY_TYPE,
            "[1].key: karpenter.sh/capacity-type is required twice; put all values into one requirement",
            id="a key twice",
        ),
        pytest.param("1/values", ["reserved"], f": {ONLY_RESERVED}", id="reserved without a reservation"),
        pytest.param("0", 7, "[0]: must be an object, not 7", id="a requirement that is a number"),
    ],
)
def test_refused_requirements_of_an_offering(path: str, value: object, expected: str) -> None:
    """What an offering requires is checked down to each value."""
    told = problems(changed(f"offerings/0/Requirements/{path}", value))

    assert f"types.json: type small: offerings[0].Requirements{expected}" in told


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        pytest.param("offerings/0", 7, "offerings[0]: must be an object, not 7", id="an offering in digits"),
        pytest.param("offerings", [], f"offerings: {NO_OFFERINGS}", id="no offerings"),
        pytest.param("offerings", ..., f"offerings: {NO_OFFERINGS}", id="offerings left out"),
        pytest.param(
            "resources",
            [],
            "resources: must be an object of resource names with quantities, not a list",
            id="resources as a list",
        ),
        pytest.param(
            "resources/memory",
            ...,
            "resources.memory: is missing; every instance type needs a quantity of it",
            id="no memory",
        ),
        pytest.param("resources/cpu", "four", f"resources.cpu: 'four' {NOT_A_QUANTITY}", id="a bad quantity"),
        pytest.param(
            "resources/pods", "-1", "resources.pods: must be 0 or more, not '-1'", id="a negative quantity"
        ),
        pytest.param(
            "overhead", {"cpu": "-1"}, "overhead.cpu: must be 0 or more, not '-1'", id="a negative overhead"
        ),
        pytest.param("architecture", 1, f"architecture: {NOT_A_NAME} 1", id="an architecture in digits"),
        pytest.param(
            "operatingSystems",
            "linux",
            "operatingSystems: must be a list of at least one operating system",
            id="operating systems in words",
        ),
        pytest.param("requirements", [], f"requirements: {NO_REQUIREMENTS}", id="empty requirements"),
        pytest.param(
            "colour",
            "red",
            f"colour: {NO_FIELD} architecture, attributeBindings, name, offerings, operatingSystems, "
            "overhead, requirements, resourceSliceTemplates, resources",
            id="an unknown field",
        ),
    ],
)
def test_refused_fields_of_a_type(path: str, value: object, expected: str) -> None:
    """What a type states about itself is checked field by field."""
    assert problems(changed(path, value)) == [f"types.json: type small: {expected}"]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        pytest.param([], ": must be a list of at least one instance type", id="an empty list"),
        pytest.param([7], ": item 0: must be an object, not 7", id="a type that is a number"),
        pytest.param([entry(), changed("name", ...)], f": item 1: name: {NOT_A_NAME} null", id="no name"),
        pytest.param(
            [entry("a"), entry("b"), entry("a")],
            ": type a: name: is used twice, by items 0 and 2; every instance type needs a name of its own",
            id="a name twice",
        ),
    ],
)
def test_refused_lists(entries: list[object], expected: str) -> None:
    """What is wrong with the list as a whole is told like the rest."""
    assert f"types.json{expected}" in problems(*entries)


def test_every_problem_is_told() -> None:
    """All that is wrong comes out at once, in the order of the file."""
    told = problems(
        entry("a", offering(Price=-1), offering(Price=-2)),
        entry("b", resources={"cpu": "x", "memory": "1Gi"}),
    )

    assert [line.split(": ")[:3] for line in told] == [
        ["types.json", "type a", "offerings[0].Price"],
        ["types.json", "type a", "offerings[1].Price"],
        ["types.json", "type b", "resources.cpu"],
    ]


def test_a_reservation_outside_reserved_capacity_is_refused() -> None:
    """Only reserved offerings have a reservation."""
    told = problems(entry("a", offering("z", "spot", requirement(RESERVATION_ID, "r-1"))))

    assert told == [f"types.json: type a: offerings[0].Requirements: {ONLY_RESERVED}"]


def test_reserved_capacity_without_a_count_is_refused() -> None:
    """How much is left of a reservation must be said."""
    told = problems(entry("a", offering("z", "reserved", requirement(RESERVATION_ID, "r-1"))))

    assert told == [
        "types.json: type a: offerings[0].ReservationCapacity: must be a whole number of 0 or more, not null"
    ]


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        pytest.param(
            "t.json",
            '[\n{"name"',
            "is not JSON: Expecting ':' delimiter at line 2, column 8",
            id="broken JSON",
        ),
        pytest.param("t.json", "", "is not JSON: Expecting value at line 1, column 1", id="nothing at all"),
        pytest.param(
            "t.yaml",
            "- a: [",
            "is not YAML: did not find expected node content at line 2",
            id="broken YAML",
        ),
        pytest.param(
            "t.yaml", "\x00", "is not YAML: unacceptable character #x0000", id="YAML that is no text"
        ),
        pytest.param(
            "t.json",
            "[" * 100_000,
            "cannot be read: maximum recursion depth exceeded",
            id="lists nested without end",
        ),
        pytest.param(
            "t.json",
            f"[{'1' * 5000}]",
            "cannot be read: Exceeds the limit (4300 digits)",
            id="a number without end",
        ),
        pytest.param("t.json", '{"a": 1}', "must be a list of at least one instance type", id="an object"),
    ],
)
def test_text_that_is_no_catalogue(file: str, text: str, expected: str) -> None:
    """Text that cannot be decoded is told in one line, with the place where it breaks."""
    with pytest.raises(InvalidCatalog) as refused:
        parse_catalog(text, file=file)

    assert str(refused.value).startswith(f"{file}: {expected}")
    assert len(refused.value.problems) == len(str(refused.value).splitlines()) == 1
