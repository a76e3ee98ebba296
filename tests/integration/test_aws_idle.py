"""An idle cluster on AWS: nothing is asked more often than it has to be."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

from tests.integration.sandboxes import apply_manifest, in_aws

if TYPE_CHECKING:
    from karpenter_local.sandbox.sandbox import Sandbox

MINUTES: Final = 30
CLASS: Final = """
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: KarpenterNodeRole-test
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: test}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: test}}]
"""
ALLOWED: Final = {
    "DescribeSubnets": MINUTES,  # once a minute, as images and security groups
    "DescribeSecurityGroups": MINUTES,
    "DescribeImages": MINUTES + 5,  # and every half hour for each published parameter
    "DescribeInstanceStatus": 3 * MINUTES,  # three questions a minute
    "DescribeInstances": MINUTES,  # two collections, each every two minutes
    "DescribeCluster": MINUTES // 5,
    "GetInstanceProfile": MINUTES // 15,
    "ListInstanceProfiles": 1,
    "CreateFleet": 1,  # a dry run every half hour, with a template of its own
    "RunInstances": 1,
    "CreateLaunchTemplate": 1,
    "DescribeLaunchTemplates": 1,
    "DeleteLaunchTemplate": 1,
}
"""How often each operation may be called within the time."""


@in_aws()
async def test_an_idle_cluster_asks_little(sandbox: Sandbox) -> None:
    """Every question has an interval, and no other question is asked."""
    await apply_manifest(sandbox, CLASS)
    await asyncio.sleep(300)
    sandbox.aws.site.account.forget_calls()

    await asyncio.sleep(60 * MINUTES)

    asked = Counter(call.operation for call in sandbox.aws.site.account.calls())
    assert {name: count for name, count in asked.items() if count > ALLOWED.get(name, 0) + 1} == {}
