"""What the operator's role may do after an installation, as IAM tells it, and what the operator does."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import boto3
import msgspec
import pytest

from karpenter.base.clock import SystemClock
from karpenter.install.account import AccountApi
from karpenter.install.apply import Installer
from karpenter.install.options import InstallationFacts, InstallationOptions
from karpenter.install.plan import InstallationPlan, make_plan
from tests.unit.cloud.aws.policy.authorizing import Gate
from tests.unit.cloud.aws.policy.evaluator import granted, uses
from tests.unit.cloud.aws.policy.test_policy import Life
from tests.unit.cloud.aws.world import CLUSTER, World, embedded
from tests.unit.install.test_plan import ISSUER


def plan_for(world: World, **options: Any) -> InstallationPlan:
    """Return the part of a plan that makes the operator's role."""
    facts = InstallationFacts(
        cluster=CLUSTER,
        account=world.account.number,
        region=world.account.region,
        kubernetes="1.32",
        issuer=f"https://{ISSUER}",
        authentication_mode="API_AND_CONFIG_MAP",
        subnets=("subnet-1",),
        security_groups=("sg-1",),
        images=("ami-1", "ami-2"),
    )
    whole = make_plan(InstallationOptions(cluster=CLUSTER, **options), facts)
    step = next(each for each in whole.steps if whole.names.controller_role in str(each.resources))
    return msgspec.structs.replace(whole, steps=(step,))


def policies_of(aws: AccountApi, role: str) -> dict[str, Any]:
    """Return the documents of a role, its own and those that are attached."""
    found = {}
    for name in aws.every("iam", "ListRolePolicies", "PolicyNames", RoleName=role):
        found[name] = aws.call("iam", "GetRolePolicy", RoleName=role, PolicyName=name)["PolicyDocument"]
    for each in aws.every("iam", "ListAttachedRolePolicies", "AttachedPolicies", RoleName=role):
        arn = each["PolicyArn"]
        version = aws.call("iam", "GetPolicy", PolicyArn=arn)["Policy"]["DefaultVersionId"]
        told = aws.call("iam", "GetPolicyVersion", PolicyArn=arn, VersionId=version)
        found[each["PolicyName"]] = told["PolicyVersion"]["Document"]
    return found


@pytest.mark.parametrize(
    ("options", "documents"),
    [
        pytest.param({}, 6, id="Karpenter's managed policies"),
        pytest.param(
            {"naming": "eksdemo", "ami_family": "AL2023"},
            1,
            id="eksdemo's inline policy",
            marks=pytest.mark.long,
        ),
    ],
)
def test_the_installed_policies_are_what_the_operator_needs(options: dict[str, Any], documents: int) -> None:
    """In the whole life of a cluster, nothing that it calls is refused, and nothing that it may is unused."""
    life = Life(queue=f"karpenter-{CLUSTER}" if options else CLUSTER)
    calls = life.world.account.calls()
    credentials: dict[str, Any] = life.world.account.credentials
    session = boto3.Session(**credentials)
    aws = AccountApi(partial(session.client, endpoint_url=embedded().endpoint))
    plan = plan_for(life.world, **options)

    async def install() -> None:
        # The operator's role is in the account alone, so the installer needs no cluster.
        cluster: Any = None
        installer = Installer(plan, aws, cluster, clock=SystemClock(), leads_within=0)
        async for _ in installer.run():
            pass

    asyncio.run(install())
    installed = policies_of(aws, plan.names.controller_role)
    gate = Gate(account=life.world.account.number, cluster=CLUSTER, role=plan.names.node_role)
    asked = [request for each in gate.questions(calls) for request in each.requests]
    used = {use for request in asked for use in uses(installed, request)}

    assert len(installed) == documents
    assert {(each.action, each.resource) for each in asked if not uses(installed, each)} == set()
    assert granted(installed) - used == set()
