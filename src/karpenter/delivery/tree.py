"""
A manifest with holes: plain data, and in some places a note of what goes there.

A note names a value by its path in the chart's values, such as ``controller.image.tag``. There are few sorts
of notes on purpose: whatever they can say must come out the same from Helm and from us. An empty value (no
text, zero, false, nothing in it) counts as not given, as it does in Helm.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

Tree: TypeAlias = Any
"""Mappings, lists, texts, numbers, truth values, and notes."""


class Value(msgspec.Struct, frozen=True):
    """A number or a truth value, as it is given."""

    path: str


class Text(msgspec.Struct, frozen=True):
    """A value as text, whatever it is given as."""

    path: str


class Required(msgspec.Struct, frozen=True):
    """A value as text that nobody can do without."""

    path: str


class Joined(msgspec.Struct, frozen=True):
    """A list of texts as one text, with commas."""

    path: str


class Copy(msgspec.Struct, frozen=True):
    """A mapping or a list, whole, as it is given."""

    path: str


class Fact(msgspec.Struct, frozen=True):
    """Something that follows from the release rather than from one value."""

    name: Literal["fullname", "name", "release", "namespace", "account", "image", "version"]


class Words(msgspec.Struct, frozen=True):
    """A text made of pieces."""

    parts: tuple[str | Value | Fact, ...]


class Given(msgspec.Struct, frozen=True):
    """That one of some values is given."""

    paths: tuple[str, ...]


class Is(msgspec.Struct, frozen=True):
    """That a value is this text."""

    path: str
    text: str


class Lacks(msgspec.Struct, frozen=True):
    """That a value is not given, or is no."""

    path: str


Condition: TypeAlias = Given | Is | Lacks


class When(msgspec.Struct, frozen=True):
    """A part that is there only under a condition: an entry of a mapping, items of a list, or an object."""

    condition: Condition
    then: Tree


class Either(msgspec.Struct, frozen=True):
    """A mapping or list as it is given, or else ours."""

    path: str
    otherwise: Tree


class Entries(msgspec.Struct, frozen=True):
    """A mapping of ours, and after it the entries of mappings that are given."""

    ours: dict[str, Tree]
    more: tuple[str, ...]


class Items(msgspec.Struct, frozen=True):
    """In a list: the items of a list that is given."""

    path: str


def given(path: str, then: Tree) -> When:
    """Return a part that is there when a value is given."""
    return When(Given((path,)), then)
