"""Trees filled in with values: manifests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter import __version__
from karpenter.delivery.tree import (
    Copy,
    Either,
    Entries,
    Fact,
    Given,
    Items,
    Joined,
    Lacks,
    Required,
    Text,
    Value,
    When,
    Words,
)

if TYPE_CHECKING:
    from karpenter.delivery.tree import Condition, Tree

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
