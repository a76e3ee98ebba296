"""What is written on claims and instances once there is a node."""

from typing import Any

import pytest

from karpenter.api.ec2nodeclass_status import AMI
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.errors import ResourceNotFound
from karpenter.cloud.aws.instance.instance import InstanceProvider
from karpenter.cloud.aws.instancetype.capacity import DiscoveredCapacity
from karpenter.cloud.aws.labels import CLUSTER_NAME_TAGGED, PLACEMENT_GROUP, PLACEMENT_PARTITION, TAGGED
from karpenter.cloud.aws.tagging import (
    DiscoveredCapacityController,
    PartitionController,
    TaggingController,
    is_untagged,
    lacks_partition,
    missing_tags,
)
from karpenter.core.effects import Amend, Step
from karpenter.core.state.cluster import ObjectUpdated
from karpenter_local.testing.cluster_objects import ObjectsInMemory
from karpenter_local.virtual import VirtualClock
from tests.unit.cloud.aws.scripted import NOW, ScriptedAws, instrumented, joined, launched, seen, virtually
from tests.unit.cloud.aws.world import simple_class

DONE = {TAGGED: "true", CLUSTER_NAME_TAGGED: "true"}
CLUSTER_TAG = {"eks:eks-cluster-name": "ours"}


def instance(*, tags: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """Return an answer of EC2 about one instance of ours."""
    held = CLUSTER_TAG if tags is None else tags
    told = {
        "InstanceId": "i-1",
        "InstanceType": "m5.large",
        "LaunchTime": NOW,
        "State": {"Name": "running"},
        "Tags": [{"Key": key, "Value": value} for key, value in held.items()],
        "Placement": {"AvailabilityZone": "us-west-2a"},
        **more,
    }
    return {"Reservations": [{"Instances": [told]}]}


def instances_of(aws: ScriptedAws, clock: VirtualClock) -> InstanceProvider:
    return InstanceProvider(aws, cluster="ours", clock=clock, metrics=instrumented(clock)[0])


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        pytest.param(launched(node="node-1"), True, id="with a node"),
        pytest.param(launched(), False, id="without a node yet"),
        pytest.param(launched(node="node-1", leaving=True), False, id="that leaves"),
        pytest.param(launched(node="node-1", annotations=DONE), False, id="that was tagged"),
        pytest.param(
            launched(node="node-1", annotations={TAGGED: "true"}), True, id="that an older version tagged"
        ),
        pytest.param(
            launched(node="node-1", annotations={**DONE, TAGGED: "false"}), True, id="marked otherwise"
        ),
    ],
)
def test_is_untagged(claim: NodeClaim, expected: bool) -> None:
    """A claim is tagged once it has a node, and once only."""
    assert is_untagged(claim) is expected


OURS = {"Name": "node-1", "karpenter.sh/nodeclaim": "default-1", "eks:eks-cluster-name": "ours"}


@pytest.mark.parametrize(
    ("tags", "missing"),
    [
        pytest.param({}, {"Name", "karpenter.sh/nodeclaim", "eks:eks-cluster-name"}, id="none"),
        pytest.param(
            {"Name": "mine"}, {"karpenter.sh/nodeclaim", "eks:eks-cluster-name"}, id="a name of the user's"
        ),
        pytest.param(CLUSTER_TAG, {"Name", "karpenter.sh/nodeclaim"}, id="the cluster"),
        pytest.param({"karpenter.sh/nodeclaim": "x"}, {"Name", "eks:eks-cluster-name"}, id="a claim"),
        pytest.param(OURS, set(), id="all"),
    ],
)
def test_missing_tags(tags: dict[str, str], missing: set[str]) -> None:
    """What is there stays as it is."""
    expected = {key: OURS[key] for key in missing}

    assert missing_tags(launched(node="node-1"), tags, cluster="ours") == expected


def tagged(answer: Any, claim: NodeClaim | None = None) -> tuple[Step, ScriptedAws, float]:
    """Return what tagging comes to, what EC2 was asked, and how long it took."""

    async def main(clock: VirtualClock) -> tuple[Step, ScriptedAws, float]:
        aws = ScriptedAws({"DescribeInstances": answer})
        care = TaggingController(
            view=seen(claim or launched(node="node-1")),
            instances=instances_of(aws, clock),
            cluster="ours",
            clock=clock,
        )
        step = await care.reconcile("default-1")
        return step, aws, clock.monotonic()

    return virtually(main)


def test_an_instance_is_tagged_with_one_call() -> None:
    """All tags at once, then a second of rest, then the marks on the claim."""
    step, aws, seconds = tagged(instance())

    (call,) = aws.asked("CreateTags")
    assert call == {
        "Resources": ["i-1"],
        "Tags": [
            {"Key": "Name", "Value": "node-1"},
            {"Key": "karpenter.sh/nodeclaim", "Value": "default-1"},
        ],
    }
    (amend,) = step.effects
    assert isinstance(amend, Amend)
    assert amend.changes == {"metadata": {"annotations": DONE}}
    assert seconds >= 1.0


def test_an_instance_without_the_tag_of_the_cluster_gets_it() -> None:
    """An instance that an older Karpenter launched is found all the same."""
    step, aws, _ = tagged(instance(tags={"Name": "mine", "karpenter.sh/nodeclaim": "default-1"}))

    (call,) = aws.asked("CreateTags")
    assert call["Tags"] == [{"Key": "eks:eks-cluster-name", "Value": "ours"}]
    assert len(step.effects) == 1


def test_an_instance_of_another_cluster_is_left_alone() -> None:
    """What carries the tag of another cluster is not ours to tag."""
    step, aws, _ = tagged(instance(tags={"eks:eks-cluster-name": "theirs"}))

    assert (step.effects, aws.asked("CreateTags")) == ((), [])


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({}, "", id="in none"),
        pytest.param({"CapacityReservationId": "cr-1"}, "", id="on demand in an open one"),
        pytest.param(
            {
                "CapacityReservationId": "cr-1",
                "CapacityReservationSpecification": {
                    "CapacityReservationPreference": "capacity-reservations-only"
                },
            },
            "cr-1",
            id="launched into one",
        ),
    ],
)
def test_the_reservation_of_an_instance(more: dict[str, Any], expected: str) -> None:
    """Only an instance that was launched into a reservation is in it; EC2 fills open ones by itself."""

    async def main(clock: VirtualClock) -> str:
        aws = ScriptedAws({"DescribeInstances": instance(**more)})
        return (await instances_of(aws, clock).get("i-1")).reservation

    assert virtually(main) == expected


def test_an_instance_with_all_tags_is_only_marked() -> None:
    """Nothing is asked of EC2 that it has."""
    step, aws, _ = tagged(instance(tags=OURS))

    assert (len(step.effects), aws.asked("CreateTags")) == (1, [])


def test_an_instance_that_is_gone_is_not_tagged() -> None:
    """Nor is the claim marked."""
    gone = ResourceNotFound(action="ec2:DescribeInstances", code="InvalidInstanceID.NotFound", message="")

    assert tagged(gone)[0].effects == ()


def test_an_instance_that_goes_meanwhile_is_not_marked() -> None:
    """EC2 may say so only when it is to be tagged."""

    async def main(clock: VirtualClock) -> Step:
        gone = ResourceNotFound(action="ec2:CreateTags", code="InvalidInstanceID.NotFound", message="")
        aws = ScriptedAws({"DescribeInstances": instance(), "CreateTags": gone})
        care = TaggingController(
            view=seen(launched(node="n")), instances=instances_of(aws, clock), cluster="ours", clock=clock
        )
        return await care.reconcile("default-1")

    assert virtually(main).effects == ()


@pytest.mark.parametrize("instance_name", ["", "x-1"], ids=["none", "not one of EC2"])
def test_a_machine_without_a_proper_name_is_not_asked_about(instance_name: str) -> None:
    """It is logged, and not tried again."""
    step, aws, _ = tagged(instance(), launched(node="node-1", instance=instance_name))

    assert (step.effects, aws.calls) == ((), [])


GROUP = {PLACEMENT_GROUP: "pg-1"}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param({}, False, id="no group"),
        pytest.param(GROUP, False, id="a group without partitions"),
        pytest.param({**GROUP, PLACEMENT_PARTITION: ""}, True, id="a partition that is not known"),
        pytest.param({**GROUP, PLACEMENT_PARTITION: "2"}, False, id="a partition"),
    ],
)
def test_lacks_partition(labels: dict[str, str], expected: bool) -> None:
    """Only groups with partitions have a label for it, and it is empty until EC2 tells."""
    assert lacks_partition(launched(labels=labels)) is expected


@pytest.mark.parametrize(
    ("number", "changes", "again"),
    [
        pytest.param(3, {"metadata": {"labels": {PLACEMENT_PARTITION: "3"}}}, None, id="told"),
        pytest.param(0, None, 5.0, id="not told yet"),
    ],
)
def test_the_partition_is_written_once_ec2_tells(number: int, changes: Any, again: float | None) -> None:
    """Until then it is asked for again."""
    placement = {"AvailabilityZone": "us-west-2a", "PartitionNumber": number}

    async def main(clock: VirtualClock) -> Step:
        aws = ScriptedAws({"DescribeInstances": instance(Placement=placement)})
        claim = launched(labels={**GROUP, PLACEMENT_PARTITION: ""})
        care = PartitionController(view=seen(claim), instances=instances_of(aws, clock))
        assert list(care.wakes(ObjectUpdated(claim), None)) == ["default-1"]
        return await care.reconcile("default-1")

    step = virtually(main)

    written = [each.changes for each in step.effects if isinstance(each, Amend)]
    assert (written, step.again) == ([changes] if changes else [], again)


IMAGES = (AMI(id="ami-1"), AMI(id="ami-2"))


@pytest.mark.parametrize(
    ("image", "memory", "expected"),
    [
        pytest.param("ami-1", "7Gi", 7 * 2**30, id="from an image of the class"),
        pytest.param("ami-9", "7Gi", None, id="from an image that the class has left behind"),
        pytest.param("ami-1", "", None, id="a node that does not say"),
    ],
)
def test_memory_is_learned_from_nodes(image: str, memory: str, expected: int | None) -> None:
    """Only from nodes that start as the next ones will."""

    async def main(clock: VirtualClock) -> int | None:
        discovered = DiscoveredCapacity(monotonic=clock.monotonic)
        node = joined(
            labels={"node.kubernetes.io/instance-type": "m5.large"},
            capacity={"memory": memory} if memory else {},
        )
        care = DiscoveredCapacityController(
            objects=ObjectsInMemory(simple_class(amis=IMAGES)),
            view=seen(launched(image=image), node),
            discovered=discovered,
        )
        assert list(care.wakes(ObjectUpdated(node), None)) == ["node-1"]
        await care.reconcile("node-1")
        return discovered.memory("m5.large", ("ami-1", "ami-2"))

    assert virtually(main) == expected


def test_a_node_is_learned_from_once() -> None:
    """When it is registered, and not whenever it changes."""

    async def main(clock: VirtualClock) -> list[str]:
        care = DiscoveredCapacityController(
            objects=ObjectsInMemory(), view=seen(), discovered=DiscoveredCapacity(monotonic=clock.monotonic)
        )
        unregistered = joined(labels={"karpenter.sh/registered": "false"})
        return [
            *care.wakes(ObjectUpdated(joined()), joined()),
            *care.wakes(ObjectUpdated(unregistered), None),
            *care.wakes(ObjectUpdated(joined()), unregistered),
        ]

    assert virtually(main) == ["node-1"]


def test_figures_of_a_node_are_never_raised() -> None:
    """A node that is smaller than expected is what hurts."""

    async def main(clock: VirtualClock) -> tuple[int | None, int]:
        discovered = DiscoveredCapacity(monotonic=clock.monotonic)
        for memory in (100, 90, 95):
            discovered.learn("m5.large", (), memory)
        return discovered.memory("m5.large", ()), discovered.version

    assert virtually(main) == (90, 2)
