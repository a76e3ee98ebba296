from typing import Any

import pytest

from karpenter_local.apiserver.errors import APIStatusError
from karpenter_local.apiserver.patches import merge, operations


def op(name: str, path: str, **rest: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **rest}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        pytest.param(op("add", "/a/x", value=1), {"a": {"x": 1}, "l": [1, 2]}, id="a key"),
        pytest.param(op("add", "/l/1", value=9), {"a": {}, "l": [1, 9, 2]}, id="an item in between"),
        pytest.param(op("add", "/l/-", value=9), {"a": {}, "l": [1, 2, 9]}, id="an item at the end"),
        pytest.param(op("remove", "/l/0"), {"a": {}, "l": [2]}, id="an item less"),
        pytest.param(op("replace", "/l", value=0), {"a": {}, "l": 0}, id="another value"),
        pytest.param(
            op("replace", "/n", value=0), {"a": {}, "l": [1, 2], "n": 0}, id="a value where none was"
        ),
        pytest.param(op("move", "/b", **{"from": "/l"}), {"a": {}, "b": [1, 2]}, id="moved"),
        pytest.param(op("copy", "/a/c", **{"from": "/l"}), {"a": {"c": [1, 2]}, "l": [1, 2]}, id="copied"),
        pytest.param(op("test", "/l", value=[1, 2]), {"a": {}, "l": [1, 2]}, id="as expected"),
        pytest.param(op("test", "/none", value=None), {"a": {}, "l": [1, 2]}, id="nothing, as expected"),
        pytest.param(op("add", "/a/x~1y~0z", value=1), {"a": {"x/y~z": 1}, "l": [1, 2]}, id="odd names"),
    ],
)
def test_operations(operation: dict[str, Any], expected: dict[str, Any]) -> None:
    """Each operation does what RFC 6902 says, as the API reads it."""
    assert operations.apply({"a": {}, "l": [1, 2]}, [operation]) == expected


@pytest.mark.parametrize(
    "operation",
    [
        op("remove", "/none"),
        op("add", "/none/x", value=1),
        op("add", "/l/7", value=1),
        op("replace", "/l/7", value=1),
        op("test", "/l", value=[2]),
        op("test", "/b", value=1),
        op("move", "/x", **{"from": "/none"}),
        op("copy", "/x"),
        op("jump", "/x"),
        op("add", "x", value=1),
        op("remove", "/l/-1"),
    ],
)
def test_what_does_not_fit_is_refused(operation: dict[str, Any]) -> None:
    """All operations are carried out, or none."""
    with pytest.raises(APIStatusError) as caught:
        operations.apply({"a": {}, "l": [1, 2], "b": True}, [operation])

    assert caught.value.code == 422


def test_a_patch_has_a_limit() -> None:
    """Ten thousand operations are enough for anyone."""
    with pytest.raises(APIStatusError) as caught:
        operations.apply({}, [op("test", "/x", value=None)] * 10_001)

    assert caught.value.code == 413


def test_merge_patches() -> None:
    """Maps merge, null removes, everything else replaces."""
    value = {"a": {"b": 1, "c": 2}, "l": [1], "x": 1}

    merged = merge.apply(value, {"a": {"c": None, "d": {"e": None, "f": 1}}, "l": [2], "x": {"y": 1}})

    assert merged == {"a": {"b": 1, "d": {"f": 1}}, "l": [2], "x": {"y": 1}}
