"""
Reading what ``karpenter plan`` is asked about: objects of a cluster, as an API server would hold them.

Every problem is collected before any is reported, one line each with file, object and field.
What users write themselves (pools, overlays, buffers) is judged in full; kinds that decide
nothing are named and left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.errors import InvalidObject
from karpenter.api.manifests import documents_or_refusals, read_object
from karpenter.api.meta import Condition
from karpenter.api.pod import Pod
from karpenter.api.policy import PriorityClass
from karpenter.api.validation.documents import Finding, check_document
from karpenter.api.validation.legacy import refusal
from karpenter.cli.files import read_texts
from karpenter.cli.planning.amounts import bad_amounts
from karpenter.core.state.expand import expand, with_priority
from karpenter.core.state.view import ClusterView, NodeClass, condition, view_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.api.manifests import Document
    from karpenter.api.meta import Resource
    from karpenter.cli.planning.live import Live

_NODE_CLASS: Final = "NodeClass"
_WRITTEN_BY_USERS: Final = frozenset({"NodePool", "NodeOverlay", "CapacityBuffer"})


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """What was read, what is wrong with it, and what was left out."""

    view: ClusterView
    problems: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


def read_input(paths: Sequence[str], live: Live | None = None) -> Input:
    """
    Return the cluster that files, folders or standard input (``-``) describe.

    With a `live` cluster they are what would be applied to it: what it has already is replaced, and
    a workload that runs there keeps the pods that it has.
    """
    reader = _Reader()
    for text in read_texts(paths):
        for found in documents_or_refusals(text.content, text.source):
            if isinstance(found, InvalidObject):
                reader.problems.append(str(found))
            else:
                reader.read(found)
    there = live.objects if live is not None else ()
    known = {(each.kind, each.key) for each in there}
    fresh = [each for each in reader.objects if (each.kind, each.key) not in known]
    changed = [each for each in reader.objects if (each.kind, each.key) in known]
    classes = (*(live.classes if live is not None else ()), *reader.classes)
    view = view_of([*there, *changed, *_as_stored(fresh)], classes)
    skipped = (*(live.skipped if live is not None else ()), *reader.skipped)
    return Input(view=view, problems=tuple(reader.problems), skipped=skipped)


class _Reader:
    def __init__(self) -> None:
        self.objects: list[Resource] = []
        self.classes: list[NodeClass] = []
        self.problems: list[str] = []
        self.skipped: list[str] = []
        self._seen: dict[tuple[str, str], str] = {}

    def read(self, document: Document) -> None:
        """Take in one object."""
        version, kind = document.identity
        old = refusal(version, kind)
        if old is not None:
            self.problems.append(f"{document.source}: {document.subject}: {old}")
            return
        try:
            found, node_class = read_object(document), _node_class(document)
        except InvalidObject as error:
            self.problems.append(f"{document.source}: {error}")
            return
        if kind in _WRITTEN_BY_USERS:
            self.problems += [str(each) for each in check_document(document) if isinstance(each, Finding)]
        if node_class is not None:
            self.classes.append(node_class)
        if found is not None:
            if kind not in _WRITTEN_BY_USERS:
                self._weigh(document)
            self._add(found, document)
        elif node_class is None:
            self.skipped.append(f"{document.source}: {version} {kind} decides nothing here and is left out")

    def _weigh(self, document: Document) -> None:
        for field, problem in bad_amounts(document.plain):
            self.problems.append(f"{document.source}: {document.subject}: {field}: {problem}")

    def _add(self, found: Resource, document: Document) -> None:
        identity = (type(found).kind, found.key)
        if identity in self._seen:
            first = self._seen[identity]
            self.problems.append(f"{document.source}: {document.subject}: is there already, in {first}")
        self._seen[identity] = document.source
        self.objects.append(found)


def _as_stored(objects: list[Resource]) -> list[Resource]:
    priorities = {each.name: each for each in objects if isinstance(each, PriorityClass)}
    return [with_priority(o, priorities) if isinstance(o, Pod) else o for o in expand(objects)]


def _node_class(document: Document) -> NodeClass | None:
    """Return any provider's node class, as far as the core needs it."""
    version, kind = document.identity
    if not kind.endswith(_NODE_CLASS) or "/" not in version:
        return None
    meta, status = document.plain.get("metadata"), document.plain.get("status")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        raise InvalidObject(subject=document.subject, field="metadata.name", problem="is required")
    raw = status.get("conditions") if isinstance(status, dict) else None
    try:
        conditions = msgspec.convert(raw or [], list[Condition])
    except msgspec.ValidationError as error:
        problem = str(error)
        raise InvalidObject(subject=document.subject, field="status.conditions", problem=problem) from None
    ready = condition(conditions, "Ready")
    return NodeClass(
        group=version.partition("/")[0],
        kind=kind,
        name=meta["name"],
        ready=None if ready is None else ready.status == "True",
        reason=ready.message or ready.reason if ready is not None else "",
        deleting="deletionTimestamp" in meta,
    )
