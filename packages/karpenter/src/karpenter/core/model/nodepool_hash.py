"""
The hash of a NodePool's template: a node whose hash differs from that of its NodePool has drifted.

Everything in the template counts except its requirements, which are compared one by one elsewhere. The
number equals the one that Karpenter 1.14 writes under the same version, for every template, so that a cluster
that migrates to us keeps its nodes (https://karpenter.sh/docs/concepts/disruption/#drift). The declarations
below are Go's: the names, the order, the types and the tags of the fields are all part of the hash.

:data:`POOL_HASH_VERSION` changes when Karpenter's does, or every node of every NodePool drifts at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.labels import NODEPOOL_HASH, NODEPOOL_HASH_VERSION
from karpenter.api.meta import to_plain
from karpenter.base.hashstructure import (
    ANY_SLICE,
    DURATION,
    NILLABLE_DURATION,
    STRING,
    STRING_MAP,
    TIME,
    GoField,
    GoPointer,
    GoSlice,
    GoStruct,
    UnhashableError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.api.nodepool import NodePool

# https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/pkg/apis/v1/nodepool.go
POOL_HASH_VERSION: Final = "v3"

_TAINT: Final = GoStruct(
    "Taint",
    (
        GoField("Key", "key", STRING),
        GoField("Value", "value", STRING),
        GoField("Effect", "effect", STRING),
        GoField("TimeAdded", "timeAdded", GoPointer(TIME)),
    ),
)
_REFERENCE: Final = GoStruct(
    "NodeClassReference",
    (
        GoField("Kind", "kind", STRING),
        GoField("Name", "name", STRING),
        GoField("Group", "group", STRING),
    ),
)
_TEMPLATE: Final = GoStruct(
    "NodeClaimTemplate",
    (
        GoField(
            "ObjectMeta",
            "metadata",
            GoStruct(
                "ObjectMeta",
                (GoField("Labels", "labels", STRING_MAP), GoField("Annotations", "annotations", STRING_MAP)),
            ),
        ),
        GoField(
            "Spec",
            "spec",
            GoStruct(
                "NodeClaimTemplateSpec",
                (
                    GoField("Taints", "taints", GoSlice(_TAINT)),
                    GoField("StartupTaints", "startupTaints", GoSlice(_TAINT)),
                    GoField("Requirements", "requirements", ANY_SLICE, ignored=True),
                    GoField("NodeClassRef", "nodeClassRef", GoPointer(_REFERENCE)),
                    GoField("TerminationGracePeriod", "terminationGracePeriod", GoPointer(DURATION)),
                    GoField("ExpireAfter", "expireAfter", NILLABLE_DURATION),
                ),
            ),
        ),
    ),
)


def pool_hash(pool: NodePool) -> str:
    """
    Return the hash of the template of `pool` as it stands in annotations: a decimal number.

    Raises:
        UnhashableError: if something in the template, such as a duration, is not what it should be.
    """
    template: dict[str, Any] = to_plain(pool.spec.template)
    template["spec"].setdefault("expireAfter", pool.spec.template.spec.expire_after)
    return str(_TEMPLATE.hash(template, "spec.template"))


def pool_hash_annotations(pool: NodePool) -> dict[str, str]:
    """Return the annotations with which `pool` carries its hash; none where it cannot be hashed."""
    try:
        return {NODEPOOL_HASH: pool_hash(pool), NODEPOOL_HASH_VERSION: POOL_HASH_VERSION}
    except UnhashableError:  # the validation of the pool says so
        return {}


def with_pool_hash(pool: NodePool) -> NodePool:
    """Return a pool with the hash of its template, as the operator writes it before drift is looked for."""
    annotations = {**pool.metadata.annotations, **pool_hash_annotations(pool)}
    metadata = msgspec.structs.replace(pool.metadata, annotations=annotations)
    return msgspec.structs.replace(pool, metadata=metadata)


def plain_pool_hash(spec: Mapping[str, Any]) -> str:
    """
    Return the hash of a NodePool's spec exactly as it is written: no default is filled in.

    Raises:
        UnhashableError: if something in the template is not what it should be.
    """
    return str(_TEMPLATE.hash(spec.get("template"), "spec.template"))
