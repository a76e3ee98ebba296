"""
Changes of NodePools, node classes and DaemonSets that may give pods a place.

Which requirement of a NodePool is in the way is found in the catalogue first: one is widened by the value of
the cheapest instance type that would then do, so that few changes are tried in vain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import ZONE
from karpenter.api.nodepool import NodePool, PoolRequirement
from karpenter.core.model.requirement import RequirementError, requirement
from karpenter.core.model.resources import CPU, MEMORY, add, human_amount, parse_resources, render_amount
from karpenter.core.scheduling.build.nodepools import pool_usage
from karpenter.core.state.statenode import state_nodes
from karpenter.why.answer import alone, place_of, with_pool, with_pools
from karpenter.why.daemons import daemons_of
from karpenter.why.options import cheapest_option, label_of, required_labels, values_of
from karpenter.why.refused import RefusedPods, Trial

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from karpenter.api.meta import ResourceList
    from karpenter.core.scheduling.build.nodepools import PoolReadiness
    from karpenter.core.scheduling.problem import Reason
    from karpenter.core.state.cluster import ClusterView
    from karpenter.why.refused import LimitNeeds

_GIB: Final = 1024**3
_EC2: Final = "EC2NodeClass"
_MENDED_BY_REQUIREMENTS: Final = frozenset(
    {
        "NoInstanceTypeFits",
        "NoInstanceTypeMatches",
        "NoInstanceTypes",
        "NoOfferingAvailable",
        "RequirementsNotMet",
        "ReservationExhausted",
        "VolumeNotReachable",
    }
)


def pool_changes(refused: RefusedPods, reason: Reason, needs: LimitNeeds) -> Iterator[Trial]:
    """Yield changes of the NodePool of a reason."""
    pool = refused.view.pools[reason.pool]
    if reason.code == "LimitReached":
        yield from _limit(refused.view, pool, needs.get(pool.name, {}))
    elif reason.code == "MinValuesNotMet":
        yield from _min_values(refused, pool)
    elif reason.code == "HostPortTaken":
        yield from _without_daemons(refused, pool)
    elif reason.code in _MENDED_BY_REQUIREMENTS:
        yield from _label(refused, pool, reason)
        yield from _requirements(refused, pool, reason)
        if reason.code == "NoInstanceTypeFits":
            yield from _without_daemons(refused, pool)


def limit_needed(refused: RefusedPods, pool: NodePool) -> dict[str, int]:
    """
    Return the limits of one NodePool with which pods would fit, by resource; empty if none help.

    They count the nodes that are there, those that others get within the limits of today, and the smallest
    that would do.
    """
    free = alone(with_pool(refused.view, _with_limits(pool, {})), refused.pods)
    asked = refused.inquiry.ask(with_pools(free, [pool.name]))
    if not any(place_of(asked, pod.key) for pod in refused.pods):
        return {}
    catalog = refused.inquiry.catalog
    need = dict(pool_usage(state_nodes(refused.view)).get(pool.name, {}))
    for node in refused.decision.plan.new_nodes:
        kind = catalog.find(pool.name, node.purchase.instance_type)
        if node.pool == pool.name and kind is not None:
            need = add(need, {**kind.capacity, "nodes": 1})
    limits = parse_resources(pool.spec.limits)
    for node in asked.plan.new_nodes:
        kinds = [catalog.find(pool.name, name) for name in node.instance_types]
        sizes = [{**kind.capacity, "nodes": 1} for kind in kinds if kind is not None]
        smallest = {name: min(each.get(name, 0) for each in sizes) for name in limits} if sizes else {}
        need = add(need, smallest)
    return {name: _rounded(name, need[name]) for name, most in limits.items() if need.get(name, 0) > most}


def _rounded(name: str, amount: int) -> int:
    grain = {CPU: 1000, MEMORY: _GIB}.get(name, 1)
    return -(-amount // grain) * grain


def _limit(view: ClusterView, pool: NodePool, need: Mapping[str, int]) -> Iterator[Trial]:
    if not need:
        return
    raised = {name: render_amount(name, amount) for name, amount in need.items()}
    text = " and ".join(
        f"{name} from {pool.spec.limits[name]} to {human_amount(name, need[name])}" for name in raised
    )
    changed = _with_limits(pool, {**pool.spec.limits, **raised})
    yield Trial(f"raise the limit of NodePool {pool.name} on {text}", with_pool(view, changed), pool.name)


def _min_values(refused: RefusedPods, pool: NodePool) -> Iterator[Trial]:
    """Yield the drop of each minValues: fewer instance types suit the pods than it asks for."""
    entries = pool.spec.template.spec.requirements
    for place, entry in enumerate(entries):
        if entry.min_values is not None:
            fewer = msgspec.structs.replace(entry, min_values=None)
            changed = _with_requirements(pool, (*entries[:place], fewer, *entries[place + 1 :]))
            yield Trial(
                f"drop minValues {entry.min_values} of {entry.key} from NodePool {pool.name}",
                with_pool(refused.view, changed),
                pool.name,
            )


def _label(refused: RefusedPods, pool: NodePool, reason: Reason) -> Iterator[Trial]:
    """Yield the label that pods select and that the template does not have."""
    key, rules = reason.label, refused.inquiry.catalog.label_rules
    template = pool.spec.template
    stated = {*template.metadata.labels, *map(label_of, template.spec.requirements)}
    if not key or key in rules.well_known or rules.is_restricted(key) or key in stated:
        return
    value = next((each[key].sample() for each in required_labels(refused.pod) if key in each), "")
    if value:
        meta = msgspec.structs.replace(template.metadata, labels={**template.metadata.labels, key: value})
        changed = _with_template(pool, metadata=meta)
        text = f"add the label {key}={value} to the template of NodePool {pool.name}"
        yield Trial(text, with_pool(refused.view, changed), pool.name)


def _requirements(refused: RefusedPods, pool: NodePool, reason: Reason) -> Iterator[Trial]:
    """Yield each requirement of a NodePool that alone is in the way, widened by what would do."""
    catalog, demand = refused.inquiry.catalog, refused.demand
    if demand is None or cheapest_option(pool, demand, catalog) is not None:
        return
    entries = pool.spec.template.spec.requirements
    keys = dict.fromkeys(map(label_of, entries))
    for key in sorted(keys, key=lambda each: each != reason.label):
        rest = tuple(each for each in entries if label_of(each) != key)
        if key == ZONE and (zones := _zones_of_class(refused.view, pool)):
            rest += (PoolRequirement(key=ZONE, operator="In", values=tuple(sorted(zones))),)
        without = _with_requirements(pool, rest)
        option = cheapest_option(without, demand, catalog)
        if option is not None and (value := option.value(key, demand.alternatives[0])):
            meant = _meant(entries, key, values_of(key, [without], catalog))
            yield from allow_value(refused.view, pool, key, meant or value)


def _meant(entries: Iterable[PoolRequirement], key: str, values: frozenset[str]) -> str:
    """Return the value that one of a requirement becomes in lower case; empty where there is none."""
    written = [value for each in entries if label_of(each) == key for value in each.values]
    return next((each.lower() for each in written if each not in values and each.lower() in values), "")


def allow_value(view: ClusterView, pool: NodePool, key: str, value: str) -> Iterator[Trial]:
    """Yield a NodePool whose requirements allow one more value of a label."""
    told, kept = [], []
    for entry in pool.spec.template.spec.requirements:
        if label_of(entry) != key or _allows(entry, value):
            kept.append(entry)
            continue
        text, changed = _allowing(entry, value)
        told.append(text)
        kept += [changed] if changed is not None else []
    if told:
        lacks = key == ZONE and _buys_from_ec2(pool) and value not in _zones_of_class(view, pool)
        subnet = " (its EC2NodeClass needs a subnet there)" if lacks else ""
        changed_pool = _with_requirements(pool, tuple(kept))
        text = f"{' and '.join(told)} in NodePool {pool.name}{subnet}"
        yield Trial(text, with_pool(view, changed_pool), pool.name)


def _allows(entry: PoolRequirement, value: str) -> bool:
    try:
        return requirement(entry.key, entry.operator, entry.values).allows(value)
    except RequirementError:
        return True


def _allowing(entry: PoolRequirement, value: str) -> tuple[str, PoolRequirement | None]:
    """Return how a requirement is made to allow a value, and the requirement; None where it is dropped."""
    values: tuple[str, ...]
    match entry.operator:
        case "In":
            values, text = (*entry.values, value), f"add {value} to the values of {entry.key}"
        case "NotIn":
            values = tuple(each for each in entry.values if each != value)
            text = f"take {value} out of the values that {entry.key} excludes"
        case "Gt" | "Lt" | "Gte" | "Lte" as operator:
            bound = int(value) + {"Gt": -1, "Lt": 1}.get(operator, 0)
            values, text = (str(bound),), f"change {entry.key} {operator} {entry.values[0]} to {bound}"
        case _:
            return f"drop the requirement {entry.key} {entry.operator}", None
    return text, msgspec.structs.replace(entry, values=values) if values else None


def _zones_of_class(view: ClusterView, pool: NodePool) -> frozenset[str]:
    """Return the zones in which the node class of a NodePool has subnets, as far as its status says."""
    ref = pool.spec.template.spec.node_class_ref
    found = view.node_classes.get((ref.group, ref.kind, ref.name))
    return frozenset(found.zones) if found is not None else frozenset()


def _buys_from_ec2(pool: NodePool) -> bool:
    return pool.spec.template.spec.node_class_ref.kind == _EC2


def _without_daemons(refused: RefusedPods, pool: NodePool) -> Iterator[Trial]:
    """Yield the cluster without each DaemonSet that takes room that pods lack."""
    reason = refused.reason(pool.name)
    ports = reason is not None and reason.code == "HostPortTaken"
    short = dict(reason.largest) if reason is not None else {}
    for daemon in daemons_of(pool, refused.view, refused.inquiry.catalog):
        if daemon.has_ports if ports else any(daemon.requests.get(name) for name in short or daemon.requests):
            kept = {key: each for key, each in refused.view.daemon_sets.items() if key != daemon.key}
            text = f"keep DaemonSet {daemon} off NodePool {pool.name}, or lower its requests"
            yield Trial(text, msgspec.structs.replace(refused.view, daemon_sets=kept), pool.name)


def readiness_changes(refused: RefusedPods) -> Iterator[Trial]:
    """Yield each NodePool that is not ready as if it were."""
    for state in refused.decision.pools:
        if (made_ready := _ready(refused.view, state)) is not None:
            pool, ref = state.pool, state.pool.spec.template.spec.node_class_ref
            found = refused.view.node_classes.get((ref.group, ref.kind, ref.name))
            what = f"{ref.kind} {ref.name}" if found is None or found.ready is not True else "what it says"
            yield Trial(f"put {what} right, so that NodePool {pool.name} is ready", made_ready, pool.name)


def _ready(view: ClusterView, state: PoolReadiness) -> ClusterView | None:
    """Return the view in which a NodePool is ready; None where it is, or is not meant to be."""
    pool = state.pool
    if not state.obstacle or pool.metadata.deletion_timestamp is not None or pool.spec.replicas is not None:
        return None
    status = msgspec.structs.replace(pool.status, conditions=())
    ref = pool.spec.template.spec.node_class_ref
    key = (ref.group, ref.kind, ref.name)
    classes = dict(view.node_classes)
    if key in classes:
        classes[key] = msgspec.structs.replace(classes[key], ready=True)
    view = msgspec.structs.replace(view, node_classes=classes)
    return with_pool(view, msgspec.structs.replace(pool, status=status))


def _with_limits(pool: NodePool, limits: ResourceList) -> NodePool:
    return msgspec.structs.replace(pool, spec=msgspec.structs.replace(pool.spec, limits=limits))


def _with_requirements(pool: NodePool, entries: tuple[PoolRequirement, ...]) -> NodePool:
    return _with_template(pool, spec=msgspec.structs.replace(pool.spec.template.spec, requirements=entries))


def _with_template(pool: NodePool, **fields: object) -> NodePool:
    template = msgspec.structs.replace(pool.spec.template, **fields)
    return msgspec.structs.replace(pool, spec=msgspec.structs.replace(pool.spec, template=template))
