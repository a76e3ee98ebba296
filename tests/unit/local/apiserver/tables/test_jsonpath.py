from typing import Any

import pytest

from karpenter_local.apiserver.tables.jsonpath import PathError, compile_path

VALUE = {
    "metadata": {"labels": {"a/b": "1", "x.y/z": "2"}},
    "spec": {"items": [{"n": 1}, {"n": 2}], "on": True},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Live", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".spec.on", [True]),
        (".spec.none.deeper", []),
        (".metadata.labels['a/b']", ["1"]),
        ('.metadata.labels["a/b"]', ["1"]),
        (r".metadata.labels.x\.y/z", ["2"]),
        (".spec.items[1].n", [2]),
        (".spec.items[-1].n", [2]),
        (".spec.items[7].n", []),
        (".spec.items[*].n", [1, 2]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type!='Ready')].status", ["False"]),
        ("{.spec.on}", [True]),
    ],
)
def test_paths(path: str, expected: list[Any]) -> None:
    """Everything that printer columns use."""
    assert compile_path(path)(VALUE) == expected


@pytest.mark.parametrize("path", ["spec", ".a[?(@.b>1)]", ".a[", "..a"])
def test_what_is_no_path(path: str) -> None:
    """A path that cannot be read is said to be one."""
    with pytest.raises(PathError):
        compile_path(path)
