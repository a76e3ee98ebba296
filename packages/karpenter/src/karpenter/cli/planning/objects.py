"""
What the doctor's rules about single objects say of the NodePools and node classes of a plan.

Only what changes which machines are launched; the rest is for ``karpenter doctor`` and ``validate``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.manifests import Document
from karpenter.api.meta import to_plain
from karpenter.doctor.objects import NODE_CLASS, NODE_POOL, object_findings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from karpenter.api.nodepool import NodePool
    from karpenter.doctor.objects import ObjectFinding

_KINDS = frozenset({NODE_POOL, NODE_CLASS})


def deciding_findings(document: Document) -> list[ObjectFinding]:
    """Return what is wrong with a NodePool or a node class and changes which machines are launched."""
    if document.identity[1] not in _KINDS:
        return []
    return [each for each in object_findings(document) if each.decides]


def findings_of_pools(pools: Iterable[NodePool]) -> list[ObjectFinding]:
    """Return the same of NodePools that were read from a cluster."""
    return [found for pool in pools for found in deciding_findings(Document("", to_plain(pool)))]


def by_object(findings: Iterable[ObjectFinding]) -> Mapping[str, tuple[str, ...]]:
    """Return findings as sentences by ``kind/name``."""
    told: dict[str, tuple[str, ...]] = {}
    for each in findings:
        kind, _, name = each.object.partition("/")
        key = f"{kind.lower()}/{name}"
        told[key] = (*told.get(key, ()), f"{each.object}: {each.field}: {each.message}; {each.fix}")
    return told
