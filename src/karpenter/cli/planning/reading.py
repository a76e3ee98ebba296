"""
Reading what ``karpenter plan`` is asked about: files, folders, standard input.

Every problem is collected before any is reported, one line each with file, object and field;
kinds that we do not know are named on standard error and left out.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.errors import InvalidObject
from karpenter.api.manifests import documents, read_object
from karpenter.api.meta import Condition
from karpenter.api.pod import Pod
from karpenter.api.policy import PriorityClass
from karpenter.core.state.expand import expand, with_priority
from karpenter.core.state.view import ClusterView, NodeClass, condition, view_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from karpenter.api.manifests import Document
    from karpenter.api.meta import Resource

_ENDINGS: Final = frozenset({".yaml", ".yml", ".json"})
_NODE_CLASS: Final = "NodeClass"


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """What was read, what is wrong with it, and what was left out."""

    view: ClusterView
    problems: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


def read_input(paths: Sequence[str]) -> Input:
    """Return the cluster that files, folders or standard input (``-``) describe."""
    objects: list[Resource] = []
    classes: list[NodeClass] = []
    problems: list[str] = []
    skipped: list[str] = []
    seen: dict[tuple[str, str], str] = {}
    for source, text in _texts(paths, problems):
        for document in _documents(text, source, problems):
            try:
                found = read_object(document)
                node_class = _node_class(document)
            except InvalidObject as error:
                problems.append(f"{document.source}: {error}")
                continue
            if node_class is not None:
                classes.append(node_class)
            if found is not None:
                problems.extend(_duplicate(found, document, seen))
                objects.append(found)
            elif node_class is None:
                version, kind = document.identity
                skipped.append(f"{document.source}: {version} {kind} decides nothing here and is left out")
    try:
        stored = _as_stored(objects)
    except InvalidObject as error:  # a workload of more pods than anyone can plan for
        problems.append(str(error))
        stored = objects
    view = view_of(stored, classes)
    return Input(view=view, problems=tuple(problems), skipped=tuple(skipped))


def _as_stored(objects: list[Resource]) -> list[Resource]:
    priorities = {each.name: each for each in objects if isinstance(each, PriorityClass)}
    return [with_priority(o, priorities) if isinstance(o, Pod) else o for o in expand(objects)]


def _duplicate(found: Resource, document: Document, seen: dict[tuple[str, str], str]) -> Iterator[str]:
    identity = (type(found).kind, found.key)
    if identity in seen:
        yield f"{document.source}: {document.subject}: is there already, in {seen[identity]}"
    seen[identity] = document.source


def _documents(text: str, source: str, problems: list[str]) -> Iterator[Document]:
    try:
        yield from documents(text, source)
    except InvalidObject as error:
        problems.append(str(error))


def _texts(paths: Iterable[str], problems: list[str]) -> Iterator[tuple[str, str]]:
    for path in paths:
        if path == "-":
            yield "standard input", sys.stdin.read()
            continue
        files = _files(Path(path))
        if not files:
            problems.append(f"{path}: there is no such file, or no .yaml, .yml or .json file below it")
        for file in files:
            try:
                yield str(file), file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
                problems.append(f"{file}: cannot be read: {reason}")


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(p for p in path.rglob("*") if p.is_file() and p.suffix in _ENDINGS)
    return [path] if path.exists() else []


def _node_class(document: Document) -> NodeClass | None:
    """Return any provider's node class, as far as the core needs it."""
    version, kind = document.identity
    if not kind.endswith(_NODE_CLASS) or "/" not in version:
        return None
    plain = document.plain
    meta = plain.get("metadata")
    status = plain.get("status")
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
