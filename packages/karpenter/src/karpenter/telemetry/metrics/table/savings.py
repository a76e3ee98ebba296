"""
Metrics of money: what machines cost, what commands save and move, and how far the bill is from its bound.

Karpenter has none of them; kubernetes-sigs/karpenter issue 2588 asks for figures by which users can judge
decisions. Money is in the currency of the catalogue, dollars outside China.
"""

from typing import Final

from karpenter.telemetry.metrics.instruments import LIFETIMES, counter, gauge, histogram

_COMMAND: Final = ("decision", "reason", "consolidation_type")
_SAVINGS: Final = (
    ("delete", "empty", "empty"),
    ("delete", "underutilized", "single"),
    ("delete", "underutilized", "multi"),
    ("replace", "underutilized", "single"),
    ("replace", "underutilized", "multi"),
)
"""Shown from the start, so that the first command is an increase."""

NODE_COST: Final = gauge(
    "karpenter_nodes_cost_per_hour",
    "Cost of the machines of NodePools per hour, added up by where and how they were bought.",
    "nodepool",
    "capacity_type",
    "zone",
    "instance_type",
)
IDLE_SECONDS: Final = counter(
    "karpenter_nodes_without_pods_seconds_total",
    "Seconds that machines were paid for without pods, DaemonSets aside; by state: starting, empty or"
    " terminating. Measured from scrape to scrape.",
    "nodepool",
    "state",
)
IDLE_COST: Final = counter(
    "karpenter_nodes_without_pods_cost_total",
    "What machines cost while they were paid for without pods, DaemonSets aside; by state.",
    "nodepool",
    "state",
)
PLANNED: Final = counter(
    "karpenter_consolidation_savings_planned_total",
    "Dollars per hour that consolidation commands were to save when they began.",
    *_COMMAND,
    seeds=_SAVINGS,
)
REALIZED: Final = counter(
    "karpenter_consolidation_savings_realized_total",
    "Dollars per hour that finished consolidation commands save, at the prices of the machines that went and"
    " came.",
    *_COMMAND,
    seeds=_SAVINGS,
)
EVICTIONS: Final = counter(
    "karpenter_voluntary_disruption_evictions_total",
    "Pods on the nodes that finished commands deleted, which have to run elsewhere.",
    *_COMMAND,
    seeds=_SAVINGS,
)
UNDONE: Final = counter(
    "karpenter_voluntary_disruption_commands_undone_total",
    "Commands that began and were undone, by cause: replacement_lost, replacement_late, successor_late,"
    " removal_late or nodes_kept.",
    *_COMMAND,
    "cause",
)
SAVINGS_LIFETIME: Final = histogram(
    "karpenter_consolidation_savings_lifetime_seconds",
    "Seconds from a saving in a NodePool until the NodePool launched machines for pending pods again.",
    "nodepool",
    buckets=LIFETIMES,
)
MISSED: Final = counter(
    "karpenter_consolidation_outcomes_missed_total",
    "Commands after which most pods did not land where the simulation had put them.",
    "nodepool",
)
KEPT_NODES: Final = gauge(
    "karpenter_voluntary_disruption_kept_nodes",
    "Nodes that the last decision kept, by the code of what keeps them.",
    "nodepool",
    "code",
)
KEPT_COST: Final = gauge(
    "karpenter_voluntary_disruption_kept_cost_per_hour",
    "Cost per hour of the nodes that the last decision kept, by the code of what keeps them.",
    "nodepool",
    "code",
)
CONSOLIDATABLE_COST: Final = gauge(
    "karpenter_consolidation_cost_per_hour",
    "Cost per hour of the nodes that consolidation may touch.",
)
COST_BOUND: Final = gauge(
    "karpenter_consolidation_cost_bound_per_hour",
    "Proven lower bound of what nodes for the same pods cost per hour; it may be out of reach.",
)

METRICS: Final = (
    NODE_COST,
    IDLE_SECONDS,
    IDLE_COST,
    PLANNED,
    REALIZED,
    EVICTIONS,
    UNDONE,
    SAVINGS_LIFETIME,
    MISSED,
    KEPT_NODES,
    KEPT_COST,
    CONSOLIDATABLE_COST,
    COST_BOUND,
)

SHADOW_HOURLY: Final = gauge(
    "karpenter_shadow_hourly_cost",
    "Dollars an hour of the machines of NodePools, by side: real, or shadow.",
    "side",
)
SHADOW_MACHINES: Final = gauge("karpenter_shadow_machines", "Machines of NodePools, by side.", "side")
SHADOW_COST: Final = gauge("karpenter_shadow_cost", "Dollars since the shadow has started, by side.", "side")
SHADOW_EVICTED: Final = gauge(
    "karpenter_shadow_evicted_pods", "Pods evicted since the shadow has started, by side.", "side"
)
SHADOW_PLACED: Final = gauge(
    "karpenter_shadow_placed_pods",
    "Pods that came since the shadow has started and got a node, by side.",
    "side",
)
SHADOW_WAITED: Final = gauge(
    "karpenter_shadow_waited_seconds", "Seconds that those pods waited for their nodes, by side.", "side"
)

SHADOW: Final = (SHADOW_HOURLY, SHADOW_MACHINES, SHADOW_COST, SHADOW_EVICTED, SHADOW_PLACED, SHADOW_WAITED)
"""What Karpenter does, and what a shadow beside it would have done instead."""
