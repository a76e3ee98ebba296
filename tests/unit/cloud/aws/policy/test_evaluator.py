"""The evaluator that judges our policies is judged first."""

from typing import Any

import pytest

from tests.unit.cloud.aws.policy.evaluator import Request, Use, granted, uses


def policy(condition: dict[str, Any] | None = None, **statement: Any) -> dict[str, Any]:
    one: dict[str, Any] = {"Sid": "s", "Effect": "Allow", "Action": "ec2:Do", "Resource": "*", **statement}
    if condition is not None:
        one["Condition"] = condition
    return {"p": {"Statement": [one]}}


TAG = "aws:ResourceTag/owner"


@pytest.mark.parametrize(
    ("policies", "request_", "allowed"),
    [
        pytest.param(policy(), Request(action="ec2:Do"), True, id="what is named"),
        pytest.param(policy(), Request(action="ec2:Other"), False, id="not what is not named"),
        pytest.param(
            policy(Action=["a:B", "ec2:D*"]), Request(action="ec2:Do"), True, id="a list and a star"
        ),
        pytest.param(
            policy(Resource="arn:x/*"), Request(action="ec2:Do", resource="arn:x/1"), True, id="a resource"
        ),
        pytest.param(
            policy(Resource="arn:x/*"), Request(action="ec2:Do", resource="arn:y/1"), False, id="another one"
        ),
        pytest.param(
            policy({"StringEquals": {TAG: "us"}}),
            Request(action="ec2:Do", context={TAG: "us"}),
            True,
            id="a tag that is equal",
        ),
        pytest.param(
            policy({"StringEquals": {TAG: "us"}}),
            Request(action="ec2:Do", context={TAG: "them"}),
            False,
            id="a tag that differs",
        ),
        pytest.param(
            policy({"StringEquals": {TAG: "us"}}), Request(action="ec2:Do"), False, id="a tag that is missing"
        ),
        pytest.param(
            policy({"StringEqualsIfExists": {TAG: "us"}}),
            Request(action="ec2:Do"),
            True,
            id="missing is fine",
        ),
        pytest.param(
            policy({"StringLike": {TAG: "*"}}),
            Request(action="ec2:Do", context={TAG: ""}),
            True,
            id="a star takes an empty tag",
        ),
        pytest.param(
            policy({"StringLike": {TAG: "*"}}), Request(action="ec2:Do"), False, id="but not a missing one"
        ),
        pytest.param(
            policy({"ForAllValues:StringEquals": {"aws:TagKeys": ["a", "b"]}}),
            Request(action="ec2:Do", context={"aws:TagKeys": ("a",)}),
            True,
            id="keys that are all known",
        ),
        pytest.param(
            policy({"ForAllValues:StringEquals": {"aws:TagKeys": ["a", "b"]}}),
            Request(action="ec2:Do", context={"aws:TagKeys": ("a", "c")}),
            False,
            id="a key that is not",
        ),
        pytest.param(
            policy({"StringEquals": {TAG: "us"}, "StringLike": {"k": "*"}}),
            Request(action="ec2:Do", context={TAG: "us"}),
            False,
            id="every condition must hold",
        ),
    ],
)
def test_uses(policies: dict[str, Any], request_: Request, allowed: bool) -> None:
    """A statement allows what its action, its resource and all of its conditions cover."""
    assert bool(uses(policies, request_)) is allowed


def test_granted() -> None:
    """Every action of every statement counts as one permission."""
    assert granted(policy(Action=["a:B", "a:C"])) == {Use("p", "s", "a:B"), Use("p", "s", "a:C")}


def test_what_is_not_understood_is_not_judged() -> None:
    """A condition that the evaluator does not know must not pass for one that holds."""
    with pytest.raises(NotImplementedError, match="condition Bool"):
        uses(policy({"Bool": {"aws:SecureTransport": "true"}}), Request(action="ec2:Do"))
