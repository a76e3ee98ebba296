"""Sets of requirements, and which nodes satisfy them."""

from __future__ import annotations

import pytest

from karpenter.api import labels
from karpenter.api.nodeclaim import NodeRequirement
from karpenter.api.pod import NodeSelectorRequirement
from karpenter.core.model.requirement import Requirement, RequirementError, RequirementTerm, requirement
from karpenter.core.model.requirements import NOTHING_REQUIRED, Incompatible, Requirements

CUSTOM = "example.com/team"
WELL_KNOWN = labels.WELL_KNOWN_LABELS
OPERATORS = {
    "In": ("1",),
    "NotIn": ("1",),
    "Exists": (),
    "DoesNotExist": (),
    "Gt": ("1",),
    "Lt": ("1",),
    "Gte": ("1",),
    "Lte": ("1",),
}


def wants(key: str, operator: str, *values: str) -> Requirements:
    return Requirements.of([requirement(key, operator, values)])


def on_both(operator: str, *values: str) -> list[Requirement]:
    """Return the same requirement on two keys."""
    return [requirement(key, operator, values) for key in ("a", "b")]


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(
    ("key", "undefined_ok", "may_be_missing"),
    [
        pytest.param(CUSTOM, WELL_KNOWN, False, id="custom label on a template"),
        pytest.param(labels.ZONE, WELL_KNOWN, True, id="well-known label on a template"),
        pytest.param(CUSTOM, frozenset[str](), False, id="custom label on an existing node"),
        pytest.param(labels.ZONE, frozenset[str](), False, id="well-known label on an existing node"),
    ],
)
def test_a_label_that_the_node_does_not_have(
    operator: str, key: str, undefined_ok: frozenset[str], may_be_missing: bool
) -> None:
    """A missing label is accepted where it may still come, or by NotIn and DoesNotExist."""
    expected = may_be_missing or operator in {"NotIn", "DoesNotExist"}

    assert NOTHING_REQUIRED.accepts(wants(key, operator, *OPERATORS[operator]), undefined_ok) is expected


@pytest.mark.parametrize(
    ("has", "incoming", "expected"),
    [
        pytest.param(("In", "a"), ("In", "a", "b"), True, id="In with a common value"),
        pytest.param(("In", "a"), ("In", "b"), False, id="In without a common value"),
        pytest.param(("In", "a"), ("NotIn", "a"), False, id="In against its refusal"),
        pytest.param(("In", "a", "b"), ("NotIn", "a"), True, id="In with a value that is not refused"),
        pytest.param(("In", "a"), ("Exists",), True, id="In against Exists"),
        pytest.param(("In", "a"), ("DoesNotExist",), False, id="In against DoesNotExist"),
        pytest.param(("In", "5"), ("Gt", "4"), True, id="In within a bound"),
        pytest.param(("In", "5"), ("Lt", "5"), False, id="In outside a bound"),
        pytest.param(("Exists",), ("In", "a"), True, id="Exists against In"),
        pytest.param(("Exists",), ("NotIn", "a"), True, id="Exists against NotIn"),
        pytest.param(("Exists",), ("DoesNotExist",), False, id="Exists against DoesNotExist"),
        pytest.param(("NotIn", "a"), ("In", "a"), False, id="NotIn against its value"),
        pytest.param(("NotIn", "a"), ("DoesNotExist",), True, id="NotIn and DoesNotExist go together"),
        pytest.param(("NotIn", "a"), ("NotIn", "b"), True, id="two refusals go together"),
        pytest.param(("DoesNotExist",), ("In", "a"), False, id="DoesNotExist against In"),
        pytest.param(("DoesNotExist",), ("Exists",), False, id="DoesNotExist against Exists"),
        pytest.param(("DoesNotExist",), ("NotIn", "a"), True, id="DoesNotExist against NotIn"),
        pytest.param(("DoesNotExist",), ("DoesNotExist",), True, id="DoesNotExist on both sides"),
        pytest.param(("DoesNotExist",), ("Gt", "1"), False, id="DoesNotExist against a bound"),
        pytest.param(("Gt", "1"), ("Lt", "1"), False, id="bounds that cross"),
        pytest.param(("Gt", "1"), ("Lt", "5"), True, id="bounds with room between"),
    ],
)
def test_a_label_that_both_sides_name(
    has: tuple[str, ...], incoming: tuple[str, ...], expected: bool
) -> None:
    """On a shared key some value must satisfy both sides, unless both can do without the label."""
    assert wants(CUSTOM, *has).accepts(wants(CUSTOM, *incoming)) is expected


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        pytest.param("zone", labels.ZONE, id="the name without its domain"),
        pytest.param("topology.kubernetes.io/zon", labels.ZONE, id="a letter too few"),
        pytest.param("example.com/zone", labels.ZONE, id="another domain"),
        pytest.param("region", labels.REGION, id="region"),
        pytest.param("capacity-type", labels.CAPACITY_TYPE, id="capacity type"),
        pytest.param("instance-type", labels.INSTANCE_TYPE, id="instance type"),
        pytest.param("karpenter.sh/nodepoo", labels.NODEPOOL, id="pool"),
        pytest.param("arch", labels.ARCH, id="architecture"),
        pytest.param("team", CUSTOM, id="a label of the node itself"),
        pytest.param("nothing-like-it", "", id="no guess for a stranger"),
        pytest.param("example.com/", "", id="no guess for a key without a name"),
        pytest.param("", "", id="no guess for an empty key"),
    ],
)
def test_typo_hints(key: str, hint: str) -> None:
    """An unknown key is answered with the known key that looks like it."""
    node = Requirements.from_labels({CUSTOM: "web"})

    assert node.refuses(wants(key, "In", "x"), WELL_KNOWN) == Incompatible(key, f"{key} In [x]", "", hint)


def test_well_known_labels_are_guessed_only_where_they_may_be_missing() -> None:
    """An existing node is only ever compared with its own labels."""
    node = Requirements.from_labels({CUSTOM: "web"})

    assert (
        str(node.refuses(wants("zone", "In", "x")))
        == "label zone has no known values (pod wants zone In [x])"
    )


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        pytest.param(
            Incompatible("zone", "zone In [a]", "", labels.ZONE),
            "label zone has no known values (pod wants zone In [a]);"
            ' did you mean "topology.kubernetes.io/zone"?',
            id="an unknown label, with a hint",
        ),
        pytest.param(
            Incompatible("team", "team Exists", ""),
            "label team has no known values (pod wants team Exists)",
            id="an unknown label",
        ),
        pytest.param(
            Incompatible("team", "team In [a]", "team In [b]"),
            "pod wants team In [a], node has team In [b]",
            id="values that do not meet",
        ),
    ],
)
def test_refusals_are_sentences(found: Incompatible, sentence: str) -> None:
    """Whatever does not go together can be said in one sentence."""
    assert str(found) == sentence


@pytest.mark.parametrize("others", [0, 5], ids=["the incoming side is larger", "the node side is larger"])
def test_a_conflict_names_both_sides(others: int) -> None:
    """The first key without a common value is reported with what each side says."""
    extra = {f"example.com/{number}": "x" for number in range(others)}
    node = Requirements.from_labels({"team": "web", **extra})
    pod = Requirements.of([requirement("other", "NotIn", ["y"]), requirement("team", "In", ["db"])])

    assert node.conflict(pod) == Incompatible("team", "team In [db]", "team In [web]")


def test_of_two_conflicts_the_first_of_the_node_is_named() -> None:
    """Where both sides have as many keys, the order of the node counts."""
    node = Requirements.from_labels({"a": "1", "b": "1"})
    pod = Requirements.from_labels({"b": "2", "a": "2"})

    assert node.conflict(pod) == Incompatible("a", "a In [2]", "a In [1]")


def test_keys_that_go_together_hide_no_later_one() -> None:
    """After keys that both sides may lack, or that only one has, the others are compared as well."""
    free = [requirement("a", "NotIn", ["1"]), requirement("only", "In", ["1"])]
    node = Requirements.of([requirement("a", "DoesNotExist"), requirement("b", "In", ["1"])])
    pod = Requirements.of([*free, requirement("b", "In", ["2"])])

    assert node.conflict(pod) == Incompatible("b", "b In [2]", "b In [1]")


def test_a_label_that_the_node_has_hides_no_label_that_it_lacks() -> None:
    """Of several keys each is looked for."""
    node = Requirements.from_labels({"a": "1"})
    pod = Requirements.from_labels({"a": "1", "b": "2"})

    assert node.refuses(pod) == Incompatible("b", "b In [2]", "", "")


def test_no_conflict() -> None:
    """Sets that share a value on every shared key do not conflict."""
    assert wants("team", "In", "a", "b").conflict(wants("team", "In", "b", "c")) is None


def test_entries_with_one_key_are_intersected() -> None:
    """Several entries about one key hold together."""
    found = Requirements.from_entries(
        [
            NodeSelectorRequirement(key="k", operator="In", values=("a", "b")),
            NodeSelectorRequirement(key="k", operator="NotIn", values=("a",)),
        ]
    )

    assert found == wants("k", "In", "b")


def test_old_and_present_key_are_one() -> None:
    """A deprecated label and the one that replaced it are intersected."""
    found = Requirements.from_labels({"beta.kubernetes.io/arch": "arm64", labels.ARCH: "arm64"})

    assert found.labels() == {labels.ARCH: "arm64"}


def test_min_values_of_entries_is_read() -> None:
    """Entries of pools say how many values must stay possible; others do not."""
    entry = NodeRequirement(key="k", operator="Exists", min_values=3)

    assert Requirements.from_entries([entry])["k"].min_values == 3


def test_entries_that_cannot_be_read_are_refused() -> None:
    """A bad entry ends in the error of a single requirement."""
    with pytest.raises(RequirementError, match="'Is' is not one of the operators"):
        Requirements.from_entries([NodeSelectorRequirement(key="k", operator="Is")])


def test_a_missing_key_allows_everything() -> None:
    """Asking for a key without a requirement yields Exists."""
    assert NOTHING_REQUIRED["k"] == requirement("k", "Exists")


def test_get() -> None:
    """What is said about a key can be had, or something else where nothing is."""
    found = wants("k", "In", "a")

    assert (found.get("k", None), found.get("x", None)) == (requirement("k", "In", ["a"]), None)


def test_two_bounds_become_two_entries() -> None:
    """In API form keys are sorted, and a window of integers is two entries."""
    found = Requirements.of([*on_both("Gt", "1"), *on_both("Lt", "5")])

    assert found.terms() == (
        RequirementTerm("a", "Gte", ("2",)),
        RequirementTerm("a", "Lte", ("4",)),
        RequirementTerm("b", "Gte", ("2",)),
        RequirementTerm("b", "Lte", ("4",)),
    )


def test_text_is_sorted_and_leaves_the_hostname_out() -> None:
    """A set says its requirements in order; the hostname is left out."""
    found = Requirements.of(
        [
            requirement("b", "Exists"),
            requirement(labels.HOSTNAME, "In", ["node-1"]),
            requirement("a", "In", ["x"]),
        ]
    )

    assert (str(found), repr(found)) == ("a In [x], b Exists", "Requirements(a In [x], b Exists)")


def test_settled_labels() -> None:
    """Labels are those with exactly one value left."""
    found = Requirements.of(
        [
            requirement("one", "In", ["x"]),
            requirement("two", "In", ["x", "y"]),
            requirement("any", "Exists"),
            requirement("not", "NotIn", ["x"]),
            requirement("none", "DoesNotExist"),
        ]
    )

    assert found.labels() == {"one": "x"}


def test_as_a_collection() -> None:
    """A set can be asked for its keys, its size, and whether it names a key."""
    found = Requirements.of(on_both("Exists"))

    assert (found.keys(), len(found), "a" in found, "c" in found) == ({"a", "b"}, 2, True, False)


def test_without() -> None:
    """Keys can be left out."""
    assert Requirements.of(on_both("Exists")).without("b", "c") == wants("a", "Exists")


def test_only() -> None:
    """A demand on one key can be made from its values."""
    assert Requirements.only("a", frozenset({"x", "y"})) == wants("a", "In", "x", "y")


@pytest.mark.parametrize("empty_first", [True, False], ids=["nothing first", "nothing last"])
def test_nothing_required_changes_nothing(empty_first: bool) -> None:
    """The empty set is neutral, and nothing is copied."""
    some = wants("a", "Exists")
    found = NOTHING_REQUIRED.intersect(some) if empty_first else some.intersect(NOTHING_REQUIRED)

    assert found is some


def test_intersection_leaves_its_sides_alone() -> None:
    """Sets are values: an intersection is a new one."""
    wide, narrow = wants("a", "In", "x", "y"), wants("a", "In", "x")
    wide.intersect(narrow)

    assert wide == wants("a", "In", "x", "y")


def test_equal_sets_are_one_key() -> None:
    """Sets compare and hash by what they say, in whatever order it was said."""
    one, two = Requirements.of(on_both("Exists")), Requirements.of(reversed(on_both("Exists")))

    assert {one: "same"}[two] == "same"


def test_a_hash_is_worked_out_once() -> None:
    """Asking twice gives the same answer."""
    found = wants("a", "Exists")

    assert hash(found) == hash(found)


def test_a_set_is_nothing_else() -> None:
    """A set of requirements equals no other kind of value."""
    assert Requirements({}) != {}
