"""
What people should know about a plan besides its machines and its bill: one sentence or two for each thing.

Remarks change no decision. They are about NodePools at their limits, floors that keep pods waiting, prices
that are a model, spot machines in one place, and CPU credits of burstable machines, which are in no price.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from karpenter.api.labels import CAPACITY_TYPE, ON_DEMAND, ON_DEMAND_FLOOR, OS, SPOT
from karpenter.api.price_annotations import annotated_floor
from karpenter.cli.planning.data import counted, money
from karpenter.cloud.catalogs.ec2.instancetypes import SPOT_SHARE, SPOT_SPREAD, spot_price
from karpenter.core.model.pricing import family_of
from karpenter.core.model.resources import CPU
from karpenter.why.classes import missing_class
from karpenter.why.pods import full_pools

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from karpenter.cli.planning.decision import PlanDecision
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.scheduling.problem import NewNode, Plan
    from karpenter.core.state.cluster import ClusterView

_MANY: Final = 3
"""Spot machines of one type in one zone from which on a plan warns of them."""

_ROUNDING: Final = 1.5e-5
"""How much a price of a file may differ from the model, which has five decimals."""

# Share of each vCPU, and dollars per vCPU-hour above it; the same in all regions, and for spot:
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/burstable-credits-baseline-concepts.html
# https://aws.amazon.com/ec2/pricing/on-demand/#T2.2FT3.2FT4g_Unlimited_Mode_Pricing
_BASELINES: Final = {
    "nano": 0.05,
    "micro": 0.1,
    "small": 0.2,
    "medium": 0.2,
    "large": 0.3,
    "xlarge": 0.4,
    "2xlarge": 0.4,
}
_CREDITS: Final = {"t3": 0.05, "t3a": 0.05, "t4g": 0.04}
"""Families that run in unlimited mode unless the account says otherwise; T2 runs in standard mode."""

_WINDOWS: Final = "windows"
_WINDOWS_CREDITS: Final = 0.096


def remarks(decision: PlanDecision, view: ClusterView, catalog: Catalog) -> Iterator[str]:
    """Yield what people should know about a plan."""
    plan = decision.plan
    yield from full_pools(view)
    yield from _missing_classes(plan, view, catalog)
    for pool, count in decision.unsold.items():
        yield f"NodePool {pool} lacks {counted(count, 'machine')}, and nothing on sale satisfies it."
    yield from _held_by_floors(plan, view)
    commands = decision.disruption.commands if decision.disruption is not None else ()
    bought = [*plan.new_nodes, *(node for command in commands for node in command.replacements)]
    if _is_modelled(bought, catalog):
        yield (
            f"Spot prices are modelled: {min(SPOT_SHARE.values()):.0%} to {max(SPOT_SHARE.values()):.0%} of "
            f"the on-demand price by instance category, give or take {SPOT_SPREAD:.0%} by type and zone; "
            "karpenter catalog refresh reads those of this moment."
        )
    yield from _spot_in_one_place(plan)
    yield from _burstable(bought, catalog)


def _missing_classes(plan: Plan, view: ClusterView, catalog: Catalog) -> Iterator[str]:
    pools = sorted({node.pool for node in plan.new_nodes})
    told = (missing_class(view.pools[name], view, catalog) for name in pools)
    yield from dict.fromkeys(f"{each}." for each in told if each)


def _held_by_floors(plan: Plan, view: ClusterView) -> Iterator[str]:
    held = [each for each in plan.refusals if each.pod in view.pods and CAPACITY_TYPE in each.message]
    floors = sum(annotated_floor(view.pods[each.pod].metadata.annotations)[0] is not None for each in held)
    if floors:
        yield f"{floors} without a place must be on demand: so many replicas {ON_DEMAND_FLOOR} asks for."


def _spot_in_one_place(plan: Plan) -> Iterator[str]:
    spot = Counter(
        (node.purchase.instance_type, node.purchase.zone)
        for node in plan.new_nodes
        if node.purchase.capacity_type == SPOT
    )
    for (kind, zone), count in spot.most_common(1):
        if count >= _MANY and count * 2 > spot.total():
            yield (
                f"{count} of {spot.total()} new spot machines are {kind} in {zone}: "
                "one shortage there can take all of them."
            )


def _is_modelled(nodes: Iterable[NewNode], catalog: Catalog) -> bool:
    """Whether every spot price that is paid is that of the model, in an exported catalogue as in ours."""
    places = {
        (node.pool, node.purchase.instance_type, node.purchase.zone)
        for node in nodes
        if node.purchase.capacity_type == SPOT
    }
    return bool(places) and all(_has_modelled_price(*place, catalog) for place in places)


def _has_modelled_price(pool: str, name: str, zone: str, catalog: Catalog) -> bool:
    kind = catalog.find(pool, name)
    offerings = kind.offerings if kind is not None else ()
    listed = {each.capacity_type: each.price for each in offerings if each.zone == zone}
    if not listed.keys() >= {SPOT, ON_DEMAND}:
        return False
    return abs(spot_price(name, zone, listed[ON_DEMAND]) - listed[SPOT]) < _ROUNDING


def _burstable(nodes: Sequence[NewNode], catalog: Catalog) -> Iterator[str]:
    """Say what CPU credits may add: above the baseline of a T type every vCPU-hour is billed."""
    found = [node for node in nodes if family_of(node.purchase.instance_type) in _CREDITS]
    if not found:
        return
    most = sum(_credits(node, catalog) for node in found)
    are = f"{counted(len(found), 'new machine')} {'is' if len(found) == 1 else 'are'}"
    yield (
        f"{are} burstable: CPU credits, which are in no price, add up to {money(most)} an hour "
        "if pods use all the cpu that they request. A NodePool whose "
        "requirements have karpenter.k8s.aws/instance-category NotIn [t] buys others, and a node-price "
        "fewer and larger ones."
    )


def _credits(node: NewNode, catalog: Catalog) -> float:
    """Return what CPU credits of a machine cost per hour while pods use what they request."""
    name = node.purchase.instance_type
    kind = catalog.find(node.pool, name)
    vcpus = kind.capacity.get(CPU, 0) / 1000 if kind is not None else 0.0
    baseline = _BASELINES.get(name.partition(".")[2], 1.0) * vcpus
    windows = node.labels.get(OS) == _WINDOWS
    rate = _WINDOWS_CREDITS if windows else _CREDITS[family_of(name)]
    return max(0.0, node.requests.get(CPU, 0) / 1000 - baseline) * rate
