"""
The hash of a NodePool's template: a node whose hash differs from that of its NodePool has drifted.

Everything in the template counts except its requirements, which are compared one by one elsewhere. Lists
count as sets, and empty or absent fields do not count, so that adding an empty field causes no drift.
Durations count by their length, not by their spelling.

The number equals the one that Karpenter writes under the same version, so that a cluster that migrates to
us keeps its nodes (https://karpenter.sh/docs/concepts/disruption/). Two things differ on purpose: an empty
map or list that is spelled out counts as absent here, and ``timeAdded`` of a taint, which has no meaning in
a template, is left out. The field names below are part of the format; never rename them.

:data:`POOL_HASH_VERSION` must be raised with any change of what is hashed, or every node of every NodePool
drifts at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.base.duration import NEVER, parse_nanoseconds
from karpenter.base.hashing import hash_integer, hash_map, hash_set, hash_struct, hash_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.api.node import Taint
    from karpenter.api.nodeclaim import NodeClaimTemplateSpec, NodeClassReference
    from karpenter.api.nodepool import NodeClaimTemplate, NodePool, NodeTemplateMeta

POOL_HASH_VERSION: Final = "v3"


def pool_hash(pool: NodePool) -> str:
    """
    Return the hash of the template of `pool` as it stands in annotations: a decimal number.

    Raises:
        DurationError: if a duration of the template is none.
    """
    return str(_hash_template(pool.spec.template))


def _hash_template(template: NodeClaimTemplate) -> int:
    fields = [("Spec", hash_struct("NodeClaimTemplateSpec", _spec_fields(template.spec)))]
    metadata = list(_metadata_fields(template.metadata))
    if metadata:
        fields.insert(0, ("ObjectMeta", hash_struct("ObjectMeta", metadata)))
    return hash_struct("NodeClaimTemplate", fields)


def _metadata_fields(metadata: NodeTemplateMeta) -> Iterator[tuple[str, int]]:
    if metadata.labels:
        yield "Labels", hash_map(metadata.labels)
    if metadata.annotations:
        yield "Annotations", hash_map(metadata.annotations)


def _spec_fields(spec: NodeClaimTemplateSpec) -> Iterator[tuple[str, int]]:
    if spec.taints:
        yield "Taints", hash_set(map(_hash_taint, spec.taints))
    if spec.startup_taints:
        yield "StartupTaints", hash_set(map(_hash_taint, spec.startup_taints))
    yield "NodeClassRef", _hash_reference(spec.node_class_ref)
    if spec.termination_grace_period is not None:
        yield "TerminationGracePeriod", _hash_grace_period(spec.termination_grace_period)
    if spec.expire_after != NEVER:
        yield "ExpireAfter", _hash_expiry(spec.expire_after)


def _hash_taint(taint: Taint) -> int:
    return _hash_texts("Taint", Key=taint.key, Value=taint.value, Effect=taint.effect)


def _hash_reference(reference: NodeClassReference) -> int:
    return _hash_texts("NodeClassReference", Kind=reference.kind, Name=reference.name, Group=reference.group)


def _hash_texts(struct: str, **fields: str) -> int:
    """Return the hash of a struct of texts, of which empty ones do not count."""
    return hash_struct(struct, ((name, hash_text(text)) for name, text in fields.items() if text))


def _hash_grace_period(text: str) -> int:
    """Return the hash of a duration of which zero does not count, though its presence does."""
    length = parse_nanoseconds(text)
    return hash_struct("Duration", [("Duration", hash_integer(length))] if length else [])


def _hash_expiry(text: str) -> int:
    """Return the hash of a duration that may also be absent, so that zero counts."""
    return hash_struct("NillableDuration", [("Duration", hash_integer(parse_nanoseconds(text)))])
