"""Metrics of a shadow: what Karpenter does, and what this operator would have done instead."""

from typing import Final

from karpenter.telemetry.metrics.instruments import gauge

HOURLY: Final = gauge(
    "karpenter_shadow_hourly_cost",
    "Dollars an hour of the machines of NodePools, by side: real, or shadow.",
    "side",
)
MACHINES: Final = gauge("karpenter_shadow_machines", "Machines of NodePools, by side.", "side")
COST: Final = gauge("karpenter_shadow_cost", "Dollars since the shadow has started, by side.", "side")
EVICTED: Final = gauge(
    "karpenter_shadow_evicted_pods", "Pods evicted since the shadow has started, by side.", "side"
)
PLACED: Final = gauge(
    "karpenter_shadow_placed_pods",
    "Pods that came since the shadow has started and got a node, by side.",
    "side",
)
WAITED: Final = gauge(
    "karpenter_shadow_waited_seconds", "Seconds that those pods waited for their nodes, by side.", "side"
)

METRICS: Final = (HOURLY, MACHINES, COST, EVICTED, PLACED, WAITED)
