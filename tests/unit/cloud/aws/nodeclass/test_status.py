"""The status of a class: what is found, and which condition says what is missing."""

from datetime import timedelta
from functools import cache
from typing import Any

import msgspec
import pytest

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.meta import Condition
from karpenter.cloud.aws.cloudprovider import AwsProvider
from karpenter.cloud.aws.errors import AwsApiError
from karpenter.cloud.aws.interruption.controller import InstanceClaims
from karpenter.cloud.aws.nodeclass.status import ResolvedStatus
from karpenter_local.aws.faults import RefuseCall
from tests.unit.cloud.aws.scripted import NOW, seen
from tests.unit.cloud.aws.test_capacityreservation import told
from tests.unit.cloud.aws.world import CLUSTER, World, node_class


@cache
def world() -> World:
    """Return the account that classes are resolved in."""
    made = World()
    made.account.reservations["cr-1"] = told("cr-1", Tags=[{"Key": "team", "Value": "a"}])
    made.account.placement_groups["pg-1"] = {
        "GroupId": "pg-1",
        "GroupName": "group",
        "Strategy": "cluster",
        "State": "available",
    }
    return made


def resolved(given: dict[str, str] | None = None, **spec: Any) -> ResolvedStatus:
    """Return what comes of a class; nothing is launched to try it out."""

    async def work(provider: AwsProvider) -> ResolvedStatus:
        return await provider.node_class_status.resolve(node_class(world(), **spec))

    return world().run(work, types=True, given={"DISABLE_DRY_RUN": "true", **(given or {})})


def condition(found: ResolvedStatus, kind: str) -> Condition:
    return next(each for each in found.status.conditions if each.type == kind)


def test_a_class_that_is_right_is_ready() -> None:
    """Every part was found, and every condition holds for this generation."""
    found = resolved()

    assert {each.type: each.status for each in found.status.conditions} == dict.fromkeys(
        (
            "AMIsReady",
            "CapacityReservationsReady",
            "InstanceProfileReady",
            "PlacementGroupReady",
            "Ready",
            "SecurityGroupsReady",
            "SubnetsReady",
            "ValidationSucceeded",
        ),
        "True",
    )
    assert {each.observed_generation for each in found.status.conditions} == {1}


def test_what_was_found_stands_in_the_status() -> None:
    """Three subnets, two groups, five images, a profile."""
    status = resolved().status

    assert {each.zone for each in status.subnets} == {"us-west-2a", "us-west-2b", "us-west-2c"}
    assert [each.id for each in status.security_groups] == sorted(world().estate.groups)
    assert len(status.amis) == 5
    assert status.instance_profile.startswith("test-cluster_")


TERM = [{"tags": {"no": "such"}}]


@pytest.mark.parametrize(
    ("spec", "kind", "reason", "again"),
    [
        pytest.param({"subnetSelectorTerms": TERM}, "SubnetsReady", "SubnetsNotFound", 60.0, id="no subnet"),
        pytest.param(
            {"securityGroupSelectorTerms": TERM},
            "SecurityGroupsReady",
            "SecurityGroupsNotFound",
            60.0,
            id="no security group",
        ),
        pytest.param(
            {"amiSelectorTerms": TERM, "amiFamily": "AL2023"}, "AMIsReady", "AMINotFound", 60.0, id="no image"
        ),
        pytest.param(
            {"placementGroupSelector": {"name": "none"}},
            "PlacementGroupReady",
            "PlacementGroupNotFound",
            60.0,
            id="no placement group",
        ),
        pytest.param(
            {"amiSelectorTerms": [{"alias": "al2@latest"}]},
            "AMIsReady",
            "UnsupportedAlias",
            60.0,
            id="an alias that is too old for this version",
        ),
        pytest.param(
            {"amiSelectorTerms": [{"alias": "windows2025@latest"}]},
            "AMIsReady",
            "UnsupportedAlias",
            60.0,
            id="an alias that is too new for this version",
        ),
        pytest.param(
            {"amiSelectorTerms": [{"alias": "al2023@a@b"}]},
            "AMIsReady",
            "UnsupportedAlias",
            60.0,
            id="an alias with two parts too many",
        ),
    ],
)
def test_a_part_that_is_missing_is_named(spec: dict[str, Any], kind: str, reason: str, again: float) -> None:
    """The condition is False with one word and a sentence; the class is not ready, and looked at again."""
    given = {"KUBERNETES_VERSION": "1.33"}
    found = resolved(given, **spec)
    said = condition(found, kind)

    assert (said.status, said.reason, condition(found, "Ready").status) == ("False", reason, "False")
    assert said.message
    assert found.again <= again


@pytest.mark.parametrize(
    ("terms", "kind", "message"),
    [
        pytest.param(
            {"subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "green"}}, {"id": "subnet-1"}]},
            "SubnetsReady",
            "no subnet of us-west-2 has tag karpenter.sh/discovery=green, or id subnet-1",
            id="subnets by a tag or by an id",
        ),
        pytest.param(
            {"securityGroupSelectorTerms": [{"tags": {"team": "*", "env": "test"}}, {"name": "nodes"}]},
            "SecurityGroupsReady",
            "no security group of us-west-2 has tag env=test and tag team, or name nodes",
            id="groups by two tags, of which one may have any value, or by a name",
        ),
        pytest.param(
            {"amiSelectorTerms": [{"name": "mine-*", "owner": "self"}], "amiFamily": "AL2023"},
            "AMIsReady",
            "no available image has name mine-* and owner self",
            id="images by name and owner",
        ),
    ],
)
def test_the_message_says_what_was_looked_for(terms: dict[str, Any], kind: str, message: str) -> None:
    """A typo in a tag is seen without opening the class."""
    assert condition(resolved(**terms), kind).message == message


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        pytest.param({"subnetSelectorTerms": TERM}, "False", id="a part that is missing"),
        pytest.param({"role": "no-such-role"}, "Unknown", id="a part that is not known"),
    ],
)
def test_validation_waits_for_what_it_needs(spec: dict[str, Any], status: str) -> None:
    """It cannot be better than what it depends on."""
    said = condition(resolved(**spec), "ValidationSucceeded")

    assert (said.status, said.reason) == (status, "DependenciesNotReady")


def test_a_role_that_does_not_exist_is_named() -> None:
    """The condition stays unknown, as it may be made at any time; the sentence says what is missing."""
    found = resolved(role="no-such-role")
    said = condition(found, "InstanceProfileReady")

    assert (said.status, said.reason, said.message) == (
        "Unknown",
        "RoleNotFound",
        "IAM has no role no-such-role",
    )
    assert [str(error) for error in found.errors] == ["IAM has no role no-such-role"]


@pytest.mark.parametrize(
    ("spec", "given", "reason"),
    [
        pytest.param(
            {"kubelet": {"maxPods": True}}, {}, "InvalidKubeletConfiguration", id="a setting of a wrong type"
        ),
        pytest.param(
            {"kubelet": {"unheardOf": 1}}, {}, "InvalidKubeletConfiguration", id="an unknown setting"
        ),
        pytest.param(
            {"kubelet": {"evictionSoft": {"memory.available": "5%"}}},
            {},
            "InvalidKubeletConfiguration",
            id="a soft threshold without its grace period",
        ),
        pytest.param(
            {"kubelet": {"maxPods": "vcpus * 10"}}, {}, "KubeletExpressionsDisabled", id="an expression"
        ),
        pytest.param(
            {"kubelet": {"maxPods": "vcpus *"}},
            {"AWS_FEATURE_GATES": "NodeClassCEL=true"},
            "KubeletExpressionInvalid",
            id="an expression that is none",
        ),
        pytest.param(
            {"kubelet": {"maxPods": "vcpus - 1000000"}},
            {"AWS_FEATURE_GATES": "NodeClassCEL=true"},
            "KubeletExpressionEvaluationFailed",
            id="an expression that comes to nothing",
        ),
        pytest.param(
            {
                "kubelet": {"shutdownGracePeriod": "30s"},
                "amiSelectorTerms": [{"alias": "bottlerocket@latest"}],
            },
            {},
            "UnsupportedKubeletConfiguration",
            id="a setting that the family does not take",
        ),
        pytest.param(
            {"tags": {"karpenter.sh/nodeclaim": "x"}}, {}, "TagValidationFailed", id="a tag that is ours"
        ),
        pytest.param(
            {"tags": {"kubernetes.io/cluster/x": "owned"}},
            {},
            "TagValidationFailed",
            id="a tag that says whose it is",
        ),
    ],
)
def test_what_is_wrong_with_a_class_is_told(spec: dict[str, Any], given: dict[str, str], reason: str) -> None:
    """Nothing that a class says wrongly comes to a launch."""
    said = condition(resolved(given, **spec), "ValidationSucceeded")

    assert (said.status, said.reason) == ("False", reason)
    assert said.message


def test_expressions_that_work_are_accepted() -> None:
    """With the gate open."""
    found = resolved({"AWS_FEATURE_GATES": "NodeClassCEL=true"}, kubelet={"maxPods": "min(vcpus * 10, 110)"})

    assert condition(found, "ValidationSucceeded").status == "True"


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        pytest.param([], [], id="none are asked for"),
        pytest.param([{"tags": {"team": "a"}}], ["cr-1"], id="one is found"),
        pytest.param(TERM, [], id="none is found, which is fine"),
    ],
)
def test_reservations_are_optional(terms: list[Any], expected: list[str]) -> None:
    """A class without any is as ready as one with some."""
    found = resolved(capacityReservationSelectorTerms=terms)

    assert [each.id for each in found.status.capacity_reservations] == expected
    assert condition(found, "CapacityReservationsReady").status == "True"


def test_without_the_gate_reservations_do_not_count() -> None:
    """They are not looked for, and no condition says anything of them."""
    found = resolved(
        {"FEATURE_GATES": "ReservedCapacity=false"},
        capacityReservationSelectorTerms=[{"tags": {"team": "a"}}],
    )

    assert found.status.capacity_reservations == ()
    assert "CapacityReservationsReady" not in {each.type for each in found.status.conditions}


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("DescribeSubnets", "SubnetsReady"),
        ("DescribeSecurityGroups", "SecurityGroupsReady"),
        ("DescribeImages", "AMIsReady"),
    ],
)
def test_what_was_known_stays_when_ec2_does_not_answer(operation: str, kind: str) -> None:
    """A class that was ready stays ready, with what it had found, and the error is told."""

    async def work(provider: AwsProvider) -> tuple[EC2NodeClass, ResolvedStatus]:
        known = await world().resolve(provider, node_class(world()))
        world().account.faults.always(operation, RefuseCall(code="InvalidParameterValue", message="no"))
        await provider.services.clock.sleep(3600.0)
        try:
            return known, await provider.node_class_status.resolve(known)
        finally:
            world().account.faults.never(operation)

    known, found = world().run(work, types=True, given={"DISABLE_DRY_RUN": "true"})

    assert (condition(found, kind).status, condition(found, "Ready").status) == ("True", "True")
    assert (found.status.subnets, found.status.amis) == (known.status.subnets, known.status.amis)
    assert len(found.errors) == 1


def test_a_placement_group_that_cannot_be_asked_about_is_told() -> None:
    """The class cannot launch without knowing."""
    world().account.faults.always("DescribePlacementGroups", RefuseCall(code="InvalidParameterValue"))
    try:
        said = condition(resolved(placementGroupSelector={"id": "pg-9"}), "PlacementGroupReady")
    finally:
        world().account.faults.never("DescribePlacementGroups")

    assert (said.status, said.reason) == ("False", "PlacementGroupResolutionFailed")


def test_a_new_generation_is_not_ready_because_the_last_one_was() -> None:
    """Conditions are about the generation that was looked at."""

    async def work(provider: AwsProvider) -> ResolvedStatus:
        known = await world().resolve(provider, node_class(world()))
        changed = msgspec.structs.replace(
            known,
            metadata=msgspec.structs.replace(known.metadata, generation=2),
            spec=msgspec.structs.replace(known.spec, tags={"karpenter.sh/nodepool": "x"}),
        )
        return await provider.node_class_status.resolve(changed)

    found = world().run(work, types=True, given={"DISABLE_DRY_RUN": "true"})

    assert condition(found, "ValidationSucceeded").observed_generation == 2
    assert condition(found, "Ready").status == "False"


def test_a_cidr_that_cannot_be_found_out_is_told() -> None:
    """Machines of AL2023 need it to join."""
    world().account.faults.always("DescribeCluster", RefuseCall(code="AccessDeniedException", status=403))
    try:
        said = condition(resolved({"KUBERNETES_VERSION": "1.33"}), "ValidationSucceeded")
    finally:
        world().account.faults.never("DescribeCluster")

    assert (said.status, said.reason) == ("False", "ClusterCIDRResolutionFailed")
    assert "eks:DescribeCluster" in said.message


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [pytest.param(10, 60.0, id="later than a minute"), pytest.param(0.5, 30.0, id="sooner than that")],
)
def test_a_reservation_is_looked_at_when_it_ends(minutes: float, expected: float) -> None:
    """Or after a minute, whichever comes first."""
    world().account.reservations["cr-2"] = told(
        "cr-2", EndDate=NOW + timedelta(minutes=minutes), Tags=[{"Key": "soon", "Value": "yes"}]
    )

    found = resolved(capacityReservationSelectorTerms=[{"tags": {"soon": "yes"}}])

    assert found.again == expected


@pytest.mark.parametrize(
    ("queue", "fault", "reason", "said"),
    [
        pytest.param("nowhere", None, "QueueNotFound", "sqs:GetQueueUrl", id="it is not there"),
        pytest.param(
            CLUSTER,
            RefuseCall(code="AccessDenied", status=403),
            "Unauthorized",
            "not allowed to call sqs:ReceiveMessage",
            id="we may not read it",
        ),
    ],
)
def test_a_queue_that_cannot_be_used_is_told(
    queue: str, fault: RefuseCall | None, reason: str, said: str
) -> None:
    """Every class says so until it works; machines are launched all the same."""

    async def work(provider: AwsProvider) -> list[ResolvedStatus]:
        listening = provider.interruption_queue
        assert listening is not None
        with pytest.raises(AwsApiError):
            await listening.wait(InstanceClaims(seen()))
        bad = await provider.node_class_status.resolve(node_class(world()))
        world().clients.by_name["sqs"].create_queue(QueueName=queue)
        assert await listening.wait(InstanceClaims(seen())) == ()
        before = msgspec.structs.replace(node_class(world()), status=bad.status)
        return [bad, await provider.node_class_status.resolve(before)]

    if fault is not None:
        world().account.faults.next("ReceiveMessage", fault)
    given = {"DISABLE_DRY_RUN": "true", "INTERRUPTION_QUEUE": queue}
    bad, good = world().run(work, types=True, given=given)

    told = condition(bad, "InterruptionQueueReady")
    assert (told.status, told.reason) == ("False", reason)
    assert told.message.startswith("interruptions are not heard of: ")
    assert said in told.message
    assert condition(bad, "Ready").status == "True"
    assert "InterruptionQueueReady" not in {each.type for each in good.status.conditions}
