from collections.abc import Mapping
from random import Random

import msgspec
import pytest

from karpenter.api import labels
from karpenter.api.meta import Condition, ObjectMeta, OwnerReference
from karpenter.api.node import Node, NodeSpec, NodeStatus
from karpenter.api.nodeclaim import NodeClaim, NodeClaimStatus
from karpenter.cloud.catalogs.kwok_format import InvalidCatalog
from karpenter.cloud.cloudprovider import Machine, ProviderContext
from karpenter.cloud.kwok import KwokProvider
from karpenter.cloud.kwok.cloudprovider import BadKwokSetting
from karpenter.cloud.registry import find_provider
from karpenter.core.model.resources import render_resources
from karpenter_local.virtual import VirtualClock
from tests.unit.cloud.kwok.world import POOL, Objects, claim, node_class

connect = find_provider("kwok")


def around(objects: Objects, settings: Mapping[str, str] | None = None) -> ProviderContext:
    chance = Random(1)  # noqa: S311  chance that can be repeated
    return ProviderContext(
        clock=VirtualClock(), chance=chance, cluster="ours", objects=objects, settings=settings or {}
    )


def launched(machine: Machine, *, registered: bool) -> NodeClaim:
    """Return the claim as the operator writes it after a launch."""
    made = claim()
    status = NodeClaimStatus(
        provider_id=machine.provider_id,
        capacity={**render_resources(machine.capacity)},
        allocatable={**render_resources(machine.allocatable)},
        conditions=(Condition(type="Registered", status=str(registered)),),
    )
    metadata = msgspec.structs.replace(made.metadata, labels={**made.metadata.labels, **machine.labels})
    return msgspec.structs.replace(made, status=status, metadata=metadata)


def make_node(provider_id: str) -> Node:
    """Return a node whose claim is gone."""
    owner = OwnerReference(kind="NodeClaim", name="lost", uid="uid-lost")
    return Node(
        metadata=ObjectMeta(name="node-1", owner_references=(owner,)),
        spec=NodeSpec(provider_id=provider_id),
        status=NodeStatus(capacity={"cpu": "1"}),
    )


MACHINE = Machine(provider_id="kwok://node-1", labels={labels.INSTANCE_TYPE: "gone"}, capacity={"cpu": 1000})


@pytest.mark.parametrize(
    ("remembered", "expected"),
    [
        pytest.param(launched(MACHINE, registered=True), 0, id="registered, and its node is gone"),
        pytest.param(launched(MACHINE, registered=False), 1, id="launched, and no node yet"),
        pytest.param(claim(), 0, id="a claim that was never launched"),
        pytest.param(make_node("kwok://node-1"), 1, id="a node without a claim"),
        pytest.param(make_node("aws:///zone/i-1"), 0, id="a node of another cloud"),
    ],
)
async def test_what_counts_as_a_memory(remembered: NodeClaim | Node, expected: int) -> None:
    """Only what must exist is remembered."""
    async with connect(around(Objects(node_class(), remembered))) as provider:
        found = await provider.list()

    assert len(found) == expected


async def test_a_provider_of_its_own() -> None:
    """Connected, the provider launches machines that become nodes of the cluster."""
    objects = Objects(node_class())
    async with connect(around(objects)) as provider:
        machine = await provider.launch(claim())
        await VirtualClock().sleep(1.0)

    assert [node.spec.provider_id for node in objects.nodes] == [machine.provider_id]
    assert len((await provider.catalog(POOL)).types) == 144


async def test_the_cluster_remembers_machines() -> None:
    """After the process died, a machine with a claim and a node is as it was, and its claim finds it."""
    objects = Objects(node_class())
    async with connect(around(objects)) as provider:
        machine = await provider.launch(claim())
        await VirtualClock().sleep(1.0)
    objects.put(launched(machine, registered=True))
    async with connect(around(objects)) as again:
        (found,) = await again.list()
        same = await again.launch(claim())

    assert (found.provider_id, found.capacity, found.allocatable, found.claim_uid) == (
        machine.provider_id,
        machine.capacity,
        machine.allocatable,
        "uid-one",
    )
    assert same == found


async def test_a_machine_that_had_not_joined_joins() -> None:
    """A machine that was launched and not yet a node when the process died becomes one after all."""
    objects = Objects(node_class(delay="1h"))
    async with connect(around(objects)) as provider:
        machine = await provider.launch(claim())
    objects.put(launched(machine, registered=False))
    async with connect(around(objects)):
        await VirtualClock().sleep(1.0)

    (node,) = objects.nodes
    assert node.spec.provider_id == machine.provider_id
    assert float(node.metadata.labels["eks-node-viewer/instance-price"]) > 0


async def test_an_orphan_tells_its_claim() -> None:
    """A node without a claim remembers which claim it was for, so that it can be collected."""
    async with connect(around(Objects(make_node("kwok://node-1")))) as provider:
        (found,) = await provider.list()

    assert (found.claim_uid, found.capacity) == ("uid-lost", {"cpu": 1000})


async def test_settings() -> None:
    """The catalogue and the latencies can be set."""
    settings = {
        "INSTANCE_TYPES_FILE_PATH": "aws:eu-west-1",
        "KWOK_LAUNCH_LATENCY": "1m",
        "KWOK_SHUTDOWN_LATENCY": "5s",
    }
    async with connect(around(Objects(node_class()), settings)) as provider:
        assert isinstance(provider, KwokProvider)
        machine = await provider.launch(claim())

    assert VirtualClock().monotonic() == 60.0
    assert machine.labels[labels.ZONE].startswith("eu-west-1")
    assert provider.cloud.behaviour.shutdown == 5.0


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        pytest.param(
            {"KWOK_LAUNCH_LATENCY": "soon"},
            BadKwokSetting,
            "KWOK_LAUNCH_LATENCY: 'soon' is not",
            id="latency",
        ),
        pytest.param(
            {"INSTANCE_TYPES_FILE_PATH": "no/such.json"}, InvalidCatalog, "cannot be read", id="catalogue"
        ),
    ],
)
async def test_bad_settings(settings: dict[str, str], error: type[Exception], text: str) -> None:
    """A setting that cannot be used is told in one sentence before anything starts."""
    with pytest.raises(error, match=text):
        async with connect(around(Objects(), settings)):
            pytest.fail("it started")
