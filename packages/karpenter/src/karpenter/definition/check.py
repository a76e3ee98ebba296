"""
What a change of a cluster definition would do: which nodes drift, in which order they are replaced, and what
blocks the others.

Pure: objects, a view of the cluster and a catalogue in, a :class:`DefinitionCheck` out. Calls the operator's
``disrupt`` again and again on the cluster as it is. A node that a pass would replace is no candidate in the
next pass; it keeps its pods. The doctor's rules judge the objects that the definition renders to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.labels import DO_NOT_DISRUPT, NODEPOOL, NODEPOOL_HASH, ON_DEMAND
from karpenter.api.manifests import Document
from karpenter.api.meta import Condition, convert
from karpenter.api.nodepool import NodePool
from karpenter.cloud.aws.nodeclass.hash import class_hash
from karpenter.core.disruption.codes import DisruptionCode
from karpenter.core.disruption.command import UNDERUTILIZED, Command, KeptNode
from karpenter.core.disruption.cost import price_of
from karpenter.core.disruption.disrupt import disrupt
from karpenter.core.disruption.memory import DisruptionMemory
from karpenter.core.lifecycle.disruption_conditions import drift_reason
from karpenter.core.model.nodepool_hash import pool_hash_annotations, with_pool_hash
from karpenter.core.model.pricing import HOURS_A_MONTH
from karpenter.core.scheduling.build.nodepools import as_pool
from karpenter.core.state.cluster import ClusterView, NodeClass
from karpenter.core.state.statenode import StateNode, state_nodes
from karpenter.doctor.facts import DoctorFacts
from karpenter.doctor.rule import ERROR, DoctorFinding
from karpenter.doctor.rules import diagnose
from karpenter.operator.options import disruption_context, parse_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.scheduling.problem import Plan, Purchase

    Planner = Callable[[ClusterView, Catalog], Plan]
    """What the operator would do with the pods that wait in a cluster."""

ADDED, REMOVED, CHANGED, UNCHANGED = "added", "removed", "changed", "unchanged"
MOST_STEPS: Final = 100
"""How many passes are made; whatever drifts beyond them is counted and not ordered."""

_SELECTED: Final = {
    "amiSelectorTerms": "AMIDrift",
    "securityGroupSelectorTerms": "SecurityGroupDrift",
    "subnetSelectorTerms": "SubnetDrift",
}


class FieldChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One field of an object before and after; None where it is not there."""

    object: str
    field: str
    before: Any = None
    after: Any = None


class PoolCheck(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A pool: what becomes of it, and what it may buy."""

    name: str
    change: str
    types: int = 0
    cheapest: str = ""
    hourly: float = 0.0
    """What the cheapest of its machines costs."""

    fields: tuple[FieldChange, ...] = ()
    machines: int = 0


class MachineCheck(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A machine that drifts or goes: when, what takes its place, or what holds it."""

    node: str
    pool: str
    reason: str
    step: int | None = None
    """In which pass it goes; None when it does not."""

    replacement: tuple[str, ...] = ()
    pods: int = 0
    held_by: str = ""
    message: str = ""
    hourly_before: float = 0.0
    hourly_after: float = 0.0


class DefinitionCheck(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything that a check found."""

    pools: tuple[PoolCheck, ...]
    machines: tuple[MachineCheck, ...] = ()
    unscheduled: tuple[str, ...] = ()
    """Pods without a place, and why."""

    compared: bool = False
    """Whether there was a definition to compare with."""

    has_cluster: bool = False
    monthly_before: float = 0.0
    monthly_after: float = 0.0
    unordered: int = 0
    """Machines that drift and that the passes did not reach."""

    findings: tuple[DoctorFinding, ...] = ()
    """What the doctor says of the objects that the definition renders to."""

    @property
    def is_hindered(self) -> bool:
        nothing = any(not each.types for each in self.pools if each.change != REMOVED)
        ill = any(each.severity == ERROR for each in self.findings)
        return nothing or ill or bool(self.unscheduled) or any(each.held_by for each in self.machines)


def examine(
    new: list[dict[str, Any]],
    *,
    old: list[dict[str, Any]] | None,
    view: ClusterView | None,
    catalog: Catalog,
    planner: Planner,
    now: datetime,
) -> DefinitionCheck:
    """Return what a definition would do to a cluster, given as the objects that it renders to."""
    pools = {each.name: each for each in map(_pool, _of_kind(new, "NodePool"))}
    before = {each.name: each for each in map(_pool, _of_kind(old or [], "NodePool"))}
    nodes = state_nodes(view) if view is not None else ()
    checks = _pool_checks(new, old, pools, catalog, nodes)
    found = DefinitionCheck(pools=checks, compared=old is not None, findings=judged(new))
    if view is None:
        return found
    defined = _as_defined(view, pools, before, _class_drift(new, old or []))
    machines, unscheduled, unordered = _Passes(defined, catalog, now).run(planner)
    removed = [each for each in checks if each.change == REMOVED]
    gone = [_removed(node, catalog) for node in nodes if node.pool in {each.name for each in removed}]
    hourly = sum(price_of(node, catalog) or 0.0 for node in nodes if node.is_managed)
    change = sum(each.hourly_after - each.hourly_before for each in machines if each.step is not None)
    change -= sum(each.hourly_before for each in gone)
    return msgspec.structs.replace(
        found,
        machines=(*machines, *gone),
        unscheduled=unscheduled,
        has_cluster=True,
        monthly_before=hourly * HOURS_A_MONTH,
        monthly_after=(hourly + change) * HOURS_A_MONTH,
        unordered=unordered,
    )


def judged(objects: list[dict[str, Any]]) -> tuple[DoctorFinding, ...]:
    """Return what the doctor's rules about manifests find in objects."""
    facts = DoctorFacts(objects=tuple(Document(source="", plain=each) for each in objects))
    return diagnose(facts).findings


def defined_view(new: list[dict[str, Any]], view: ClusterView | None) -> ClusterView:
    """Return the cluster as it is, with the NodePools of a definition."""
    pools = {each.name: each for each in map(_pool, _of_kind(new, "NodePool"))}
    return msgspec.structs.replace(view or ClusterView(), pools=pools)


def _of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in objects if each["kind"] == kind]


def _pool(plain: dict[str, Any]) -> NodePool:
    return convert(plain, NodePool)


def _removed(node: StateNode, catalog: Catalog) -> MachineCheck:
    return MachineCheck(
        node=node.name,
        pool=node.pool,
        reason="Removed",
        step=1,
        pods=len(node.pods),
        message=f"NodePool {node.pool} is removed, and its machines go with it",
        hourly_before=price_of(node, catalog) or 0.0,
    )


def _pool_checks(
    new: list[dict[str, Any]],
    old: list[dict[str, Any]] | None,
    pools: Mapping[str, NodePool],
    catalog: Catalog,
    nodes: Sequence[StateNode],
) -> tuple[PoolCheck, ...]:
    count = {name: sum(node.pool == name for node in nodes) for name in {node.pool for node in nodes}}
    found = []
    for name, pool in pools.items():
        fields = tuple(_changes(name, new, old)) if old is not None else ()
        is_new = old is not None and not any(e["metadata"]["name"] == name for e in _of_kind(old, "NodePool"))
        change = ADDED if is_new else CHANGED if fields else UNCHANGED
        kinds = _allowed(pool, catalog)
        hourly, cheapest = min(kinds, default=(0.0, ""))
        found.append(
            PoolCheck(
                name=name,
                change=change,
                types=len({each.partition(" ")[0] for _, each in kinds}),
                cheapest=cheapest,
                hourly=hourly,
                fields=() if is_new else fields,
                machines=count.get(name, 0),
            )
        )
    gone = [each["metadata"]["name"] for each in _of_kind(old or [], "NodePool")]
    return (
        *found,
        *(
            PoolCheck(name=name, change=REMOVED, machines=count.get(name, 0))
            for name in gone
            if name not in pools
        ),
    )


def _allowed(pool: NodePool, catalog: Catalog) -> list[tuple[float, str]]:
    """Return what a pool may buy: the price, and instance type, zone and capacity type."""
    wanted = as_pool(pool, catalog, {}).requirements
    return [
        (offering.price, f"{kind.name} {offering.zone} {offering.capacity_type}")
        for kind in catalog.types_of(pool.name)
        if kind.requirements.conflict(wanted) is None
        for offering in kind.available
        if offering.requirements.conflict(wanted) is None
    ]


def _changes(pool: str, new: list[dict[str, Any]], old: list[dict[str, Any]] | None) -> list[FieldChange]:
    found = []
    for kind in ("NodePool", "EC2NodeClass"):
        name = pool if kind == "NodePool" else _class_of(pool, new)
        after, before = _object(new, kind, name), _object(old or [], kind, name)
        flat, past = dict(_flat(after.get("spec"))), dict(_flat(before.get("spec")))
        for field in sorted(flat.keys() | past.keys()):
            if flat.get(field) != past.get(field):
                change = FieldChange(object=kind, field=field, before=past.get(field), after=flat.get(field))
                found.append(change)
    return found


def _class_of(pool: str, objects: list[dict[str, Any]]) -> str:
    found = _object(objects, "NodePool", pool)
    return str(found["spec"]["template"]["spec"]["nodeClassRef"]["name"])


def _object(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    return next((each for each in _of_kind(objects, kind) if each["metadata"]["name"] == name), {})


def _flat(plain: Any, place: str = "spec") -> list[tuple[str, Any]]:
    if isinstance(plain, dict) and plain:
        return [pair for key, value in plain.items() for pair in _flat(value, f"{place}.{key}")]
    if place.endswith(".requirements") and isinstance(plain, list):
        return [
            (f"{place}[{e['key']}]", f"{e['operator']} {', '.join(e.get('values', []))}".strip())
            for e in plain
        ]
    return [] if plain is None else [(place, plain)]


def _class_drift(new: list[dict[str, Any]], old: list[dict[str, Any]]) -> dict[str, str]:
    """Return which classes change so that their machines drift, and as what."""
    found: dict[str, str] = {}
    for each in _of_kind(new, "EC2NodeClass"):
        name = each["metadata"]["name"]
        past = _object(old, "EC2NodeClass", name)
        if not past:
            continue
        if class_hash(convert(each, EC2NodeClass), ca_bundle="") != class_hash(
            convert(past, EC2NodeClass), ca_bundle=""
        ):
            found[name] = "NodeClassDrift"
            continue
        for field, reason in _SELECTED.items():
            if each["spec"].get(field) != past["spec"].get(field):
                found.setdefault(name, reason)
    return found


def _as_defined(
    view: ClusterView,
    pools: Mapping[str, NodePool],
    before: Mapping[str, NodePool],
    classes: Mapping[str, str],
) -> ClusterView:
    """Return the cluster with the pools of the definition, and claims marked that their class lets drift."""
    kept = {name: pool for name, pool in view.pools.items() if name not in before}
    references = [pool.spec.template.spec.node_class_ref for pool in pools.values()]
    made = {(r.group, r.kind, r.name): NodeClass(group=r.group, kind=r.kind, name=r.name) for r in references}
    stamped = {name: with_pool_hash(pool) for name, pool in pools.items()}
    claims = {name: _stamped(claim, before, classes) for name, claim in view.claims.items()}
    return msgspec.structs.replace(
        view, pools={**kept, **stamped}, node_classes={**view.node_classes, **made}, claims=claims
    )


def _stamped(claim: NodeClaim, before: Mapping[str, NodePool], classes: Mapping[str, str]) -> NodeClaim:
    meta, status = claim.metadata, claim.status
    past = before.get(claim.metadata.labels.get(NODEPOOL, ""))
    if past is not None and NODEPOOL_HASH not in meta.annotations:
        annotations = {**meta.annotations, **pool_hash_annotations(past)}
        meta = msgspec.structs.replace(meta, annotations=annotations)
    reason = classes.get(claim.spec.node_class_ref.name)
    if reason is not None:
        others = tuple(each for each in status.conditions if each.type != "Drifted")
        mark = Condition(type="Drifted", status="True", reason=reason)
        status = msgspec.structs.replace(status, conditions=(*others, mark))
    return msgspec.structs.replace(claim, metadata=meta, status=status)


class _Passes:
    """Passes of disruption, one after another."""

    def __init__(self, view: ClusterView, catalog: Catalog, now: datetime) -> None:
        self._view, self._catalog, self._now = view, catalog, now
        context = disruption_context(parse_settings({}))
        unexplained = msgspec.structs.replace(context.settings, explain=0)
        self._context = msgspec.structs.replace(context, settings=unexplained)

    def run(self, planner: Planner) -> tuple[tuple[MachineCheck, ...], tuple[str, ...], int]:
        """Return machines in their order, pods without a place, and how many were not reached."""
        plan = planner(self._view, self._catalog)
        unscheduled = tuple(f"{each.pod}: {each.message}" for each in plan.refusals)
        nominated = frozenset(name for name, pods in plan.placed.items() if pods)
        drifted = self._drifted()
        view, found, kept = self._view, [], {}
        for step in range(1, MOST_STEPS + 1):
            decided = disrupt(
                view,
                self._catalog,
                DisruptionMemory(),
                now=self._now,
                context=msgspec.structs.replace(self._context, nominated=nominated),
            )
            kept = {each.node: each for each in decided.kept}
            commands = [each for each in decided.commands if each.reason != UNDERUTILIZED]
            if not commands:
                break
            for command in commands:
                found += self._machines(command, step, drifted)
            names = {name for command in commands for name in command.candidates}
            nodes = dict(view.nodes)
            for key, node in view.nodes.items():
                if node.name in names:
                    annotations = {**node.metadata.annotations, DO_NOT_DISRUPT: "true"}
                    meta = msgspec.structs.replace(node.metadata, annotations=annotations)
                    nodes[key] = msgspec.structs.replace(node, metadata=meta)
            view = msgspec.structs.replace(view, nodes=nodes)
        going = {each.node for each in found}
        # What is not kept goes with a command that saves money; like what waits, it is no matter of now.
        held = {name for name in drifted if name in kept and kept[name].code != DisruptionCode.WAITING}
        late = drifted.keys() - going - held
        found += [self._held(name, drifted[name], kept) for name in drifted if name in held - going]
        return tuple(found), unscheduled, len(late)

    def _drifted(self) -> dict[str, str]:
        found = {}
        for node in state_nodes(self._view):
            pool = self._view.pools.get(node.pool)
            if node.claim is None or pool is None:
                continue
            if reason := drift_reason(node.claim, pool, self._catalog, self._now):
                found[node.name] = reason
        return found

    def _machines(self, command: Command, step: int, drifted: Mapping[str, str]) -> list[MachineCheck]:
        pools = {node.name: node for node in state_nodes(self._view)}
        bought = [each.purchase for each in command.replacements]
        share = len(command.candidates)
        return [
            MachineCheck(
                node=name,
                pool=pools[name].pool,
                reason=drifted.get(name, command.reason),
                step=step,
                replacement=tuple(_told(each) for each in bought),
                pods=len([pod for pod in pools[name].pods if pod.metadata.owner_references]),
                hourly_before=price_of(pools[name], self._catalog) or 0.0,
                hourly_after=command.hourly_after / share,
            )
            for name in command.candidates
        ]

    def _held(self, name: str, reason: str, kept: Mapping[str, KeptNode]) -> MachineCheck:
        node = next(each for each in state_nodes(self._view) if each.name == name)
        held = kept[name]
        return MachineCheck(
            node=name,
            pool=node.pool,
            reason=reason,
            pods=len(node.pods),
            held_by=held.code,
            message=held.message,
            hourly_before=price_of(node, self._catalog) or 0.0,
        )


def _told(bought: Purchase) -> str:
    """Return what would be bought; on-demand goes without saying."""
    usual = bought.capacity_type == ON_DEMAND
    return f"{bought.instance_type} {bought.zone}{'' if usual else f' {bought.capacity_type}'}"
