"""
What an error of a launch means: insufficient capacity, a refusal, or a failure that is worth a retry.

Reasons are those of the condition ``Launched`` of a NodeClaim, as Karpenter words them; messages are
sentences for people. The codes of EC2 are listed at
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.cloud.aws.errors import DENIED_CODES, AccessDenied, AwsApiError, explain_denial
from karpenter.cloud.errors import CloudError, CloudUnreachable, LaunchFailed, LaunchRefused, Throttled

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.cloud.aws.instance.createfleet import FleetError

# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
NO_ADDRESS: Final = "InsufficientFreeAddressesInSubnet"
# Spot needs a service-linked role, which EC2 creates with the first request if the caller may create it:
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/service-linked-roles-spot-instance-requests.html
NO_SPOT_ROLE: Final = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
THROTTLED: Final = "RequestLimitExceeded"
# VcpuLimitExceeded is a quota of an instance family and capacity type, so another family may still launch:
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-resource-limits.html
UNFULFILLABLE: Final = frozenset(
    {
        "InsufficientInstanceCapacity",
        "MaxSpotInstanceCountExceeded",
        "VcpuLimitExceeded",
        "UnfulfillableCapacity",
        "Unsupported",
        NO_ADDRESS,
        "MaxFleetCountExceeded",
        "ReservationCapacityExceeded",
    }
)
"""Codes that mean that an offering cannot be launched at the moment, while another one may."""

# A spread group holds seven running instances per zone; EC2 has no code of its own for an eighth:
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-groups.html
_SPREAD_LIMIT: Final = "spread placement group"
_EXCEEDED: Final = ("limit", "maximum", "exceed")

# The reasons of instance_launch_failures_total are Karpenter's:
# https://karpenter.sh/docs/reference/metrics/
_BY_CODE: Final = {
    "InvalidLaunchTemplateName.NotFoundException": "LaunchTemplateNotFound",
    "InvalidLaunchTemplateId.NotFound": "LaunchTemplateNotFound",
    "InvalidAMIID.Malformed": "InvalidAMIID",
    "InvalidAMIID.NotFound": "AMINotFound",
    "InvalidAMIID.Unavailable": "AMINotFound",
    THROTTLED: "RequestLimitExceeded",
    "InternalError": "InternalError",
    "MaxFleetCountExceeded": "FleetQuotaExceeded",
    "PendingVerification": "AccountPendingVerification",
    "MaxSpotInstanceCountExceeded": "SpotQuotaExceeded",
    "VcpuLimitExceeded": "VCPULimitExceeded",
    NO_ADDRESS: "InsufficientFreeAddressesInSubnet",
}
# EC2 answers these with InvalidParameterValue or InvalidParameterCombination: only the text tells them apart.
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
_BY_MESSAGE: Final = (
    ("invalid iam instance profile name", "InstanceProfileNameInvalid"),
    ("iaminstanceprofile.name is invalid", "InstanceProfileNameInvalid"),
    ("user data is limited to", "UserDataSizeLimitExceeded"),
    ("free tier", "FreeTierIneligible"),
    ("different networks", "SecurityGroupSubnetVPCMismatch"),
)


class UnknownLaunchOutcome(LaunchFailed):
    """EC2 did not answer a launch, threw it back, or had an error of its own: an instance may exist."""


def is_insufficient_capacity(error: FleetError) -> bool:
    """Return whether an error means that another offering should be tried now."""
    return error.code in UNFULFILLABLE or error.code == NO_SPOT_ROLE


def is_spread_limit(error: FleetError) -> bool:
    """
    Return whether a spread placement group is full in a zone.

    It takes seven running instances per zone, and EC2 reports the limit as missing capacity:
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html
    """
    message = error.message.lower()
    return _SPREAD_LIMIT in message and any(word in message for word in _EXCEEDED)


def reason_of(code: str, message: str) -> str:
    lowered = message.lower()
    if code == NO_SPOT_ROLE:
        return "SpotSLRCreationFailed"
    # A shared AMI whose owner has withdrawn the permission fails like a missing right of the caller:
    # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/sharing-amis.html
    if code in DENIED_CODES:
        return "AMIAuthorizationFailure" if "not authorized for images" in lowered else "Unauthorized"
    by_message = next((reason for words, reason in _BY_MESSAGE if words in lowered), "")
    return by_message or _BY_CODE.get(code, "LaunchFailed")


def failure(errors: Iterable[FleetError]) -> CloudError:
    """Return the error of a launch that failed for another reason than capacity."""
    first = next(each for each in errors if not is_insufficient_capacity(each))
    if first.code == THROTTLED:
        return Throttled(retry_after=2.0)
    return LaunchRefused(
        reason=reason_of(first.code, first.message),
        message=_sentence("ec2:CreateFleet", first.code, first.message),
    )


def as_launch_error(error: CloudError) -> CloudError:
    match error:
        case AccessDenied():
            return LaunchRefused(reason=reason_of(error.code, error.message), message=str(error))
        case AwsApiError() if error.is_server_error:
            return LaunchFailed(str(error))
        case AwsApiError():
            return LaunchRefused(reason=reason_of(error.code, error.message), message=str(error))
        case CloudUnreachable():
            return LaunchFailed(str(error))
        case _:
            return error


def _sentence(action: str, code: str, message: str) -> str:
    if code in DENIED_CODES:
        return f"the controller is not allowed to call {action}: {explain_denial(message)} ({code})"
    return f"EC2 could not launch a machine: {code}: {' '.join(message.split())}"
