"""Metrics of disruption: what was looked at, decided, given up, and what it was worth."""

from typing import Final

from karpenter.telemetry.metrics.store import DURATIONS, counter, gauge, histogram

EVALUATION_DURATION: Final = histogram(
    "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
    "Seconds that one way of looking for nodes to disrupt takes.",
    "reason",
    "consolidation_type",
    buckets=DURATIONS,
)
DECISIONS: Final = counter(
    "karpenter_voluntary_disruption_decisions_total",
    "Decisions to disrupt, by what was decided and why.",
    "decision",
    "reason",
    "consolidation_type",
)
DECISIONS_BY_NODEPOOL: Final = counter(
    "karpenter_voluntary_disruption_decisions_by_nodepool_total",
    "Decisions to disrupt, once for every pool that has nodes in them.",
    "nodepool",
    "decision",
    "reason",
    "consolidation_type",
)
ELIGIBLE_NODES: Final = gauge(
    "karpenter_voluntary_disruption_eligible_nodes",
    "Nodes that could be disrupted for a reason, budgets aside.",
    "reason",
)
CONSOLIDATION_TIMEOUTS: Final = counter(
    "karpenter_voluntary_disruption_consolidation_timeouts_total",
    "Searches for a consolidation that ran out of time.",
    "consolidation_type",
    seeds=(("multi",), ("single",)),
)
FAILED_VALIDATIONS: Final = counter(
    "karpenter_voluntary_disruption_failed_validations_total",
    "Decisions that were dropped because the cluster had changed when they were looked at again.",
    "consolidation_type",
)
QUEUE_FAILURES: Final = counter(
    "karpenter_voluntary_disruption_queue_failures_total",
    "Decisions that were begun and could not be finished.",
    "decision",
    "reason",
    "consolidation_type",
)
CONSOLIDATION_SCORE: Final = histogram(
    "karpenter_consolidation_score",
    "Savings of a consolidation in relation to the disturbance that it causes.",
    "decision",
    "nodepool",
    "policy",
    buckets=(0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0),
)
CONSOLIDATION_MOVES: Final = counter(
    "karpenter_consolidation_moves_total",
    "Consolidations that were weighed, by whether they were approved.",
    "decision",
    "nodepool",
    "policy",
)

METRICS: Final = (
    EVALUATION_DURATION,
    DECISIONS,
    DECISIONS_BY_NODEPOOL,
    ELIGIBLE_NODES,
    CONSOLIDATION_TIMEOUTS,
    FAILED_VALIDATIONS,
    QUEUE_FAILURES,
    CONSOLIDATION_SCORE,
    CONSOLIDATION_MOVES,
)
