"""The provider: when it launches at all, what a machine says, and why it drifts."""

from functools import cache
from typing import Any

import msgspec
import pytest

from karpenter.api.meta import Condition
from karpenter.api.nodeclaim import NodeClaimStatus
from karpenter.cloud.aws.cloudprovider import AwsProvider
from karpenter.cloud.aws.interruption.controller import InstanceClaims
from karpenter.cloud.aws.labels import PLACEMENT_GROUP, PLACEMENT_PARTITION
from karpenter.cloud.aws.repair import REPAIRS
from karpenter.cloud.cloudprovider import ControllerContext, SingletonController
from karpenter.cloud.errors import InsufficientCapacity, LaunchRefused, MachineNotFound, NodeClassNotReady
from karpenter.telemetry.metrics import Metrics
from tests.unit.cloud.aws.scripted import NOW, joined, launched, seen
from tests.unit.cloud.aws.world import World, claim, pool, requirement

M5 = requirement("node.kubernetes.io/instance-type", "In", "m5.large")
ON_DEMAND = requirement("karpenter.sh/capacity-type", "In", "on-demand")


@cache
def world() -> World:
    """Return the account that all of these are in."""
    return World(types=("m5.large", "m5.xlarge"))


def ready(status: str, generation: int = 1) -> Condition:
    return Condition(type="Ready", status=status, reason="R", message="M", observed_generation=generation)


@pytest.mark.parametrize(
    ("change", "error", "problem"),
    [
        pytest.param({"conditions": (ready("False"),)}, NodeClassNotReady, "M", id="not ready"),
        pytest.param({"conditions": (ready("Unknown"),)}, LaunchRefused, "does not say yet", id="unknown"),
        pytest.param({"conditions": ()}, LaunchRefused, "does not say yet", id="new"),
        pytest.param(
            {"conditions": (ready("True", 0),)},
            NodeClassNotReady,
            "has not been looked at",
            id="changed since",
        ),
        pytest.param({"deleting": True}, InsufficientCapacity, "is being deleted", id="being deleted"),
        pytest.param({"missing": True}, InsufficientCapacity, "does not exist", id="missing"),
    ],
)
def test_a_class_must_be_ready(change: dict[str, Any], error: type[Exception], problem: str) -> None:
    """Nothing is launched from one that is not, and EC2 is not asked."""

    async def work(provider: AwsProvider) -> str:
        found = await provider.services.node_classes.get("default")
        assert found is not None
        if "conditions" in change:
            status = msgspec.structs.replace(found.status, conditions=change["conditions"])
            world().objects.put(msgspec.structs.replace(found, status=status))
        elif change.get("deleting"):
            metadata = msgspec.structs.replace(found.metadata, deletion_timestamp=NOW)
            world().objects.put(msgspec.structs.replace(found, metadata=metadata))
        else:
            world().objects._kept.pop(("EC2NodeClass", "default"))
        with pytest.raises(error) as caught:
            await provider.launch(claim(ON_DEMAND, name="unready"))
        assert world().account.calls("CreateFleet") == []
        return str(caught.value)

    assert problem in world().launching(work)


def machine_of(name: str, *requirements: Any, **spec: Any) -> Any:
    async def work(provider: AwsProvider) -> Any:
        return await provider.launch(claim(M5, *requirements, name=name))

    return world().launching(work, **spec)


def test_what_a_machine_says() -> None:
    """Labels of its type and its offering, what it has, and from what it was made."""
    machine = machine_of("says", ON_DEMAND)

    assert {
        "node.kubernetes.io/instance-type": "m5.large",
        "karpenter.sh/capacity-type": "on-demand",
        "karpenter.sh/nodepool": "default",
        "karpenter.k8s.aws/ec2nodeclass": "default",
        "karpenter.k8s.aws/instance-tenancy": "default",
        "karpenter.k8s.aws/instance-memory": "8192",
        "topology.kubernetes.io/region": "us-west-2",
    }.items() <= machine.labels.items()
    assert set(machine.annotations) == {
        "karpenter.k8s.aws/ec2nodeclass-hash",
        "karpenter.k8s.aws/ec2nodeclass-hash-version",
        "karpenter.k8s.aws/instance-profile-name",
    }
    assert machine.image_id.startswith("ami-")
    assert machine.capacity["pods"] == 29
    assert "vpc.amazonaws.com/efa" not in machine.capacity
    assert machine.labels["topology.kubernetes.io/zone"] in machine.provider_id


def test_a_machine_says_the_same_when_it_is_asked_for() -> None:
    """Launched, looked at, and listed."""

    async def work(provider: AwsProvider) -> Any:
        first = await provider.launch(claim(M5, ON_DEMAND, name="same"))
        again = await provider.get(first.provider_id)
        listed = next(each for each in await provider.list() if each.provider_id == first.provider_id)
        return first, again, listed

    first, again, listed = world().launching(work)

    assert first.labels == again.labels == listed.labels
    assert first.capacity == again.capacity == listed.capacity


@pytest.mark.parametrize("act", ["get", "terminate"])
def test_what_is_no_machine_of_ours_is_not_found(act: str) -> None:
    """Whatever it is called."""

    async def work(provider: AwsProvider) -> None:
        for number in ("aws:///us-west-2a/i-00000000000000000", "kwok://node-1", ""):
            with pytest.raises(MachineNotFound):
                await getattr(provider, act)(number)

    world().launching(work)


def drifted(change: Any) -> str:
    """Return why a machine has drifted after its class has changed."""

    async def work(provider: AwsProvider) -> str:
        machine = await provider.launch(claim(M5, ON_DEMAND, name="drifting"))
        owner = msgspec.structs.replace(
            claim(M5, ON_DEMAND, name="drifting", annotations=machine.annotations),
            status=NodeClaimStatus(provider_id=machine.provider_id, image_id=machine.image_id),
        )
        found = await provider.services.node_classes.get("default")
        assert found is not None
        stamped = {key: value for key, value in machine.annotations.items() if "hash" in key}
        metadata = msgspec.structs.replace(found.metadata, annotations=stamped)
        world().objects.put(change(msgspec.structs.replace(found, metadata=metadata)))
        return await provider.drift(owner)

    return world().launching(work)


def with_status(**changes: Any) -> Any:
    """Return what changes the status of a class."""
    return lambda found: msgspec.structs.replace(
        found, status=msgspec.structs.replace(found.status, **changes)
    )


def rehashed(found: Any) -> Any:
    notes = {**found.metadata.annotations, "karpenter.k8s.aws/ec2nodeclass-hash": "0"}
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, annotations=notes))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda found: found, "", id="nothing has changed"),
        pytest.param(rehashed, "NodeClassDrift", id="the class"),
        pytest.param(
            lambda found: with_status(
                amis=tuple(msgspec.structs.replace(each, id="ami-new") for each in found.status.amis)
            )(found),
            "AMIDrift",
            id="the image",
        ),
        pytest.param(
            lambda found: with_status(security_groups=found.status.security_groups[:1])(found),
            "SecurityGroupDrift",
            id="the groups",
        ),
        pytest.param(
            lambda found: with_status(
                subnets=tuple(msgspec.structs.replace(each, id="subnet-new") for each in found.status.subnets)
            )(found),
            "SubnetDrift",
            id="the subnets",
        ),
        pytest.param(
            lambda found: rehashed(with_status(security_groups=())(found)),
            "NodeClassDrift",
            id="the class first",
        ),
    ],
)
def test_drift(change: Any, expected: str) -> None:
    """The first difference is told, in a fixed order."""
    assert drifted(change) == expected


def test_without_a_class_nothing_has_drifted() -> None:
    """There is nothing to compare with."""

    async def work(provider: AwsProvider) -> str:
        machine = await provider.launch(claim(M5, ON_DEMAND, name="orphan"))
        world().objects._kept.pop(("EC2NodeClass", "default"))
        owner = msgspec.structs.replace(
            claim(name="orphan"), status=NodeClaimStatus(provider_id=machine.provider_id)
        )
        return await provider.drift(owner)

    assert world().launching(work) == ""


def test_the_same_catalogue_comes_back_until_something_changes() -> None:
    """So that callers can compare by identity."""

    async def work(provider: AwsProvider) -> Any:
        first, second = await provider.catalog(pool()), await provider.catalog(pool())
        provider.services.unavailable.mark_capacity_type("spot")
        return first is second, await provider.catalog(pool()) is first

    assert world().launching(work) == (True, False)


def test_a_pool_without_a_class_buys_nothing() -> None:
    """It is told."""

    async def work(provider: AwsProvider) -> None:
        world().objects._kept.pop(("EC2NodeClass", "default"))
        with pytest.raises(NodeClassNotReady, match="does not exist"):
            await provider.catalog(pool())

    world().launching(work)


@pytest.mark.parametrize(
    ("labels", "held"),
    [
        pytest.param({}, False, id="no group"),
        pytest.param({PLACEMENT_GROUP: "pg-1", PLACEMENT_PARTITION: ""}, True, id="no partition yet"),
        pytest.param({PLACEMENT_GROUP: "pg-1", PLACEMENT_PARTITION: "1"}, False, id="a partition"),
    ],
)
def test_nodes_wait_for_their_partition(labels: dict[str, str], held: bool) -> None:
    """Pods may be spread over partitions."""

    async def work(provider: AwsProvider) -> bool:
        return bool(await provider.registration_holds(launched(labels=labels), joined()))

    assert world().run(work) is held


@pytest.mark.parametrize(
    ("given", "without"),
    [
        pytest.param({}, {"zonalshift"}, id="usually"),
        pytest.param({"ENABLE_ZONAL_SHIFT": "true"}, set(), id="with zonal shifts"),
        pytest.param(
            {"ISOLATED_VPC": "true"}, {"zonalshift", "instanceprofile.garbagecollection"}, id="without IAM"
        ),
        pytest.param(
            {"FEATURE_GATES": "ReservedCapacity=false"},
            {"zonalshift", "capacityreservation.capacitytype", "capacityreservation.expiration"},
            id="without reservations",
        ),
    ],
)
def test_duties(given: dict[str, str], without: set[str]) -> None:
    """Which there are depends on the settings."""
    every = {
        "nodeclass",
        "nodeclass.hash",
        "nodeclaim.tagging",
        "nodeclaim.partition",
        "providers.instancetype.capacity",
        "instanceprofile.garbagecollection",
        "launchtemplate.garbagecollection",
        "providers.pricing",
        "providers.instancetype",
        "providers.ssm.invalidation",
        "providers.version",
        "capacityreservation.capacitytype",
        "capacityreservation.expiration",
        "zonalshift",
        "interruption.instancestatus",
        "cloudprovider.metrics",
    }

    async def work(provider: AwsProvider) -> set[str]:
        metrics = Metrics(clock=provider.services.clock, also=provider.metrics)
        controllers = provider.controllers(ControllerContext(view=seen(), metrics=metrics))
        assert all(isinstance(each, SingletonController) or each.workers > 0 for each in controllers)
        return {each.name for each in controllers}

    assert world().run(work, given=given) == every - without


def test_the_machine_of_a_claim_that_does_not_know_it_is_not_taken_for_a_leftover() -> None:
    """After a restart the tags say for which claims a machine was launched, and one of them still waits."""
    wanted = claim(M5, ON_DEMAND, name="waiting")

    async def launch(provider: AwsProvider) -> str:
        return (await provider.launch(wanted)).provider_id

    async def look(provider: AwsProvider) -> dict[str, str]:
        metrics = Metrics(clock=provider.services.clock, also=provider.metrics)
        provider.controllers(ControllerContext(view=seen(wanted), metrics=metrics))
        return {each.provider_id: each.claim_uid for each in await provider.list()}

    number = world().launching(launch)

    assert world().launching(look)[number] == wanted.metadata.uid


def test_conditions_that_mean_that_a_node_is_broken() -> None:
    """Each with how long it is put up with."""
    found = {(each.condition_type, each.condition_status): each.toleration.seconds // 60 for each in REPAIRS}

    assert found == {
        ("Ready", "False"): 30,
        ("Ready", "Unknown"): 30,
        ("AcceleratedHardwareReady", "False"): 10,
        ("StorageReady", "False"): 30,
        ("NetworkingReady", "False"): 30,
        ("KernelReady", "False"): 30,
        ("ContainerRuntimeReady", "False"): 30,
    }


def test_claims_are_found_by_their_instances() -> None:
    """Those whose machine has no proper name are not."""
    by_instance = InstanceClaims(seen(launched("a", "i-1"), launched("b", ""), launched("c", "i-3")))

    assert [found.name if found else None for found in map(by_instance.claim_of, ("i-1", "i-3", "i-9"))] == [
        "a",
        "c",
        None,
    ]
