"""Metrics of NodePools: limits, usage, price, and how much disruption their budgets leave."""

from typing import Final

from karpenter.telemetry.metrics.store import counter, gauge

LIMIT: Final = gauge(
    "karpenter_nodepools_limit", "The most of a resource that a pool may have.", "resource_type", "nodepool"
)
USAGE: Final = gauge(
    "karpenter_nodepools_usage", "What the nodes of a pool have of a resource.", "resource_type", "nodepool"
)
COST: Final = gauge(
    "karpenter_nodepools_cost_total",
    "What the machines of a pool cost per hour, at the prices of the catalogue.",
    "nodepool",
)
COST_TRACKER_ERRORS: Final = counter(
    "karpenter_nodepools_cost_tracker_errors_total",
    "Machines of a pool whose price could not be told.",
    "nodepool",
)
ALLOWED_DISRUPTIONS: Final = gauge(
    "karpenter_nodepools_allowed_disruptions",
    "How many nodes of a pool its open budgets let go at this moment.",
    "nodepool",
    "reason",
)
NODES_CONSUMING_BUDGETS: Final = gauge(
    "karpenter_nodepools_nodes_consuming_budgets",
    "How many nodes of a pool count against its budgets: those that leave and those that are not ready.",
    "nodepool",
    "reason",
)

METRICS: Final = (LIMIT, USAGE, COST, COST_TRACKER_ERRORS, ALLOWED_DISRUPTIONS, NODES_CONSUMING_BUDGETS)
