"""From an account without anything to a pod on a machine, and back to an account without anything."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api.nodeclaim import NodeClaim
from karpenter.cli.example import inflate_deployment
from karpenter.install.apply import StepFailed, survey
from karpenter.install.options import InstallationError
from karpenter.install.permissions import TAGGING, needed_actions
from karpenter.install.preflight import find_problems
from karpenter.install.resources import MARKER, KubernetesObject
from karpenter.kube.targets import untyped
from karpenter_local.aws.faults import RefuseCall
from tests.integration.installing import CLUSTER, DEPLOYMENTS, BareSandbox, in_bare_aws
from tests.unit.cloud.aws.policy.authorizing import Gate
from tests.unit.cloud.aws.policy.evaluator import uses

if TYPE_CHECKING:
    from karpenter.install.plan import InstallationPlan

pytestmark = pytest.mark.usefixtures("untraced")


async def scale(world: BareSandbox, replicas: int) -> None:
    """Let so many pods ask for room, and wait until they run."""
    body = inflate_deployment(namespace="default", replicas=replicas, cpu="1")
    await world.client.apply(DEPLOYMENTS, body)

    async def run() -> bool:
        pods = await world.pods()
        return len(pods) == replicas and all(pod.status.phase == "Running" for pod in pods)

    await world.sandbox.until(run)


def installed_policies(world: BareSandbox, plan: InstallationPlan) -> dict[str, Any]:
    """Return what the operator's role may do, as IAM tells it."""
    role = plan.names.controller_role
    found = {}
    for name in world.aws.every("iam", "ListRolePolicies", "PolicyNames", RoleName=role):
        found[name] = world.aws.call("iam", "GetRolePolicy", RoleName=role, PolicyName=name)["PolicyDocument"]
    for each in world.aws.every("iam", "ListAttachedRolePolicies", "AttachedPolicies", RoleName=role):
        version = world.aws.call("iam", "GetPolicy", PolicyArn=each["PolicyArn"])["Policy"][
            "DefaultVersionId"
        ]
        told = world.aws.call("iam", "GetPolicyVersion", PolicyArn=each["PolicyArn"], VersionId=version)
        found[each["PolicyName"]] = told["PolicyVersion"]["Document"]
    return {name: json.loads(doc) if isinstance(doc, str) else doc for name, doc in found.items()}


def whole_life(**options: Any) -> Any:
    """Return a test that installs, runs a pod, installs again, and uninstalls."""

    async def test(world: BareSandbox) -> None:
        plan = world.plan(**options)
        first = await world.install(plan)
        world.account.forget_calls()
        second = await world.install(world.plan(**options))

        assert set(first.values()) <= {"made", "exists"}
        assert set(second.values()) == {"exists"}
        assert world.writes() == []

        policies = installed_policies(world, plan)
        async with world.operator():
            world.account.forget_calls()
            await scale(world, 2)
            assert len((await world.client.list(NodeClaim)).items) >= 1
            asked = world.account.calls()
            left, kept = await world.uninstall(plan)
        gate = Gate(account=world.account.number, cluster=CLUSTER, role=plan.names.node_role)
        denied = {
            (request.action, request.resource)
            for each in gate.questions(asked)
            for request in each.requests
            if not uses(policies, request)
        }

        assert "CreateFleet" in {call.operation for call in asked}
        assert denied == set()
        assert (left, kept) == ([], [])

    return test


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="with Karpenter's names and IRSA"),
        pytest.param({"identity": "pod-identity"}, id="with pod identity"),
        pytest.param({"naming": "eksdemo", "ami_family": "AL2023"}, id="with eksdemo's stacks and aws-auth"),
    ],
)
def test_a_whole_life(options: dict[str, Any]) -> None:
    """
    An empty account gets everything, a pod gets a machine, a second run changes nothing, and nothing stays.

    Every call that the operator makes is allowed by the policies that IAM has of it.
    """
    queue = f"karpenter-{CLUSTER}" if options.get("naming") == "eksdemo" else CLUSTER
    in_bare_aws(whole_life(**options), queue=queue)()


def test_a_dry_run_only_reads() -> None:
    """Looking at everything makes no call that changes anything, in the account or in the cluster."""

    async def test(world: BareSandbox) -> None:
        seen = await survey(world.plan(), world.aws, world.kubernetes)

        assert {each.state for _, _, each in seen} == {"missing"}
        assert world.writes() == []
        assert len(world.actions()) > 20

    in_bare_aws(test)()


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="one by one"),
        pytest.param({"identity": "pod-identity"}, id="with pod identity"),
    ],
)
def test_the_listed_actions_are_those_that_are_called(options: dict[str, Any]) -> None:
    """An installation into an empty account calls every action that it lists, and no other."""

    async def test(world: BareSandbox) -> None:
        plan = world.plan(**options)
        await world.install(plan)
        await world.install(plan)
        called = set(world.actions())
        listed = set(needed_actions(plan, changes=False)) - TAGGING

        assert called - listed == set()
        assert listed - called == set()

    in_bare_aws(test)()


FAILING = (
    ("CreateServiceLinkedRole", "spot-service-linked-role"),
    ("CreateRole", "node-role"),
    ("AttachRolePolicy", "node-role"),
    ("AddRoleToInstanceProfile", "node-role"),
    ("CreateOpenIDConnectProvider", "controller-role"),
    ("CreatePolicy", "controller-role"),
    ("CreateQueue", "interruption-queue"),
    ("PutRule", "interruption-queue"),
    ("PutTargets", "interruption-queue"),
    ("CreateTags", "discovery-tags"),
    ("CreateAccessEntry", "node-access"),
)


def test_a_run_that_died_goes_on() -> None:
    """Whichever call is refused, the step and the action are named, and the runs after it complete."""

    async def test(world: BareSandbox) -> None:
        plan = world.plan()
        for operation, step in FAILING:
            world.account.faults.next(operation, RefuseCall(code="AccessDenied", status=403))
            with pytest.raises(StepFailed) as caught:
                await world.install(plan)
            assert caught.value.step.name == step
            assert f":{operation}" in str(caught.value)
            assert "goes on here" in caught.value.hint
        await world.install(plan)
        seen = await survey(plan, world.aws, world.kubernetes)

        assert {each.state for _, _, each in seen} == {"exists"}

    in_bare_aws(test)()


def test_an_older_installation_is_brought_up() -> None:
    """What differs from the plan is told, and changed without being made anew; what users changed is kept."""

    async def test(world: BareSandbox) -> None:
        plan = world.plan()
        await world.install(plan)
        policy = f"arn:aws:iam::{world.account.number}:policy/KarpenterControllerResourceDiscoveryPolicy-blue"
        old = json.dumps(
            {
                "Version": "2012-10-17",
                "Statement": [
                    {
                        "Sid": "AllowSSMReadActions",
                        "Effect": "Allow",
                        "Action": "ssm:GetParameters",
                        "Resource": "*",
                    }
                ],
            }
        )
        world.aws.call("iam", "CreatePolicyVersion", PolicyArn=policy, PolicyDocument=old, SetAsDefault=True)
        world.aws.call("events", "DisableRule", Name="karpenter-blue-Rebalance")
        pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}}
        changed = await world.kubernetes.find(pool)
        assert changed is not None
        changed["spec"]["limits"] = {"cpu": "7"}
        for field in ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"):
            changed["metadata"].pop(field, None)
        changed.pop("status", None)
        await world.kubernetes.apply(changed)
        before = {each.title: seen for _, each, seen in await survey(plan, world.aws, world.kubernetes)}
        done = await world.install(plan)
        after = await world.kubernetes.find(pool)

        differences = before["policy KarpenterControllerResourceDiscoveryPolicy-blue"].differences
        assert "statement AllowRegionalReadActions is missing" in differences
        assert "statement AllowSSMReadActions: + action ssm:GetParameter" in differences
        assert before["event rule karpenter-blue-Rebalance"].differences == ("it is DISABLED",)
        assert {name for name, outcome in done.items() if outcome != "exists"} == {
            "policy KarpenterControllerResourceDiscoveryPolicy-blue",
            "event rule karpenter-blue-Rebalance",
            "NodePool default",
        }
        assert done["NodePool default"] == "kept"
        assert after is not None
        assert after["spec"]["limits"] == {"cpu": "7"}

    in_bare_aws(test)()


def test_what_others_made_is_left() -> None:
    """A role that was made by hand is used, and uninstalling leaves it and says so."""

    async def test(world: BareSandbox) -> None:
        plan = world.plan()
        trust = json.dumps(
            {
                "Version": "2012-10-17",
                "Statement": [
                    {
                        "Effect": "Allow",
                        "Principal": {"Service": "ec2.amazonaws.com"},
                        "Action": "sts:AssumeRole",
                    }
                ],
            }
        )
        world.aws.call("iam", "CreateRole", RoleName="KarpenterNodeRole-blue", AssumeRolePolicyDocument=trust)
        done = await world.install(plan)
        left, kept = await world.uninstall(plan, force=True)

        assert done["role KarpenterNodeRole-blue"] == "changed"
        assert left == []
        assert kept == ["role KarpenterNodeRole-blue (others made it)"]
        assert (await world.uninstall(plan, force=True, untagged=True)) == ([], [])

    in_bare_aws(test)()


def test_an_access_entry_of_the_wrong_type_is_named() -> None:
    """An entry of the type STANDARD keeps nodes out; install says what to do about it and deletes nothing."""

    async def test(world: BareSandbox) -> None:
        role = f"arn:aws:iam::{world.account.number}:role/KarpenterNodeRole-blue"
        plan = world.plan()
        world.account.faults.next("CreateAccessEntry", RefuseCall(code="AccessDenied", status=403))
        with pytest.raises(StepFailed):
            await world.install(plan)
        world.aws.call("eks", "CreateAccessEntry", clusterName=CLUSTER, principalArn=role, type="STANDARD")
        with pytest.raises(StepFailed) as caught:
            await world.install(plan)

        assert "its type is STANDARD, so nodes cannot join" in str(caught.value)
        assert "aws eks delete-access-entry --cluster-name blue" in caught.value.hint
        assert not any(":Delete" in each for each in world.actions())

    in_bare_aws(test)()


def test_machines_can_be_kept() -> None:
    """With keep_nodes machines, nodes and what these need stay; everything else goes."""

    async def test(world: BareSandbox) -> None:
        plan = world.plan()
        await world.install(plan)
        async with world.operator():
            await scale(world, 1)
        before = await world.kubernetes.every("v1", "Node")
        left, kept = await world.uninstall(plan, keep_nodes=True)
        await world.clock.sleep(30)
        after = await world.kubernetes.every("v1", "Node")

        assert len(before) == len(after) == 1
        assert not after[0]["metadata"].get("finalizers")
        assert left == []
        assert [each for each in kept if each.startswith("instance i-")]
        assert "role KarpenterNodeRole-blue (its nodes stay)" in kept
        assert await world.uninstall(plan, force=True) == ([], [])

    in_bare_aws(test)()


def test_everything_that_is_made_is_marked() -> None:
    """Roles, policies, queue, rules and tagged subnets carry the tag by which uninstall knows its own."""

    async def test(world: BareSandbox) -> None:
        plan = world.plan()
        await world.install(plan)
        seen = await survey(plan, world.aws, world.kubernetes)
        unmarked = [resource.title for _, resource, each in seen if not each.ours]
        tagged = list(
            world.aws.every("ec2", "DescribeTags", "Tags", Filters=[{"Name": "key", "Values": [MARKER]}])
        )

        assert [each.partition(" ")[0] for each in unmarked] == ["service-linked", "tag"]
        assert len(tagged) == 4

    in_bare_aws(test)()


LEASES = untyped("coordination.k8s.io/v1", "leases", kind="Lease", namespaced=True)


def test_install_waits_for_a_leader() -> None:
    """A lease that was not renewed since does not count; one that is names the replica that leads."""

    async def test(world: BareSandbox) -> None:
        plan = world.plan()
        await world.install(plan)
        since = world.clock.now()
        old = since - timedelta(minutes=1)
        meta = {"name": "karpenter-leader-election", "namespace": "kube-system"}
        spec = {"holderIdentity": "old", "renewTime": old.strftime("%Y-%m-%dT%H:%M:%S.000000Z")}
        await world.client.apply(LEASES, {"metadata": meta, "spec": spec})

        async def wait() -> list[str]:
            return [each async for each in world.kubernetes.leads(plan.release, since=since, within=10)]

        with pytest.raises(InstallationError) as caught:
            await wait()
        now = world.clock.now().strftime("%Y-%m-%dT%H:%M:%S.000000Z")
        await world.client.apply(
            LEASES, {"metadata": meta, "spec": {"holderIdentity": "new", "renewTime": now}}
        )
        found = await wait()

        assert "0 of 2 replicas are ready" in str(caught.value)
        assert caught.value.hint == (
            "kubectl describe pods -n kube-system"
            " -l app.kubernetes.io/name=karpenter,app.kubernetes.io/instance=karpenter"
        )
        assert found == ["new leads"]

    in_bare_aws(test)()


def test_install_waits_for_the_default_pool() -> None:
    """Without an operator it never gets ready, and the conditions say why."""

    async def test(world: BareSandbox) -> None:
        plan = world.plan()
        await world.install(plan)
        bodies = [each.body for each in plan.resources if isinstance(each, KubernetesObject) and each.once]

        async def wait() -> list[str]:
            return [each async for each in world.kubernetes.ready(bodies, within=60)]

        with pytest.raises(InstallationError, match="after 60 s: NodePool default is not Ready; EC2Node"):
            await wait()
        async with world.operator():
            assert (await wait())[-1] == "NodePool default and EC2NodeClass default are Ready"

    in_bare_aws(test)()


def test_a_cluster_without_nodes_is_found_first() -> None:
    """Where the operator's pods have no place, what helps is said before anything is made."""

    async def test(world: BareSandbox) -> None:
        [nodes, image] = await find_problems(world.plan(), world.aws, world.kubernetes)

        assert nodes.problem == "the operator's pods have no place: the cluster has no node"
        assert "2 replicas need a node each" in nodes.hint
        assert "eksctl create nodegroup --cluster blue --region us-west-2" in nodes.hint
        assert (nodes.certain, image.certain) == (True, False)
        assert "this cluster is embedded and runs it all the same" in image.problem

    in_bare_aws(test)()


def test_a_release_has_revisions() -> None:
    """Another version of the chart is another revision, and the one before is superseded."""

    async def test(world: BareSandbox) -> None:
        await world.install(world.plan())
        newer = world.plan(chart_version="9.9.9")
        [before] = [
            seen
            for _, each, seen in await survey(newer, world.aws, world.kubernetes)
            if each == newer.release
        ]
        await world.install(newer)
        [record] = await world.kubernetes.releases("karpenter")
        secrets = await world.kubernetes.every("v1", "Secret", labels="owner=helm")

        assert before.differences == ("chart 0.1.0 becomes 9.9.9",)
        assert (record.revision, record.chart_version) == (2, "9.9.9")
        assert sorted(each["metadata"]["labels"]["status"] for each in secrets) == ["deployed", "superseded"]

    in_bare_aws(test)()
