"""
Clients of AWS for whoever has credentials, and a sentence for whoever has not.

The SDK is an optional part of the product, so it is imported only here, and only when
somebody asks AWS something. Credentials, profiles and endpoints are found by the SDK, in
the places it documents. The errors it raises on the way become one sentence each.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from botocore.exceptions import ClientError
    from mypy_boto3_ec2 import EC2Client  # noqa: TC004  types for the checker only: users do not have them
    from mypy_boto3_pricing import PricingClient  # noqa: TC004  likewise

_PRICING_ELSEWHERE: Final = (("ap-", "ap-south-1"), ("cn-", "cn-northwest-1"), ("eu-", "eu-central-1"))
_PRICING_REGION: Final = "us-east-1"
_CONNECT_SECONDS: Final = 5
_READ_SECONDS: Final = 60
_ATTEMPTS: Final = 5
_POLICY: Final = (
    "the credentials need ec2:DescribeInstanceTypes, ec2:DescribeInstanceTypeOfferings, "
    "ec2:DescribeAvailabilityZones, ec2:DescribeSpotPriceHistory and pricing:GetProducts"
)


class RefreshFailed(RuntimeError):  # noqa: N818  reads as what happened
    """AWS could not be asked, or told too little; the text is one sentence."""

    def __init__(self, sentence: str, *, hint: str = "") -> None:
        super().__init__(sentence)
        self.hint = hint
        """What helps, where we know."""


class Clients(msgspec.Struct, frozen=True):
    """Who to ask about instances, and who about prices."""

    ec2: EC2Client
    pricing: PricingClient


def pricing_region(region: str) -> str:
    """Return the region whose price list covers `region`; only a few regions keep one."""
    return next((home for prefix, home in _PRICING_ELSEWHERE if region.startswith(prefix)), _PRICING_REGION)


@contextmanager
def connected(region: str) -> Iterator[Clients]:
    """
    Lend clients for `region`.

    Raises:
        RefreshFailed: if the SDK is not installed, or whatever it says while the clients are in use.
    """
    try:
        import boto3  # noqa: PLC0415  an optional part of the product
        from botocore.config import Config  # noqa: PLC0415  as above
        from botocore.exceptions import (  # noqa: PLC0415  as above
            BotoCoreError,
            ClientError,
            NoCredentialsError,
        )
    except ImportError:
        raise RefreshFailed(
            "boto3 is not installed, and AWS cannot be asked without it",
            hint="pip install 'karpenter[aws]'",
        ) from None
    config = Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
    )
    try:
        session = boto3.Session()
        with (
            closing(session.client("ec2", region_name=region, config=config)) as ec2,
            closing(session.client("pricing", region_name=pricing_region(region), config=config)) as pricing,
        ):
            yield Clients(ec2, pricing)
    except NoCredentialsError:
        raise RefreshFailed(
            "no AWS credentials were found",
            hint="set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run aws sso login",
        ) from None
    except ClientError as error:
        raise RefreshFailed(_refusal(error), hint=_POLICY) from None
    except BotoCoreError as error:
        raise RefreshFailed(f"AWS cannot be asked: {_one_line(error)}") from None


def _refusal(error: ClientError) -> str:
    told = error.response.get("Error", {})
    reason = f"{told.get('Code', 'Unknown')}: {told.get('Message', '')}"
    return f"AWS refused {error.operation_name}: {_one_line(reason)}"


def _one_line(text: object) -> str:
    return " ".join(str(text).split()).rstrip(".")
