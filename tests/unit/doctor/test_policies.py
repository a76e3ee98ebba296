"""IAM policies: a broken and a sound example for every rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from karpenter.cloud.aws.policy import PolicyScope, policies
from karpenter.doctor.facts import DoctorFacts, PolicyText, RoleFacts
from tests.unit.doctor.world import CONTROLLER, OPERATOR, Case, account, facts, judge, judged

SEED = Path(__file__).parents[2] / "data" / "seeds" / "controller-policy.json.txt"
OURS = [
    json.dumps(each)
    for each in policies(PolicyScope(cluster="blue", region="us-west-2", account="111122223333")).values()
]


def given(*texts: str, sort: str = "") -> DoctorFacts:
    return facts(policies=tuple(PolicyText(source="policy.json", text=each, sort=sort) for each in texts))


def allowing(action: Any = "ec2:DescribeImages", resource: Any = "*", **fields: Any) -> str:
    statement = {"Sid": "S", "Effect": "Allow", "Action": action, "Resource": resource, **fields}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, indent=2)


SOUND = given(*OURS)
CASES = [
    Case("policy-json", given('{"Version": "2012-10-17"\n "Statement": []}'), SOUND, "policy.json:1:25"),
    Case("policy-grammar", given(allowing(Effect="allow")), SOUND, "Effect is 'allow'; it is Allow or Deny"),
    Case("policy-wildcard-action", given(allowing("iam:*")), SOUND, "iam:* allows every action of iam"),
    Case(
        "policy-condition",
        given(allowing("ec2:TerminateInstances")),
        SOUND,
        "ec2:TerminateInstances on every resource, without a condition",
        "warning",
    ),
    Case("policy-pass-role", given(allowing("iam:PassRole")), SOUND, "iam:PassRole on every role"),
    Case(
        "policy-misspelt-action",
        given(allowing("ec2:DescribeInstance")),
        SOUND,
        "did you mean ec2:DescribeInstances?",
    ),
    Case(
        "policy-size",
        given(allowing(resource=[f"arn:aws:s3:::bucket-{n}" for n in range(300)]), sort="managed"),
        given(*OURS, sort="managed"),
        "of which IAM takes 6144",
    ),
    Case(
        "policy-missing-action",
        given(OURS[0]),
        SOUND,
        "allows no ec2:DescribeCapacityReservations",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.rule for case in CASES])
def test_rule(case: Case) -> None:
    """A rule finds what is broken, and nothing where all is sound."""
    judge(case)


def test_the_policy_of_the_guide() -> None:
    """Both missing commas and both wildcards are found in one run, each with line and column."""
    known = facts(policies=(PolicyText(source="p.json", text=SEED.read_text("utf-8")),))
    found = [*judged("policy-json", known)[0], *judged("policy-wildcard-action", known)[0]]

    assert [(each.object, each.message) for each in found] == [
        ("p.json:20:16", "a comma is missing here"),
        ("p.json:22:30", "a comma is missing here"),
        ("p.json:20:9", "ec2:* allows every action of ec2"),
        ("p.json:23:9", "iam:* allows every action of iam"),
    ]


def test_a_queue_makes_its_actions_required() -> None:
    """Without a queue, actions of SQS are a note; with one, their absence is an error."""
    without = tuple(
        PolicyText(source="p.json", text=each)
        for each in OURS
        if "sqs:" not in each and "arc-zonal" not in each
    )

    assert [each.severity for each in judged("policy-missing-action", facts(policies=without))[0]] == ["info"]
    known = facts(OPERATOR, policies=without)
    assert [each.severity for each in judged("policy-missing-action", known)[0]] == ["error", "info"]


def test_other_policies_need_nothing_of_ours() -> None:
    """A policy that launches nothing is not the operator's."""
    assert judged("policy-missing-action", given(allowing("s3:GetObject")))[0] == ()


def test_policies_of_the_operator_s_role_are_judged() -> None:
    """Without --policy, those of the role are looked at."""
    text = PolicyText(source="role/r/inline", text=allowing("ec2:*"), sort="inline")
    role = RoleFacts(name="KarpenterControllerRole-blue", arn=CONTROLLER, policies=(text,))
    annotated = f"""
apiVersion: v1
kind: ServiceAccount
metadata:
  name: karpenter
  namespace: kube-system
  annotations: {{eks.amazonaws.com/role-arn: {CONTROLLER}}}
"""
    known = facts(OPERATOR, annotated, aws=account(roles={"KarpenterControllerRole-blue": role}))

    assert "ec2:* allows every action" in str(judged("policy-wildcard-action", known)[0])
