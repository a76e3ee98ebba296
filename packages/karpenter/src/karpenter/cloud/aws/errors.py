"""
What AWS says when it does not do what it was asked, as one sentence each.

    CloudError
    |-- Throttled           too many calls
    `-- CloudUnreachable
        |-- Refused         AWS answered with an error: ``code`` says which
        |   |-- NotAllowed  a permission is missing: ``action`` says which
        |   `-- Missing     what was asked about does not exist
        `-- NoAnswer        AWS did not answer, or not in time: the call may have been carried out

Nothing else leaves :mod:`.calls`. Whoever launches turns these into errors of launches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karpenter.cloud.errors import CloudUnreachable, Throttled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.cloud.errors import CloudError

DRY_RUN: Final = "DryRunOperation"
TEMPLATE_MISSING: Final = "InvalidLaunchTemplateName.NotFoundException"

MISSING_CODES: Final = frozenset(
    {
        "InvalidCapacityReservationId.NotFound",
        "InvalidInstanceID.NotFound",
        TEMPLATE_MISSING,
        "InvalidLaunchTemplateId.NotFound",
        "InvalidPlacementGroup.Unknown",
        "InvalidPlacementGroupId.NotFound",
        "AWS.SimpleQueueService.NonExistentQueue",
        "QueueDoesNotExist",
        "NoSuchEntity",
        "ParameterNotFound",
        "ResourceNotFoundException",
    }
)
"""Codes that say that something does not exist."""

DENIED_CODES: Final = frozenset(
    {
        "UnauthorizedOperation",
        "AccessDenied",
        "AccessDeniedException",
        "AuthorizationError",
        "AuthFailure",
        "Client.UnauthorizedOperation",
    }
)
THROTTLED_CODES: Final = frozenset(
    {
        "RequestLimitExceeded",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "RequestThrottled",
        "RequestThrottledException",
        "TooManyRequestsException",
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "SlowDown",
    }
)
_CREDENTIALS: Final = {
    "ExpiredToken": "its credentials have expired",
    "ExpiredTokenException": "its credentials have expired",
    "RequestExpired": "its clock differs from that of AWS",
    "InvalidClientTokenId": "AWS does not know its credentials",
    "UnrecognizedClientException": "AWS does not know its credentials",
    "SignatureDoesNotMatch": "AWS does not accept its credentials",
    "AuthFailure": "AWS does not accept its credentials",
}
_NO_PERMISSION: Final = "its role lacks the permission"
_SERVER_FAULT: Final = 500
_LONGEST: Final = 300


class AwsApiError(CloudUnreachable):
    """AWS answered with an error."""

    def __init__(self, *, action: str, code: str, message: str, status: int = 400) -> None:
        said = _one_line(message)
        super().__init__(f"AWS refused {action}: {code}: {said}" if said else f"AWS refused {action}: {code}")
        self.action = action
        """The action, as policies spell it, such as ``ec2:CreateFleet``."""

        self.code = code
        self.message = message
        self.status = status

    @property
    def is_server_error(self) -> bool:
        """Whether AWS says that something is wrong with AWS: the call may have been carried out."""
        return self.status >= _SERVER_FAULT


class AccessDenied(AwsApiError):
    """The identity that we act as lacks a permission."""

    def __init__(self, *, action: str, code: str, message: str, status: int = 403) -> None:
        super().__init__(action=action, code=code, message=message, status=status)
        why = explain_denial(message)
        if why == _NO_PERMISSION:
            why = _CREDENTIALS.get(code, why)
        self.args = (f"the controller is not allowed to call {action}: {why} ({code})",)


class NoCredentials(AccessDenied):
    """There is nothing to identify ourselves with."""

    def __init__(self, *, action: str, because: object) -> None:
        super().__init__(action=action, code="NoCredentials", message=str(because))
        said = f"no AWS credentials were found to call {action} with: {_one_line(because)}"
        self.args = (f"{said}; hint: give the service account a role, or set AWS_PROFILE",)


class ResourceNotFound(AwsApiError):
    """What was asked about does not exist."""


class NoResponse(CloudUnreachable):
    """AWS did not answer, or the answer was lost."""

    def __init__(self, *, action: str, because: object) -> None:
        super().__init__(f"AWS did not answer {action}: {_one_line(because)}")
        self.action = action


def error_from_response(action: str, response: Mapping[str, Any]) -> CloudError:
    """Return what an error answer of AWS amounts to."""
    told = response.get("Error", {})
    code, message = str(told.get("Code", "Unknown")), str(told.get("Message", ""))
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400))
    if code in THROTTLED_CODES:
        return Throttled(retry_after=2.0)
    kind = AwsApiError
    if code in DENIED_CODES or code in _CREDENTIALS or code.startswith("AuthFailure."):
        kind = AccessDenied
    elif code in MISSING_CODES:
        kind = ResourceNotFound
    return kind(action=action, code=code, message=message, status=status)


def explain_denial(message: str) -> str:
    """Return in a few words why AWS denies something, as far as its message tells."""
    lowered = message.lower()
    if "permissions boundary" in lowered:
        return "a permissions boundary denies it"
    if "service control policy" in lowered:
        return "a service control policy of the organization denies it"
    if "resource control policy" in lowered:
        return "a resource control policy of the organization denies it"
    if "not authorized for images" in lowered:
        return "the account may not use the machine image"
    if "explicit deny" in lowered:
        return "a policy denies it explicitly"
    return _NO_PERMISSION


def _one_line(text: object) -> str:
    line = " ".join(str(text).split()).rstrip(".")
    line = line.partition(" Encoded authorization failure message:")[0].rstrip(".")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
