"""Builders of pods, NodePools, instance types and nodes for tests."""

from karpenter_local.testing.builders.clusters import NodeWithPods, node, problem
from karpenter_local.testing.builders.machines import (
    CAPACITY_TYPES,
    CORES,
    RESERVATION,
    RULES,
    ZONES,
    instance_type,
    offering,
    offerings,
    pool,
)
from karpenter_local.testing.builders.manifests import manifest_pod
from karpenter_local.testing.builders.pods import (
    NO_PREFERENCES,
    Preferences,
    affinity_term,
    need,
    only,
    pod,
    replicas,
    selecting,
    spread,
    taint,
    tolerate,
)

__all__ = [
    "CAPACITY_TYPES",
    "CORES",
    "NO_PREFERENCES",
    "RESERVATION",
    "RULES",
    "ZONES",
    "NodeWithPods",
    "Preferences",
    "affinity_term",
    "instance_type",
    "manifest_pod",
    "need",
    "node",
    "offering",
    "offerings",
    "only",
    "pod",
    "pool",
    "problem",
    "replicas",
    "selecting",
    "spread",
    "taint",
    "tolerate",
]
