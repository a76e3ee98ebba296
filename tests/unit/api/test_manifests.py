"""Manifests to objects."""

import pytest

from karpenter.api.manifests import Document, documents, documents_or_refusals, read_object
from karpenter.api.meta import InvalidObject
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

    assert [type(each) for each in found] == [Document, InvalidObject, Document, InvalidObject]


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
