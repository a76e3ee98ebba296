"""
Validation of the objects of a manifest: one finding per problem.

Karpenter's kinds are validated in full. Kinds of Kubernetes are held against the rules of an API server
where a caller has them (:data:`ServerRules`). Without these a part of them is checked: objects are decoded,
which finds fields of the wrong type; their names have to be DNS names, their labels and selectors have to be
labels that fit each other, and their counts and amounts may not be negative. Removed kinds (Provisioner,
Machine, AWSNodeTemplate) are refused with the name of their successor, because their authors expect nodes
from them, and so are kinds that only look like one of ours or of Kubernetes. Any other kind is reported as
skipped, and so is what a folder holds that is no Kubernetes object.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.kinds import ALL_KINDS, KINDS
from karpenter.api.manifests import Document, read_object
from karpenter.api.meta import InvalidObject
from karpenter.api.price_annotations import OF_PODS
from karpenter.api.schema import field
from karpenter.api.schema.field import INVALID, NOT_SUPPORTED, FieldProblem
from karpenter.api.validation.amounts import bad_amounts, requests_beyond_limits
from karpenter.api.validation.nodeclaim_validation import (
    KEY_RULE,
    SUBDOMAIN_RULE,
    VALUE_RULE,
    is_label_value,
    is_qualified_name,
    is_subdomain,
)
from karpenter.api.validation.nodepool_validation import check_annotations
from karpenter.api.validation.objects import check_object
from karpenter.api.validation.words import in_words
from karpenter.base.pretty import excerpt

_CONVERT = "karpenter convert -f FILE writes it as that"

_SUCCESSORS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("karpenter.sh/v1alpha5", "Provisioner"): "NodePool (karpenter.sh/v1)",
        ("karpenter.sh/v1alpha5", "Machine"): "NodeClaim (karpenter.sh/v1)",
        ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate"): "EC2NodeClass (karpenter.k8s.aws/v1)",
        ("karpenter.sh/v1beta1", "NodePool"): "NodePool (karpenter.sh/v1)",
        ("karpenter.sh/v1beta1", "NodeClaim"): "NodeClaim (karpenter.sh/v1)",
        ("karpenter.k8s.aws/v1beta1", "EC2NodeClass"): "EC2NodeClass (karpenter.k8s.aws/v1)",
    }
)


def refusal(api_version: str, kind: str) -> str | None:
    """Return the sentence that refuses a removed kind and names its successor; None for every other kind."""
    successor = _SUCCESSORS.get((api_version, kind))
    if successor is None:
        return None
    return f"{api_version} {kind} is from before version 1 and was replaced by {successor}; {_CONVERT}"


def unknown_kind(api_version: str, kind: str) -> str | None:
    """
    Return the sentence that refuses what is almost a kind that we know, or is in one of Karpenter's groups.

    Karpenter's groups have the kinds of :data:`KINDS` and no others. Other groups have kinds that we do not
    know, so there only what is spelled almost as one of ours is refused.
    """
    if (api_version, kind) in KINDS or (api_version, kind) in _SUCCESSORS:
        return None
    group = api_version.rpartition("/")[0]
    named = f"{excerpt(kind)[1:-1]} of {excerpt(api_version)[1:-1]} is not known here"
    near = _nearest_kind(group, kind)
    if near is not None:
        version, name = near
        return f"{named}; did you mean {name} of {version}?"
    if group in _OURS_ALONE:
        there = (f"{each.name} of {each.api_version}" for each in ALL_KINDS if each.group == group)
        return f"{named}; {group} has {' and '.join(there)}"
    return None


_BUFFERS = CapacityBuffer.api_version.partition("/")[0]
_OUR_GROUPS = frozenset(each.group for each in ALL_KINDS if each.ours)
_OURS_ALONE = _OUR_GROUPS - {_BUFFERS}
"""Groups without other kinds than Karpenter's; Cluster Autoscaler has kinds beside CapacityBuffer."""

_CORRECTED = _OUR_GROUPS | {"", "apps", "batch", "policy"}
"""Groups in which a kind that is spelled almost as a known one is a mistake."""

_LIKENESS = 0.85


def _nearest_kind(group: str, kind: str) -> tuple[str, str] | None:
    """Return apiVersion and kind of what was probably meant."""
    known = [(version.rpartition("/")[0], version, name) for version, name in (*_SUCCESSORS, *KINDS)]
    if group not in _CORRECTED:
        ours = {of: (version, name) for of, version, name in known if name == kind and of in _OUR_GROUPS}
        close = difflib.get_close_matches(group, ours, n=1, cutoff=_LIKENESS)
        return ours[close[0]] if close else None
    by_name = {each.plural: (each.api_version, each.name) for each in ALL_KINDS if each.group == group}
    by_name |= {name.lower(): (version, name) for of, version, name in known if of == group}
    cutoff = 0.6 if group in _OURS_ALONE else _LIKENESS
    close = difflib.get_close_matches(kind.lower(), by_name, n=1, cutoff=cutoff)
    return by_name[close[0]] if close else None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One problem of one object of one file."""

    source: str
    """The file, and which document of it when there are several."""

    subject: str = ""
    """The object, as ``Kind/name``; empty when the text is none."""

    field: str = ""
    """Where the problem is; empty when it is the whole object."""

    reason: str
    """Of what sort it is, in one word."""

    message: str
    """What is wrong and what is allowed."""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.source, self.subject, self.field, self.message) if part)


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """An object of a kind that we know nothing of, or something in a folder that is no object."""

    source: str
    subject: str = ""
    api_version: str = ""

    def __str__(self) -> str:
        if not self.subject:
            return f"{self.source}: skipped, since it is no Kubernetes object"
        version = self.api_version or "its apiVersion"
        return f"{self.source}: {self.subject}: skipped, since {version} is not known here"


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """An object without problems."""

    source: str
    subject: str


Outcome = Finding | Skipped | Accepted

OldObjects = Mapping[tuple[str, str, str], dict[str, Any]]
"""What is there already, by apiVersion, kind and name."""


ServerRules = Callable[[Mapping[str, Any]], Sequence[FieldProblem] | None]
"""What an API server would hold against a new object; None for a kind that it does not know."""


def identify(plain: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return what tells an object from others: apiVersion, kind, and name with its namespace."""
    metadata = plain.get("metadata")
    names = (metadata.get("namespace"), metadata.get("name")) if isinstance(metadata, dict) else ()
    name = "/".join(str(each) for each in names if each)
    return str(plain.get("apiVersion", "")), str(plain.get("kind", "")), name


def check_document(
    found: Document | InvalidObject, *, old: OldObjects | None = None, rules: ServerRules | None = None
) -> Iterator[Outcome]:
    """
    Yield what is wrong with one document, or that nothing is, or that it was left alone.

    With `rules`, kinds of Kubernetes are held against these, and those that only the rules know are not left
    alone.
    """
    if isinstance(found, InvalidObject):
        yield Finding(source=found.subject, field=found.field, reason=INVALID, message=found.problem)
        return
    api_version, kind_name = found.identity
    sentence = refusal(api_version, kind_name) or unknown_kind(api_version, kind_name)
    if sentence is not None:
        yield Finding(source=found.source, subject=found.subject, reason=NOT_SUPPORTED, message=sentence)
        return
    kind = KINDS.get(found.identity)
    ours = kind is not None and kind.ours
    judged = rules(found.plain) if rules is not None and not ours else None
    judged = None if judged is None else [in_words(each) for each in judged]
    if kind is None and judged is None:
        yield Skipped(source=found.source, subject=found.subject, api_version=api_version)
        return
    findings = list(_check_ours(found, old or {}) if ours else _check_theirs(found, judged))
    yield from findings
    if not findings:
        yield Accepted(source=found.source, subject=found.subject)


def _check_ours(document: Document, old: OldObjects) -> Iterator[Finding]:
    kind = KINDS[document.identity]
    try:
        problems = check_object(kind, document.plain, old=old.get(identify(document.plain)))
    except InvalidObject as error:  # nested beyond reason
        yield _finding(document, error.field, INVALID, error.problem)
        return
    for problem in problems:
        yield _finding(document, problem.field, problem.reason, problem.message)


def _check_theirs(document: Document, judged: Sequence[FieldProblem] | None) -> Iterator[Finding]:
    for found in judged or ():
        yield _finding(document, found.field, found.reason, found.message)
    if document.identity not in KINDS:
        return  # fields called `limits` and the like are something else there
    for place, problem in untold(_own_problems(document, judged), [each.field for each in judged or ()]):
        yield _finding(document, place, INVALID, problem)
    # An API server takes any annotation, and `plan` says what becomes of pods that are there already.
    for found in _floor_problems(document):
        yield _finding(document, found.field, found.reason, found.message)


def _own_problems(document: Document, judged: Sequence[FieldProblem] | None) -> Iterator[tuple[str, str]]:
    """Yield what is found without a server; with its rules, what they lack, or did not come to."""
    read = True
    try:
        read_object(document)
    except InvalidObject as error:
        read = False
        yield error.field, error.problem
    yield from bad_amounts(document.plain)
    if judged is None or not read:
        yield from builtin_problems(document)


def untold(found: Iterable[tuple[str, str]], told: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the problems of fields of which nothing is `told` yet, nor of the map that a field is in."""
    places = {_steps(place) for place in told}
    for place, problem in found:
        steps = _steps(place)
        if steps not in places and steps[:-1] not in places:
            yield place, problem


def _steps(place: str) -> tuple[str, ...]:
    """Return the names in a path, so that ``limits[cpu]`` and ``limits.cpu`` are the same place."""
    steps = tuple(_STEP.findall(place))
    return _CLAIMED if steps == _CLAIMED_SHORT else steps


_STEP = re.compile(r"(?<=\[)[^\]]*(?=\])|[^.\[\]]+")
_CLAIMED, _CLAIMED_SHORT = ("spec", "resources", "requests", "storage"), ("spec", "resources", "storage")
"""An API server calls the size of a PersistentVolumeClaim ``spec.resources[storage]``."""


# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_RULE = (
    "must be at most 63 lower case letters, digits and -, beginning and ending with a letter or digit"
)
_NAMED_BY_LABELS = frozenset({"Namespace", "Service"})

_COUNTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Deployment": ("replicas", "minReadySeconds", "revisionHistoryLimit"),
        "ReplicaSet": ("replicas", "minReadySeconds"),
        "ReplicationController": ("replicas", "minReadySeconds"),
        "StatefulSet": ("replicas", "minReadySeconds", "revisionHistoryLimit"),
        "DaemonSet": ("minReadySeconds", "revisionHistoryLimit"),
        "PodDisruptionBudget": ("minAvailable", "maxUnavailable"),
        "Job": ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds"),
    }
)


def builtin_problems(document: Document) -> Iterator[tuple[str, str]]:
    """Yield the fields of a Kubernetes object that an API server would refuse, and why."""
    (namespace, name), kind = document.names, document.identity[1]
    if isinstance(name, str) and name:
        if kind in _NAMED_BY_LABELS and not _LABEL.fullmatch(name):
            yield "metadata.name", f"{excerpt(name)} {_LABEL_RULE}"
        elif not is_subdomain(name):
            yield "metadata.name", f"{excerpt(name)} {SUBDOMAIN_RULE}"
    if isinstance(namespace, str) and namespace and not _LABEL.fullmatch(namespace):
        yield "metadata.namespace", f"{excerpt(namespace)} {_LABEL_RULE}"
    given = document.plain.get("spec")
    spec = given if isinstance(given, dict) else {}
    for name in _COUNTS.get(kind, ()):
        count = spec.get(name)
        if isinstance(count, int) and count < 0:
            yield f"spec.{name}", f"{excerpt(count)} is negative, must be 0 or more"
    yield from label_problems(document)
    yield from _container_problems(document)


def _container_problems(document: Document) -> Iterator[tuple[str, str]]:
    """Yield the containers of a Kubernetes object that an API server would refuse."""
    steps = (*_TEMPLATES.get(document.identity[1], ("spec", "template")), "spec")
    spec, seen = _below(document.plain, *steps), set[str]()
    for part in ("initContainers", "containers"):
        listed = spec.get(part)
        for number, each in enumerate(listed if isinstance(listed, list) else ()):
            if not isinstance(each, dict):
                continue
            path, name = f"{'.'.join(steps)}.{part}[{number}]", each.get("name")
            if isinstance(name, str) and not _LABEL.fullmatch(name):
                yield f"{path}.name", f"{excerpt(name)} {_LABEL_RULE}"
            elif isinstance(name, str) and name in seen:
                yield f"{path}.name", f"{excerpt(name)} is the name of another container, too"
            seen.add(str(name))
            yield from requests_beyond_limits(_below(each, "resources"), f"{path}.resources")


_TEMPLATES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"Pod": (), "PodTemplate": ("template",), "CronJob": ("spec", "jobTemplate", "spec", "template")}
)
"""Where a pod is in objects that have one; in all others in ``spec.template``."""


_SELECTING = frozenset({"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"})
"""Kinds whose selector has to select their own pods."""


def label_problems(document: Document) -> Iterator[tuple[str, str]]:
    """Yield the labels, annotations and selectors of a Kubernetes object that an API server would refuse."""
    plain, kind = document.plain, document.identity[1]
    yield from _labels(_below(plain, "metadata"), "metadata")
    yield from _pairs(_below(plain, "spec", "selector", "matchLabels"), "spec.selector.matchLabels")
    steps = _TEMPLATES.get(kind, ("spec", "template"))
    path = "".join(f"{each}." for each in steps)
    if steps:
        yield from _labels(_below(plain, *steps, "metadata"), f"{path}metadata")
    if kind in _SELECTING:
        labels = _below(plain, *steps, "metadata", "labels")
        for key, value in _below(plain, "spec", "selector", "matchLabels").items():
            if labels.get(key) != value:
                place = field.key("spec.selector.matchLabels", str(key))
                yield place, "the labels of the template have no such label with this value"
    yield from _pairs(_below(plain, *steps, "spec", "nodeSelector"), f"{path}spec.nodeSelector")


def _floor_problems(document: Document) -> Iterator[FieldProblem]:
    """Yield what is wrong with the on-demand floor of a workload."""
    steps = _TEMPLATES.get(document.identity[1], ("spec", "template"))
    metadata = _below(document.plain, *steps, "metadata")
    texts = {key: str(value) for key, value in _below(metadata, "annotations").items()}
    yield from check_annotations(texts, OF_PODS, ".".join((*steps, "metadata.annotations")))


def _labels(metadata: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    yield from _pairs(_below(metadata, "labels"), f"{path}.labels")
    for key in _below(metadata, "annotations"):
        # The keys of annotations may have capitals in their domain.
        if not is_qualified_name(str(key).lower()):
            yield f"{path}.annotations", f"{excerpt(key)} {KEY_RULE}"


def _pairs(pairs: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    for key, value in pairs.items():
        if not is_qualified_name(str(key)):
            yield path, f"{excerpt(key)} {KEY_RULE}"
        if isinstance(value, str) and not is_label_value(value):
            yield field.key(path, str(key)), f"{excerpt(value)} {VALUE_RULE}"


def _below(plain: Mapping[str, Any], *steps: str) -> Mapping[str, Any]:
    """Return what is below some fields; nothing where one is absent or is no object."""
    found: Any = plain
    for step in steps:
        found = found.get(step) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _finding(document: Document, field: str, reason: str, message: str) -> Finding:
    return Finding(
        source=document.source, subject=document.subject, field=field, reason=reason, message=message
    )
