"""The hash of a NodePool's template."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.meta import convert
from karpenter.api.nodepool import NodePool
from karpenter.base.hashstructure import UnhashableError
from karpenter.core.model.nodepool_hash import POOL_HASH_VERSION, pool_hash

EC2 = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


def pool(metadata: dict[str, Any] | None = None, **spec: Any) -> NodePool:
    """Return a pool whose template has these fields."""
    template = {"metadata": metadata or {}, "spec": {"requirements": [], "nodeClassRef": EC2, **spec}}
    plain = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "spec": {"template": template}}
    return convert(plain, NodePool)


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        pytest.param(pool(expireAfter="720h"), "6821555240594823858", id="EC2, a month"),
        pytest.param(
            pool(
                expireAfter="336h",
                terminationGracePeriod="24h0m0s",
                nodeClassRef={"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"},
            ),
            "4012513481623584108",
            id="EKS Auto Mode, two weeks, a day of grace",
        ),
        pytest.param(
            pool(
                expireAfter="720h",
                nodeClassRef={
                    "group": "karpenter.cluster.x-k8s.io",
                    "kind": "ClusterAPINodeClass",
                    "name": "default",
                },
            ),
            "18334128632711491354",
            id="Cluster API, a month",
        ),
    ],
)
def test_hashes_seen_in_clusters(subject: NodePool, expected: str) -> None:
    """The hash is the one that clusters carry under the same version."""
    assert (pool_hash(subject), POOL_HASH_VERSION) == (expected, "v3")


FULL: dict[str, Any] = {
    "metadata": {"labels": {"team": "a", "tier": "web"}, "annotations": {"note": "x"}},
    "taints": [
        {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
        {"key": "soft", "effect": "PreferNoSchedule"},
    ],
    "startupTaints": [{"key": "warming", "effect": "NoExecute"}],
    "terminationGracePeriod": "1h",
    "expireAfter": "24h",
}


def test_pinned_hash() -> None:
    """The hash of a template that uses every field never changes under one version."""
    assert pool_hash(pool(**FULL)) == "16455263704754467948"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"metadata": {"labels": {"team": "b"}}}, id="labels"),
        pytest.param({"metadata": {"annotations": {"note": "y"}}}, id="annotations"),
        pytest.param({"taints": []}, id="taints"),
        pytest.param(
            {"taints": [{"key": "dedicated", "value": "cpu", "effect": "NoSchedule"}]}, id="taint value"
        ),
        pytest.param({"taints": FULL["startupTaints"], "startupTaints": FULL["taints"]}, id="taints swapped"),
        pytest.param({"startupTaints": []}, id="startup taints"),
        pytest.param({"nodeClassRef": {**EC2, "name": "other"}}, id="name of the class"),
        pytest.param({"nodeClassRef": {**EC2, "kind": "Other"}}, id="kind of the class"),
        pytest.param({"nodeClassRef": {**EC2, "group": "other"}}, id="group of the class"),
        pytest.param({"terminationGracePeriod": "2h"}, id="grace period"),
        pytest.param({"terminationGracePeriod": "0s"}, id="no grace at all"),
        pytest.param({"terminationGracePeriod": None}, id="any grace"),
        pytest.param({"expireAfter": "48h"}, id="expiry"),
        pytest.param({"expireAfter": "0s"}, id="expiry at once"),
        pytest.param({"expireAfter": "Never"}, id="no expiry"),
    ],
)
def test_changes_that_drift(change: dict[str, Any]) -> None:
    """Every field of the template counts."""
    assert pool_hash(pool(**{**FULL, **change})) != pool_hash(pool(**FULL))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"taints": FULL["taints"][::-1]}, id="order of taints"),
        pytest.param(
            {"metadata": {**FULL["metadata"], "labels": {"tier": "web", "team": "a"}}}, id="order of labels"
        ),
        pytest.param({"expireAfter": "1440m"}, id="spelling of a duration"),
        pytest.param(
            {"requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]},
            id="requirements",
        ),
        pytest.param(
            {"startupTaints": [{"key": "warming", "value": "", "effect": "NoExecute"}]}, id="an empty value"
        ),
    ],
)
def test_changes_that_do_not_drift(change: dict[str, Any]) -> None:
    """Order, spelling, empty fields and requirements do not count."""
    assert pool_hash(pool(**{**FULL, **change})) == pool_hash(pool(**FULL))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"metadata": {"labels": {}}}, id="labels"),
        pytest.param({"metadata": {"annotations": {}}}, id="annotations"),
        pytest.param({"taints": []}, id="taints"),
        pytest.param({"startupTaints": []}, id="startup taints"),
    ],
)
def test_an_empty_field_counts(change: dict[str, Any]) -> None:
    """An empty map or list that is spelled out is not the same as none, since it is not for Go."""
    assert pool_hash(pool(**change)) != pool_hash(pool())


def test_null_counts_as_absent() -> None:
    """A null in the place of a map or list is the same as none."""
    assert pool_hash(pool({"labels": None, "annotations": None}, taints=None)) == pool_hash(pool())


def test_the_moment_of_a_taint_counts() -> None:
    """A taint with another ``timeAdded`` is another taint."""
    taint = {"key": "a", "effect": "NoSchedule"}
    dated = [{**taint, "timeAdded": f"2026-01-0{day}T00:00:00Z"} for day in (1, 2)]

    assert len({pool_hash(pool(taints=[each])) for each in (taint, *dated)}) == 3


def test_a_bad_duration_is_refused() -> None:
    """A duration that cannot be read has no hash."""
    with pytest.raises(UnhashableError, match=r"expireAfter: 'soon' is not a duration"):
        pool_hash(pool(expireAfter="soon"))
