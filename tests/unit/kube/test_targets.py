"""Bytes become structs or dictionaries; one broken object never hides the others."""

import json
from typing import Any

import msgspec
import pytest

from karpenter.api.meta import InvalidObject, ObjectMeta
from karpenter.api.node import Node
from karpenter.api.pod import Pod
from karpenter.kube.targets import ObjectIdentity, Target, Typed, identify, target_of, untyped

PODS = target_of(Pod)
ANY = untyped("apps/v1", "deployments", kind="Deployment", namespaced=True)


def page(*items: object, **metadata: Any) -> bytes:
    return json.dumps({"kind": "PodList", "metadata": metadata, "items": list(items)}).encode()


def named(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop", "uid": "u", "resourceVersion": "7"}, **fields}


def test_a_struct_stands_for_its_target() -> None:
    """The target of a struct is made once."""
    assert target_of(Pod) is PODS
    assert target_of(PODS) is PODS
    assert repr(PODS) == "Typed(v1/pods)"


def test_only_api_objects_are_targets() -> None:
    """A struct that is no kind of its own cannot be asked for."""
    with pytest.raises(TypeError, match="ObjectMeta is not a kind of API object"):
        target_of(ObjectMeta)


def test_reading_one_object() -> None:
    """A typed object has the fields of its struct; unknown fields are dropped."""
    pod = PODS.read(json.dumps(named("web-0", unknown=1)).encode())

    assert (pod.key, PODS.identify(pod)) == ("shop/web-0", ObjectIdentity("shop", "web-0", "u", "7"))


def test_null_counts_as_absent() -> None:
    """What a struct would not take as null is read as if it was not there."""
    pod = PODS.read(json.dumps(named("web-0", spec={"containers": None})).encode())

    assert pod.spec.containers == ()


def test_reading_a_broken_object() -> None:
    """An object of the wrong shape is refused with one sentence."""
    with pytest.raises(InvalidObject, match="spec"):
        PODS.read(json.dumps(named("web-0", spec=7)).encode())


def test_reading_a_page() -> None:
    """A page knows where it stands and whether there is more."""
    read = PODS.read_page(page(named("a"), named("b"), resourceVersion="9", **{"continue": "next"}))

    assert ([pod.name for pod in read.items], read.version, read.more) == (["a", "b"], "9", "next")


@pytest.mark.parametrize("target", [PODS, ANY], ids=["typed", "untyped"])
def test_an_empty_list_may_be_null(target: Target[Any]) -> None:
    """Servers may say null for a list with nothing in it."""
    assert target.read_page(b'{"metadata": {"resourceVersion": "9"}, "items": null}').items == ()


def test_a_broken_item_is_reported_beside_the_others() -> None:
    """The rest of the page is read all the same."""
    read = PODS.read_page(page(named("a"), named("b", spec=7), named("c"), resourceVersion="9"))

    assert [pod.name for pod in read.items] == ["a", "c"]
    assert [str(error) for error in read.broken] == [
        "Pod/shop/b: spec: expected an object, got a whole number"
    ]
    assert read.version == "9"


def test_a_page_that_is_none_is_an_error() -> None:
    """What is not a list at all cannot be read around."""
    with pytest.raises(msgspec.DecodeError):
        PODS.read_page(b"<html>")


def test_untyped_objects_keep_every_field() -> None:
    """Dictionaries hold all that the server sent, and say their kind also where lists leave it out."""
    read = ANY.read_page(page(named("a", extra={"x": [1]}), resourceVersion="9"))

    assert read.items[0] == {"apiVersion": "apps/v1", "kind": "Deployment", **named("a", extra={"x": [1]})}


def test_untyped_objects_are_identified() -> None:
    """A dictionary is identified by its metadata, if it has any."""
    assert ANY.identify(named("a")) == ObjectIdentity("shop", "a", "u", "7")
    assert ANY.identify({}).key == ""


def test_untyped_reading_of_something_else() -> None:
    """What is not a JSON object is refused."""
    with pytest.raises(InvalidObject, match="not a JSON object"):
        ANY.read(b"[1]")


def test_writing_says_the_kind() -> None:
    """Structs and dictionaries are both written with their apiVersion and kind."""
    node = Node(metadata=ObjectMeta(name="n1"))

    assert json.loads(Typed(Node).write(node)) == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
    }
    assert json.loads(ANY.write({"spec": {}})) == {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {}}


def test_identify_reads_only_the_head() -> None:
    """Which object some bytes are can be known even where the rest cannot be read."""
    assert identify(json.dumps(named("a", spec=7)).encode()) == ObjectIdentity("shop", "a", "u", "7")
    assert ObjectIdentity("", "n1", "", "").key == "n1"
