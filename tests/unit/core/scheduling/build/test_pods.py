"""Which pods are looked at, and which are turned away."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from karpenter.api import labels
from karpenter.api.cluster import PodDisruptionBudget
from karpenter.api.meta import Resource, convert
from karpenter.api.node import Node
from karpenter.api.pod import Pod, PodStatus
from karpenter.api.storage import PersistentVolumeClaim, StorageClass
from karpenter.core.model.requirement import requirement
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.build.pods import (
    check_pods,
    deleting_node_pods,
    provisionable_pods,
    refusal_of,
)
from karpenter.core.scheduling.problem import PodVolumes
from karpenter.core.state.cluster import view_of
from karpenter.core.state.pdb import PdbLimits
from karpenter.core.state.statenode import state_nodes
from karpenter_local.testing.builders import manifest_pod

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RULES = labels.CORE_LABEL_RULES

pod = partial(manifest_pod, namespace="shop")


def needs(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    selector = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"nodeAffinity": selector}


def preferred(*terms: dict[str, Any]) -> dict[str, Any]:
    """Return a preferred node affinity, the heaviest term first."""
    weighted = [{"weight": 100 - n, "preference": term} for n, term in enumerate(terms)]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}


def asking(**requests: str) -> dict[str, Any]:
    return {"containers": [{"name": "app", "resources": {"requests": requests}}]}


def spread(**fields: object) -> dict[str, Any]:
    found = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **fields}
    return {"topologySpreadConstraints": [found]}


BAD_SELECTOR = {"matchExpressions": [{"key": "app", "operator": "Is"}]}
NO_POOL = needs(labels.NODEPOOL, "DoesNotExist")
BAD_OPERATOR = "'Is' is no operator: expected In, NotIn, Exists or DoesNotExist"


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="no preferences"),
        pytest.param(asking(cpu="1", memory="1Gi"), id="ordinary amounts"),
        pytest.param({"nodeSelector": {labels.ZONE: "a"}}, id="a well-known label"),
        pytest.param({"nodeSelector": {"example.com/team": "web"}}, id="a label of one's own"),
        pytest.param({"nodeSelector": {labels.CAPACITY_TYPE: "spot"}}, id="a known value of a known label"),
        pytest.param(
            {"affinity": required(needs(labels.CAPACITY_TYPE, "In", "spot", "other"))},
            id="a known value beside an unknown one",
        ),
        pytest.param(
            {"affinity": required(needs(labels.CAPACITY_TYPE, "NotIn", "other"))},
            id="an unknown value refused",
        ),
        pytest.param({"affinity": required(needs("cpu", "Gt", "3"))}, id="an integer"),
        pytest.param(
            {"affinity": preferred(needs(labels.HOSTNAME, "In", "x"))}, id="preferences may ask for anything"
        ),
        pytest.param(
            {"affinity": required(needs("a", "Exists"), NO_POOL)}, id="another alternative without a pool"
        ),
        pytest.param(
            {"affinity": preferred(needs("a", "Exists"), NO_POOL)}, id="a lighter preference without a pool"
        ),
        pytest.param({"affinity": {}}, id="an affinity that says nothing"),
        pytest.param(
            {"nodeSelector": {labels.NODEPOOL: "a"}, "affinity": required(needs(labels.NODEPOOL, "In", "b"))},
            id="two pools at once, which is for the solver to explain",
        ),
        pytest.param(
            {
                "affinity": {
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]
                    }
                }
            },
            id="affinity",
        ),
        pytest.param(
            spread(minDomains=2, labelSelector={"matchLabels": {"app": "web"}}), id="an ordinary spread"
        ),
    ],
)
def test_pods_worth_looking_at(spec: dict[str, Any]) -> None:
    """A pod is looked at when some node of ours could have what it asks for."""
    assert refusal_of(pod(**spec), RULES) is None


TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        pytest.param(
            asking(cpu="lots"),
            "container 'app': resource 'cpu': 'lots' is not a quantity",
            id="an amount that is none",
        ),
        pytest.param(
            asking(memory="1e30"),
            "resource memory: 1e30 is beyond what can be counted: expected at most",
            id="an amount that cannot be counted",
        ),
        pytest.param(asking(cpu="-1"), "resource cpu: -1 is less than nothing", id="less than nothing"),
        pytest.param(
            {"nodeSelector": {labels.HOSTNAME: "node-1"}},
            f"spec.nodeSelector[{labels.HOSTNAME}]: Forbidden: label {labels.HOSTNAME} is set by Kubernetes",
            id="the name of a host",
        ),
        pytest.param(
            {"nodeSelector": {"karpenter.sh/initialized": "true"}},
            "spec.nodeSelector[karpenter.sh/initialized]: Forbidden: label karpenter.sh/initialized",
            id="a label that only we set",
        ),
        pytest.param(
            {"nodeSelector": {labels.CAPACITY_TYPE: "cheap"}},
            f'spec.nodeSelector[{labels.CAPACITY_TYPE}]: Unsupported value: ["cheap"]',
            id="no known value of a label whose values are known",
        ),
        pytest.param(
            {"affinity": required(needs("a/b/c", "Exists"))},
            f"{TERMS}[0].matchExpressions[0].key: Invalid value",
            id="a key that is none",
        ),
        pytest.param(
            {"affinity": required(needs("a", "In", "not valid"))},
            f"{TERMS}[0].matchExpressions[0].values[0]: Invalid value",
            id="a value that is none",
        ),
        pytest.param(
            {"affinity": required(needs("a", "In"))},
            f"{TERMS}[0].matchExpressions[0].values: Required value: operator In needs at least one value",
            id="In without a value",
        ),
        pytest.param(
            {"affinity": required(needs("a", "Gt", "x"))},
            f"{TERMS}[0].matchExpressions[0].values: Invalid value",
            id="a bound that is no integer",
        ),
        pytest.param(
            {"affinity": required(needs("a", "Exists"), needs("a", "Is"))},
            f'{TERMS}[1].matchExpressions[0].operator: Unsupported value: "Is"',
            id="an operator that is none, also in a later alternative",
        ),
        pytest.param(
            {
                "affinity": required(
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
                )
            },
            f"{TERMS}[0].matchFields: Forbidden",
            id="nodes by field",
        ),
        pytest.param(
            {"affinity": required(NO_POOL)},
            "the pod asks for a node without karpenter.sh/nodepool, so no NodePool may serve it",
            id="a node without a pool",
        ),
        pytest.param(
            {"affinity": preferred(NO_POOL)},
            "the pod asks for a node without karpenter.sh/nodepool, so no NodePool may serve it",
            id="first of all a node without a pool",
        ),
        pytest.param(
            {"affinity": preferred(needs("a", "Exists"), needs("a", "Gt"))},
            "label 'a': operator Gt takes exactly one integer of 0 or more, not nothing",
            id="a preference that cannot be read",
        ),
        pytest.param(
            spread(labelSelector=BAD_SELECTOR), f"label 'app': {BAD_OPERATOR}", id="a spread over whom"
        ),
        pytest.param(
            spread(maxSkew=0),
            "the spread over zone has maxSkew 0: expected a number from 1 to",
            id="no skew at all",
        ),
        pytest.param(
            spread(maxSkew=10**30),
            f"the spread over zone has maxSkew {10**30}: expected",
            id="a skew without end",
        ),
        pytest.param(
            spread(minDomains=0),
            "the spread over zone has minDomains 0: expected a number from 1 to",
            id="no domains",
        ),
        pytest.param(
            {
                "affinity": {
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": "zone", "labelSelector": BAD_SELECTOR}
                        ]
                    }
                }
            },
            f"label 'app': {BAD_OPERATOR}",
            id="an affinity selector",
        ),
        pytest.param(
            {
                "affinity": {
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "weight": 1,
                                "podAffinityTerm": {"topologyKey": "zone", "namespaceSelector": BAD_SELECTOR},
                            }
                        ]
                    }
                }
            },
            f"label 'app': {BAD_OPERATOR}",
            id="distance from which namespaces",
        ),
    ],
)
def test_pods_that_are_turned_away(spec: dict[str, Any], sentence: str) -> None:
    """A pod that no node of ours can serve is told so in one sentence, before any node is looked at."""
    found = refusal_of(pod(**spec), RULES)

    assert found is not None
    assert found.pod == "shop/web"
    assert found.message.startswith(sentence)


def test_rules_of_a_provider_count() -> None:
    """What is restricted is for the catalogue to say."""
    rules = labels.LabelRules(restricted_domains=frozenset({"example.com"}))

    assert refusal_of(pod(nodeSelector={"example.com/team": "web"}), rules) is not None


def test_pods_that_wait() -> None:
    """Pods without a node are looked at; others are not."""
    assert provisionable_pods(view_of([pod("a"), pod("b", nodeName="node-1")])) == (pod("a"),)


@pytest.mark.parametrize(
    ("leaving", "meta", "budgets", "expected"),
    [
        pytest.param(True, {}, [], ["web"], id="a pod of a leaving node"),
        pytest.param(False, {}, [], [], id="a pod of a node that stays"),
        pytest.param(True, {"annotations": {labels.DO_NOT_DISRUPT: "true"}}, [], [], id="a protected pod"),
        pytest.param(
            True,
            {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1"}]},
            [],
            [],
            id="a daemon",
        ),
        pytest.param(True, {}, [{"maxUnavailable": 0}], [], id="a pod that its budget never lets go"),
        pytest.param(True, {}, [{"maxUnavailable": 1}], ["web"], id="a pod that its budget lets go some day"),
    ],
)
def test_evacuation(
    leaving: bool, meta: dict[str, Any], budgets: list[dict[str, Any]], expected: list[str]
) -> None:
    """Pods of leaving nodes are placed anew when they will run again elsewhere."""
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if leaving else {}
    objects: list[Resource] = [
        convert({"metadata": {"name": "node-1", **gone}}, Node),
        pod(meta=meta, nodeName="node-1"),
        *(
            convert(
                {"metadata": {"name": "b", "namespace": "shop"}, "spec": {"selector": {}, **each}},
                PodDisruptionBudget,
            )
            for each in budgets
        ),
    ]
    view = view_of(objects)

    assert [each.name for each in deleting_node_pods(state_nodes(view), PdbLimits(view), NOON)] == expected


VOLUME: dict[str, Any] = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
CLAIM = convert(
    {"metadata": {"name": "data", "namespace": "shop"}, "spec": {"storageClassName": "fast"}},
    PersistentVolumeClaim,
)


def storage(**fields: object) -> StorageClass:
    """Return a storage class whose volumes follow their pods."""
    plain = {"metadata": {"name": "fast"}, "volumeBindingMode": "WaitForFirstConsumer", **fields}
    return convert(plain, StorageClass)


@pytest.mark.parametrize(
    ("storage_class", "expected"),
    [
        pytest.param(storage(), {}, id="volumes that demand nothing"),
        pytest.param(
            storage(provisioner="csi.example.com"),
            {"shop/web": PodVolumes((), {"csi.example.com": frozenset({"shop/data"})})},
            id="volumes that a driver attaches",
        ),
        pytest.param(
            storage(allowedTopologies=[{"matchLabelExpressions": [{"key": labels.ZONE, "values": ["a"]}]}]),
            {"shop/web": PodVolumes((Requirements.of([requirement(labels.ZONE, "In", ["a"])]),), {})},
            id="volumes that are somewhere",
        ),
    ],
)
def test_volumes_of_accepted_pods(storage_class: StorageClass, expected: dict[str, PodVolumes]) -> None:
    """What volumes demand is found out once per pod, and only kept where it is something."""
    found = check_pods([pod(**VOLUME)], view_of([CLAIM, storage_class]), RULES, ignore_device_claims=True)

    assert (found.volumes, len(found.accepted)) == (expected, 1)


DEVICES = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}


@pytest.mark.parametrize(
    ("spec", "ignored", "sentence"),
    [
        pytest.param(
            VOLUME, True, "PersistentVolumeClaim shop/data does not exist", id="a volume that is not there"
        ),
        pytest.param(
            DEVICES,
            True,
            "the pod uses resource claims, which are ignored (setting ignore-dra-requests)",
            id="devices that are ignored",
        ),
        pytest.param(DEVICES, False, "ResourceClaim shop/gpu does not exist", id="a claim that is not there"),
        pytest.param(
            {"affinity": required(NO_POOL), **VOLUME},
            True,
            "the pod asks for a node without karpenter.sh/nodepool, so no NodePool may serve it",
            id="the first of several problems",
        ),
    ],
)
def test_screening(spec: dict[str, Any], ignored: bool, sentence: str) -> None:
    """A pod that cannot be served is refused with its reason; the others are accepted."""
    found = check_pods(
        [pod("bad", **spec), pod("good")],
        view_of([]),
        RULES,
        ignore_device_claims=ignored,
        device_problems={"shop/bad": "ResourceClaim shop/gpu does not exist"},
    )

    assert ([(r.pod, r.message) for r in found.refused], [p.name for p in found.accepted]) == (
        [("shop/bad", sentence)],
        ["good"],
    )


def test_pods_of_one_workload_share_their_fate() -> None:
    """Pods that ask for the same are refused for the same; a volume of their own makes no difference."""
    pods = [
        pod(name, **asking(cpu="lots"), volumes=[{"name": f"token-{name}"}]) for name in ("web-0", "web-1")
    ]
    found = check_pods(pods, view_of([]), RULES, ignore_device_claims=True)

    assert [refusal.pod for refusal in found.refused] == ["shop/web-0", "shop/web-1"]


def test_pods_that_were_resized_are_judged_one_by_one() -> None:
    """What a container was given counts beside what it asks for."""
    resized = {"name": "app", "resources": {"requests": {"cpu": "1e30"}}}
    status = convert({"containerStatuses": [resized]}, PodStatus)
    fine = convert(
        {"containerStatuses": [{"name": "app", "resources": {"requests": {"cpu": "2"}}}]}, PodStatus
    )
    pods = [
        pod("a", **asking(cpu="1")),
        Pod(metadata=pod("b").metadata, spec=pod(**asking(cpu="1")).spec, status=status),
        Pod(metadata=pod("c").metadata, spec=pod(**asking(cpu="1")).spec, status=fine),
    ]
    found = check_pods(pods, view_of([]), RULES, ignore_device_claims=True)

    assert [refusal.pod for refusal in found.refused] == ["shop/b"]
