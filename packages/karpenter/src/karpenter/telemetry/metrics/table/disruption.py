"""Metrics of disruption: evaluations, decisions, failures and scores."""

from typing import Final

from karpenter.telemetry.metrics.instruments import DURATIONS, counter, gauge, histogram

EVALUATION_DURATION: Final = histogram(
    "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
    "Seconds that the evaluation of a disruption method takes.",
    "reason",
    "consolidation_type",
    buckets=DURATIONS,
)
DECISIONS: Final = counter(
    "karpenter_voluntary_disruption_decisions_total",
    "Disruption decisions, by decision and reason.",
    "decision",
    "reason",
    "consolidation_type",
)
DECISIONS_BY_NODEPOOL: Final = counter(
    "karpenter_voluntary_disruption_decisions_by_nodepool_total",
    "Disruption decisions, counted for each NodePool with candidates in them.",
    "nodepool",
    "decision",
    "reason",
    "consolidation_type",
)
ELIGIBLE_NODES: Final = gauge(
    "karpenter_voluntary_disruption_eligible_nodes",
    "Nodes that are eligible for disruption for a reason, budgets aside.",
    "reason",
)
CONSOLIDATION_TIMEOUTS: Final = counter(
    "karpenter_voluntary_disruption_consolidation_timeouts_total",
    "Consolidation evaluations that timed out.",
    "consolidation_type",
    seeds=(("multi",), ("single",)),
)
FAILED_VALIDATIONS: Final = counter(
    "karpenter_voluntary_disruption_failed_validations_total",
    "Candidates whose command failed validation because the cluster had changed.",
    "consolidation_type",
)
QUEUE_FAILURES: Final = counter(
    "karpenter_voluntary_disruption_queue_failures_total",
    "Commands that were started and failed.",
    "decision",
    "reason",
    "consolidation_type",
)
CONSOLIDATION_SCORE: Final = histogram(
    "karpenter_consolidation_score",
    "Savings of a consolidation divided by its disruption cost.",
    "decision",
    "nodepool",
    "policy",
    buckets=(0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0),
)
CONSOLIDATION_MOVES: Final = counter(
    "karpenter_consolidation_moves_total",
    "Consolidations that were scored, by decision.",
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
