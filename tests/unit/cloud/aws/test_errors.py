"""Errors of AWS in our words."""

import pytest

from karpenter.cloud.aws.errors import (
    AccessDenied,
    AwsApiError,
    NoResponse,
    ResourceNotFound,
    error_from_response,
    explain_denial,
)
from karpenter.cloud.errors import CloudError, CloudUnreachable, Throttled


def told(code: str, message: str = "", status: int = 400) -> CloudError:
    """Return what an error answer amounts to."""
    answer = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return error_from_response("ec2:CreateFleet", answer)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        *(
            pytest.param(code, Throttled, id=f"{code} means to slow down")
            for code in ("RequestLimitExceeded", "Throttling", "ThrottlingException", "SlowDown")
        ),
        *(
            pytest.param(code, ResourceNotFound, id=f"{code} means that it is not there")
            for code in (
                "InvalidCapacityReservationId.NotFound",
                "InvalidInstanceID.NotFound",
                "InvalidLaunchTemplateName.NotFoundException",
                "InvalidLaunchTemplateId.NotFound",
                "QueueDoesNotExist",
                "NoSuchEntity",
                "ParameterNotFound",
            )
        ),
        *(
            pytest.param(code, AccessDenied, id=f"{code} means that a permission is missing")
            for code in (
                "UnauthorizedOperation",
                "AccessDenied",
                "AccessDeniedException",
                "AuthFailure",
                "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
            )
        ),
        pytest.param("InvalidParameterValue", AwsApiError, id="anything else is refused"),
    ],
)
def test_kinds(code: str, kind: type[CloudError]) -> None:
    """The code of an error decides what is done about it."""
    assert type(told(code)) is kind


def test_a_missing_permission_is_named() -> None:
    """Who lacks a permission is told which action, why, and the code; not the encoded novel."""
    message = "You are not authorized to perform this operation. Encoded authorization failure message: abc"

    assert str(told("UnauthorizedOperation", message)) == (
        "the controller is not allowed to call ec2:CreateFleet: its role lacks the permission"
        " (UnauthorizedOperation)"
    )


@pytest.mark.parametrize(
    ("message", "explained"),
    [
        pytest.param("... because no permissions boundary allows", "a permissions boundary", id="boundary"),
        pytest.param("with an explicit deny in a service control policy", "a service control", id="SCP"),
        pytest.param("in a resource control policy", "a resource control policy", id="RCP"),
        pytest.param(
            "Not authorized for images: [ami-1]", "the account may not use the machine image", id="image"
        ),
        pytest.param("with an explicit deny in an identity policy", "a policy denies", id="explicit"),
        pytest.param("nope", "its role lacks the permission", id="anything else"),
    ],
)
def test_denials_are_explained(message: str, explained: str) -> None:
    """What denies something is told as far as the message tells."""
    assert explain_denial(message).startswith(explained)


def test_a_fault_of_the_server() -> None:
    """An error with a status of 500 and more may come after the call was carried out."""
    assert [
        isinstance(error, AwsApiError) and error.is_server_error
        for error in (told("InternalError", status=500), told("InvalidParameter", status=400))
    ] == [True, False]


def test_sentences_are_short() -> None:
    """A long message is cut, and lines are joined."""
    sentence = str(told("InvalidParameter", "a\n  b " + "x" * 1000))

    assert sentence.startswith("AWS refused ec2:CreateFleet: InvalidParameter: a b xxx")
    assert len(sentence) < 400


def test_everything_is_an_error_of_a_cloud() -> None:
    """Each of them is a CloudUnreachable."""
    errors = [
        told("X"),
        told("UnauthorizedOperation"),
        told("NoSuchEntity"),
        NoResponse(action="a", because="b"),
    ]

    assert all(isinstance(error, CloudUnreachable) for error in errors)
