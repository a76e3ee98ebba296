"""An account before anything was installed, for the tests of this package."""

from functools import cache
from typing import Any

from botocore.exceptions import ClientError

from karpenter_local.aws.site import ClusterAccount
from tests.unit.cloud.aws.world import embedded

TRUST = (
    '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole",'
    ' "Principal": {"Service": "ec2.amazonaws.com"}}]}'
)


def bare_site(**more: Any) -> ClusterAccount:
    """Return a bare account with a cluster ``blue``."""
    return ClusterAccount(
        embedded(), cluster="blue", types=("c5.large", "m5.large"), bare=True, tagged=False, **more
    )


@cache
def shared_site() -> ClusterAccount:
    """Return a bare account for tests that do not disturb each other."""
    return bare_site()


def code_of(error: ClientError) -> str:
    return str(error.response["Error"]["Code"])
