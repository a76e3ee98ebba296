"""Random machines: instance types, pools, and nodes that are there already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from karpenter.api import labels
from karpenter.core.model.hostportusage import HostPort
from karpenter_local.testing.builders import (
    ZONES,
    NodeWithPods,
    instance_type,
    node,
    offering,
    only,
    pod,
    pool,
    taint,
)
from karpenter_local.testing.problems.demand import affinity_terms, conditions
from karpenter_local.testing.problems.mix import APPS, DRIVER, GPU, NAMESPACES, TEAM, TEAMS, Mix, seldom

if TYPE_CHECKING:
    from karpenter.api.node import Taint
    from karpenter.core.model.catalog import InstanceType, Offering
    from karpenter.core.scheduling.problem import Pool

CORES: Final = (2, 4, 8, 16)
GIB_PER_CORE: Final = (1, 2, 4)
TAINTS: Final = (
    taint("dedicated"),
    taint("busy", labels.PREFER_NO_SCHEDULE),
    taint("old", labels.NO_EXECUTE),
)
_SPOT: Final = (labels.SPOT, 0.6)
_ON_DEMAND: Final = (labels.ON_DEMAND, 1.0)


@st.composite
def catalogues(draw: st.DrawFn, mix: Mix) -> tuple[InstanceType, ...]:
    """Return one to five types, each sold in some zones and ways."""
    shapes = draw(
        st.lists(
            st.tuples(
                st.sampled_from(CORES), st.sampled_from(GIB_PER_CORE), st.sampled_from(("amd64", "arm64"))
            ),
            min_size=1,
            max_size=5,
            unique=True,
        )
    )
    return tuple(draw(_types(mix, cores, ratio, arch)) for cores, ratio, arch in shapes)


@st.composite
def _types(draw: st.DrawFn, mix: Mix, cores: int, ratio: int, arch: str) -> InstanceType:
    price = cores * 0.05 + cores * ratio * 0.005 + draw(st.integers(0, 9)) * 0.003
    zones = draw(st.lists(st.sampled_from(ZONES), min_size=1, unique=True))
    ways = draw(st.sampled_from(((_ON_DEMAND,), (_SPOT, _ON_DEMAND), (_SPOT, _ON_DEMAND), (_SPOT,))))
    sold = [
        offering(zone, way, round(price * share + draw(st.integers(0, 3)) * 0.001, 4), available=available)
        for zone in sorted(zones)
        for way, share in ways
        for available in [not (mix.sold_out and draw(seldom(6)))]
    ]
    if mix.reserved and draw(seldom(4)):
        sold.append(draw(_reserved(zones[0], price)))
    return instance_type(
        f"{arch[:3]}-{cores}x{cores * ratio}",
        cpu=cores,
        memory=cores * ratio,
        pods=draw(st.sampled_from((110, 12, 4))),
        arch=arch,
        sold=sold,
        resources={GPU: 1} if draw(seldom(4)) else None,
        overhead={"cpu": 100, "memory": 2**27},
    )


@st.composite
def _reserved(draw: st.DrawFn, zone: str, price: float) -> Offering:
    name = draw(st.sampled_from(("r1", "r2")))
    return offering(zone, labels.RESERVED, price / 1000, reservation=name, left=draw(st.integers(0, 2)))


def draw_pool(draw: st.DrawFn, mix: Mix, types: tuple[InstanceType, ...], number: int) -> Pool:
    """Return a pool that may buy some of the types, within its requirements and limits."""
    # Strategies over numbers, and a function instead of a strategy: hypothesis keeps their text.
    numbers = draw(st.lists(st.sampled_from(range(len(types))), min_size=1, unique=True))
    chosen = [types[each] for each in numbers]
    requires = draw(st.lists(conditions((labels.ZONE, labels.CAPACITY_TYPE, labels.ARCH)), max_size=1))
    own: dict[str, str] = {}
    match draw(st.sampled_from(("none", "label", "choice"))):
        case "label":
            own[TEAM] = draw(st.sampled_from(TEAMS))
        case "choice":
            requires.append(only(TEAM, *TEAMS))
        case _:
            pass
    least = {}
    if mix.min_values and draw(seldom(5)):
        least = {draw(st.sampled_from((labels.INSTANCE_TYPE, labels.ZONE))): draw(st.integers(1, 3))}
    limits = {}
    if mix.limits and draw(seldom(3)):
        name = draw(st.sampled_from(("cpu", "memory", labels.NODES)))
        limits[name] = {"cpu": "10", "memory": "24Gi", labels.NODES: "2"}[name]
    return pool(
        f"pool-{number}",
        *sorted(chosen, key=lambda kind: kind.name),
        requires=requires,
        min_values=least,
        node_labels=own,
        taints=draw(_taints(mix)),
        limits=limits,
    )


@st.composite
def _taints(draw: st.DrawFn, mix: Mix) -> tuple[Taint, ...]:
    if not mix.taints or not draw(seldom(4)):
        return ()
    return (draw(st.sampled_from(TAINTS)),)


@st.composite
def nodes(draw: st.DrawFn, mix: Mix, number: int) -> NodeWithPods:
    """Return a node with up to three pods on it, perhaps tainted, perhaps full."""
    bound = [
        pod(
            f"bound-{number}-{position}",
            app=draw(st.sampled_from(APPS)),
            namespace=draw(st.sampled_from(NAMESPACES)) if mix.namespaces else "default",
            apart=[draw(affinity_terms(mix))] if mix.anti_affinity and draw(seldom(5)) else (),
        )
        for position in range(draw(st.integers(0, 3)))
    ]
    attached = frozenset({"default/claim-0", "default/kept"}) if draw(st.booleans()) else frozenset()
    return node(
        f"node-{number}",
        *bound,
        zone=draw(st.sampled_from(ZONES)),
        capacity_type=draw(st.sampled_from((labels.SPOT, labels.ON_DEMAND))),
        arch=draw(st.sampled_from(("amd64", "arm64"))),
        node_labels={TEAM: draw(st.sampled_from(TEAMS))} if draw(st.booleans()) else None,
        taints=draw(_taints(mix)),
        free={
            "cpu": draw(st.sampled_from(("4", "2", "500m", "0"))),
            "pods": draw(st.sampled_from(("20", "3", "0"))),
        },
        ports=(HostPort(8080),) if mix.ports and draw(seldom(4)) else (),
        volumes={DRIVER: attached} if mix.volumes else None,
        volume_limits={DRIVER: draw(st.integers(1, 3))} if mix.volumes else None,
        quiet=mix.savings and draw(seldom(5)),
        takes_pods=not draw(seldom(6)),
    )
