"""
The four dashboards: capacity, performance, costs and decisions.

Capacity and performance show what Karpenter's own dashboards of these names show, without their mistakes:

- requests of pods include those of DaemonSets, so utilization adds nothing to them;
- names of NodePool metrics are plural, as the operator has them;
- a panel that promises a distribution groups by it, and one that cannot does not promise it;
- rates of controllers are those of the operator's job alone, for other operators have the same metrics;
- the age of a node comes from the operator, so that no node exporter is needed.

Costs and decisions are for what users ask most: what the cluster costs and could cost, and why nodes stay.
"""

from __future__ import annotations

from typing import Final

from karpenter.dashboards.grafana import Dashboard, DashboardVariable, Panel, PanelQuery, PanelRow

_RATE: Final = "$__rate_interval"
_POOL: Final = 'nodepool=~"$nodepool"'
_NODE: Final = (
    'nodepool=~"$nodepool",zone=~"$zone",arch=~"$arch",capacity_type=~"$capacity_type",'
    'instance_type=~"$instance_type"'
)
_JOB: Final = 'job=~"$job"'
_QUANTILES: Final = (("0", "Min"), ("0.5", "P50"), ("0.9", "P90"), ("0.99", "P99"), ("1", "Max"))

_NODEPOOL_VARIABLE: Final = DashboardVariable(
    name="nodepool", query="label_values(karpenter_nodes_allocatable, nodepool)"
)
_JOB_VARIABLE: Final = DashboardVariable(name="job", query="label_values(karpenter_build_info, job)")


def _one(expr: str, legend: str = "__auto", column: str = "") -> tuple[PanelQuery, ...]:
    return (PanelQuery(expr, legend, column),)


def _stat(title: str, about: str, expr: str, unit: str) -> Panel:
    return Panel(title=title, about=about, queries=_one(expr), type="stat", unit=unit, width=4, height=4)


def _both(metric: str) -> tuple[PanelQuery, ...]:
    return (
        PanelQuery(
            f"sum by (cluster, nodepool) (rate({metric}{{{_POOL}}}[{_RATE}]))", "{{nodepool}} per second"
        ),
        PanelQuery(f"sum by (cluster, nodepool) ({metric}{{{_POOL}}})", "{{nodepool}} total"),
    )


def _usage(resource: str) -> tuple[PanelQuery, ...]:
    chosen = f'{_POOL},resource_type="{resource}"'
    return (
        PanelQuery(f"sum by (nodepool) (karpenter_nodepools_usage{{{chosen}}})", column=f"{resource} in use"),
        PanelQuery(f"sum by (nodepool) (karpenter_nodepools_limit{{{chosen}}})", column=f"{resource} limit"),
        PanelQuery(
            f'sum by (nodepool) (karpenter_nodes_allocatable{{{_NODE},resource_type="{resource}"}})',
            column=f"{resource} allocatable",
        ),
    )


def _requested(resource: str) -> str:
    """Return the share of a node's resource that its pods request; the requests include DaemonSets."""
    by = "sum by (node_name, nodepool, instance_type, zone, capacity_type)"
    chosen = f'{{{_NODE},resource_type="{resource}"}}'
    return f"{by} (karpenter_nodes_total_pod_requests{chosen}) / {by} (karpenter_nodes_allocatable{chosen})"


def _of_node(metric: str, resource: str = "") -> str:
    chosen = f'{_NODE},resource_type="{resource}"' if resource else _NODE
    return f"sum by (node_name, nodepool, instance_type, zone, capacity_type) ({metric}{{{chosen}}})"


CAPACITY: Final = Dashboard(
    name="karpenter-capacity",
    title="Karpenter Capacity",
    about="Nodes, NodePools and pods: what there is, what comes and what goes.",
    refresh="10s",
    variables=(
        *(
            DashboardVariable(name=name, query=f"label_values(karpenter_nodes_allocatable, {name})")
            for name in ("nodepool", "zone", "arch", "capacity_type", "instance_type")
        ),
        DashboardVariable(
            name="distribution_filter",
            choices=("nodepool", "arch", "capacity_type", "instance_type", "namespace", "node", "zone"),
        ),
    ),
    rows=(
        PanelRow(
            "Nodes",
            (
                Panel(
                    title="Nodes Created by nodepool",
                    about="Nodes that registered, per second and since the operator started.",
                    queries=_both("karpenter_nodes_created_total"),
                ),
                Panel(
                    title="Nodes Terminated by nodepool",
                    about="Nodes that were removed, per second and since the operator started.",
                    queries=_both("karpenter_nodes_terminated_total"),
                ),
                Panel(
                    title="Nodes Eligible for Disruptions by reason",
                    about="Nodes that could go for a reason, budgets and savings aside.",
                    queries=_one(
                        "sum by (cluster, reason) (karpenter_voluntary_disruption_eligible_nodes)",
                        "{{reason}}",
                    ),
                ),
                Panel(
                    title="Node Disruptions by nodepool and reason",
                    about="NodeClaims that were disrupted per second.",
                    queries=_one(
                        "sum by (cluster, nodepool, reason)"
                        f" (rate(karpenter_nodeclaims_disrupted_total{{{_POOL}}}[{_RATE}]))",
                        "{{nodepool}} {{reason}}",
                    ),
                ),
                Panel(
                    title="Disruption Actions performed by type and decision",
                    about="Commands that began, per second.",
                    queries=_one(
                        "sum by (cluster, consolidation_type, decision)"
                        f" (rate(karpenter_voluntary_disruption_decisions_total[{_RATE}]))",
                        "{{consolidation_type}} {{decision}}",
                    ),
                ),
                Panel(
                    title="Spot Node Percentage",
                    about="Nodes that were bought as spot, of all.",
                    queries=_one(
                        'count(karpenter_nodes_allocatable{capacity_type="spot",resource_type="cpu"})'
                        ' / count(karpenter_nodes_allocatable{resource_type="cpu"})',
                        "spot",
                    ),
                    unit="percentunit",
                    most=1.0,
                ),
            ),
        ),
        PanelRow(
            "Pods",
            (
                Panel(
                    title="Pod Distribution by $distribution_filter",
                    about="Pods by what is chosen above.",
                    queries=_one(
                        f"sum by ($distribution_filter) (karpenter_pods_state{{{_NODE}}})",
                        "{{$distribution_filter}}",
                    ),
                    stacked=True,
                ),
                Panel(
                    title="Pod Phase",
                    about="Pods by phase, whether or not they are on a node of Karpenter's.",
                    queries=_one("sum by (cluster, phase) (karpenter_pods_state)", "{{phase}}"),
                    stacked=True,
                ),
            ),
        ),
        PanelRow(
            "Summaries",
            (
                Panel(
                    title="Nodepool Summary",
                    about="What each NodePool has, uses and may have.",
                    queries=(
                        PanelQuery(
                            "count by (nodepool)"
                            f' (karpenter_nodes_allocatable{{{_NODE},resource_type="cpu"}})',
                            column="nodes",
                        ),
                        *_usage("cpu"),
                        *_usage("memory"),
                    ),
                    type="table",
                    width=24,
                ),
                Panel(
                    title="Node Summary",
                    about="What pods request of each node, those of DaemonSets included.",
                    queries=(
                        PanelQuery(_requested("cpu"), column="cpu requested"),
                        PanelQuery(_requested("memory"), column="memory requested"),
                        PanelQuery(_of_node("karpenter_nodes_total_pod_requests", "pods"), column="pods"),
                        PanelQuery(
                            _of_node("karpenter_nodes_current_lifetime_seconds"), column="age in seconds"
                        ),
                    ),
                    type="table",
                    width=24,
                    height=10,
                ),
            ),
        ),
    ),
)


def _quantiles(metric: str) -> tuple[PanelQuery, ...]:
    return tuple(PanelQuery(f'max({metric}{{quantile="{each}"}})', name) for each, name in _QUANTILES)


def _percentiles(metric: str, by: str = "", chosen: str = "") -> tuple[PanelQuery, ...]:
    """Return the quantiles of a histogram over ten minutes."""
    grouped, legend = f"le, {by}" if by else "le", f" {{{{{by}}}}}" if by else ""
    return tuple(
        PanelQuery(
            f"histogram_quantile({each}, sum by ({grouped}) (rate({metric}_bucket{chosen}[10m])))",
            f"{name}{legend}",
        )
        for each, name in _QUANTILES[1:4]
    )


PERFORMANCE: Final = Dashboard(
    name="karpenter-performance",
    title="Karpenter Performance",
    about="How long nodes, pods and controllers take.",
    refresh="5s",
    variables=(
        _JOB_VARIABLE,
        DashboardVariable(
            name="controller",
            query=f"label_values(controller_runtime_reconcile_total{{{_JOB}}}, controller)",
        ),
    ),
    rows=(
        PanelRow(
            "Nodes and pods",
            (
                Panel(
                    title="Node Termination Latency",
                    about="Seconds from the deletion of a node until it is removed, over ten minutes.",
                    queries=_quantiles("karpenter_nodes_termination_duration_seconds"),
                    unit="s",
                ),
                Panel(
                    title="Pod Startup Latency",
                    about="Seconds from the creation of a pod until it is ready, over ten minutes.",
                    queries=_quantiles("karpenter_pods_startup_duration_seconds"),
                    unit="s",
                ),
                Panel(
                    title="Scheduling Duration",
                    about="Seconds that one scheduling run takes.",
                    queries=_percentiles("karpenter_scheduler_scheduling_duration_seconds", "controller"),
                    unit="s",
                ),
                Panel(
                    title="Cloud Provider Calls",
                    about="Seconds that calls to the cloud take, the slowest of a hundred.",
                    queries=_one(
                        "histogram_quantile(0.99, sum by (le, method)"
                        " (rate(karpenter_cloudprovider_duration_seconds_bucket[10m])))",
                        "{{method}}",
                    ),
                    unit="s",
                ),
            ),
        ),
        PanelRow(
            "Controllers",
            (
                Panel(
                    title="Controller Reconciliation Latency: $controller",
                    about="Seconds that one reconcile takes.",
                    queries=_percentiles(
                        "controller_runtime_reconcile_time_seconds",
                        chosen=f'{{{_JOB},controller=~"$controller"}}',
                    ),
                    unit="s",
                ),
                Panel(
                    title="Controller Reconciliation Rate",
                    about="Reconciles per second.",
                    queries=_one(
                        f"sum by (controller) (rate(controller_runtime_reconcile_total{{{_JOB}}}[{_RATE}]))",
                        "{{controller}}",
                    ),
                    type="bargauge",
                    unit="reqps",
                ),
                Panel(
                    title="Work Queues",
                    about="Keys that wait for a controller.",
                    queries=_one(f"sum by (controller) (workqueue_depth{{{_JOB}}})", "{{controller}}"),
                ),
                Panel(
                    title="Processor",
                    about="Cores that the operator itself uses.",
                    queries=_one(
                        f"sum by (instance) (rate(process_cpu_seconds_total{{{_JOB}}}[{_RATE}]))",
                        "{{instance}} cores",
                    ),
                ),
            ),
        ),
    ),
)

_COST: Final = "karpenter_nodes_cost_per_hour"
_SPOT: Final = f'sum(karpenter_nodes_cost_per_hour{{{_POOL},capacity_type="spot"}})'
_ALL: Final = f"sum(karpenter_nodes_cost_per_hour{{{_POOL}}})"
_GAP: Final = "sum(karpenter_consolidation_cost_per_hour) - sum(karpenter_consolidation_cost_bound_per_hour)"
_SAVING: Final = 'reason=~"empty|underutilized"'

COSTS: Final = Dashboard(
    name="karpenter-costs",
    title="Karpenter Costs",
    about="The bill, the least that it could be, what was saved, and what is left.",
    since="now-24h",
    variables=(_NODEPOOL_VARIABLE,),
    rows=(
        PanelRow(
            "Now",
            (
                _stat("Bill per hour", "What the machines of the NodePools cost.", _ALL, "currencyUSD"),
                _stat("Bill per month", "The same for 730 hours.", f"730 * {_ALL}", "currencyUSD"),
                _stat(
                    "Gap to the bound",
                    "What consolidation could save per hour at the very most: the cost of the nodes that"
                    " it may"
                    " touch, less the proven lower bound for their pods. The bound may be out of reach.",
                    _GAP,
                    "currencyUSD",
                ),
                _stat(
                    "Spot share",
                    "The part of the bill that is spot.",
                    f"({_SPOT} or vector(0)) / {_ALL}",
                    "percentunit",
                ),
                _stat(
                    "Saved in this time",
                    "Dollars per hour that commands of the chosen time have saved, at the prices of the"
                    " machines"
                    " that went and came.",
                    "sum(increase(karpenter_consolidation_savings_realized_total[$__range]))",
                    "currencyUSD",
                ),
                _stat(
                    "Paid without pods",
                    "Dollars that machines cost in the chosen time while no pod ran on them.",
                    f"sum(increase(karpenter_nodes_without_pods_cost_total{{{_POOL}}}[$__range]))",
                    "currencyUSD",
                ),
            ),
        ),
        PanelRow(
            "Bill",
            (
                Panel(
                    title="Bill by nodepool",
                    about="Dollars per hour.",
                    queries=_one(f"sum by (nodepool) ({_COST}{{{_POOL}}})", "{{nodepool}}"),
                    unit="currencyUSD",
                    stacked=True,
                ),
                Panel(
                    title="Bill and its bound",
                    about="Dollars per hour of all machines, of those that consolidation may touch, and"
                    " the proven"
                    " lower bound of the latter.",
                    queries=(
                        PanelQuery(f"sum({_COST})", "bill"),
                        PanelQuery("sum(karpenter_consolidation_cost_per_hour)", "may be consolidated"),
                        PanelQuery("sum(karpenter_consolidation_cost_bound_per_hour)", "bound"),
                        PanelQuery(_GAP, "gap"),
                    ),
                    unit="currencyUSD",
                ),
                Panel(
                    title="Bill by capacity type",
                    about="Dollars per hour.",
                    queries=_one(f"sum by (capacity_type) ({_COST}{{{_POOL}}})", "{{capacity_type}}"),
                    unit="currencyUSD",
                    stacked=True,
                ),
                Panel(
                    title="Spot share by nodepool",
                    about="The part of each NodePool's bill that is spot.",
                    queries=_one(
                        f'sum by (nodepool) ({_COST}{{{_POOL},capacity_type="spot"}})'
                        f" / sum by (nodepool) ({_COST}{{{_POOL}}})",
                        "{{nodepool}}",
                    ),
                    unit="percentunit",
                    most=1.0,
                ),
                Panel(
                    title="Where the money is",
                    about="The ten dearest combinations of instance type, zone and capacity type. Much"
                    " spot in one"
                    " of them goes at once when its price rises.",
                    queries=_one(
                        f"topk(10, sum by (instance_type, zone, capacity_type) ({_COST}{{{_POOL}}}))",
                        "{{instance_type}} {{zone}} {{capacity_type}}",
                    ),
                    type="bargauge",
                    unit="currencyUSD",
                ),
                Panel(
                    title="Paid without pods by state",
                    about="Dollars per hour for machines that start, are empty, or terminate.",
                    queries=_one(
                        "3600 * sum by (state)"
                        f" (rate(karpenter_nodes_without_pods_cost_total{{{_POOL}}}[{_RATE}]))",
                        "{{state}}",
                    ),
                    unit="currencyUSD",
                    stacked=True,
                ),
            ),
        ),
        PanelRow(
            "Savings",
            (
                Panel(
                    title="Savings planned and realised",
                    about="Dollars per hour that commands of the last hour were to save, and have saved.",
                    queries=(
                        PanelQuery(
                            "sum(increase(karpenter_consolidation_savings_planned_total[1h]))", "planned"
                        ),
                        PanelQuery(
                            "sum(increase(karpenter_consolidation_savings_realized_total[1h]))", "realised"
                        ),
                    ),
                    unit="currencyUSD",
                ),
                Panel(
                    title="Evictions per dollar saved",
                    about="Pods that consolidation moved in a day, for each dollar per month that it"
                    " saved. Where"
                    " this rises, savings are small or do not last.",
                    queries=_one(
                        f"sum(increase(karpenter_voluntary_disruption_evictions_total{{{_SAVING}}}[1d]))"
                        " / (730 * sum(increase(karpenter_consolidation_savings_realized_total[1d])) > 0)",
                        "pods per dollar and month",
                    ),
                ),
                Panel(
                    title="Money that stays, by what keeps it",
                    about="Dollars per hour of the nodes that the last decision kept, by the code of what"
                    " keeps"
                    " them. karpenter why node/NAME says more.",
                    queries=_one(
                        f"sum by (code) (karpenter_voluntary_disruption_kept_cost_per_hour{{{_POOL}}})",
                        "{{code}}",
                    ),
                    unit="currencyUSD",
                    stacked=True,
                ),
                Panel(
                    title="How long savings last",
                    about="Time until a NodePool launched machines again after a saving, for half of the"
                    " savings since the operator started.",
                    queries=_one(
                        "histogram_quantile(0.5, sum by (le, nodepool)"
                        f" (karpenter_consolidation_savings_lifetime_seconds_bucket{{{_POOL}}}))",
                        "{{nodepool}}",
                    ),
                    unit="s",
                ),
            ),
        ),
    ),
)

DECISIONS: Final = Dashboard(
    name="karpenter-decisions",
    title="Karpenter Decisions",
    about="Why nodes stay, what was moved, what was undone, and which pods wait.",
    variables=(_NODEPOOL_VARIABLE,),
    rows=(
        PanelRow(
            "Why nodes stay",
            (
                Panel(
                    title="Nodes that stay, by what keeps them",
                    about="Nodes that the last decision kept, by code; the codes are those of karpenter plan"
                    " --disruption.",
                    queries=_one(
                        f"sum by (code) (karpenter_voluntary_disruption_kept_nodes{{{_POOL}}})", "{{code}}"
                    ),
                    stacked=True,
                ),
                Panel(
                    title="Disruption budgets",
                    about="Nodes that the budgets allow to disrupt at once, and nodes that count against"
                    " them.",
                    queries=(
                        PanelQuery(
                            f"min by (nodepool) (karpenter_nodepools_allowed_disruptions{{{_POOL}}})",
                            "{{nodepool}} allowed",
                        ),
                        PanelQuery(
                            f"max by (nodepool) (karpenter_nodepools_nodes_consuming_budgets{{{_POOL}}})",
                            "{{nodepool}} used",
                        ),
                    ),
                ),
            ),
        ),
        PanelRow(
            "Commands",
            (
                Panel(
                    title="Commands begun",
                    about="Commands of the last hour by decision and reason.",
                    queries=_one(
                        "sum by (decision, reason)"
                        " (increase(karpenter_voluntary_disruption_decisions_total[1h]))",
                        "{{decision}} {{reason}}",
                    ),
                ),
                Panel(
                    title="Commands refused and undone",
                    about="Commands of the last hour that did not hold when they were validated again,"
                    " that were"
                    " undone after they began, and after which pods landed elsewhere.",
                    queries=(
                        PanelQuery(
                            "sum(increase(karpenter_voluntary_disruption_failed_validations_total[1h]))"
                            " or vector(0)",
                            "refused",
                        ),
                        PanelQuery(
                            "sum(increase(karpenter_voluntary_disruption_commands_undone_total[1h]))"
                            " or vector(0)",
                            "undone",
                        ),
                        PanelQuery(
                            f"sum(increase(karpenter_consolidation_outcomes_missed_total{{{_POOL}}}[1h]))"
                            " or vector(0)",
                            "landed elsewhere",
                        ),
                    ),
                ),
            ),
        ),
        PanelRow(
            "Evictions and churn",
            (
                Panel(
                    title="Pods moved by reason",
                    about="Pods on nodes that commands of the last hour deleted.",
                    queries=_one(
                        "sum by (reason) (increase(karpenter_voluntary_disruption_evictions_total[1h]))",
                        "{{reason}}",
                    ),
                    stacked=True,
                ),
                Panel(
                    title="Eviction requests by answer",
                    about="Answers of the API server per second; 429 means that a PodDisruptionBudget"
                    " refused.",
                    queries=_one(
                        f"sum by (code) (rate(karpenter_pods_eviction_requests_total[{_RATE}]))", "{{code}}"
                    ),
                ),
                Panel(
                    title="Churn",
                    about="NodeClaims created and disrupted in the last hour, by reason.",
                    queries=(
                        PanelQuery(
                            f"sum by (reason) (increase(karpenter_nodeclaims_created_total{{{_POOL}}}[1h]))",
                            "created: {{reason}}",
                        ),
                        PanelQuery(
                            "sum by (reason)"
                            f" (increase(karpenter_nodeclaims_disrupted_total{{{_POOL}}}[1h]))",
                            "disrupted: {{reason}}",
                        ),
                    ),
                ),
                Panel(
                    title="Lifetime of nodes",
                    about="How old nodes are when they go, for half of those of the last day.",
                    queries=_one(
                        "histogram_quantile(0.5, sum by (le, nodepool)"
                        f" (increase(karpenter_nodes_lifetime_duration_seconds_bucket{{{_POOL}}}[1d])))",
                        "{{nodepool}}",
                    ),
                    unit="s",
                ),
            ),
        ),
        PanelRow(
            "Pods that wait",
            (
                Panel(
                    title="Pending pods",
                    about="Pods that the last scheduling run found no place for, and pods that are ignored"
                    " because"
                    " their spec is not supported.",
                    queries=(
                        PanelQuery(
                            'sum(karpenter_scheduler_unschedulable_pods_count{controller="provisioner"})',
                            "without a place",
                        ),
                        PanelQuery("sum(karpenter_scheduler_ignored_pods_count)", "ignored"),
                        PanelQuery(
                            "sum by (zone) (karpenter_scheduler_pending_pods_by_effective_zone_count)",
                            "only in {{zone}}",
                        ),
                    ),
                ),
                Panel(
                    title="Longest wait",
                    about="Seconds that the pod has waited longest which is not bound, or not ready.",
                    queries=(
                        PanelQuery("max(karpenter_pods_unbound_time_seconds) or vector(0)", "not bound"),
                        PanelQuery("max(karpenter_pods_unstarted_time_seconds) or vector(0)", "not ready"),
                    ),
                    unit="s",
                ),
                Panel(
                    title="Cloud errors",
                    about="Errors of calls to the cloud per second, by call and type.",
                    queries=_one(
                        f"sum by (method, error) (rate(karpenter_cloudprovider_errors_total[{_RATE}]))",
                        "{{method}} {{error}}",
                    ),
                ),
                Panel(
                    title="Interruptions",
                    about="Messages of the interruption queue in the last hour, by what they tell; AWS only.",
                    queries=_one(
                        "sum by (message_type)"
                        " (increase(karpenter_interruption_received_messages_total[1h]))",
                        "{{message_type}}",
                    ),
                ),
            ),
        ),
    ),
)

DASHBOARDS: Final = (CAPACITY, PERFORMANCE, COSTS, DECISIONS)
