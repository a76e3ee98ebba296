"""Manifests to objects."""

import json
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from karpenter.api.kinds import ALL_KINDS
from karpenter.api.manifests import Document, documents, documents_or_refusals, read_object
from karpenter.api.meta import InvalidObject, convert
from karpenter.api.node import Node
from karpenter.api.pod import Pod

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n"


def test_one_document_has_the_name_of_its_file() -> None:
    """Where there is one document, the file is enough to find it."""
    assert [each.source for each in documents(POD, "f.yaml")] == ["f.yaml"]


def test_several_documents_are_counted() -> None:
    """Where there are several, each says which it is."""
    assert [each.source for each in documents(f"{POD}---\n{NODE}", "f.yaml")] == ["f.yaml#1", "f.yaml#2"]


def test_lists_are_opened() -> None:
    """The objects of a list are read as if they stood alone, lists in lists too."""
    text = """
kind: List
apiVersion: v1
items:
- {apiVersion: v1, kind: Pod, metadata: {name: a}}
- {apiVersion: v1, kind: PodList, items: [{apiVersion: v1, kind: Pod, metadata: {name: b}}]}
"""
    found = [(each.source, each.subject) for each in documents(text, "f.yaml")]

    assert found == [("f.yaml[0]", "Pod/a"), ("f.yaml[1][0]", "Pod/b")]


@pytest.mark.parametrize("text", ["5", "[]", "{}", "kind: 5", "kind: ''", "kind: List\nitems: [5]"])
def test_what_is_no_object(text: str) -> None:
    """A document without a kind is refused."""
    with pytest.raises(InvalidObject, match="is not a Kubernetes object: it needs apiVersion and kind"):
        list(documents(text, "f.yaml"))


def test_a_bad_document_does_not_hide_the_others() -> None:
    """Refusals stand where the document would; what can be read is read."""
    found = list(documents_or_refusals(f"{POD}---\n5\n---\n{NODE}---\n{{", "f.yaml"))

    assert [isinstance(each, InvalidObject) for each in found] == [False, True, False, True]


def test_namespaced_objects_are_in_default() -> None:
    """An object of a namespaced kind that names no namespace is in the usual one."""
    (document,) = documents(POD, "f.yaml")
    found = read_object(document)

    assert isinstance(found, Pod)
    assert found.namespace == "default"


def test_cluster_objects_have_no_namespace() -> None:
    """An object of the whole cluster stays outside of namespaces."""
    (document,) = documents(NODE, "f.yaml")
    found = read_object(document)

    assert isinstance(found, Node)
    assert found.namespace == ""


def test_unknown_kinds_are_left_alone() -> None:
    """A kind that we do not know is no object to us, and no error."""
    assert read_object(Document("f", {"apiVersion": "x/v1", "kind": "Foo"})) is None


def test_an_object_needs_a_name() -> None:
    """An object without a name, or the beginning of one, is refused."""
    with pytest.raises(InvalidObject, match=r"Pod: metadata.name: is required"):
        read_object(Document("f", {"apiVersion": "v1", "kind": "Pod"}))


def test_a_generated_name_will_do() -> None:
    """An object whose name the server makes up is fine."""
    assert read_object(Document("f", {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "a-"}}))


ITEMS: list[Any] = [
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "n"}},
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "b"},
        "spec": {"nodeName": None, "volumes": [None]},
    },
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c", "creationTimestamp": None}, "x": [1, {}]},
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "namespace": None}},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 5}},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "d"}, "spec": {"priority": "high"}},
    {"apiVersion": "v1", "kind": "Pod"},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "deep"}, "x": json.loads("[" * 300 + "]" * 300)},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "wide"}, "x": [[]] * 300},
    {"apiVersion": "v1", "kind": "PodList", "items": [{"apiVersion": "v1", "kind": "Pod"}, 5]},
    {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"}},
    {"apiVersion": "", "kind": "Pod"},
    {"kind": "Pod"},
    5,
    None,
]


def read(found: Document | InvalidObject) -> object:
    if isinstance(found, InvalidObject):
        return str(found)
    try:
        thing: object = read_object(found)
    except InvalidObject as error:
        thing = str(error)
    return found.source, found.subject, found.identity, found.plain, thing


def slowly(item: object, place: str) -> list[object]:
    """Return the same, by way of plain data alone."""
    if isinstance(item, dict) and item.get("kind") == "PodList":
        return [
            each for number, one in enumerate(item["items"]) for each in slowly(one, f"{place}[{number}]")
        ]
    if not isinstance(item, dict) or not item.get("apiVersion") or not item.get("kind"):
        return [f"{place}: is not a Kubernetes object: it needs apiVersion and kind"]
    return [read(Document(place, item))]


@pytest.mark.parametrize("item", ITEMS, ids=range(len(ITEMS)))
def test_items_of_a_json_list_are_read_as_plain_data_would_be(item: object) -> None:
    """Decoding straight into structs finds the same objects and the same problems as the generic walk."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [item]})

    assert [read(each) for each in documents_or_refusals(text, "f")] == slowly(item, "f[0]")


@pytest.mark.parametrize("item", ITEMS[:6], ids=range(6))
def test_items_of_a_yaml_list_are_read_as_plain_data_would_be(item: object) -> None:
    """What YAML was read from is decoded at once too, where it is as the structs want it."""
    text = f"kind: List\napiVersion: v1\nitems: [{json.dumps(item)}]\n"

    assert [read(each) for each in documents_or_refusals(text, "f")] == slowly(item, "f[0]")


def test_a_number_that_no_program_holds_stays_text() -> None:
    """A number in a JSON list beyond what a float holds is what it is in YAML: a word."""
    text = (
        '{"apiVersion": "v1", "kind": "List", "items": '
        '[{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"priority": 1e400}},'
        ' {"apiVersion": "v1", "kind": "Pod", "x": 1e400, "x": 2, "metadata": 5}]}'
    )
    first, second = documents_or_refusals(text, "f")

    assert isinstance(first, Document)
    assert first.plain["spec"] == {"priority": "1e400"}
    with pytest.raises(InvalidObject, match=r"spec.priority: expected a whole number"):
        read_object(first)
    assert "occurs twice" in str(second)


def null_is_not_absent(kind: inspect.Type, seen: set[type]) -> list[str]:
    """Return the fields below a type for which null and absent are not the same."""
    found: list[str] = []
    if isinstance(kind, inspect.StructType) and kind.cls not in seen:
        seen.add(kind.cls)
        for field in kind.fields:
            found += null_is_not_absent(field.type, seen)
            nullable = isinstance(field.type, inspect.UnionType) and field.type.includes_none
            if (nullable and field.default is not None) or isinstance(field.type, inspect.AnyType):
                found.append(f"{kind.cls.__name__}.{field.name}")
    elif isinstance(kind, inspect.UnionType):
        found = [each for one in kind.types for each in null_is_not_absent(one, seen)]
    elif isinstance(kind, inspect.DictType | inspect.VarTupleType):
        item = kind.value_type if isinstance(kind, inspect.DictType) else kind.item_type
        nullable = isinstance(item, inspect.UnionType) and item.includes_none
        found = [*null_is_not_absent(item, seen), *([str(item)] if nullable else [])]
        found += [str(kind)] if isinstance(item, inspect.AnyType) else []
    return found


@pytest.mark.parametrize("kind", [each for each in ALL_KINDS if not each.ours], ids=lambda each: each.name)
def test_null_is_absent_in_every_field(kind: Any) -> None:
    """Kinds that are decoded without dropping nulls first have no field in which a null would be kept."""
    assert null_is_not_absent(inspect.type_info(kind.struct), set()) == []


def test_typed_decoding_is_what_the_walk_finds() -> None:
    """An object of many fields is the same, decoded at once or by way of plain data."""
    plain = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "n", "creationTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {"containers": [{"resources": {"requests": {"cpu": "1", "memory": 5}}}], "priority": 3},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "lastProbeTime": None}]},
    }
    text = json.dumps({"apiVersion": "v1", "kind": "PodList", "items": [plain]})
    (document,) = documents(text, "f")

    assert document.raw is not None
    assert read_object(document) == convert(plain, Pod) == msgspec.json.decode(json.dumps(plain), type=Pod)


@pytest.mark.parametrize(
    ("metadata", "stored"),
    [
        pytest.param({"name": "a"}, False, id="a manifest"),
        pytest.param({"name": "a", "uid": "u"}, True, id="with a uid"),
        pytest.param({"name": "a", "resourceVersion": "7"}, True, id="with a revision"),
        pytest.param(None, False, id="nothing"),
    ],
)
def test_what_a_server_has_stored_is_known_by_its_metadata(metadata: Any, stored: bool) -> None:
    """Only a server gives an object a uid and a revision; an item of a JSON list is told as well."""
    item = {"apiVersion": "v1", "kind": "Pod"} | ({"metadata": metadata} if metadata is not None else {})
    (listed,) = documents(json.dumps({"apiVersion": "v1", "kind": "List", "items": [item]}), "f")

    assert listed.raw is not None
    assert (Document("f", item).stored, listed.stored) == (stored, stored)
