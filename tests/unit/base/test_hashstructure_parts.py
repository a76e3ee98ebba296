"""Stable hashes."""

from __future__ import annotations

import pytest

from karpenter.base.hashstructure import hash_bytes, hash_integer, hash_map, hash_set, hash_struct, hash_text


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"", 0xCBF29CE484222325, id="nothing"),
        pytest.param(b"a", 0xAF63BD4C8601B7BE, id="a letter"),
        pytest.param(b"foobar", 0x340D8765A4DDA9C2, id="a word"),
    ],
)
def test_published_values(data: bytes, expected: int) -> None:
    """The hash of bytes is 64-bit FNV-1, as published with its test values."""
    assert hash_bytes(data) == expected


def test_pinned_values() -> None:
    """The hashes of structures never change between releases."""
    hashes = {
        "text": hash_text("zone"),
        "integer": hash_integer(-1),
        "set": hash_set([hash_text("left"), hash_text("right")]),
        "map": hash_map({"a": "1", "b": "2"}),
        "struct": hash_struct("Pair", [("Left", 1), ("Right", 2)]),
    }

    assert hashes == {
        "text": 6206044392725637119,
        "integer": 15446756586918820205,
        "set": 8207158621313387771,
        "map": 5193674016275370668,
        "struct": 8378920179374892499,
    }


def test_order_of_members_does_not_matter() -> None:
    """Sets and maps hash the same in every order."""
    assert (hash_set([1, 2, 3]), hash_map({"a": "1", "b": "2"})) == (
        hash_set([3, 1, 2]),
        hash_map({"b": "2", "a": "1"}),
    )


def test_keys_and_values_are_not_interchangeable() -> None:
    """A map is not the map of its values."""
    assert hash_map({"a": "b"}) != hash_map({"b": "a"})


def test_names_count() -> None:
    """Structs of another name, or with another field, hash differently."""
    assert (
        len({hash_struct("A", [("x", 1)]), hash_struct("B", [("x", 1)]), hash_struct("A", [("y", 1)])}) == 3
    )


def test_integers_have_64_bits() -> None:
    """A larger integer is not cut short."""
    with pytest.raises(OverflowError):
        hash_integer(2**63)


def test_half_characters_can_be_hashed() -> None:
    """A text that no encoding can write is hashed all the same."""
    assert hash_text("\ud800") != hash_text("\ud801")
