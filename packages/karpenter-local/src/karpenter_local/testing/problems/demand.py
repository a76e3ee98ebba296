"""Random pods: templates with every kind of constraint, and what their volumes need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from karpenter.api import labels
from karpenter.api.meta import LabelSelector
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.problem import PodVolumes
from karpenter_local.testing.builders import (
    CORES,
    ZONES,
    Preferences,
    affinity_term,
    need,
    only,
    pod,
    spread,
    tolerate,
)
from karpenter_local.testing.problems.mix import (
    APPS,
    DOMAIN_KEYS,
    DRIVER,
    GPU,
    NAMESPACES,
    TEAM,
    TEAMS,
    ZONE_OR_HOST,
    Mix,
    seldom,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.api.pod import (
        NodeSelectorRequirement,
        Pod,
        PodAffinityTerm,
        Toleration,
        TopologySpreadConstraint,
    )

VALUES: Final = {
    labels.ZONE: ZONES,
    labels.CAPACITY_TYPE: (labels.SPOT, labels.ON_DEMAND),
    labels.ARCH: (labels.AMD64, labels.ARM64),
    TEAM: TEAMS,
}
CPUS: Final = (100, 150, 200, 300, 400, 600, 700, 900, 1100, 1500, 1900, 2500, 3500, 9000)
MEMORIES: Final = ("64Mi", "128Mi", "256Mi", "512Mi", "1Gi", "2Gi", "5Gi")
PORTS: Final = (8080, 8443)


@st.composite
def conditions(draw: st.DrawFn, keys: Sequence[str] = tuple(VALUES)) -> NodeSelectorRequirement:
    key = draw(st.sampled_from(keys))
    match draw(st.sampled_from(("In", "In", "In", "NotIn", "Exists", "DoesNotExist"))):
        case "In":
            return only(key, *draw(st.lists(st.sampled_from(VALUES[key]), min_size=1, unique=True)))
        case "NotIn":
            return need(key, "NotIn", draw(st.sampled_from(VALUES[key])))
        case "DoesNotExist" if key != TEAM:
            return need(key, "Exists")
        case operator:
            return need(key, operator)


@st.composite
def bounds(draw: st.DrawFn) -> NodeSelectorRequirement:
    return need(
        CORES, draw(st.sampled_from(("Gt", "Gte", "Lt", "Lte"))), draw(st.sampled_from(("2", "4", "8")))
    )


@st.composite
def affinity_terms(draw: st.DrawFn, mix: Mix) -> PodAffinityTerm:
    """Return a term about the pods of some app in a domain of some label."""
    own = {"match_label_keys": ("app",)} if mix.policies and draw(seldom(6)) else {}
    where: dict[str, object] = {}
    if mix.namespaces:
        match draw(st.integers(0, 5)):
            case 0:
                where = {"namespaces": NAMESPACES}
            case 1:
                where = {"namespace_selector": LabelSelector()}
            case 2:
                where = {"namespace_selector": LabelSelector(match_labels={"name": NAMESPACES[1]})}
            case _:
                pass
    key = draw(st.sampled_from(_domain_keys(mix)))
    return affinity_term(key, app=draw(st.sampled_from(APPS)), **own, **where)  # type: ignore[arg-type]


def _domain_keys(mix: Mix) -> tuple[str, ...]:
    return DOMAIN_KEYS if mix.other_domains else ZONE_OR_HOST


@st.composite
def spreads(draw: st.DrawFn, mix: Mix, *, anyway: bool) -> TopologySpreadConstraint:
    key = draw(st.sampled_from(_domain_keys(mix)))
    policed = mix.policies and draw(seldom(4))
    return spread(
        key,
        app=draw(st.sampled_from(APPS)),
        skew=draw(st.integers(1, 2)),
        anyway=anyway,
        min_domains=draw(st.integers(1, 4)) if policed else None,
        affinity_policy=draw(st.sampled_from((None, "Honor", "Ignore"))) if policed else None,
        taints_policy=draw(st.sampled_from((None, "Honor", "Ignore"))) if policed else None,
    )


@st.composite
def tolerations(draw: st.DrawFn) -> list[Toleration]:
    every = (tolerate("dedicated"), tolerate("busy"), tolerate("old", effect=labels.NO_EXECUTE), tolerate())
    return draw(st.lists(st.sampled_from(every), max_size=2, unique=True))


@st.composite
def preferences(draw: st.DrawFn, mix: Mix) -> Preferences:
    if not mix.preferences or not draw(seldom(3)):
        return Preferences()
    weights = st.integers(1, 3)
    return Preferences(
        nodes=tuple(
            draw(st.lists(st.tuples(weights, st.lists(conditions(), min_size=1, max_size=2)), max_size=2))
        ),
        near=tuple(draw(st.lists(st.tuples(weights, affinity_terms(mix)), max_size=1)))
        if mix.affinity
        else (),
        apart=tuple(draw(st.lists(st.tuples(weights, affinity_terms(mix)), max_size=2)))
        if mix.anti_affinity
        else (),
    )


@st.composite
def templates(draw: st.DrawFn, mix: Mix, number: int, cpu: int, memory: str) -> Pod:
    one = st.one_of(conditions(), bounds()) if mix.bounds else conditions()
    terms = st.lists(st.lists(one, min_size=1, max_size=2), max_size=3 if mix.alternatives else 1)
    spread_over = [draw(spreads(mix, anyway=False))] if mix.spread and draw(seldom(3)) else []
    if mix.spread and mix.preferences and draw(seldom(5)):
        spread_over += draw(st.lists(spreads(mix, anyway=True), min_size=1, max_size=3))
    key = draw(st.sampled_from((labels.ZONE, labels.CAPACITY_TYPE, labels.ARCH, TEAM)))
    return pod(
        f"t{number}",
        cpu=f"{cpu}m",
        memory=memory,
        resources={GPU: "1"} if draw(seldom(10)) else None,
        app=draw(st.sampled_from(APPS)),
        namespace=draw(st.sampled_from(NAMESPACES)) if mix.namespaces else NAMESPACES[0],
        on={key: draw(st.sampled_from(VALUES[key]))} if draw(seldom(5)) else None,
        terms=draw(terms) if draw(seldom(3)) else (),
        near=[draw(affinity_terms(mix))] if mix.affinity and draw(seldom(5)) else (),
        apart=[draw(affinity_terms(mix))] if mix.anti_affinity and draw(seldom(5)) else (),
        prefers=draw(preferences(mix)),
        tolerations=draw(tolerations()) if mix.taints else (),
        spreads=spread_over,
        ports=draw(st.lists(st.sampled_from(PORTS), max_size=1)) if mix.ports and draw(seldom(5)) else (),
    )


@st.composite
def daemons(draw: st.DrawFn, mix: Mix, number: int) -> Pod:
    """Return a pod that runs on every node of some kind."""
    return pod(
        f"daemon-{number}",
        cpu=draw(st.sampled_from(("50m", "300m", "1"))),
        memory=draw(st.sampled_from(("32Mi", "512Mi"))),
        namespace="kube-system",
        terms=draw(st.lists(st.lists(conditions((labels.ARCH, TEAM)), min_size=1, max_size=1), max_size=2)),
        tolerations=draw(tolerations()) if mix.taints else (),
        ports=(8080,) if mix.ports and draw(seldom(4)) else (),
    )


@st.composite
def volumes(draw: st.DrawFn, number: int) -> PodVolumes:
    """Return where the volumes of a pod can be reached, and which claims it mounts."""
    places = draw(st.lists(st.sets(st.sampled_from(ZONES), min_size=1), max_size=2))
    return PodVolumes(
        alternatives=tuple(Requirements.only(labels.ZONE, frozenset(zones)) for zones in places),
        claims={DRIVER: frozenset({f"default/claim-{number % 3}"})} if draw(st.booleans()) else {},
    )
