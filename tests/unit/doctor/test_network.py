"""What classes select, and the queue: a broken and a sound example for every rule."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.doctor.facts import EventRuleFacts, QueueFacts, SecurityGroupFacts, SubnetFacts
from karpenter.doctor.network import EVENTS
from tests.unit.doctor.world import CLASS, EKS, OPERATOR, POOL, Case, account, changed, facts, judge, judged

TAGS = {"karpenter.sh/discovery": "blue"}
QUEUE = "arn:aws:sqs:us-west-2:111122223333:blue"


def subnet(zone: str, **fields: Any) -> SubnetFacts:
    """Return a subnet, sound but for some fields."""
    sound: dict[str, Any] = {
        "id": f"subnet-{zone}",
        "vpc": "vpc-1",
        "zone": zone,
        "tags": TAGS,
        "free_addresses": 99,
    }
    return SubnetFacts(**{**sound, **fields})


def group(name: str, **fields: Any) -> SecurityGroupFacts:
    """Return a security group, sound but for some fields."""
    return SecurityGroupFacts(**{"id": f"sg-{name}", "vpc": "vpc-1", "name": name, "tags": TAGS, **fields})


def rules(*names: str, **fields: Any) -> tuple[EventRuleFacts, ...]:
    """Return rules for events, with the queue as target."""
    return tuple(
        EventRuleFacts(**{"name": name, "pattern": {"detail-type": [name]}, "targets": (QUEUE,), **fields})
        for name in names
    )


def queue(services: list[str]) -> dict[str, QueueFacts | None]:
    """Return the queue, which takes messages from some services."""
    statement = {"Effect": "Allow", "Principal": {"Service": services}, "Action": "sqs:SendMessage"}
    return {"blue": QueueFacts(name="blue", arn=QUEUE, policy={"Statement": [statement]})}


SUBNETS = (subnet("us-west-2a"), subnet("us-west-2b"))
GROUPS = (group("nodes"),)
OWNED = {**TAGS, "kubernetes.io/cluster/blue": "owned"}
CASES = [
    Case(
        "subnet-selector",
        facts(CLASS, aws=account(subnets=(subnet("us-west-2a", tags={"Name": "a"}),))),
        facts(CLASS, aws=account(subnets=SUBNETS)),
        "aws ec2 create-tags --resources SUBNET --tags Key=karpenter.sh/discovery,Value=blue",
    ),
    Case(
        "security-group-selector",
        facts(CLASS, aws=account(security_groups=())),
        facts(CLASS, aws=account(security_groups=GROUPS)),
        "no security group of us-west-2 has karpenter.sh/discovery=blue",
    ),
    Case(
        "subnet-selector-wide",
        facts(CLASS, aws=account(eks=EKS, subnets=(*SUBNETS, subnet("us-west-2c", vpc="vpc-2")))),
        facts(CLASS, aws=account(eks=EKS, subnets=SUBNETS)),
        "selects subnet-us-west-2c of another VPC than the cluster's vpc-1",
    ),
    Case(
        "security-group-wide",
        facts(CLASS, aws=account(eks=EKS, security_groups=tuple(group(str(number)) for number in range(6)))),
        facts(CLASS, aws=account(eks=EKS, security_groups=GROUPS)),
        "selects 6 groups; a network interface takes 5",
    ),
    Case(
        "subnet-zones",
        facts(POOL, CLASS, aws=account(subnets=SUBNETS[:1])),
        facts(POOL, CLASS, aws=account(subnets=SUBNETS)),
        "EC2NodeClass default selects no subnet in us-west-2b",
        "warning",
    ),
    Case(
        "subnet-addresses",
        facts(CLASS, aws=account(subnets=(subnet("us-west-2a", free_addresses=3),))),
        facts(CLASS, aws=account(subnets=SUBNETS)),
        "subnet-us-west-2a in us-west-2a has 3 addresses left",
        "warning",
    ),
    Case(
        "queue-missing",
        facts(OPERATOR, aws=account(queues={"blue": None})),
        facts(OPERATOR, aws=account(queues=queue(["events.amazonaws.com"]))),
        "queue/blue: settings.interruptionQueue: does not exist in us-west-2",
    ),
    Case(
        "queue-unset",
        facts(changed(OPERATOR, ("INTERRUPTION_QUEUE", "OTHER"))),
        facts(OPERATOR),
        "is not set: spot interruptions are not seen",
        "info",
    ),
    Case(
        "queue-policy",
        facts(OPERATOR, aws=account(queues=queue(["sns.amazonaws.com"]))),
        facts(OPERATOR, aws=account(queues=queue(["events.amazonaws.com", "sqs.amazonaws.com"]))),
        "does not allow sqs:SendMessage to events.amazonaws.com",
    ),
    Case(
        "event-rules",
        facts(OPERATOR, aws=account(queues=queue([]), event_rules=rules(*list(EVENTS)[1:]))),
        facts(OPERATOR, aws=account(queues=queue([]), event_rules=rules(*EVENTS))),
        "no rule sends it: EC2 Spot Instance Interruption Warning (aws.ec2)",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.rule for case in CASES])
def test_rule(case: Case) -> None:
    """A rule finds what is broken, and nothing where all is sound."""
    judge(case)


@pytest.mark.parametrize(
    ("terms", "is_sound"),
    [
        pytest.param("[{id: subnet-us-west-2a}]", True, id="by id"),
        pytest.param("[{id: subnet-other}]", False, id="by the id of another"),
        pytest.param('[{tags: {karpenter.sh/discovery: "*"}}]', True, id="any value"),
        pytest.param('[{tags: {karpenter.sh/discovery: "bl*"}}]', True, id="the beginning of a value"),
        pytest.param("[{tags: {karpenter.sh/discovery: Blue}}]", False, id="case matters"),
        pytest.param("[{tags: {karpenter.sh/discovery: blue, tier: a}}]", False, id="all tags must be there"),
        pytest.param(
            "[{tags: {tier: a}}, {tags: {karpenter.sh/discovery: blue}}]", True, id="one of two terms"
        ),
    ],
)
def test_terms(terms: str, is_sound: bool) -> None:
    """Terms are alternatives, the parts of a term all hold, and * stands for anything."""
    text = changed(
        CLASS,
        ("subnetSelectorTerms: [{tags: {karpenter.sh/discovery: blue}}]", f"subnetSelectorTerms: {terms}"),
    )

    assert (judged("subnet-selector", facts(text, aws=account(subnets=SUBNETS)))[0] == ()) is is_sound


def test_two_groups_that_are_the_clusters() -> None:
    """Load balancers want exactly one security group that is tagged as the cluster's."""
    tagged = (group("a", tags=OWNED), group("b", tags=OWNED))
    [finding] = judged("security-group-wide", facts(CLASS, aws=account(security_groups=tagged)))[0]

    assert finding.severity == "warning"
    assert "load balancers need exactly one" in finding.message


def test_public_subnets_beside_private_ones() -> None:
    """A mixture of public and private subnets is doubtful; either alone is not."""
    mixed = (subnet("us-west-2a", public=True), subnet("us-west-2b"))

    assert "beside private ones" in str(
        judged("subnet-selector-wide", facts(CLASS, aws=account(subnets=mixed)))[0]
    )
    assert judged("subnet-selector-wide", facts(CLASS, aws=account(subnets=mixed[:1])))[0] == ()


def test_no_zone_of_a_pool_has_a_subnet() -> None:
    """A pool that can launch nowhere is an error; one that lost a zone is not."""
    [finding] = judged("subnet-zones", facts(POOL, CLASS, aws=account(subnets=(subnet("us-west-2c"),))))[0]

    assert finding.severity == "error"


def test_a_misspelt_event() -> None:
    """A pattern with a letter missing matches nothing, and the right spelling is offered."""
    names = [name for name in EVENTS if "State-change" not in name]
    wrong = rules(*names, "C2 Instance State-change Notification")
    found = judged("event-rules", facts(OPERATOR, aws=account(queues=queue([]), event_rules=wrong)))[0]

    assert found[0].fix == "write 'EC2 Instance State-change Notification'"
    assert "no rule sends it: EC2 Instance State-change Notification (aws.ec2)" in str(found[1])


def test_a_rule_that_is_disabled() -> None:
    """A disabled rule sends nothing."""
    known = account(queues=queue([]), event_rules=rules(*EVENTS, enabled=False))

    found = judged("event-rules", facts(OPERATOR, aws=known))[0]
    assert [each.message for each in found[: len(EVENTS)]] == ["is disabled"] * len(EVENTS)
    assert [each.severity for each in found[len(EVENTS) :]] == ["error", "warning"]
