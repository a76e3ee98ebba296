import pytest

from karpenter_local.apiserver.managed.merge import merge
from karpenter_local.apiserver.managed.shapes import Items, of_kind

ITEMS = Items(of_kind("", "v1", "Pod"), ("name",), {})


def names(text: str) -> list[dict[str, str]]:
    return [{"name": letter} for letter in text]


@pytest.mark.parametrize(
    ("live", "given", "expected"),
    [
        pytest.param("abc", "", "abc", id="nothing said"),
        pytest.param("", "ab", "ab", id="nothing there"),
        pytest.param("abc", "x", "abcx", id="a new item comes last"),
        pytest.param("abc", "cb", "acb", id="the order of the configuration wins"),
        pytest.param("abcd", "xc", "abxcd", id="a new item stays before its neighbour"),
        pytest.param("abc", "abc", "abc", id="the same"),
    ],
)
def test_lists_merge_in_order(live: str, given: str, expected: str) -> None:
    """Items of both sides are kept, once each."""
    merged = merge(names(live), names(given), ITEMS)

    assert "".join(item["name"] for item in merged) == expected


def test_neither_side_is_changed() -> None:
    """Merging makes a new value."""
    live, given = {"metadata": {"labels": {"a": "b"}}}, {"metadata": {"labels": {"c": "d"}}}

    merged = merge(live, given, of_kind("", "v1", "ConfigMap"))

    assert merged == {"metadata": {"labels": {"a": "b", "c": "d"}}}
    assert (live, given) == ({"metadata": {"labels": {"a": "b"}}}, {"metadata": {"labels": {"c": "d"}}})
