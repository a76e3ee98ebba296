"""
The errors of AWS, with one sentence each.

    CloudError
    |-- Throttled               too many calls
    `-- CloudUnreachable
        |-- AwsApiError         AWS answered with an error: ``code`` says which
        |   |-- AccessDenied    a permission is missing: ``action`` says which
        |   `-- ResourceNotFound
        `-- NoResponse          AWS did not answer, or not in time: the call may have been carried out

Nothing else leaves :mod:`.sdk`. :mod:`.instance.launch_errors` turns them into errors of launches.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karpenter.cloud.errors import CloudError, CloudUnreachable, Throttled

if TYPE_CHECKING:
    from collections.abc import Mapping


# A dry run that would have succeeded is answered with this error, never with success:
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/CommonParameters.html
DRY_RUN: Final = "DryRunOperation"
TEMPLATE_MISSING: Final = "InvalidLaunchTemplateName.NotFoundException"

# Each service spells it in its own way, and EC2 in one way per kind of resource:
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
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
"""Codes that mean that a resource does not exist."""

# EC2 says UnauthorizedOperation where other services say AccessDenied:
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/query-api-troubleshooting.html
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
# The codes that the SDKs of AWS retry as throttling:
# https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
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
# A signature is valid for five minutes, so a clock that is wrong by more looks like wrong credentials:
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-troubleshooting.html
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
_MAX_LINE_LENGTH: Final = 300


class AwsApiError(CloudUnreachable):
    """AWS answered with an error."""

    def __init__(self, *, action: str, code: str, message: str, status: int = 400) -> None:
        text = _one_line(message)
        super().__init__(f"AWS refused {action}: {code}: {text}" if text else f"AWS refused {action}: {code}")
        self.action = action
        """The action, as IAM policies spell it, such as ``ec2:CreateFleet``."""

        self.code = code
        self.message = message
        self.status = status
        self.retried = False
        """Whether it is the answer to a retry of the SDK: an attempt before may have been carried out."""

    @property
    def is_server_error(self) -> bool:
        """Whether it is a server error (5xx): the call may have been carried out."""
        return self.status >= _SERVER_FAULT


class AccessDenied(AwsApiError):  # noqa: N818  AWS' own word
    """The identity of the controller lacks a permission."""

    def __init__(self, *, action: str, code: str, message: str, status: int = 403) -> None:
        super().__init__(action=action, code=code, message=message, status=status)
        why = explain_denial(message)
        if why == _NO_PERMISSION:
            why = _CREDENTIALS.get(code, why)
        self.why = why
        """Why AWS denies it, of the identity that calls: "its ..."."""

        self.args = (f"the controller is not allowed to call {action}: {why} ({code})",)

    @property
    def by_credentials(self) -> bool:
        """Whether AWS did not get as far as permissions: it does not accept the credentials."""
        return self.code in _CREDENTIALS


class NoCredentials(AccessDenied):
    """No credentials were found."""

    def __init__(self, *, action: str, because: object) -> None:
        super().__init__(action=action, code="NoCredentials", message=str(because))
        said = f"no AWS credentials were found to call {action} with: {_one_line(because)}"
        self.args = (f"{said}; hint: give the service account a role, or set AWS_PROFILE",)


class ResourceNotFound(AwsApiError):  # noqa: N818  AWS' own word
    """A resource that the call names does not exist."""


class NoResponse(CloudUnreachable):
    """AWS did not answer, or the response was lost."""

    def __init__(self, *, action: str, because: object) -> None:
        super().__init__(f"AWS did not answer {action}: {_one_line(because)}")
        self.action = action


def error_from_response(action: str, response: Mapping[str, Any]) -> CloudError:
    error = response.get("Error", {})
    code, message = str(error.get("Code", "Unknown")), str(error.get("Message", ""))
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400))
    if code in THROTTLED_CODES:
        return Throttled(retry_after=2.0)
    kind = AwsApiError
    # A missing service-linked role is reported as AuthFailure.ServiceLinkedRoleCreationNotPermitted.
    if code in DENIED_CODES or code in _CREDENTIALS or code.startswith("AuthFailure."):
        kind = AccessDenied
    elif code in MISSING_CODES:
        kind = ResourceNotFound
    found = kind(action=action, code=code, message=message, status=status)
    found.retried = bool(response.get("ResponseMetadata", {}).get("RetryAttempts"))
    return found


def explain_denial(message: str) -> str:
    """Return why AWS denies a call, as far as its message says."""
    lowered = message.lower()
    # The kinds of policies, in the words of IAM's messages:
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html
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
    # EC2 appends a long encoded message, which only sts:DecodeAuthorizationMessage can read:
    # https://docs.aws.amazon.com/STS/latest/APIReference/API_DecodeAuthorizationMessage.html
    line = line.partition(" Encoded authorization failure message:")[0].rstrip(".")
    return line if len(line) <= _MAX_LINE_LENGTH else f"{line[:_MAX_LINE_LENGTH]}..."
