"""Pods, pools, machines and nodes in few words, for tests that want to be read."""

from karpenter_local.testing.builders.clusters import Standing, node, problem
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
from karpenter_local.testing.builders.pods import (
    NO_WISHES,
    Wishes,
    company,
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
    "NO_WISHES",
    "RESERVATION",
    "RULES",
    "ZONES",
    "Standing",
    "Wishes",
    "company",
    "instance_type",
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
