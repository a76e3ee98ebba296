"""Bytes and plain data to structs, and back."""

from datetime import UTC, datetime
from typing import Any

import pytest

from karpenter.api.meta import (
    MAX_DEPTH,
    InvalidObject,
    check_depth,
    convert,
    decode,
    drop_nulls,
    encode,
    name_of,
    to_plain,
)
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.pod import Pod

POD = b"""{
  "apiVersion": "v1", "kind": "Pod",
  "metadata": {"name": "web-0", "namespace": "shop", "creationTimestamp": "2026-01-31T09:00:00Z"},
  "spec": {
    "nodeName": "n1", "containers": [
      {"name": "web", "resources": {"requests": {"cpu": 1, "memory": "1Gi"}},
       "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1"}]}]},
  "status": {"phase": "Running", "podIP": "10.1.2.3"}
}"""


def test_decode_reads_what_the_api_writes() -> None:
    """Names that camel case would misspell are read, and numbers and text may both be quantities."""
    pod = decode(POD, Pod)

    assert pod.key == "shop/web-0"
    assert pod.metadata.creation_timestamp == datetime(2026, 1, 31, 9, tzinfo=UTC)
    assert pod.spec.containers[0].resources.requests == {"cpu": 1, "memory": "1Gi"}
    assert pod.spec.containers[0].ports[0].host_ip == "10.0.0.1"
    assert pod.status.pod_ip == "10.1.2.3"


def test_encode_says_the_kind_and_leaves_out_what_is_absent() -> None:
    """An encoded object has its apiVersion and kind and none of the fields that were never set."""
    assert to_plain(decode(POD, Pod)) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-0", "namespace": "shop", "creationTimestamp": "2026-01-31T09:00:00Z"},
        "spec": {
            "nodeName": "n1",
            "containers": [
                {
                    "name": "web",
                    "resources": {"requests": {"cpu": 1, "memory": "1Gi"}},
                    "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1"}],
                }
            ],
        },
        "status": {"phase": "Running", "podIP": "10.1.2.3"},
    }


def test_round_trip() -> None:
    """What was decoded reads the same after it was encoded."""
    pod = decode(POD, Pod)

    assert decode(encode(pod), Pod) == pod


def test_only_objects_have_a_kind() -> None:
    """A part of an object is written without apiVersion and kind."""
    assert to_plain(decode(POD, Pod).metadata).keys() == {"name", "namespace", "creationTimestamp"}


def test_nulls_count_as_absent() -> None:
    """A null is no value, wherever it stands and whatever is expected there."""
    text = b'{"metadata": {"name": "a", "labels": null}, "spec": {"containers": null, "tolerations": [null]}}'

    assert decode(text, Pod) == Pod(metadata=decode(b'{"name": "a"}', type(Pod().metadata)))


@pytest.mark.parametrize(
    ("plain", "sentence"),
    [
        pytest.param(
            {"kind": "Pod", "metadata": {"name": "a"}, "spec": {"priority": "high"}},
            "Pod/a: spec.priority: expected a whole number, got a text",
            id="a wrong type is named with its place",
        ),
        pytest.param(
            {
                "kind": "Pod",
                "metadata": {"name": "a", "namespace": "b"},
                "spec": {"containers": [{"name": 1}]},
            },
            "Pod/b/a: spec.containers[0].name: expected a text, got a whole number",
            id="the namespace is part of the name",
        ),
        pytest.param([], "Pod: expected an object, got a list", id="a list is no object"),
        pytest.param("Pod", "Pod: expected an object, got a text", id="a text is no object"),
        pytest.param(
            {"metadata": {"name": 5}},
            "Pod: metadata.name: expected a text, got a whole number",
            id="a name is text",
        ),
    ],
)
def test_refusals_are_sentences(plain: Any, sentence: str) -> None:
    """What cannot be read is refused in one sentence: object, field, what is allowed."""
    with pytest.raises(InvalidObject) as caught:
        convert(plain, Pod)

    assert str(caught.value) == sentence


@pytest.mark.parametrize("text", ["", "{", "\x00", "{'a': 1}", "[" * 100_000, '{"a": NaN}'])
def test_text_that_is_no_json(text: str) -> None:
    """Text that is no JSON is refused as such, with the name that the caller gave."""
    with pytest.raises(InvalidObject, match=r"^an answer: not JSON"):
        decode(text, Pod, subject="an answer")


def test_missing_fields_are_named() -> None:
    """A field without which a kind makes no sense is asked for."""
    with pytest.raises(InvalidObject, match="the field spec is missing"):
        convert({"kind": "NodeClaim", "metadata": {"name": "a"}}, NodeClaim)


def test_depth_has_an_end() -> None:
    """Data that is nested beyond reason is refused before anything walks down into it."""
    deep: Any = "end"
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]

    with pytest.raises(InvalidObject, match="levels deep"):
        check_depth(deep)
    with pytest.raises(InvalidObject, match="levels deep"):
        drop_nulls({"spec": deep})


def test_depth_of_real_objects_is_fine() -> None:
    """Objects as they occur are not too deep."""
    check_depth(to_plain(decode(POD, Pod)))


@pytest.mark.parametrize(
    ("plain", "name"),
    [
        pytest.param({"kind": "Pod", "metadata": {"name": "a"}}, "Pod/a", id="kind and name"),
        pytest.param({"kind": "Pod"}, "Pod", id="a kind alone"),
        pytest.param({"metadata": {"name": "a"}}, "object/a", id="a name alone"),
        pytest.param({"kind": 5, "metadata": {"name": []}}, "object", id="neither, of the wrong type"),
        pytest.param(None, "object", id="nothing"),
    ],
)
def test_names_for_messages(plain: Any, name: str) -> None:
    """An object is called what it calls itself, as far as it does."""
    assert name_of(plain) == name
