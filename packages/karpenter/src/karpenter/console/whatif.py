"""
What another NodePool would change, and what a NodePool may buy.

What-if asks the functions that the operator decides with twice: about the cluster as it is, and about the
same cluster with the NodePools and node classes of a manifest in place of its own. Every field is held
against its schema and rules first. Nothing is written anywhere. What is compared is the next decision of
each: consolidation goes step by step, and later steps are not looked at. Of a node class its volumes and
public address count; that it is ready is taken for granted.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.kwoknodeclass import KWOKNodeClass
from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from karpenter.api.manifests import documents_or_refusals, read_object, render_documents
from karpenter.api.meta import InvalidObject, to_plain
from karpenter.api.nodepool import NodePool
from karpenter.api.validation.documents import Finding, check_document
from karpenter.cloud.catalogs.ec2.volumes import node_class_of
from karpenter.core.disruption.budgets import budget_usage, headroom, read_budgets
from karpenter.core.disruption.cost import price_of
from karpenter.core.model.nodepool_hash import with_pool_hash
from karpenter.core.model.pricing import HOURS_A_MONTH
from karpenter.core.model.resources import human_amount, parse_resources
from karpenter.core.scheduling.build.nodepools import as_pool, pool_usage
from karpenter.core.state.statenode import state_nodes
from karpenter.why.nodes import next_opening

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import ClusterView, NodeClass
    from karpenter.why.answer import Inquiry

_SOURCE: Final = "what-if"
_SHOWN_OFFERINGS: Final = 12
_REASONS: Final = ("Underutilized", "Empty", "Drifted")


class MachineGroup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Machines that are alike, and how many of them there are with each of two NodePools."""

    pool: str
    type: str
    zone: str
    capacity_type: str
    before: int
    after: int


class WhatIfOutcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The cluster once the next decisions are carried out."""

    machines: int
    launched: int
    removed: int
    hourly: float
    monthly: float
    evictions: int
    """Pods that disruption moves."""

    unscheduled: int


class WhatIf(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The difference that NodePools make."""

    kind: str = "WhatIf"
    problems: tuple[str, ...] = ()
    """What is wrong with the manifest; then nothing was asked."""

    pools: tuple[str, ...] = ()
    before: WhatIfOutcome | None = None
    after: WhatIfOutcome | None = None
    machines: tuple[MachineGroup, ...] = ()
    """Only groups of which there are more or fewer."""

    commands: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    """Pods that would have no place with the NodePools of the manifest, and do have one now."""


def what_if(inquiry: Inquiry, manifest: str) -> WhatIf:
    """Return what the NodePools of a manifest would change; nothing is written."""
    pools, classes, problems = _read_manifest(manifest)
    if not problems and not pools and not classes:
        problems = ["there is no NodePool and no node class in the manifest"]
    if problems:
        return WhatIf(problems=tuple(problems))
    changed = dict(inquiry.view.pools)
    for pool in pools:
        held = changed.get(pool.name)
        status = held.status if held is not None else pool.status
        changed[pool.name] = with_pool_hash(msgspec.structs.replace(pool, status=status))
    known = dict(inquiry.view.node_classes)
    for each in classes:
        key = (each.group, each.kind, each.name)
        there = known.get(key, msgspec.structs.replace(each, ready=True))
        known[key] = msgspec.structs.replace(there, volumes=each.volumes, public_ipv4=each.public_ipv4)
    view = msgspec.structs.replace(inquiry.view, pools=changed, node_classes=known)
    old, new = _Outcome(inquiry, inquiry.view), _Outcome(inquiry, view)
    return WhatIf(
        pools=tuple(pool.name for pool in pools),
        before=old.figures(),
        after=new.figures(),
        machines=tuple(_groups(old.machines, new.machines)),
        commands=tuple(new.commands()),
        refusals=tuple(f"{pod}: {message}" for pod, message in new.refused.items() if pod not in old.refused),
    )


def _read_manifest(manifest: str) -> tuple[list[NodePool], list[NodeClass], list[str]]:
    pools: list[NodePool] = []
    classes: list[NodeClass] = []
    problems: list[str] = []
    for found in documents_or_refusals(manifest, _SOURCE):
        if isinstance(found, InvalidObject):
            problems.append(str(found))
            continue
        problems += [str(each) for each in check_document(found) if isinstance(each, Finding)]
        try:
            item = read_object(found)
        except InvalidObject as error:
            problems.append(str(error))
            continue
        if isinstance(item, NodePool):
            pools.append(item)
        elif isinstance(item, EC2NodeClass | KWOKNodeClass):
            classes.append(node_class_of(dict(found.plain), found.identity[0].partition("/")[0], item.kind))
        else:
            problems.append(f"{found.subject}: only NodePools and node classes can be tried here")
    return pools, classes, list(dict.fromkeys(problems))


class _Outcome:
    """What the operator would decide about one view."""

    def __init__(self, inquiry: Inquiry, view: ClusterView) -> None:
        provisioned, disrupted = inquiry.provision(view), inquiry.disrupt(view)
        plan = provisioned.plan
        self._commands = disrupted.commands
        self._gone = {name for command in self._commands for name in command.candidates}
        self._new = [*plan.new_nodes, *(node for each in self._commands for node in each.replacements)]
        self.refused = {each.pod: each.message for each in plan.refusals}
        stays = [node for node in state_nodes(view) if node.name not in self._gone]
        self.hourly = sum(price_of(node, inquiry.catalog) or 0.0 for node in stays)
        self.hourly += sum(node.purchase.price for node in self._new)
        self.machines = Counter(
            (node.pool, node.labels.get(INSTANCE_TYPE, ""), node.labels.get(ZONE, ""), _way(node.labels))
            for node in stays
        )
        self.machines.update(
            (node.pool, node.purchase.instance_type, node.purchase.zone, node.purchase.capacity_type)
            for node in self._new
        )

    def figures(self) -> WhatIfOutcome:
        return WhatIfOutcome(
            machines=self.machines.total(),
            launched=len(self._new),
            removed=len(self._gone),
            hourly=round(self.hourly, 6),
            monthly=round(self.hourly * HOURS_A_MONTH, 2),
            evictions=sum(command.pods_moved for command in self._commands),
            unscheduled=len(self.refused),
        )

    def commands(self) -> Iterator[str]:
        for each in self._commands:
            new = f", launch {len(each.replacements)}" if each.replacements else ""
            saved = each.saving * HOURS_A_MONTH
            yield f"{each.reason}: remove {', '.join(each.candidates)}{new}: ${saved:,.2f} a month saved"


def _way(labels: Any) -> str:
    return str(labels.get(CAPACITY_TYPE, ""))


def _groups(
    old: Counter[tuple[str, str, str, str]], new: Counter[tuple[str, str, str, str]]
) -> Iterator[MachineGroup]:
    for key in sorted(old.keys() | new.keys()):
        if old[key] != new[key]:
            pool, kind, zone, way = key
            yield MachineGroup(
                pool=pool, type=kind, zone=zone, capacity_type=way, before=old[key], after=new[key]
            )


class SoldOffering(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One offering that a NodePool may launch."""

    type: str
    zone: str
    capacity_type: str
    price: float
    cpu: str
    memory: str


class PoolDetails(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a NodePool may do: limits, budgets with their windows, and what it may buy."""

    name: str
    manifest: str
    limits: dict[str, str] = {}
    budgets: tuple[str, ...] = ()
    allowed: dict[str, int] = {}
    """How many machines may be disrupted now, by reason."""

    opens: str = ""
    """When the budgets let a machine go next that they hold now; empty where they hold none."""

    types: int = 0
    offerings: int = 0
    cheapest: tuple[SoldOffering, ...] = ()


def pool_details(inquiry: Inquiry, pool: NodePool) -> PoolDetails:
    """Return what a NodePool may do at this moment."""
    nodes = state_nodes(inquiry.view)
    limits, used = parse_resources(pool.spec.limits), pool_usage(nodes).get(pool.name, {})
    budgets = read_budgets(pool.spec.disruption.budgets)
    size, leaving = budget_usage(nodes)
    count, going = size.get(pool.name, 0), leaving.get(pool.name, 0)
    opens = next_opening(inquiry, pool)
    sold = sorted(_sold(pool, inquiry.catalog), key=lambda each: (each.price, each.type, each.zone))
    return PoolDetails(
        name=pool.name,
        manifest=pool_manifest(pool),
        limits={
            name: f"{human_amount(name, used.get(name, 0))} of {human_amount(name, most)}"
            for name, most in limits.items()
        },
        budgets=tuple(str(budget) for budget in budgets),
        allowed={
            reason: headroom(budgets, reason=reason, pool_size=count, disrupting=going, now=inquiry.now)
            for reason in _REASONS
        },
        opens=f"{opens:%Y-%m-%dT%H:%M:%SZ}" if opens is not None else "",
        types=len({each.type for each in sold}),
        offerings=len(sold),
        cheapest=tuple(sold[:_SHOWN_OFFERINGS]),
    )


def pool_manifest(pool: NodePool) -> str:
    """Return a NodePool as people write it: without status and without what the API server adds."""
    plain = to_plain(pool)
    meta = {"name": pool.name}
    if pool.metadata.labels:
        meta["labels"] = dict(pool.metadata.labels)  # type: ignore[assignment]
    return render_documents(
        [{"apiVersion": pool.api_version, "kind": pool.kind, "metadata": meta, "spec": plain["spec"]}]
    )


def _sold(pool: NodePool, catalog: Catalog) -> Iterator[SoldOffering]:
    wanted = as_pool(pool, catalog, {}).requirements
    for kind in catalog.types_of(pool.name):
        if wanted.conflict(kind.requirements) is not None:
            continue
        for each in kind.available:
            if wanted.conflict(each.requirements) is None:
                yield SoldOffering(
                    type=kind.name,
                    zone=each.zone,
                    capacity_type=each.capacity_type,
                    price=each.price,
                    cpu=human_amount("cpu", kind.capacity.get("cpu", 0)),
                    memory=human_amount("memory", kind.capacity.get("memory", 0)),
                )
