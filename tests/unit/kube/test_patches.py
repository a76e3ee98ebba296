"""Patches are values that write themselves."""

import json

import pytest

from karpenter.kube.patches import Apply, JsonPatch, MergePatch, Patch, StrategicPatch, pointer


@pytest.mark.parametrize(
    ("patch", "content_type", "body"),
    [
        pytest.param(
            MergePatch({"spec": {"a": None}}),
            "application/merge-patch+json",
            {"spec": {"a": None}},
            id="a merge patch keeps nulls, which remove",
        ),
        pytest.param(
            MergePatch({"metadata": {"finalizers": []}}, version="7"),
            "application/merge-patch+json",
            {"metadata": {"finalizers": [], "resourceVersion": "7"}},
            id="a version makes it conditional",
        ),
        pytest.param(
            MergePatch({"spec": {}}, version="7"),
            "application/merge-patch+json",
            {"spec": {}, "metadata": {"resourceVersion": "7"}},
            id="also where it has no metadata",
        ),
        pytest.param(
            StrategicPatch({"spec": {"taints": [{"key": "a"}]}}, version="7"),
            "application/strategic-merge-patch+json",
            {"spec": {"taints": [{"key": "a"}]}, "metadata": {"resourceVersion": "7"}},
            id="a strategic patch is a merge by keys",
        ),
        pytest.param(
            JsonPatch([{"op": "test", "path": "/a", "value": 1}, {"op": "remove", "path": "/a"}]),
            "application/json-patch+json",
            [{"op": "test", "path": "/a", "value": 1}, {"op": "remove", "path": "/a"}],
            id="a JSON patch is a list of operations",
        ),
        pytest.param(
            Apply({"kind": "Pod"}),
            "application/apply-patch+yaml",
            {"kind": "Pod"},
            id="apply sends the object",
        ),
    ],
)
def test_patch(patch: Patch, content_type: str, body: object) -> None:
    """Each sort has its media type and its body."""
    assert (patch.content_type, json.loads(patch.body())) == (content_type, body)


def test_a_conditional_patch_leaves_its_input_alone() -> None:
    """The changes that were passed in are not written to."""
    changes = {"metadata": {"labels": {"a": "b"}}}

    MergePatch(changes, version="7").body()

    assert changes == {"metadata": {"labels": {"a": "b"}}}


def test_pointer_escapes() -> None:
    """Slashes and tildes in field names are escaped as RFC 6901 says."""
    assert pointer("metadata", "labels", "a/b~c") == "/metadata/labels/a~1b~0c"
