"""
Reads what ``karpenter plan`` is asked about: objects of a cluster, as an API server would hold them.

Every problem is collected before any is reported, one line each with file, object and field. What users
write themselves (NodePools, overlays, buffers) is validated in full. Manifests of Kubernetes' own kinds are
held against the rules of an API server (:mod:`.server`), or against a part of them where these are not
installed. Amounts that no API server would store are refused in any kind; kinds that no decision reads are
named and left out.
"""

from __future__ import annotations

import re
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.cluster import Event, PriorityClass
from karpenter.api.labels import NODEPOOL_HASH
from karpenter.api.manifests import Document, NotAnObject, documents_or_refusals, read_object
from karpenter.api.meta import Condition, InvalidObject, Resource, explain, to_plain
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.api.validation.amounts import COUNTING, bad_amounts, bad_quantities
from karpenter.api.validation.documents import (
    Finding,
    builtin_problems,
    check_document,
    refusal,
    unknown_kind,
    untold,
)
from karpenter.api.validation.words import message_in_words
from karpenter.cli.files import SourceText, read_texts
from karpenter.cli.planning.autoscaling import (
    Bound,
    PodAutoscaler,
    read_autoscaler,
    scaled,
    without_target,
)
from karpenter.cli.planning.objects import deciding_findings, findings_of_pools
from karpenter.cli.planning.server import ManifestJudge
from karpenter.cli.server_rules import server_rules
from karpenter.cloud.catalogs.ec2.volumes import node_class_of
from karpenter.core.model.nodepool_hash import with_pool_hash
from karpenter.core.state.apps import expand_workloads, with_priority
from karpenter.core.state.cluster import ClusterView, NodeClass, view_of
from karpenter.doctor.objects import ObjectFinding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from karpenter.session.live import LiveCluster


_AMOUNTS: Final = re.compile(rb'"(?:%s)"\s*:\s*(\{[^{}]*(?:\}|\{))' % "|".join(sorted(COUNTING)).encode())
"""Quantities by resource name in JSON, or the beginning of something else that goes by the same name."""


class AmountReader:
    """Finds amounts that cannot be; what it has seen to be right it does not parse again."""

    def __init__(self) -> None:
        self._right: set[object] = set()

    def problems(self, document: Document) -> Iterator[tuple[str, str]]:
        """Yield the field of every amount that cannot be, and what is wrong with it."""
        if not self._is_right(document):
            yield from bad_amounts(document.plain)

    def _is_right(self, document: Document) -> bool:
        if document.raw is None:
            return all(map(self._are_right, _amounts(document.plain)))
        content = bytes(document.raw)
        if b"\\" in content and b"\\u" in content:  # a name may be spelled in another way
            return all(map(self._are_right, _amounts(document.plain)))
        return all(text in self._right or self._read(text) for text in _AMOUNTS.findall(content))

    def _read(self, text: bytes) -> bool:
        try:
            amounts = msgspec.json.decode(text)
        except msgspec.DecodeError:
            return False  # nested: an object of another kind uses the word for something else
        right = not any(bad_quantities(amounts, ""))
        if right:
            self._right.add(text)
        return right

    def _are_right(self, amounts: dict[str, Any]) -> bool:
        written = tuple(each for each in amounts.values() if isinstance(each, str | int | float))
        if written in self._right:
            return True
        right = not any(bad_quantities(amounts, ""))
        if right:
            self._right.add(written)
        return right


def _amounts(plain: object) -> Iterator[dict[str, Any]]:
    """Yield the quantities by resource name, wherever they are."""
    todo = [plain]
    while todo:
        found = todo.pop()
        if type(found) is dict:
            for key, value in found.items():
                kind = type(value)
                if kind is dict and key in COUNTING:
                    yield value
                elif kind is dict or kind is list:
                    todo.append(value)
        elif type(found) is list:
            todo += found


_NODE_CLASS: Final = "NodeClass"
_WRITTEN_BY_USERS: Final = frozenset({"NodePool", "NodeOverlay", "CapacityBuffer"})


_PATIENCE: Final = 2.0
"""Seconds after which people want to know how far a command is."""

_STRIDE: Final = 500
"""After how many objects the clock is looked at."""


class PlanInput(msgspec.Struct, frozen=True, kw_only=True):
    """What was read, what is wrong with it, and what was left out."""

    view: ClusterView
    problems: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    findings: tuple[ObjectFinding, ...] = ()
    """What is wrong with NodePools and node classes and changes which machines are launched."""


class _Progress:
    """Says how far reading is, every other second."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._next = monotonic() + _PATIENCE
        self.count = 0

    def step(self, source: str) -> None:
        self.count += 1
        if self.count % _STRIDE == 0 and monotonic() >= self._next:
            self._tell(f"reading {source}: {self.count:,} objects so far")
            self._next = monotonic() + _PATIENCE


def read_input(
    paths: Sequence[str],
    live: LiveCluster | None = None,
    *,
    hpa: Bound = "min",
    texts: Iterable[SourceText] = (),
    over: Iterable[SourceText] = (),
    tell: Callable[[str], None] | None = None,
) -> PlanInput:
    """
    Return the cluster that files, folders or standard input (``-``) describe.

    With a `live` cluster they are what would be applied to it: what it has already is replaced, and
    a workload that runs there keeps the pods that it has. `hpa` says which bound of autoscalers the other
    workloads have. `texts` are files that were read before; objects of `over` replace theirs.
    Reading that takes long tells how far it is.
    """
    reader, progress = _ManifestReader(), _Progress(tell or (lambda _: None))
    for layer in ((*texts, *read_texts(paths)), over):
        reader.begin_layer()
        for text in layer:
            for found in documents_or_refusals(text.content, text.source):
                progress.step(text.source)
                if text.in_folder and isinstance(found, NotAnObject):
                    reader.skipped.append(f"{found.subject}: is no Kubernetes object and is left out")
                elif isinstance(found, InvalidObject):
                    reader.problems.append(str(found))
                else:
                    reader.read(found)
    there = live.objects if live is not None else ()
    known = {(each.kind, each.key) for each in there}
    fresh = [each for each in reader.objects if (each.kind, each.key) not in known]
    changed = [each for each in reader.objects if (each.kind, each.key) in known]
    classes = (*(live.classes if live is not None else ()), *reader.classes)
    view = view_of([*there, *changed, *_as_stored(scaled(fresh, reader.autoscalers, hpa))], classes)
    pools = {name: _hashed(pool) for name, pool in view.pools.items()}
    view = msgspec.structs.replace(view, pools=pools)
    skipped = (
        *(live.skipped if live is not None else ()),
        *reader.skipped,
        *without_target([*there, *reader.objects], reader.autoscalers),
    )
    events = tuple(each for each in (*there, *reader.objects) if isinstance(each, Event))
    return PlanInput(
        view=view,
        problems=tuple(reader.problems),
        skipped=skipped,
        events=events,
        findings=(*reader.findings, *findings_of_pools(_only_there(view, reader.objects))),
    )


def _only_there(view: ClusterView, read: Iterable[Resource]) -> list[NodePool]:
    """Return the NodePools that no file has."""
    names = {each.name for each in read if isinstance(each, NodePool)}
    return [pool for name, pool in view.pools.items() if name not in names]


def _hashed(pool: NodePool) -> NodePool:
    """Return a pool with a hash: one that is not applied yet has none, and drift is found by comparing it."""
    return pool if NODEPOOL_HASH in pool.metadata.annotations else with_pool_hash(pool)


class _ManifestReader:
    def __init__(self) -> None:
        self._held: dict[tuple[str, str], Resource] = {}
        self.classes: list[NodeClass] = []
        self.autoscalers: list[PodAutoscaler] = []
        self.problems: list[str] = []
        self.skipped: list[str] = []
        self.findings: list[ObjectFinding] = []
        self._seen: dict[tuple[str, str], str] = {}
        self._amounts = AmountReader()
        self._judge = ManifestJudge(server_rules)

    @property
    def objects(self) -> list[Resource]:
        return list(self._held.values())

    def begin_layer(self) -> None:
        """Let what is read from now on replace what was read before; a layer has each object once."""
        self._seen.clear()

    def read(self, document: Document) -> None:
        version, kind = document.identity
        refused = refusal(version, kind) or unknown_kind(version, kind)
        if refused is not None:
            self.problems.append(f"{document.source}: {document.subject}: {refused}")
            return
        try:
            found, node_class = read_object(document), _node_class(document)
            autoscaler = read_autoscaler(document) if found is None else None
        except InvalidObject as error:
            self.problems.append(f"{document.source}: {error}")
            return
        # An API server with our CustomResourceDefinitions would refuse the same.
        if kind in _WRITTEN_BY_USERS:
            self.problems += [str(each) for each in check_document(document) if isinstance(each, Finding)]
        self.findings += deciding_findings(document)
        if node_class is not None:
            self.classes.append(node_class)
        if found is not None:
            if kind not in _WRITTEN_BY_USERS:
                self._weigh(document)
            self._add(found, document)
        elif autoscaler is not None:
            self.autoscalers.append(autoscaler)
        elif node_class is None:
            self.skipped.append(f"{document.source}: {version} {kind} decides nothing here and is left out")

    def _weigh(self, document: Document) -> None:
        subject, found = f"{document.source}: {document.subject}", [*self._amounts.problems(document)]
        judged = self._judge.judge(document)
        if judged is None:
            found += builtin_problems(document)
        else:
            self.skipped += [f"{subject}: {each.field}: {each.message}" for each in judged.unknown]
            others = [(each.field, message_in_words(each.message)) for each in judged.problems]
            found += untold(others, [field for field, _ in found])
        self.problems += [f"{subject}: {field}: {problem}" for field, problem in found]

    def _add(self, found: Resource, document: Document) -> None:
        identity = (type(found).kind, found.key)
        if identity in self._seen:
            first = self._seen[identity]
            self.problems.append(f"{document.source}: {document.subject}: is there already, in {first}")
        self._seen[identity] = document.source
        self._held[identity] = found


def _as_stored(objects: list[Resource]) -> list[Resource]:
    priorities = {each.name: each for each in objects if isinstance(each, PriorityClass)}
    return [with_priority(o, priorities) if isinstance(o, Pod) else o for o in expand_workloads(objects)]


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
        place, problem = explain(str(error))
        field = f"status.conditions{place}"
        raise InvalidObject(subject=document.subject, field=field, problem=problem) from None
    told = status if isinstance(status, dict) else {}
    plain = {**document.plain, "status": {**told, "conditions": [to_plain(each) for each in conditions]}}
    return node_class_of(plain, version.partition("/")[0], kind)
