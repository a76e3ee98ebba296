"""
Hashes that stay the same across processes, machines and releases.

A structure is hashed from its parts: texts and integers by themselves, maps and sets so
that order does not matter, structs by their name and the names of their fields. Every
result is an unsigned 64-bit number, built on FNV-1 over little-endian bytes.

The arithmetic is that of version 2 of the format in which Go programs commonly hash their
structures (with lists taken as sets), so that a hash which another program wrote into an
annotation of the cluster can be compared with ours (https://github.com/mitchellh/hashstructure). A change
here changes every hash in every cluster.

Two equal members of a set cancel each other out, as they do there.

Which parts of an object are hashed is decided where the object is known.
"""

from __future__ import annotations

from functools import reduce
from operator import xor
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_OFFSET: Final = 14695981039346656037
_PRIME: Final = 1099511628211
_MASK: Final = 2**64 - 1


def hash_bytes(data: bytes) -> int:
    """Return the 64-bit FNV-1 hash of `data`."""
    result = _OFFSET
    for byte in data:
        result = (result * _PRIME & _MASK) ^ byte
    return result


def hash_text(text: str) -> int:
    """Return the hash of a text."""
    return hash_bytes(text.encode("utf-8", "surrogatepass"))


def hash_integer(number: int) -> int:
    """
    Return the hash of a signed 64-bit integer.

    Raises:
        OverflowError: if it does not fit.
    """
    return hash_bytes(number.to_bytes(8, "little", signed=True))


def hash_set(members: Iterable[int]) -> int:
    """Return the hash of a set, or of a list taken as a set, from the hashes of its members."""
    return reduce(xor, members, 0)


def hash_map(entries: Mapping[str, str]) -> int:
    """Return the hash of a map of texts."""
    return hash_entries((hash_text(key), hash_text(value)) for key, value in entries.items())


def hash_entries(entries: Iterable[tuple[int, int]]) -> int:
    """Return the hash of a map from the hashes of its keys and values."""
    return _finish(hash_set(_pair(key, value) for key, value in entries))


def hash_struct(name: str, fields: Iterable[tuple[str, int]]) -> int:
    """Return the hash of a struct from its name and its fields, hashed, in the order of their declaration."""
    result = hash_text(name)
    for field, value in fields:
        result = _finish(result ^ _pair(hash_text(field), value))
    return result


def _pair(left: int, right: int) -> int:
    return hash_bytes(left.to_bytes(8, "little") + right.to_bytes(8, "little"))


def _finish(value: int) -> int:
    """Harden a hash of unordered parts, so that it cannot cancel out with another."""
    return hash_bytes(value.to_bytes(8, "little"))
