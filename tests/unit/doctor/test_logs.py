"""Known texts of logs: each is found in a line as programs print it, and in no other."""

from __future__ import annotations

import pytest

from karpenter.doctor.facts import LogText
from karpenter.doctor.logs import KNOWN
from karpenter.doctor.rules import diagnose
from tests.unit.doctor.world import Case, facts, judge

LINES = {
    "log-release-name": "Received response status [FAILED] from custom resource. Message returned: Error: "
    "b'Error: path \"/var/task/tmpkxgr57q5/blueprints-addon-karpenter\" not found\\n'",
    "log-addon-order": "Assertion failed: Missing a dependency for VpcCniAddOn for my-stack",
    "log-addon-conflict": "Deploying my-stack failed due to conflicting add-on: ClusterAutoscalerAddOn.",
    "log-spot-role": "AuthFailure.ServiceLinkedRoleCreationNotPermitted: The provided credentials have no "
    "permission to create the service-linked role for EC2 Spot Instances",
    "log-dns": 'Post "https://sts": dial tcp: lookup sts.us-east-1.amazonaws.com: i/o timeout',
    "log-oidc": "InvalidIdentityToken: No OpenIDConnect provider found in your account for https://oidc.eks",
    "log-irsa-trust": "AccessDenied: Not authorized to perform sts:AssumeRoleWithWebIdentity",
    "log-no-credentials": "failed to refresh cached credentials, no EC2 IMDS role found",
    "log-not-authorized": "You are not authorized to perform: ec2:CreateFleet on resource",
    "log-malformed-policy": "An error occurred (MalformedPolicyDocument) when calling PutRolePolicy",
    "log-no-subnets": "no subnets exist given constraints [karpenter.sh/discovery blue]",
    "log-no-security-groups": "no security groups exist given constraints",
    "log-many-security-groups": "Multiple tagged security groups found for instance i-0abc; ensure only one",
    "log-webhook": 'Internal error occurred: failed calling webhook "validation.webhook.karpenter.sh": EOF',
    "log-no-definitions": 'no matches for kind "NodePool" in version "karpenter.sh/v1"',
    "log-kubernetes-version": "panic: validating kubernetes version, karpenter version is not compatible "
    "with K8s version 1.32",
    "log-registry": "Error: GET https://public.ecr.aws/v2/karpenter/manifests/1.5.0: 403 Forbidden",
    "log-no-capacity": "InsufficientInstanceCapacity: we have not enough m5.large capacity",
    "log-quota": "VcpuLimitExceeded: more vCPU capacity than your limit of 32",
    "log-no-addresses": "InsufficientFreeAddressesInSubnet: The specified subnet is full",
    "log-queue": "AWS.SimpleQueueService.NonExistentQueue: The specified queue does not exist",
    "log-instance-profile": "Value (blue_1) for parameter iamInstanceProfile.name is invalid",
    "log-not-registered": "Node not registered with cluster",
    "log-no-instance-type": 'incompatible with nodepool "default", no instance type satisfied resources',
    "log-limits": "all available instance types exceed limits for nodepool: default",
    "log-pdb": 'Cannot disrupt Node: Pdb "shop/web" prevents pod evictions',
    "log-throttled": "RequestLimitExceeded: Request limit exceeded.",
}
QUIET = '{"level":"INFO","message":"discovered karpenter version","version":"1.5.0"}\n'


def log(text: str) -> LogText:
    return LogText(source="karpenter.log", text=text)


CASES = [
    Case(each.id, facts(logs=(log(LINES[each.id]),)), facts(logs=(log(QUIET),)), each.title, each.severity)
    for each in KNOWN
]


@pytest.mark.parametrize("case", CASES, ids=[case.rule for case in CASES])
def test_rule(case: Case) -> None:
    """A text is explained where a log has it, and a quiet log has none."""
    judge(case)


@pytest.mark.parametrize("name", LINES)
def test_one_explanation_for_one_text(name: str) -> None:
    """A line is explained by one rule alone."""
    found = diagnose(facts(logs=(log(LINES[name]),))).findings

    assert [each.rule for each in found] == [name]


def test_where_and_how_often() -> None:
    """The line of the first occurrence is named, and how many there are."""
    text = f"{QUIET}{LINES['log-quota']}\n{QUIET}{LINES['log-quota']}\n"
    [finding] = diagnose(facts(logs=(log(text),))).findings

    assert finding.object == "karpenter.log:2"
    assert finding.message.endswith("(2 times)")
