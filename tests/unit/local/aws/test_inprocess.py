"""The embedded AWS without a server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from karpenter_local.aws.account import ACCOUNTS
from karpenter_local.aws.faults import LoseAnswer, RefuseCall
from karpenter_local.aws.inprocess import NUMBER, AwsInProcess
from karpenter_local.aws.mail import has_mail, post
from karpenter_local.aws.site import ClusterAccount

START = datetime(2025, 1, 1, tzinfo=UTC)


def site(server: AwsInProcess) -> ClusterAccount:
    return ClusterAccount(server, cluster="blue", types=("m5.large",))


def ids(seed: str) -> list[str]:
    with AwsInProcess(seed=seed) as server:
        made = site(server)
        return [*made.estate.subnets, *made.estate.groups]


def test_the_same_seed_gives_the_same_ids() -> None:
    """What is made has the ids of its seed, however often it is made; another seed has others."""
    assert ids("1") == ids("1")
    assert ids("1") != ids("2")


def test_nothing_is_left_behind() -> None:
    """The account is forgotten, and the next one is empty."""
    with AwsInProcess(seed="1") as server:
        assert site(server).account is ACCOUNTS[NUMBER]

    assert NUMBER not in ACCOUNTS
    with AwsInProcess(seed="1") as server:
        found = site(server).clients.by_name["ec2"].describe_subnets()["Subnets"]
        assert sum("karpenter.sh/discovery" in str(each.get("Tags")) for each in found) == 3


def test_answers_are_refused_and_lost_as_over_a_wire() -> None:
    """The SDK raises what it would raise, once: callers retry themselves."""
    with AwsInProcess(seed="1") as server:
        made = site(server)
        ec2 = made.clients.by_name["ec2"]
        made.account.forget_calls()
        made.account.faults.next(
            "DescribeSubnets", RefuseCall(code="RequestLimitExceeded", status=503), LoseAnswer()
        )

        with pytest.raises(ClientError, match="RequestLimitExceeded"):
            ec2.describe_subnets()
        with pytest.raises(ConnectionClosedError):
            ec2.describe_subnets()
        assert len(made.account.calls("DescribeSubnets")) == 2


def test_bad_post_comes_late_and_twice() -> None:
    """Where the post is bad, messages come twice under the same number, and some only after a while."""
    with AwsInProcess(seed="1") as server:
        made = site(server)
        made.account.now = lambda: START
        made.account.post = Random(1)  # noqa: S311  a test's dice
        sqs = made.clients.by_name["sqs"]
        url = sqs.get_queue_url(QueueName="blue")["QueueUrl"]

        def received() -> list[str]:
            told: list[str] = []
            while found := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
                told += [_deleted(sqs, url, each) for each in found]
            return told

        for number in range(20):
            post(made.account, str(number))
        at_once = received()
        made.account.now = lambda: START + timedelta(minutes=1)
        late = received()
        told = [int(each.partition(" ")[2]) for each in at_once + late]

        assert late
        assert set(told) == set(range(20))
        assert told != sorted(told)
        assert len(at_once + late) > len(set(at_once + late))
        assert not has_mail(made.account)


def _deleted(sqs: Any, url: str, message: dict[str, Any]) -> str:
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return f"{message['MessageId']} {message['Body']}"
