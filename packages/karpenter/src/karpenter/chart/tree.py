"""
Object trees: plain data with placeholders, and :func:`fill`, which replaces them by the values of a release.

A placeholder names a value by its path in the chart's values, such as ``controller.image.tag``. There are
few kinds of placeholders, because each must render the same from Helm and from :func:`fill`. An empty value
(empty text, zero, false, an empty mapping or list) counts as not given, as it does in Helm.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from karpenter import __version__
from karpenter.chart.gotemplate import TemplateError, evaluate, go_text
from karpenter.chart.values import BadValue

Tree: TypeAlias = Any
"""Mappings, lists, texts, numbers, booleans and placeholders."""


class Value(msgspec.Struct, frozen=True):
    """A number or a truth value, as it is given."""

    path: str


class TextValue(msgspec.Struct, frozen=True):
    """A value as text, whatever it is given as."""

    path: str
    default: str = ""
    """What stands for a value that is absent, as it is where values of another chart are used again."""


class Templated(msgspec.Struct, frozen=True):
    """A value as text that may itself be a template, such as ``{{ .Values.global.clusterName }}``."""

    path: str


class Required(msgspec.Struct, frozen=True):
    """A text like that, which may not be empty."""

    path: str


class Joined(msgspec.Struct, frozen=True):
    """A list of texts as one text, with commas."""

    path: str


class Copy(msgspec.Struct, frozen=True):
    """A mapping or a list, whole, as it is given."""

    path: str


class ReleaseFact(msgspec.Struct, frozen=True):
    """Something that follows from the release rather than from one value."""

    name: Literal[
        "fullname",
        "name",
        "release",
        "namespace",
        "account",
        "image",
        "version",
        "chart",
        "service",
        "container",
        "lease",
        "leaseNamespace",
    ]


class Derived(msgspec.Struct, frozen=True):
    """A mapping, or items of a list, that is made from several values."""

    name: Literal["affinity", "topologySpreadConstraints", "sidecars"]


class ChartFile(msgspec.Struct, frozen=True):
    """The text of a file of the chart, which is not a template."""

    path: str
    text: str


class Concatenation(msgspec.Struct, frozen=True):
    """A text made of pieces."""

    parts: tuple[str | Value | ReleaseFact, ...]


class Given(msgspec.Struct, frozen=True):
    """That one of some values is given."""

    paths: tuple[str, ...]


class Equals(msgspec.Struct, frozen=True):
    """That a value is this text, or is absent where this is its default."""

    path: str
    text: str
    default: str


class IsSet(msgspec.Struct, frozen=True):
    """That a value is there: zero and false count, no text does not."""

    path: str


class IsFalse(msgspec.Struct, frozen=True):
    """That a value, as text that may be a template, is false."""

    path: str


class IsNotFalse(msgspec.Struct, frozen=True):
    """That a value, as text that may be a template, is anything but false."""

    path: str


class APIServed(msgspec.Struct, frozen=True):
    """That a value is given, and that the cluster serves an API version."""

    path: str
    version: str
    since: int = 0
    """The minor version of Kubernetes 1 that serves it first; 0 means that no version does by itself."""

    not_false: bool = False
    """Whether the value only has to be anything but false."""


Condition: TypeAlias = Given | Equals | IsSet | IsFalse | IsNotFalse | APIServed


class When(msgspec.Struct, frozen=True):
    """A part that is there only under a condition: an entry of a mapping, items of a list, or an object."""

    condition: Condition
    then: Tree


class Either(msgspec.Struct, frozen=True):
    """A mapping or list as it is given, whole, or else ours."""

    path: str
    otherwise: Tree


class Entries(msgspec.Struct, frozen=True):
    """A mapping of ours, and after it the entries of mappings that are given."""

    ours: dict[str, Tree]
    more: tuple[str, ...]


class ListItems(msgspec.Struct, frozen=True):
    """In a list: the items of a list that is given."""

    path: str


def given(path: str, then: Tree) -> When:
    """Return a part that is there when a value is given."""
    return When(Given((path,)), then)


def is_set(path: str, then: Tree) -> When:
    """Return a part that is there when a value is stated, be it zero or false."""
    return When(IsSet(path), then)


CHART: Final = "karpenter"
# Names become label values, which have at most 63 characters:
# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/
_LONGEST_NAME: Final = 63

_LEFT_OUT: Final = object()

_CONTAINER: Final = "controller"
LEASE: Final = "karpenter-leader-election"
_UPSTREAM_IMAGE: Final = re.compile(r"(^|/)(public\.ecr\.aws|ecr-public)/karpenter/controller$")
_TERMS: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_WEIGHTED_TERMS: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class MissingValue(ValueError):  # noqa: N818  says what is wrong
    """A required value was not given."""


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """What is installed where, and with which values."""

    name: str = CHART
    namespace: str = "kube-system"
    service: str = "Helm"
    """Who makes the objects: ``app.kubernetes.io/managed-by``."""

    chart_version: str = __version__
    app_version: str = __version__
    """The versions in ``Chart.yaml``, which an installer may set to those that it was asked for."""

    kubernetes: int | None = None
    """The minor version of the cluster's Kubernetes 1, where it is known."""

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

    def templated(self, path: str) -> str:
        """
        Return a value as text, rendered as a template.

        Raises:
            TemplateError: naming the value.
        """
        root = {
            "Values": self.values,
            "Release": {"Name": self.name, "Namespace": self.namespace, "Service": self.service},
            "Chart": {"Name": CHART, "Version": self.chart_version, "AppVersion": self.app_version},
        }
        try:
            return evaluate(go_text(self.at(path)), root, self._named)
        except TemplateError as error:
            raise TemplateError(f"{path}: {error}") from error

    def holds(self, condition: Condition) -> bool:
        """Say whether a condition holds; what a cluster serves is taken as served, unless it is too old."""
        match condition:
            case Given(paths):
                return any(self.at(path) for path in paths)
            case Equals(path, text, default):
                return bool((self.at(path) or default) == text)
            case IsSet(path):
                return self.at(path) is not None and self.at(path) != ""
            case IsFalse(path):
                return self.templated(path) == "false"
            case IsNotFalse(path):
                return self.templated(path) != "false"
            case APIServed(path, _, since, not_false):
                wanted = self.holds(IsNotFalse(path)) if not_false else bool(self.at(path))
                return wanted and (self.kubernetes is None or self.kubernetes >= since)

    def derived(self, name: str) -> Any:
        """Return something that is made from several values."""
        if name == "sidecars":
            return self._sidecars()
        found = copy.deepcopy(self.at(name))
        for term in _mappings(name, _terms(found) if name == "affinity" else found):
            term.setdefault(
                "labelSelector",
                {
                    "matchLabels": {
                        "app.kubernetes.io/name": self._name(),
                        "app.kubernetes.io/instance": self.name,
                    }
                },
            )
        return found

    def _sidecars(self) -> list[Any]:
        more = [
            *(self.at("controller.extraVolumeMounts") or []),
            *(self.at("controller.sidecarVolumeMounts") or []),
        ]
        return [
            {**each, "volumeMounts": [*(each.get("volumeMounts") or []), *more]} if more else each
            for each in _mappings("controller.sidecarContainer", self.at("controller.sidecarContainer"))
        ]

    def _named(self, name: str) -> str:
        known = {f"karpenter.{each}": each for each in ("name", "fullname", "chart", "account", "image")}
        if name not in known:
            raise TemplateError(f"the chart has no template {name}")
        return self.fact(known[name])

    def _release(self) -> str:
        return self.name

    def _namespace(self) -> str:
        return self.namespace

    def _version(self) -> str:
        return self.app_version

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
        image = self.at("controller.image") or {}
        repository = go_text(image.get("repository"))
        if not repository:
            raise MissingValue(missing("controller.image.repository"))
        if _UPSTREAM_IMAGE.search(repository):
            raise BadValue(upstream_image(repository))
        digest = f"@{image['digest']}" if image.get("digest") else ""
        return f"{repository}:{go_text(image.get('tag') or self.app_version)}{digest}"

    def _chart(self) -> str:
        return f"{CHART}-{self.chart_version}".replace("+", "_")

    def _service(self) -> str:
        return self.service

    def _container(self) -> str:
        return self.at("controller.containerName") or _CONTAINER

    def _lease(self) -> str:
        return self._variable("LEADER_ELECTION_NAME") or LEASE

    def _leaseNamespace(self) -> str:  # noqa: N802  as the fact is called
        return self._variable("LEADER_ELECTION_NAMESPACE") or self.namespace

    def _variable(self, name: str) -> str:
        """Return the value of a variable that the user adds; of several of one name, the last counts."""
        added = _mappings("controller.env", self.at("controller.env") or [])
        found = [each.get("value") for each in added if each.get("name") == name]
        return go_text(found[-1]) if found else ""

    @staticmethod
    def _short(name: str) -> str:
        return name[:_LONGEST_NAME].rstrip("-")


def fill(tree: Tree, release: Release) -> Any:
    """Return a tree with every placeholder replaced by its value; None for an object that is left out."""
    filled = _fill(tree, release)
    return None if filled is _LEFT_OUT else filled


def _fill(tree: Tree, release: Release) -> Any:  # noqa: C901, PLR0911, PLR0912  one case for every placeholder
    match tree:
        case dict():
            return _mapping(tree, release)
        case list():
            return _list(tree, release)
        case Value(path) | Copy(path):
            return release.at(path)
        case TextValue(path, default):
            return go_text(release.at(path)) or default
        case Templated(path):
            return release.templated(path)
        case Required(path):
            found = release.templated(path)
            if not found:
                raise MissingValue(missing(path))
            return found
        case Joined(path):
            return ",".join(go_text(each) for each in release.at(path))
        case Derived(name):
            return release.derived(name)
        case ReleaseFact(name):
            return release.fact(name)
        case ChartFile(text=text):
            return text
        case Concatenation(parts):
            return "".join(go_text(_fill(part, release)) for part in parts)
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
        if isinstance(item, ListItems):
            found += release.at(item.path) or []
        elif (filled := _fill(item, release)) is not _LEFT_OUT:
            found += filled if isinstance(filled, list) else [filled]
    return found


def _terms(affinity: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    for kind in ("podAffinity", "podAntiAffinity"):
        [rules] = _mappings(f"affinity.{kind}", [affinity.get(kind) or {}])
        found += rules.get(_TERMS) or []
        weighted = _mappings(f"affinity.{kind}.{_WEIGHTED_TERMS}", rules.get(_WEIGHTED_TERMS) or [])
        found += [each.get("podAffinityTerm") for each in weighted]
    return found


def _mappings(path: str, found: list[Any]) -> list[dict[str, Any]]:
    if not all(isinstance(each, dict) for each in found):
        raise BadValue(f"{path}: a mapping is wanted, or a list of mappings")
    return found


def missing(path: str) -> str:
    """Return the sentence about a value that was not given."""
    return f"{path} is required"


def upstream_image(repository: str) -> str:
    """Return the sentence about an image of another operator."""
    return (
        f"controller.image.repository is {repository}, the image of another operator, which cannot run here;"
        " hint: helm upgrade --reset-then-reuse-values, or set controller.image.repository, tag and digest"
    )
