"""EventBridge in front of queues: what reaches a queue, and what does not."""

import json
from typing import Any

import pytest

from karpenter_local.aws.commands import Interrupt, Rebalance
from karpenter_local.aws.eventbridge import may_send
from karpenter_local.aws.mail import announce_interruption, announce_rebalance
from karpenter_local.aws.site import ClusterAccount
from tests.unit.cloud.aws.world import embedded
from tests.unit.local.aws.bare import shared_site

QUEUE = "arn:aws:sqs:us-west-2:000000000001:q"
RULE = "arn:aws:events:us-west-2:000000000001:rule/r"
ALLOW: dict[str, Any] = {
    "Effect": "Allow",
    "Principal": {"Service": ["events.amazonaws.com", "sqs.amazonaws.com"]},
    "Action": "sqs:SendMessage",
    "Resource": QUEUE,
}
NO_HTTP = {
    "Effect": "Deny",
    "Principal": "*",
    "Action": "sqs:*",
    "Resource": QUEUE,
    "Condition": {"Bool": {"aws:SecureTransport": False}},
}
SPOT = {"source": ["aws.ec2"], "detail-type": ["EC2 Spot Instance Interruption Warning"]}


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        pytest.param([], False, id="no statement"),
        pytest.param([ALLOW], True, id="the usual one"),
        pytest.param([ALLOW, NO_HTTP], True, id="with the one against HTTP"),
        pytest.param([{**ALLOW, "Principal": {"Service": "sqs.amazonaws.com"}}], False, id="another service"),
        pytest.param([{**ALLOW, "Principal": "*"}], True, id="for all"),
        pytest.param([{**ALLOW, "Principal": {"AWS": "*"}}], True, id="for all, the long way"),
        pytest.param([{**ALLOW, "Action": "sqs:ReceiveMessage"}], False, id="another action"),
        pytest.param([{**ALLOW, "Action": ["sqs:*"]}], True, id="all actions"),
        pytest.param([{**ALLOW, "Resource": f"{QUEUE}-2"}], False, id="another queue"),
        pytest.param([{**ALLOW, "Resource": "arn:aws:sqs:*:*:q"}], True, id="a pattern"),
        pytest.param([ALLOW, {**ALLOW, "Effect": "Deny"}], False, id="denied"),
        pytest.param(
            [{**ALLOW, "Condition": {"ArnEquals": {"aws:SourceArn": RULE}}}], True, id="for this rule"
        ),
        pytest.param(
            [{**ALLOW, "Condition": {"ArnLike": {"aws:SourceArn": f"{RULE}x*"}}}],
            False,
            id="for another rule",
        ),
        pytest.param(
            [{**ALLOW, "Condition": {"StringEquals": {"aws:PrincipalTag/a": "b"}}}],
            False,
            id="a condition that is not known",
        ),
    ],
)
def test_policies_of_queues(statements: list[dict[str, Any]], *, expected: bool) -> None:
    """A queue's policy decides whether EventBridge may send to it."""
    policy = json.dumps({"Version": "2012-10-17", "Statement": statements}) if statements else None

    assert may_send(policy, queue=QUEUE, rule=RULE, account="000000000001") is expected


class Post:
    """A queue, and a rule that may send to it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.site = shared_site()
        self.sqs, self.events = self.site.client("sqs"), self.site.client("events")
        self.url = self.sqs.create_queue(QueueName=name)["QueueUrl"]
        told = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=["QueueArn"])
        self.arn = told["Attributes"]["QueueArn"]

    def allow(self) -> None:
        policy = json.dumps({"Version": "2012-10-17", "Statement": [{**ALLOW, "Resource": self.arn}]})
        self.sqs.set_queue_attributes(QueueUrl=self.url, Attributes={"Policy": policy})

    def subscribe(self, **target: Any) -> None:
        """Let warnings of interruptions go to the queue."""
        self.events.put_rule(Name=self.name, EventPattern=json.dumps(SPOT))
        self.events.put_targets(Rule=self.name, Targets=[{"Id": "1", "Arn": self.arn, **target}])

    def received(self) -> list[str]:
        """Return what is in the queue, and leave it empty."""
        found = self.sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10).get("Messages", [])
        for each in found:
            self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=each["ReceiptHandle"])
        return [each["Body"] for each in found]

    def announce(self) -> list[str]:
        """Let AWS announce an interruption and a rebalance, and return what the queue gets."""
        announce_interruption(self.site.account, "i-1")
        announce_rebalance(self.site.account, "i-2")
        return self.received()


def test_events_need_a_rule_a_target_and_a_policy() -> None:
    """An event reaches a queue only if a rule matches and targets it and its policy lets EventBridge send."""
    post = Post("all")

    assert post.announce() == []
    post.allow()
    assert post.announce() == []
    post.subscribe()
    (body,) = post.announce()
    told = json.loads(body)
    assert (told["detail-type"], told["detail"]["instance-id"]) == (SPOT["detail-type"][0], "i-1")
    assert told["account"] == post.site.account.number
    post.events.disable_rule(Name=post.name)
    assert post.announce() == []
    post.events.enable_rule(Name=post.name)
    post.sqs.set_queue_attributes(QueueUrl=post.url, Attributes={"Policy": ""})
    assert post.announce() == []
    post.allow()
    post.events.remove_targets(Rule=post.name, Ids=["1"])
    assert post.announce() == []


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param({"Input": '{"fixed": 1}'}, '{"fixed": 1}', id="a fixed text"),
        pytest.param({"InputPath": "$.detail.instance-id"}, '"i-1"', id="a part"),
        pytest.param(
            {
                "InputTransformer": {
                    "InputPathsMap": {"id": "$.detail.instance-id"},
                    "InputTemplate": '"gone: <id>"',
                }
            },
            '"gone: i-1"',
            id="a text made of parts",
        ),
    ],
)
def test_targets_say_what_they_are_sent(
    target: dict[str, Any], expected: str, request: pytest.FixtureRequest
) -> None:
    """A target may be sent something else than the event."""
    post = Post(request.node.callspec.id.replace(" ", "-"))
    post.allow()
    post.subscribe(**target)

    assert post.announce() == [expected]


def test_events_of_programs_go_the_same_way() -> None:
    """What a program puts on the bus is matched and let through like the events of AWS."""
    post = Post("programs")
    post.subscribe()
    entry = {"Source": "aws.ec2", "DetailType": SPOT["detail-type"][0], "Detail": '{"instance-id": "i-3"}'}

    post.events.put_events(Entries=[entry])
    assert post.received() == []
    post.allow()
    post.events.put_events(Entries=[entry])
    (body,) = post.received()
    assert json.loads(body)["detail"] == {"instance-id": "i-3"}


def test_an_installed_account_gets_what_karpenter_listens_for() -> None:
    """An account that is not bare has the rules: warnings reach the queue of the cluster."""
    site = ClusterAccount(embedded(), cluster="green", types=("m5.large",))
    ec2, sqs = site.client("ec2"), site.client("sqs")
    ec2.create_launch_template(
        LaunchTemplateName="one", LaunchTemplateData={"ImageId": "ami-09f1941e8730d7702"}
    )
    (made,) = ec2.create_fleet(
        Type="instant",
        LaunchTemplateConfigs=[
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": "one", "Version": "$Latest"},
                "Overrides": [{"InstanceType": "m5.large", "SubnetId": site.estate.subnets[0]}],
            }
        ],
        TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "spot"},
    )["Instances"]
    instance = made["InstanceIds"][0]
    site.control.perform(Rebalance(instance=instance))
    site.control.perform(Interrupt(instance=instance))

    url = sqs.get_queue_url(QueueName="green")["QueueUrl"]
    found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert sorted(json.loads(each["Body"])["detail-type"] for each in found) == [
        "EC2 Instance Rebalance Recommendation",
        "EC2 Spot Instance Interruption Warning",
    ]
