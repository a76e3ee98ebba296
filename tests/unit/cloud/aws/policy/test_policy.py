"""The policy that ships: all that the provider does is allowed, nothing of another cluster's, and no more."""

import json
from functools import cache
from typing import Any

import msgspec
import pytest

from karpenter.cloud.aws.cloudprovider import AwsProvider
from karpenter.cloud.aws.garbagecollection import (
    InstanceProfileGarbageCollection,
    LaunchTemplateGarbageCollection,
)
from karpenter.cloud.aws.interruption.controller import InstanceClaims
from karpenter.cloud.aws.interruption.instancestatus import InstanceStatusController
from karpenter.cloud.aws.nodeclass.controller import NodeClassConditionMetrics, NodeClassController
from karpenter.cloud.aws.policy import PolicyScope, policies
from karpenter.cloud.aws.refresh import refresh_prices
from karpenter.cloud.aws.tagging import TaggingController
from karpenter.cloud.cloudprovider import Machine
from tests.unit.cloud.aws.interruption.test_messages import of_state
from tests.unit.cloud.aws.nodeclass.test_controller import kept
from tests.unit.cloud.aws.policy.authorizing import Authorized, Gate
from tests.unit.cloud.aws.policy.evaluator import Use, granted, uses
from tests.unit.cloud.aws.scripted import launched, seen
from tests.unit.cloud.aws.world import CLUSTER, World, claim, node_class, pool, requirement

CHANGING = {
    "AddRoleToInstanceProfile",
    "CreateFleet",
    "CreateInstanceProfile",
    "CreateLaunchTemplate",
    "CreateTags",
    "DeleteInstanceProfile",
    "DeleteLaunchTemplate",
    "RemoveRoleFromInstanceProfile",
    "RunInstances",
    "TerminateInstances",
}
"""Operations that change something in an account."""


class Life:
    """Everything that the provider does in the life of a cluster."""

    def __init__(self, queue: str = CLUSTER) -> None:
        self.world = World()
        self.world.account.placement_groups["pg-1"] = {
            "GroupId": "pg-1",
            "GroupName": "group",
            "Strategy": "spread",
            "State": "available",
        }
        sqs = self.world.clients.by_name["sqs"]
        self.url = sqs.create_queue(QueueName=queue)["QueueUrl"]
        sqs.send_message(QueueUrl=self.url, MessageBody=json.dumps(of_state("running")))
        self.world.account.forget_calls()
        self.world.run(self._live, given={"INTERRUPTION_QUEUE": queue})

    async def _live(self, provider: AwsProvider) -> None:
        await provider.services.instance_types.refresh()
        await refresh_prices(provider.services.pricing, provider.services.clock)
        await provider.services.cluster.joining()
        await provider.services.zonal_shifts.refresh()
        await LaunchTemplateGarbageCollection(provider.services.launch_templates).look()
        wanted = kept(
            node_class(
                self.world,
                placementGroupSelector={"name": "group"},
                capacityReservationSelectorTerms=[{"tags": {"team": "a"}}],
                tags={"team": "a"},
            )
        )
        self.world.objects.put(pool())
        await self.world.resolve(provider, wanted)
        for kind in ("spot", "on-demand"):
            await self._use(provider, kind)
        await InstanceStatusController(
            provider.services.aws,
            claims=InstanceClaims(seen()),
            clock=provider.services.clock,
            metrics=provider.services.metrics,
        ).look()
        queue = provider.interruption_queue
        assert queue is not None
        await queue.wait(InstanceClaims(seen()))
        await self._end(provider)

    async def _use(self, provider: AwsProvider, kind: str) -> None:
        """Launch a machine, tag it, look at it, and end it."""
        wanted = claim(requirement("karpenter.sh/capacity-type", "In", kind), name=kind)
        machine = await provider.launch(wanted)
        await self._tag(provider, machine)
        await provider.list()
        await provider.terminate(machine.provider_id)

    async def _tag(self, provider: AwsProvider, machine: Machine) -> None:
        zone, _, number = machine.provider_id.removeprefix("aws:///").partition("/")
        assert zone
        owner = launched(instance=number, node="node-1")
        controller = TaggingController(
            view=seen(owner),
            instances=provider.services.instances,
            cluster=CLUSTER,
            clock=provider.services.clock,
        )
        await controller.reconcile(owner.name)

    async def _end(self, provider: AwsProvider) -> None:
        """Let the class go, and all that was made for it."""
        await provider.services.clock.sleep(3600.0)
        self.world.objects.put(kept(node_class(self.world), leaving=True))
        await InstanceProfileGarbageCollection(
            profiles=provider.services.instance_profiles, objects=provider.services.objects, view=seen()
        ).look()
        controller = NodeClassController(
            provider.services,
            view=seen(),
            resolver=provider.node_class_status,
            validation=provider.validation,
            gauges=NodeClassConditionMetrics(provider.services.metrics, provider.services.clock),
        )
        await controller.reconcile("default")


@cache
def lived() -> tuple[list[Authorized], dict[str, Any], dict[str, Any]]:
    """Return what IAM is asked in the life of a cluster, our policies, and those of another cluster."""
    life = Life()
    account = life.world.account
    gate = Gate(account=account.number, cluster=CLUSTER, role=life.world.estate.role)
    ours = PolicyScope(cluster=CLUSTER, region=account.region, account=account.number)
    theirs = PolicyScope(cluster="theirs", region=account.region, account=account.number)
    return gate.questions(account.calls()), policies(ours), policies(theirs)


def test_everything_that_the_provider_does_is_allowed() -> None:
    """For each call, everything that it uses, makes, changes or ends."""
    questions, ours, _ = lived()

    denied = {
        (request.action, request.resource)
        for each in questions
        for request in each.requests
        if not uses(ours, request)
    }
    assert denied == set()


def test_nothing_is_allowed_that_the_provider_does_not_do() -> None:
    """A permission that is not used is one too many."""
    questions, ours, _ = lived()

    used: set[Use] = set()
    for each in questions:
        for request in each.requests:
            used |= uses(ours, request)
    assert granted(ours) - used == set()


@pytest.mark.parametrize("operation", sorted(CHANGING))
def test_another_cluster_is_not_allowed_to_do_it(operation: str) -> None:
    """With the policies of another cluster in the same account, nothing of ours can be made or changed."""
    questions, _, theirs = lived()

    calls = [each for each in questions if each.call.operation == operation]
    assert calls
    assert all(any(not uses(theirs, request) for request in each.requests) for each in calls)


def test_whatever_changes_something_is_known_to_the_test() -> None:
    """An operation that is neither a question nor listed above must be added there."""
    questions, _, _ = lived()

    asking = ("Describe", "Get", "List", "ReceiveMessage", "DeleteMessage")
    changing = {each.call.operation for each in questions if not each.call.operation.startswith(asking)}
    assert changing == CHANGING


def test_an_instance_of_another_cluster_cannot_be_ended() -> None:
    """Nor one without tags."""
    questions, ours, _ = lived()
    ended = next(each for each in questions if each.call.operation == "TerminateInstances")
    (request,) = ended.requests

    for context in ({}, {"aws:ResourceTag/kubernetes.io/cluster/theirs": "owned"}):
        assert uses(ours, msgspec.structs.replace(request, context=context)) == set()


def test_placeholders_are_filled_in() -> None:
    """Every document names the cluster, the region and the account that it is for."""
    place = PolicyScope(
        cluster="blue", region="eu-west-1", account="111122223333", partition="aws-cn", queue="q"
    )

    text = json.dumps(policies(place))

    assert "${" not in text
    for each in (
        "KarpenterControllerNodeLifecyclePolicy-blue",
        "arn:aws-cn:iam::111122223333:role/KarpenterNodeRole-blue",
        "arn:aws-cn:sqs:eu-west-1:111122223333:q",
        "arn:aws-cn:eks:eu-west-1:111122223333:cluster/blue",
    ):
        assert each in text


def test_the_role_of_nodes_can_be_another() -> None:
    """Another node role can be named."""
    place = PolicyScope(cluster="blue", region="eu-west-1", account="1", node_role="mine")

    assert "role/mine" in json.dumps(policies(place))


def test_policies_are_small_enough_for_iam() -> None:
    """IAM takes 6144 characters of a managed policy, not counting blanks."""
    place = PolicyScope(
        cluster="a" * 100, region="ap-southeast-1", account="111122223333", partition="aws-us-gov"
    )
    sizes = {name: len(json.dumps(each, separators=(",", ":"))) for name, each in policies(place).items()}

    assert max(sizes.values()) <= 6144, sizes
