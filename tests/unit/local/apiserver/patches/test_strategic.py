from typing import Any

import pytest

from karpenter_local.apiserver.errors import APIStatusError
from karpenter_local.apiserver.patches.strategic import apply
from karpenter_local.apiserver.schema.types import built_in_types

PODSPEC = built_in_types().definition("io.k8s.api.core.v1.PodSpec")


def containers(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "image": name} for name in names]


def patched(patch: dict[str, Any]) -> dict[str, Any]:
    """Return a pod's spec after a patch."""
    value = {
        "containers": containers("a", "b", "c"),
        "tolerations": [{"key": "x"}],
        "nodeSelector": {"k": "v"},
        "volumes": [{"name": "v", "emptyDir": {}}],
    }
    return apply(value, patch, PODSPEC)


def names(spec: dict[str, Any]) -> str:
    return "".join(item["name"] for item in spec["containers"])


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param({"containers": [{"name": "b", "image": "z"}]}, "abc", id="an item that is there"),
        pytest.param({"containers": containers("n")}, "nabc", id="a new item"),
        pytest.param({"containers": [{"name": "b", "$patch": "delete"}]}, "ac", id="an item less"),
        pytest.param({"containers": [{"$patch": "replace"}, *containers("z")]}, "z", id="all replaced"),
        pytest.param(
            {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}, "bca", id="only the order"
        ),
        pytest.param(
            {
                "$setElementOrder/containers": [{"name": "c"}, {"name": "n"}, {"name": "b"}, {"name": "a"}],
                "containers": containers("n"),
            },
            "cnba",
            id="a new item in its place",
        ),
    ],
)
def test_items_with_a_merge_key(patch: dict[str, Any], expected: str) -> None:
    """Items are told apart by their key, and ordered as the patch says."""
    assert names(patched(patch)) == expected


def test_an_item_is_merged_and_not_replaced() -> None:
    """What the patch does not say about an item stays."""
    spec = patched({"containers": [{"name": "a", "command": ["x"]}]})

    assert spec["containers"][0] == {"name": "a", "image": "a", "command": ["x"]}


def test_other_lists_are_replaced() -> None:
    """A list without a merge key is one value."""
    assert patched({"tolerations": [{"key": "y"}]})["tolerations"] == [{"key": "y"}]


def test_maps_follow_their_directive() -> None:
    """Merged by default, replaced or deleted on request."""
    assert patched({"nodeSelector": {"n": "1"}})["nodeSelector"] == {"k": "v", "n": "1"}
    assert patched({"nodeSelector": {"$patch": "replace", "n": "1"}})["nodeSelector"] == {"n": "1"}
    assert "nodeSelector" not in patched({"nodeSelector": {"$patch": "delete"}})
    assert "nodeSelector" not in patched({"nodeSelector": None})


def test_one_of_several_sources_is_retained() -> None:
    """Changing the kind of a volume takes the old kind away."""
    change = {"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}

    assert patched({"volumes": [change]})["volumes"] == [{"name": "v", "configMap": {"name": "c"}}]


def test_values_can_be_taken_out_of_a_list_of_values() -> None:
    """Lists of plain values merge, and lose what the patch names."""
    meta = built_in_types().definition("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")

    changed = apply(
        {"finalizers": ["a/b", "c/d"]},
        {"$deleteFromPrimitiveList/finalizers": ["a/b"], "finalizers": ["e/f"]},
        meta,
    )

    assert changed == {"finalizers": ["e/f", "c/d"]}


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"containers": [{"image": "x"}]}, id="an item without its key"),
        pytest.param({"nodeSelector": {"$patch": "scramble"}}, id="an unknown directive"),
        pytest.param(
            {"$retainKeys": ["containers"], "nodeSelector": {"a": "b"}}, id="a key that is not retained"
        ),
        pytest.param(
            {"$setElementOrder/containers": [{"name": "a"}], "containers": containers("n")},
            id="an order that leaves an item out",
        ),
    ],
)
def test_patches_that_contradict_themselves(patch: dict[str, Any]) -> None:
    """What cannot be meant is refused."""
    with pytest.raises(APIStatusError):
        patched(patch)
