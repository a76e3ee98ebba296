"""Which zone waiting pods can only be in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.labels import ZONE
from karpenter.api.meta import convert
from karpenter.api.storage import PersistentVolume, PersistentVolumeClaim
from karpenter.core.model.catalog import Catalog
from karpenter.core.scheduling.build.zones import FLEXIBLE, NONE, pods_by_zone
from karpenter.core.state.cluster import view_of
from karpenter_local.testing.builders import instance_type
from tests.unit.core.lifecycle.objects import node, pod

if TYPE_CHECKING:
    from karpenter.api.pod import Pod

MARKET = Catalog(types=(instance_type("small", cpu=2),))
ZONES = sorted({offering.zone for offering in MARKET.types[0].offerings})
A, B = ZONES[:2]
WEB = {"labels": {"app": "web", "version": "1"}}


def volume(name: str, *terms: list[dict[str, Any]]) -> list[Any]:
    """Return a claim with its volume, which nodes of some terms reach."""
    claim = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {"volumeName": name},
        "status": {"phase": "Bound"},
    }
    required = {"required": {"nodeSelectorTerms": [{"matchExpressions": each} for each in terms]}}
    held = {"metadata": {"name": name}, "spec": {"nodeAffinity": required}}
    return [convert(claim, PersistentVolumeClaim), convert(held, PersistentVolume)]


def zone(*values: str, operator: str = "In") -> list[dict[str, Any]]:
    return [{"key": ZONE, "operator": operator, "values": list(values)}]


def requires(*values: str, operator: str = "In") -> dict[str, Any]:
    """Return the affinity of a pod to zones."""
    terms = [{"matchExpressions": zone(*values, operator=operator)}]
    node_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": node_affinity}}


def spread(**more: Any) -> dict[str, Any]:
    """Return a spread over zones that must hold."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        **more,
    }
    return {"topologySpreadConstraints": [constraint]}


def mounts(name: str) -> dict[str, Any]:
    return {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}}]}


THERE = [
    node(name=f"node-{n}", meta={"labels": {ZONE: each}}, spec={"providerID": f"kwok://{n}"})
    for n, each in enumerate(ZONES)
]
RUNNING = [pod(f"web-{n}", meta=WEB, spec={"nodeName": f"node-{n}"}) for n in range(1, len(ZONES))]
"""A pod in every zone but the first."""


def only_zone(spec: dict[str, Any], *objects: Any) -> str:
    """Return where a waiting pod can only be."""
    waiting = pod("waits", meta=WEB, spec={"nodeName": "", **spec})
    ((found, count),) = pods_by_zone([waiting, waiting], view_of([*THERE, *objects]), MARKET).items()
    assert count == 2
    return found


@pytest.mark.parametrize(
    ("spec", "objects", "expected"),
    [
        pytest.param({}, [], FLEXIBLE, id="nothing binds it"),
        pytest.param({"nodeSelector": {ZONE: A}}, [], A, id="it selects one"),
        pytest.param({"nodeSelector": {ZONE: "far-away"}}, [], "far-away", id="one that does not exist"),
        pytest.param(requires(A, B), [], FLEXIBLE, id="it requires one of two"),
        pytest.param(requires(*ZONES[1:], operator="NotIn"), [], A, id="it refuses all but one"),
        pytest.param(requires(*ZONES, operator="NotIn"), [], NONE, id="it refuses all"),
        pytest.param(requires("x", operator="Gt"), [], NONE, id="nonsense"),
        pytest.param(mounts("data"), volume("data", zone(B)), B, id="its volume is in one"),
        pytest.param(mounts("data"), volume("data", zone(A), zone(B)), FLEXIBLE, id="or in two"),
        pytest.param(
            {**mounts("data"), "nodeSelector": {ZONE: A}},
            volume("data", zone(B)),
            NONE,
            id="but not where it is",
        ),
        pytest.param(
            mounts("data"),
            volume("data", zone(B), [{"key": "rack", "operator": "In", "values": ["1"]}]),
            FLEXIBLE,
            id="its volume is reached from somewhere that has no zone",
        ),
        pytest.param(mounts("lost"), [], FLEXIBLE, id="its volume is lost"),
        pytest.param(spread(), [], FLEXIBLE, id="a spread that leaves all open"),
        pytest.param(spread(), RUNNING, A, id="a spread that leaves one open"),
        pytest.param(spread(maxSkew=2), RUNNING, FLEXIBLE, id="a spread that leaves room"),
        pytest.param(spread(whenUnsatisfiable="ScheduleAnyway"), RUNNING, FLEXIBLE, id="a wish to spread"),
        pytest.param(spread(topologyKey="rack"), RUNNING, FLEXIBLE, id="a spread over other things"),
        pytest.param(spread(labelSelector=None), RUNNING, FLEXIBLE, id="a spread of nothing"),
        pytest.param(spread(matchLabelKeys=["version", "x"]), RUNNING, A, id="a spread by version"),
        pytest.param(spread(minDomains=9), RUNNING, A, id="a spread over more zones than there are"),
        pytest.param(
            {**spread(), "nodeSelector": {ZONE: B}},
            RUNNING,
            B,
            id="a spread over the zones that it may be in",
        ),
        pytest.param(
            {**spread(nodeAffinityPolicy="Ignore"), "nodeSelector": {ZONE: B}},
            RUNNING,
            NONE,
            id="a spread over all zones, whatever it may be in",
        ),
        pytest.param(
            spread(labelSelector={"matchExpressions": [{"key": "app", "operator": "Near"}]}),
            RUNNING,
            FLEXIBLE,
            id="a spread that cannot be read",
        ),
    ],
)
def test_the_only_zone(spec: dict[str, Any], objects: list[Any], expected: str) -> None:
    """What a pod requires, where its volumes are and how it is spread leave one zone, several or none."""
    assert only_zone(spec, *objects) == expected


def test_pods_are_told_apart() -> None:
    """Pods with one spec and different labels are looked at each, over the same counts."""
    spec = {"nodeName": "", **spread()}
    web = pod("web", meta=WEB, spec=spec)
    other = pod("other", meta={"labels": {"app": "other"}}, spec=spec)

    found = pods_by_zone([web, other], view_of([*THERE, *RUNNING]), MARKET)
    assert found == {A: 1, FLEXIBLE: 1}


def test_volumes_that_are_made_for_one_pod_are_asked_for_each() -> None:
    """Pods of one workload share their spec, and have claims of their own in zones of their own."""
    ephemeral = {"volumes": [{"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}
    pods = [pod(name, spec={"nodeName": "", **ephemeral}) for name in ("db-0", "db-1")]
    pods = [msgspec.structs.replace(each, spec=pods[0].spec) for each in pods]
    held = [*volume("db-0-tmp", zone(A)), *volume("db-1-tmp", zone(B))]

    assert pods_by_zone(pods, view_of([*THERE, *held]), MARKET) == {A: 1, B: 1}


def test_a_volume_that_excludes_a_zone_leaves_a_choice() -> None:
    """A volume that is reached from everywhere but one zone names no zone."""
    waits = pod("db-0", spec={"nodeName": "", **mounts("data")})

    found = pods_by_zone([waits], view_of([*THERE, *volume("data", zone(A, operator="NotIn"))]), MARKET)

    assert found == {FLEXIBLE: 1}


@pytest.mark.parametrize(
    ("least", "expected"),
    [
        pytest.param(len(ZONES), FLEXIBLE, id="as many zones as there are"),
        pytest.param(len(ZONES) + 1, NONE, id="more zones than there are"),
    ],
)
def test_a_spread_that_wants_a_number_of_zones(least: int, expected: str) -> None:
    """With a pod in each zone the next may be anywhere, unless a zone is lacking: that counts as empty."""
    there = [*THERE, *RUNNING, pod("web-0", meta=WEB, spec={"nodeName": "node-0"})]
    waits = pod("web-9", meta=WEB, spec={"nodeName": "", **spread(minDomains=least)})

    assert pods_by_zone([waits], view_of(there), MARKET) == {expected: 1}


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(pod("x", meta={"labels": {"app": "db"}}, spec={"nodeName": "node-0"}), id="another app"),
        pytest.param(
            pod("x", meta={**WEB, "namespace": "other"}, spec={"nodeName": "node-0"}), id="another namespace"
        ),
        pytest.param(
            pod("x", meta=WEB, spec={"nodeName": "node-0"}, status={"phase": "Failed"}), id="it has ended"
        ),
        pytest.param(pod("x", meta=WEB, spec={"nodeName": ""}), id="it waits as well"),
        pytest.param(
            pod("x", meta={"labels": {"app": "web", "version": "2"}}, spec={"nodeName": "node-0"}),
            id="another version",
        ),
    ],
)
def test_pods_that_do_not_count_for_a_spread(there: Pod) -> None:
    """Every zone but the first has a pod of the workload; nothing else makes the first less empty."""
    waits = pod("web-9", meta=WEB, spec={"nodeName": "", **spread(matchLabelKeys=["app", "version"])})

    assert pods_by_zone([waits], view_of([*THERE, *RUNNING, there]), MARKET) == {A: 1}
