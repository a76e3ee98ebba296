"""
A manifest with holes: plain data, and in some places a note of what goes there.

A note names a value by its path in the chart's values, such as ``controller.image.tag``. There are few sorts
of notes on purpose: whatever they can say must come out the same from Helm and from us. An empty value (no
text, zero, false, nothing in it) counts as not given, as it does in Helm.

Trees filled in with values: manifests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from karpenter import __version__

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


CHART: Final = "karpenter"
_LONGEST_NAME: Final = 63

_LEFT_OUT: Final = object()


class MissingValue(ValueError):  # noqa: N818  says what is wrong
    """A value that nobody can do without was not given."""


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """What is installed where, and with which values."""

    name: str = CHART
    namespace: str = "kube-system"
    values: Mapping[str, Any]

    def at(self, path: str) -> Any:
        """Return the value at a path; None if there is none."""
        found: Any = self.values
        for word in path.split("."):
            found = found.get(word) if isinstance(found, dict) else None
        return found

    def fact(self, name: str) -> str:
        """Return something that follows from the release."""
        return str(getattr(self, f"_{name}")())

    def holds(self, condition: Condition) -> bool:
        """Say whether a condition holds."""
        if isinstance(condition, Given):
            return any(self.at(path) for path in condition.paths)
        if isinstance(condition, Lacks):
            return not self.at(condition.path)
        return bool(self.at(condition.path) == condition.text)

    def _release(self) -> str:
        return self.name

    def _namespace(self) -> str:
        return self.namespace

    def _version(self) -> str:
        return __version__

    def _name(self) -> str:
        return self._short(self.at("nameOverride") or CHART)

    def _fullname(self) -> str:
        if full := self.at("fullnameOverride"):
            return self._short(full)
        name = self.at("nameOverride") or CHART
        return self._short(self.name if name in self.name else f"{self.name}-{name}")

    def _account(self) -> str:
        own = self.at("serviceAccount.name")
        return str(own or (self._fullname() if self.at("serviceAccount.create") else "default"))

    def _image(self) -> str:
        image = self.at("controller.image")
        digest = f"@{image['digest']}" if image.get("digest") else ""
        return f"{image['repository']}:{image.get('tag') or __version__}{digest}"

    @staticmethod
    def _short(name: str) -> str:
        return name[:_LONGEST_NAME].rstrip("-")


def fill(tree: Tree, release: Release) -> Any:
    """Return a tree with every note replaced by what it stands for; None for an object that is left out."""
    filled = _fill(tree, release)
    return None if filled is _LEFT_OUT else filled


def _fill(tree: Tree, release: Release) -> Any:  # noqa: C901, PLR0911, PLR0912  one case for every sort of note
    match tree:
        case dict():
            return _mapping(tree, release)
        case list():
            return _list(tree, release)
        case Value(path) | Copy(path):
            return release.at(path)
        case Text(path):
            return as_text(release.at(path))
        case Required(path):
            if not release.at(path):
                raise MissingValue(missing(path))
            return as_text(release.at(path))
        case Joined(path):
            return ",".join(release.at(path))
        case Fact(name):
            return release.fact(name)
        case Words(parts):
            return "".join(as_text(_fill(part, release)) for part in parts)
        case When(condition, then):
            return _fill(then, release) if release.holds(condition) else _LEFT_OUT
        case Either(path, otherwise):
            return release.at(path) or _fill(otherwise, release)
        case Entries(ours, more):
            return _mapping(ours, release) | {
                key: value for path in more for key, value in (release.at(path) or {}).items()
            }
        case _:
            return tree


def _mapping(tree: dict[str, Tree], release: Release) -> dict[str, Any]:
    filled = {key: _fill(value, release) for key, value in tree.items()}
    return {key: value for key, value in filled.items() if value is not _LEFT_OUT}


def _list(tree: list[Tree], release: Release) -> list[Any]:
    found: list[Any] = []
    for item in tree:
        if isinstance(item, Items):
            found += release.at(item.path) or []
        elif (filled := _fill(item, release)) is not _LEFT_OUT:
            found += filled if isinstance(filled, list) else [filled]
    return found


def as_text(value: Any) -> str:
    """Return a value as a template would print it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def missing(path: str) -> str:
    """Return the sentence about a value that was not given."""
    return f"{path} is required"
