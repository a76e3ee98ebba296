"""
What an error of a launch means: sold out, refused, or worth another try.

Reasons are words for the condition ``Launched`` of a claim, messages are sentences for people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.cloud.aws.errors import DENIED_CODES, NotAllowed, Refused, explain_denial
from karpenter.cloud.errors import CloudUnreachable, LaunchFailed, LaunchRefused, Throttled

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.cloud.aws.instance.createfleet import FleetError
    from karpenter.cloud.errors import CloudError

NO_ADDRESS: Final = "InsufficientFreeAddressesInSubnet"
NO_SPOT_ROLE: Final = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
THROTTLED: Final = "RequestLimitExceeded"
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
"""Codes that say that an offering cannot be had at the moment, but another might."""

_SPREAD_LIMIT: Final = "spread placement group"
_EXCEEDED: Final = ("limit", "maximum", "exceed")

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
_BY_MESSAGE: Final = (
    ("invalid iam instance profile name", "InstanceProfileNameInvalid"),
    ("iaminstanceprofile.name is invalid", "InstanceProfileNameInvalid"),
    ("user data is limited to", "UserDataSizeLimitExceeded"),
    ("free tier", "FreeTierIneligible"),
    ("different networks", "SecurityGroupSubnetVPCMismatch"),
)


class LostAnswer(LaunchFailed):
    """EC2 was asked for a machine and did not answer, or broke: there may be one."""


def is_sold_out(error: FleetError) -> bool:
    """Say whether an error means that something else should be tried now."""
    return error.code in UNFULFILLABLE or error.code == NO_SPOT_ROLE


def is_spread_limit(error: FleetError) -> bool:
    """Say whether a spread placement group has as many machines in a zone as it takes."""
    message = error.message.lower()
    return _SPREAD_LIMIT in message and any(word in message for word in _EXCEEDED)


def reason_of(code: str, message: str) -> str:
    """Return in one word why a launch failed."""
    lowered = message.lower()
    if code == NO_SPOT_ROLE:
        return "SpotSLRCreationFailed"
    if code in DENIED_CODES:
        return "AMIAuthorizationFailure" if "not authorized for images" in lowered else "Unauthorized"
    by_message = next((reason for words, reason in _BY_MESSAGE if words in lowered), "")
    return by_message or _BY_CODE.get(code, "LaunchFailed")


def failure(errors: Iterable[FleetError]) -> CloudError:
    """Return the error of a launch for which nothing was sold out, and nothing was got."""
    first = next(each for each in errors if not is_sold_out(each))
    if first.code == THROTTLED:
        return Throttled(retry_after=2.0)
    return LaunchRefused(
        reason=reason_of(first.code, first.message),
        message=_sentence("ec2:CreateFleet", first.code, first.message),
    )


def as_launch_error(error: CloudError) -> CloudError:
    """Return an error of a call as one of a launch."""
    match error:
        case NotAllowed():
            return LaunchRefused(reason=reason_of(error.code, error.message), message=str(error))
        case Refused() if error.is_fault_of_server:
            return LaunchFailed(str(error))
        case Refused():
            return LaunchRefused(reason=reason_of(error.code, error.message), message=str(error))
        case CloudUnreachable():
            return LaunchFailed(str(error))
        case _:
            return error


def _sentence(action: str, code: str, message: str) -> str:
    if code in DENIED_CODES:
        return f"the controller is not allowed to call {action}: {explain_denial(message)} ({code})"
    return f"EC2 could not launch a machine: {code}: {' '.join(message.split())}"
