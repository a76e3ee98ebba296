"""Whatever is handed to the API layer, it answers with a value, a problem or its one error."""

from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from karpenter.api.kinds import ALL_KINDS, Kind
from karpenter.api.manifests import documents_or_refusals, read_documents, render_documents
from karpenter.api.meta import InvalidObject, convert, decode, to_plain
from karpenter.api.schema import apply_defaults, check, load, prune_unknown_fields
from karpenter.api.validation.documents import check_document
from karpenter.api.validation.objects import check_object
from tests.unit.api.cases.case import changed
from tests.unit.api.cases.pools import POOL

FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

NAMES = (
    *("spec", "metadata", "name", "labels", "template", "requirements", "key", "operator", "values", "In"),
    *("Gt", "limits", "cpu", "weight", "budgets", "nodes", "schedule", "containers", "kind", "items"),
)
WORDS = st.sampled_from(NAMES)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=10**18, max_value=10**400),
    st.floats(allow_nan=False),
    st.text(),
    WORDS,
    st.sampled_from(["\x00", "\ud800", "1" * 5000, "%", "@daily", "1e999999999", "\u0663", " " * 500]),
)
DATA = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(WORDS | st.text(), inner, max_size=6)
    ),
    max_leaves=25,
)
OBJECTS = st.dictionaries(WORDS | st.text(), DATA, max_size=8)
KINDS = st.sampled_from(ALL_KINDS)
OUR_KINDS = st.sampled_from([kind for kind in ALL_KINDS if kind.ours])
TEMPLATE = ("spec.requirements", "spec.taints", "spec.nodeClassRef", "spec.expireAfter", "metadata.labels")
PATHS = st.sampled_from(
    (
        *("metadata", "status", "spec.weight", "spec.limits", "spec.replicas", "spec.disruption.budgets"),
        *(f"spec.template.{path}" for path in TEMPLATE),
    )
)


@FEW
@given(kind=KINDS, plain=DATA)
def test_converting_anything(kind: Kind, plain: Any) -> None:
    """Plain data is an object of the kind, or refused."""
    try:
        found = convert(plain, kind.struct)
    except InvalidObject:
        return

    assert convert(to_plain(found), kind.struct) == found


@FEW
@given(kind=KINDS, text=st.one_of(st.text(), st.binary()))
def test_decoding_anything(kind: Kind, text: str | bytes) -> None:
    """Bytes are an object of the kind, or refused."""
    with suppress(InvalidObject):
        decode(text, kind.struct)


@FEW
@given(kind=OUR_KINDS, plain=OBJECTS, old=st.none() | OBJECTS)
def test_checking_any_object(kind: Kind, plain: dict[str, Any], old: dict[str, Any] | None) -> None:
    """An object of ours has problems, each with a message, or none."""
    for problem in check_object(kind, plain, old=old):
        assert problem.message


@settings(FEW, max_examples=150)
@given(changes=st.dictionaries(PATHS, DATA, min_size=1, max_size=3))
def test_checking_a_damaged_pool(changes: dict[str, Any]) -> None:
    """A pool with garbage in some of its fields is judged like any other."""
    pool = next(kind for kind in ALL_KINDS if kind.name == "NodePool")
    ordered = dict(sorted(changes.items(), key=lambda item: len(item[0]), reverse=True))

    for problem in check_object(pool, changed(POOL, ordered)):
        assert problem.message


@FEW
@given(text=st.text() | st.text(alphabet="{}[]:,-&*!|>'\"%@#?a1 \n\t"))
def test_reading_any_text(text: str) -> None:
    """Any text is documents, or refused; and every document gets a verdict."""
    for found in documents_or_refusals(text, "f"):
        assert list(check_document(found))


RULES = st.builds(
    lambda rule, message: {"rule": rule, "messageExpression": message, "fieldPath": ".a"},
    st.sampled_from(
        ["self == oldSelf", "self > 1", "self.all(x, x == 1)", "has(self.a)", "size(self) < 3", "("]
    ),
    st.sampled_from(["", "string(self)", "self.a", "'x'"]),
)
SCHEMAS = st.recursive(
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["string", "integer", "number", "boolean", "array", "object"]),
            "format": st.sampled_from(["date-time", "duration", "byte", "int32", "ipv4", "uuid"]),
            "nullable": st.booleans(),
            "default": DATA,
            "enum": st.lists(SCALARS, max_size=3),
            "minimum": st.integers() | st.floats(allow_nan=False),
            "multipleOf": st.integers() | st.floats(allow_nan=False),
            "maxLength": st.integers(),
            "pattern": st.sampled_from(["^a+$", "(", "[0-9]", r"\d"]),
            "x-kubernetes-int-or-string": st.booleans(),
            "x-kubernetes-preserve-unknown-fields": st.booleans(),
            "x-kubernetes-embedded-resource": st.booleans(),
            "x-kubernetes-validations": st.lists(RULES, max_size=2),
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(WORDS, inner, max_size=3),
            "additionalProperties": inner | st.booleans(),
            "items": inner,
            "x-kubernetes-list-type": st.sampled_from(["set", "map", "atomic"]),
            "x-kubernetes-list-map-keys": st.lists(WORDS, max_size=2),
            "allOf": st.lists(inner, max_size=2),
            "anyOf": st.lists(inner, max_size=2),
            "oneOf": st.lists(inner, max_size=2),
            "not": inner,
            "x-kubernetes-validations": st.lists(RULES, max_size=2),
        },
    ),
    max_leaves=6,
)


@settings(FEW, max_examples=150)
@given(schema=SCHEMAS | DATA, value=DATA, old=DATA)
def test_any_schema_on_any_value(schema: Any, value: Any, old: Any) -> None:
    """Data that is a schema can be enforced on anything; only a schema can be refused."""
    with suppress(InvalidObject):
        loaded = load(schema)
        known, _ = prune_unknown_fields(loaded, value)
        for problem in check(loaded, apply_defaults(loaded, known), old=old):
            assert problem.message


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]))
NUMBERS = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@FEW
@given(data=PLAIN)
def test_yaml_round_trip(data: Any) -> None:
    """What is written as YAML reads the same."""
    assert list(read_documents(render_documents([data]), source="f")) == ([] if data is None else [data])
