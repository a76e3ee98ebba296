"""Which claims pods have, who holds what, and what is published."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from karpenter.api.dra import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from karpenter.api.labels import INITIALIZED, INSTANCE_TYPE, NODEPOOL, REGISTERED, ZONE
from karpenter.api.meta import Resource, convert
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.pod import Pod
from karpenter.core.model.catalog import Catalog
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.dynamicresources.build import build_dynamic_resources, claims_of
from karpenter.core.scheduling.dynamicresources.types import (
    ANYWHERE,
    Consumer,
    DeviceClaimError,
    DynamicResources,
)
from karpenter.core.state.cluster import view_of
from karpenter.core.state.statenode import state_nodes
from karpenter_local.testing.builders import instance_type
from tests.unit.core.scheduling.dynamicresources.hardware import DRIVER, every, exactly, gpu, templates, zones

GPU_CLASS = convert({"metadata": {"name": "gpu"}}, DeviceClass)


def pod(
    name: str = "web", *entries: dict[str, Any], status: dict[str, Any] | None = None, **spec: Any
) -> Pod:
    plain = {
        "metadata": {"name": name, "namespace": "d"},
        "spec": {"resourceClaims": list(entries), **spec},
        "status": status or {},
    }
    return convert(plain, Pod)


def claim(name: str, *, meta: dict[str, Any] | None = None, **status: Any) -> ResourceClaim:
    plain = {
        "metadata": {"name": name, "namespace": "d", **(meta or {})},
        "spec": {"devices": {"requests": [exactly(name)]}},
        "status": status,
    }
    return convert(plain, ResourceClaim)


def template(name: str) -> ResourceClaimTemplate:
    spec = {"spec": {"devices": {"requests": [every(name)]}}}
    return convert({"metadata": {"name": name, "namespace": "d"}, "spec": spec}, ResourceClaimTemplate)


USES_IT: dict[str, Any] = {
    "containers": [{"name": "app", "resources": {"claims": [{"name": "g"}]}}],
    "initContainers": [{"name": "first"}],
}
NAMED = {"name": "g", "resourceClaimName": "mine"}
MADE = {"name": "g", "resourceClaimTemplateName": "all"}
KNOWN: list[Resource] = [claim("mine"), claim("made-1"), template("all")]


def made(name: str | None) -> dict[str, Any]:
    """Return the status of a pod whose claim was made."""
    return {"resourceClaimStatuses": [{"name": "g", **({"resourceClaimName": name} if name else {})}]}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(pod("web"), [], id="no claims"),
        pytest.param(pod("web", NAMED), [("d/mine", False, "mine")], id="a claim by its name"),
        pytest.param(
            pod("web", NAMED, **USES_IT), [("d/mine", False, "mine")], id="a claim that its containers use"
        ),
        pytest.param(
            pod("web", MADE, status=made("made-1")), [("d/made-1", True, "made-1")], id="a claim made for it"
        ),
        pytest.param(pod("web", MADE, status=made(None)), [], id="a claim that was not needed"),
        pytest.param(pod("web", MADE), [("d/web-g", True, "all")], id="a claim that is still to be made"),
        pytest.param(
            pod("web", NAMED, {"name": "h", "resourceClaimName": "mine"}),
            [("d/mine", False, "mine")],
            id="one claim under two names",
        ),
        pytest.param(
            pod("web", NAMED, MADE | {"name": "h"}),
            [("d/mine", False, "mine"), ("d/web-h", True, "all")],
            id="two claims in order",
        ),
    ],
)
def test_claims_of_a_pod(found: Pod, expected: list[tuple[str, bool, str]]) -> None:
    """A pod names claims, or has them made from templates, one for itself."""
    claims = claims_of(found, view_of(KNOWN))

    assert [(each.key, each.generated, each.devices.requests[0].name) for each in claims] == expected


USES: dict[str, Any] = {"containers": [{"name": "app", "resources": {"claims": [{"name": "other"}]}}]}
BAD_TERM = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Is"}]}]}


@pytest.mark.parametrize(
    ("found", "objects", "says"),
    [
        pytest.param(pod("web", NAMED), [], "ResourceClaim d/mine does not exist", id="no such claim"),
        pytest.param(
            pod("web", MADE, status=made("gone")),
            KNOWN,
            "ResourceClaim d/gone does not exist",
            id="a claim that is gone",
        ),
        pytest.param(
            pod("web", MADE), [], "ResourceClaimTemplate d/all does not exist", id="no such template"
        ),
        pytest.param(
            pod("web", {"name": "g"}),
            [],
            "claim g of the pod names neither a ResourceClaim nor a template",
            id="no claim at all",
        ),
        pytest.param(
            pod("web", NAMED),
            [claim("mine", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            "ResourceClaim d/mine is being deleted",
            id="a claim that goes",
        ),
        pytest.param(
            pod("web", NAMED, **USES),
            KNOWN,
            "container app uses claim other, which the pod lacks",
            id="a container that uses another claim",
        ),
        pytest.param(
            pod("web", NAMED),
            [claim("mine", allocation={"nodeSelector": BAD_TERM})],
            "ResourceClaim d/mine: label 'a': 'Is' is not one of the operators",
            id="an allocation that cannot be read",
        ),
    ],
)
def test_claims_that_cannot_be_served(found: Pod, objects: list[Resource], says: str) -> None:
    """What is missing is named."""
    with pytest.raises(DeviceClaimError) as refused:
        list(claims_of(found, view_of(objects)))

    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({}, None, id="no devices yet"),
        pytest.param({"allocation": {}}, ANYWHERE, id="devices that can be reached from anywhere"),
        pytest.param(
            {"allocation": {"nodeSelector": zones("a", "b")}},
            tuple(Requirements.only(ZONE, frozenset({zone})) for zone in "ab"),
            id="devices of one zone or another",
        ),
    ],
)
def test_claims_that_have_devices(status: dict[str, Any], expected: object) -> None:
    """A claim that has devices says from where they can be reached."""
    (found,) = claims_of(pod("web", NAMED), view_of([claim("mine", **status)]))

    assert found.node_terms == expected


def take(
    *objects: Resource, catalog: Catalog | None = None
) -> tuple[DynamicResources | None, dict[str, str]]:
    """Return what is taken in of a cluster in which every pod without a node is to be placed."""
    view = view_of(objects)
    nodes = state_nodes(view)
    return build_dynamic_resources(
        view,
        catalog or Catalog(types=()),
        pods=[each for each in view.pods.values() if not each.spec.node_name],
        active=[node for node in nodes if not node.is_deleting],
        deleting=[node for node in nodes if node.is_deleting],
    )


def test_nothing_to_say() -> None:
    """Where no pod needs devices, nothing is said about them."""
    assert take(pod("web"), pod("skipped", MADE, status=made(None)), *KNOWN) == (None, {})


def test_needs_and_problems() -> None:
    """Pods whose claims can be served are kept apart from those whose claims cannot."""
    devices, problems = take(
        pod("good", NAMED), pod("bad", {"name": "g", "resourceClaimName": "x"}), *KNOWN, GPU_CLASS
    )

    assert devices is not None
    assert (list(devices.pod_claims), list(devices.classes)) == (["d/good"], ["gpu"])
    assert problems == {"d/bad": "ResourceClaim d/x does not exist"}


def test_what_is_asked_for_must_be_understood() -> None:
    """A claim for a class that is not there is refused, with what the pod calls it."""
    devices, problems = take(pod("a", MADE), pod("b", MADE), *KNOWN)

    assert devices is None
    assert problems == dict.fromkeys(
        ["d/a", "d/b"], "claim g of the pod: request all asks for DeviceClass gpu, which is not there"
    )


POD_HOLDS = {"reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]}


@pytest.mark.parametrize(
    ("status", "served"),
    [
        pytest.param({"allocation": {}}, True, id="it has devices and keeps them"),
        pytest.param({"allocation": {}, **POD_HOLDS}, False, id="it may have to be served again"),
    ],
)
def test_a_claim_that_was_served(status: dict[str, Any], served: bool) -> None:
    """What a claim asks for does not matter any more once it has it for good."""
    devices, problems = take(pod("web", NAMED), claim("mine", **status))

    assert (devices is not None, not problems) == (served, served)


RESULTS = {"devices": {"results": [{"driver": DRIVER, "pool": "p", "device": "a", "request": "r"}]}}


@pytest.mark.parametrize(
    ("reserved", "expected"),
    [
        pytest.param([], (), id="no pod"),
        pytest.param([{"resource": "pods", "name": "p", "uid": "1"}], (Consumer("d/p", "1"),), id="a pod"),
        pytest.param(
            [{"resource": "pods", "name": "p", "uid": "1"}, {"apiGroup": "x", "resource": "y", "name": "z"}],
            (),
            id="a pod and something else",
        ),
        pytest.param([{"apiGroup": "x", "resource": "pods", "name": "z"}], (), id="pods of another kind"),
    ],
)
def test_holdings(reserved: list[dict[str, str]], expected: tuple[Consumer, ...]) -> None:
    """A claim with devices holds them for the pods that use it; others hold them for good."""
    held = claim("held", allocation=RESULTS, reservedFor=reserved)
    devices, _ = take(pod("web", NAMED), *KNOWN, held, GPU_CLASS)

    assert devices is not None
    (found,) = devices.allocated_claims
    assert (found.claim, [each.device for each in found.results], found.consumers) == (
        "d/held",
        ["a"],
        expected,
    )


def machine(name: str, *, ready: bool = True, deleting: bool = False) -> list[Resource]:
    """Return a node of ours with its claim, perhaps not complete yet, perhaps about to go."""
    labels = {NODEPOOL: "default", INSTANCE_TYPE: "big", REGISTERED: "true"}
    if ready:
        labels[INITIALIZED] = "true"
    meta: dict[str, Any] = {"name": name, "labels": labels}
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return [
        convert({"metadata": meta, "spec": {"providerID": name}}, Node),
        convert(
            {
                "metadata": {"name": name, "labels": labels},
                "spec": {"nodeClassRef": {"group": "g", "kind": "K", "name": "k"}, "requirements": []},
                "status": {"providerID": name},
            },
            NodeClaim,
        ),
    ]


def owned(name: str, *, owner: str = "", **spec: Any) -> ResourceSlice:
    """Return a slice, perhaps owned by a node."""
    owners = [{"apiVersion": "v1", "kind": "Node", "name": owner, "uid": "u"}] if owner else []
    fields = {"driver": name, "pool": {"name": "p", "resourceSliceCount": 1}, **spec}
    return convert({"metadata": {"name": name, "ownerReferences": owners}, "spec": fields}, ResourceSlice)


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        pytest.param(owned("s", owner="ready", nodeName="ready"), True, id="by a node that is complete"),
        pytest.param(
            owned("s", owner="starting", nodeName="starting"), False, id="by a node that is not complete"
        ),
        pytest.param(owned("s", nodeName="starting"), False, id="for a node that is not complete"),
        pytest.param(owned("s", owner="going", nodeName="going"), False, id="by a node that goes"),
        pytest.param(owned("s", owner="unknown", allNodes=True), False, id="by an unknown node"),
        pytest.param(owned("s", allNodes=True), True, id="without an owner"),
    ],
)
def test_what_is_published(found: ResourceSlice, kept: bool) -> None:
    """What a node publishes counts once the node is complete, and as long as it stays."""
    nodes = [*machine("ready"), *machine("starting", ready=False), *machine("going", deleting=True)]
    devices, _ = take(pod("web", NAMED), *KNOWN, GPU_CLASS, *nodes, found)

    assert devices is not None
    assert bool(devices.slices) is kept


BIG = msgspec.structs.replace(instance_type("big"), devices=templates(gpu("a")))


@pytest.mark.parametrize(
    ("ready", "catalog", "expected"),
    [
        pytest.param(False, Catalog(types=(BIG,)), ["n"], id="a node on its way"),
        pytest.param(True, Catalog(types=(BIG,)), [], id="a node that is complete"),
        pytest.param(False, Catalog(types=()), [], id="an unknown type"),
        pytest.param(False, Catalog(types=(instance_type("big"),)), [], id="a type without devices"),
    ],
)
def test_what_nodes_on_their_way_will_have(ready: bool, catalog: Catalog, expected: list[str]) -> None:
    """A node that is not complete is known by what its type brings along."""
    devices, _ = take(pod("web", NAMED), *KNOWN, GPU_CLASS, *machine("n", ready=ready), catalog=catalog)

    assert devices is not None
    assert list(devices.templates) == expected


def test_each_node_is_looked_at_by_itself() -> None:
    """A node that is complete hides none that is not."""
    there = [*machine("a"), *machine("b", ready=False)]
    devices, _ = take(pod("web", NAMED), *KNOWN, GPU_CLASS, *there, catalog=Catalog(types=(BIG,)))

    assert devices is not None
    assert list(devices.templates) == ["b"]


def test_pods_of_nodes_that_go() -> None:
    """Pods of a node that goes let go of what they hold, whether or not they are placed again."""
    bound = pod("old", nodeName="going")
    devices, _ = take(pod("web", NAMED), bound, *KNOWN, GPU_CLASS, *machine("going", deleting=True))

    assert devices is not None
    assert devices.deleting_pods == (Consumer("d/old"),)
