"""Policies that are broken or too wide are found, with the line and the column."""

import json
from pathlib import Path
from typing import Any

import pytest

from karpenter.cloud.aws.policy import PolicyScope, policies
from karpenter.cloud.aws.policy.lint import lint_policy, policy_differences

SEED = Path(__file__).parents[3] / "data" / "seeds" / "controller-policy.json.txt"


def document(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def statement(**fields: Any) -> dict[str, Any]:
    """Return a statement that is fine but for some fields."""
    return {"Sid": "S", "Effect": "Allow", "Action": "ec2:DescribeImages", "Resource": "*", **fields}


def test_the_policy_of_a_guide() -> None:
    """Two commas are missing, two wildcards allow everything, and changes are without a condition."""
    found = lint_policy(SEED.read_text("utf-8"))

    assert [(each.line, each.column, each.rule) for each in found] == [
        (20, 9, "wildcard-action"),
        (20, 16, "invalid-json"),
        (22, 30, "invalid-json"),
        (23, 9, "wildcard-action"),
        (25, 19, "unconditional-change"),
    ]
    assert found[1].message == "a comma is missing here"
    assert found[0].message == "ec2:* allows every action of ec2"
    assert {each.severity for each in found[:4]} == {"error"}


def test_our_own_policies_have_no_findings() -> None:
    """What ships is as narrow as the rules ask for, and fits."""
    ours = policies(PolicyScope(cluster="blue", region="us-west-2", account="123456789012"))

    assert {
        name: lint_policy(json.dumps(each), sort="managed") for name, each in ours.items()
    } == dict.fromkeys(ours, ())


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        pytest.param("{", "invalid-json", id="cut off"),
        pytest.param("{}", "no-statement", id="empty"),
        pytest.param('{"Statement": []}', "no-statement", id="no statement"),
        pytest.param(json.dumps({"Statement": [statement()]}), "version", id="no version"),
        pytest.param(
            json.dumps({"Version": "2020-01-01", "Statement": [statement()]}),
            "version",
            id="a version of our own",
        ),
        pytest.param(json.dumps(document(statement(Effect="allow"))), "effect", id="an effect in lower case"),
        pytest.param(json.dumps(document(statement(Actions="a:b"))), "unknown-key", id="a misspelt element"),
        pytest.param(json.dumps(document(statement(), statement())), "duplicate-sid", id="two with one name"),
        pytest.param(json.dumps(document(statement(Action="*"))), "wildcard-action", id="everything"),
        pytest.param(json.dumps(document(statement(NotAction="a:B"))), "not-action", id="everything but one"),
        pytest.param(json.dumps(document(statement(Action="RunInstances"))), "bad-action", id="no service"),
        pytest.param(json.dumps(document(statement(Action="iam:PassRole"))), "pass-any-role", id="any role"),
    ],
)
def test_rules(text: str, rule: str) -> None:
    """Every rule finds what it is about."""
    assert rule in {each.rule for each in lint_policy(text)}


def test_a_policy_that_does_not_fit() -> None:
    """A document is measured without white space, by the quota of its sort."""
    wide = document(statement(Resource=[f"arn:aws:s3:::bucket-{number}" for number in range(300)]))

    assert [each.rule for each in lint_policy(json.dumps(wide, indent=4), sort="managed")] == ["too-long"]
    assert lint_policy(json.dumps(wide, indent=4), sort="inline") == ()


@pytest.mark.parametrize(
    ("have", "want", "differences"),
    [
        pytest.param(
            [statement(Action=["a:B", "a:C"])],
            [statement(Action=["a:C", "a:B"])],
            (),
            id="order does not matter",
        ),
        pytest.param([statement(Action="a:B")], [statement(Action=["a:B"])], (), id="one is a list of one"),
        pytest.param(
            [statement(Action=["a:B", "a:Old"])],
            [statement(Action=["a:B", "a:New"])],
            ("statement S: + action a:New", "statement S: - action a:Old"),
            id="actions",
        ),
        pytest.param([], [statement()], ("statement S is missing",), id="a statement that is missing"),
        pytest.param([statement()], [], ("statement S is not of this version",), id="one too many"),
        pytest.param(
            [statement(Condition={"StringEquals": {"k": "1"}})],
            [statement(Condition={"StringEquals": {"k": ["2"]}})],
            ("statement S: condition differs",),
            id="a condition",
        ),
    ],
)
def test_differences(have: list[Any], want: list[Any], differences: tuple[str, ...]) -> None:
    """Two documents differ in what they say, not in how they spell it."""
    assert policy_differences(document(*have), document(*want)) == differences
