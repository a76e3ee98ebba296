"""Metrics of NodePools: limits, usage, price, and allowed disruptions."""

from typing import Final

from karpenter.telemetry.metrics.instruments import counter, gauge

LIMIT: Final = gauge(
    "karpenter_nodepools_limit", "Limit of a NodePool for a resource.", "resource_type", "nodepool"
)
USAGE: Final = gauge(
    "karpenter_nodepools_usage", "Resources of the nodes of a NodePool.", "resource_type", "nodepool"
)
COST: Final = gauge(
    "karpenter_nodepools_cost_total",
    "Cost of the nodes of a NodePool per hour, at the prices of their offerings.",
    "nodepool",
)
COST_TRACKER_ERRORS: Final = counter(
    "karpenter_nodepools_cost_tracker_errors_total",
    "Nodes of a NodePool whose price is not known.",
    "nodepool",
)
ALLOWED_DISRUPTIONS: Final = gauge(
    "karpenter_nodepools_allowed_disruptions",
    "Disruptions that the active budgets of a NodePool allow now.",
    "nodepool",
    "reason",
)
NODES_CONSUMING_BUDGETS: Final = gauge(
    "karpenter_nodepools_nodes_consuming_budgets",
    "Nodes of a NodePool that count against its budgets: deleting or not ready.",
    "nodepool",
    "reason",
)

METRICS: Final = (LIMIT, USAGE, COST, COST_TRACKER_ERRORS, ALLOWED_DISRUPTIONS, NODES_CONSUMING_BUDGETS)
