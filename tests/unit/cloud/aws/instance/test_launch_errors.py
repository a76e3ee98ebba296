"""What errors of launches mean."""

import pytest

from karpenter.cloud.aws.errors import AccessDenied, AwsApiError, NoResponse
from karpenter.cloud.aws.instance.createfleet import FleetError
from karpenter.cloud.aws.instance.launch_errors import (
    UNFULFILLABLE,
    as_launch_error,
    failure,
    is_insufficient_capacity,
    is_spread_limit,
    reason_of,
)
from karpenter.cloud.errors import CloudError, InsufficientCapacity, LaunchFailed, LaunchRefused, Throttled


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "", "SpotSLRCreationFailed"),
        ("UnauthorizedOperation", "You are not authorized", "Unauthorized"),
        ("AccessDenied", "with an explicit deny in a permissions boundary", "Unauthorized"),
        ("AuthFailure", "Not authorized for images: [ami-1]", "AMIAuthorizationFailure"),
        (
            "InvalidParameter",
            "Security group sg-1 and subnet subnet-1 belong to different networks",
            "SecurityGroupSubnetVPCMismatch",
        ),
        (
            "InvalidParameterValue",
            "Value (x) for parameter: Invalid IAM Instance Profile name",
            "InstanceProfileNameInvalid",
        ),
        ("InvalidLaunchTemplateName.NotFoundException", "", "LaunchTemplateNotFound"),
        ("InvalidUserData.Malformed", "User data is limited to 16384 bytes", "UserDataSizeLimitExceeded"),
        ("InvalidAMIID.Malformed", "", "InvalidAMIID"),
        ("InvalidAMIID.NotFound", "", "AMINotFound"),
        ("RequestLimitExceeded", "", "RequestLimitExceeded"),
        ("InternalError", "", "InternalError"),
        ("InvalidParameterCombination", "The type is not eligible for Free Tier", "FreeTierIneligible"),
        ("MaxFleetCountExceeded", "", "FleetQuotaExceeded"),
        ("PendingVerification", "", "AccountPendingVerification"),
        ("MaxSpotInstanceCountExceeded", "", "SpotQuotaExceeded"),
        ("VcpuLimitExceeded", "", "VCPULimitExceeded"),
        ("InsufficientFreeAddressesInSubnet", "", "InsufficientFreeAddressesInSubnet"),
        ("SomethingElse", "", "LaunchFailed"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_reason_of(code: str, message: str, reason: str) -> None:
    """One word for the condition of the claim, by code or by what the message says."""
    assert reason_of(code, message) == reason


@pytest.mark.parametrize("code", sorted(UNFULFILLABLE))
def test_what_cannot_be_had_at_the_moment_is_sold_out(code: str) -> None:
    """Something else is tried at once."""
    assert is_insufficient_capacity(FleetError(code=code))


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "InternalError", "UnauthorizedOperation", ""])
def test_other_errors_are_not(code: str) -> None:
    """Buying something else would not help."""
    assert not is_insufficient_capacity(FleetError(code=code))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("The maximum number of instances in a spread placement group was exceeded", True),
        ("You have reached the limit of your spread placement group", True),
        ("The spread placement group is fine", False),
        ("We have no capacity", False),
    ],
)
def test_is_spread_limit(message: str, expected: bool) -> None:
    """A spread group takes only so many machines in a zone, whatever their type."""
    assert is_spread_limit(FleetError(code="InsufficientInstanceCapacity", message=message)) is expected


def test_the_first_error_that_is_not_about_stock_is_told() -> None:
    """It is what the user has to do something about."""
    errors = [
        FleetError(code="InsufficientInstanceCapacity"),
        FleetError(code="InvalidAMIID.NotFound", message="The image id\n does not exist"),
    ]

    found = failure(errors)

    assert isinstance(found, LaunchRefused)
    assert (found.reason, str(found)) == (
        "AMINotFound",
        "EC2 could not launch a machine: InvalidAMIID.NotFound: The image id does not exist",
    )


def test_too_many_calls_are_not_refused() -> None:
    """They are tried again after a while."""
    assert isinstance(failure([FleetError(code="RequestLimitExceeded")]), Throttled)


def refused(code: str, status: int = 400) -> AwsApiError:
    """Return a refusal of EC2."""
    return AwsApiError(action="ec2:CreateFleet", code=code, message="no", status=status)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(refused("InvalidParameter"), LaunchRefused, id="a request that is wrong"),
        pytest.param(refused("InternalError", 500), LaunchFailed, id="a fault of EC2"),
        pytest.param(
            AccessDenied(action="ec2:CreateFleet", code="UnauthorizedOperation", message=""),
            LaunchRefused,
            id="a permission that is missing",
        ),
        pytest.param(NoResponse(action="ec2:CreateFleet", because="timeout"), LaunchFailed, id="no answer"),
        pytest.param(Throttled(), Throttled, id="too many calls"),
        pytest.param(InsufficientCapacity(), InsufficientCapacity, id="sold out"),
    ],
)
def test_as_launch_error(error: CloudError, expected: type[CloudError]) -> None:
    """Whatever goes wrong becomes an error of launches."""
    assert type(as_launch_error(error)) is expected


def test_a_missing_permission_names_the_action() -> None:
    """The message names the permission to grant."""
    error = as_launch_error(AccessDenied(action="ec2:CreateFleet", code="UnauthorizedOperation", message=""))

    assert "not allowed to call ec2:CreateFleet" in str(error)
