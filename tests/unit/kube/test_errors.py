"""Answers of the server become the right leaf of the tree, with their facts."""

import json

import pytest

from karpenter.kube import errors
from karpenter.kube.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerFailed,
    StatusError,
    TooManyRequests,
    Unauthorized,
    UndecodableResponse,
    Unreachable,
    status_error,
)
from karpenter.kube.transport import Request, Response
from tests.unit.kube.toy import status

ASKED = Request(method="GET", path="/api/v1/pods")


@pytest.mark.parametrize(
    ("response", "leaf"),
    [
        pytest.param(status(400, "BadRequest"), BadRequest, id="400 is a bad request"),
        pytest.param(status(401, "Unauthorized"), Unauthorized, id="401 is unauthorized"),
        pytest.param(status(403, "Forbidden"), Forbidden, id="403 is forbidden"),
        pytest.param(status(404, "NotFound"), NotFound, id="404 is not found"),
        pytest.param(status(405, "MethodNotAllowed"), BadRequest, id="405 is a bad request"),
        pytest.param(status(409, "Conflict"), Conflict, id="409 is a conflict"),
        pytest.param(status(409, "AlreadyExists"), AlreadyExists, id="409 may say that it exists already"),
        pytest.param(status(410, "Gone"), Gone, id="410 is gone"),
        pytest.param(status(410, "Expired"), Gone, id="410 may say expired"),
        pytest.param(status(415, "UnsupportedMediaType"), BadRequest, id="415 is a bad request"),
        pytest.param(status(422, "Invalid"), Invalid, id="422 is invalid"),
        pytest.param(status(429, "TooManyRequests"), TooManyRequests, id="429 is too many requests"),
        pytest.param(status(500, "InternalError"), ServerFailed, id="500 is the server's failure"),
        pytest.param(status(503, "ServiceUnavailable"), ServerFailed, id="503 is the server's failure"),
        pytest.param(
            Response(status=502, body=b"<html>"), ServerFailed, id="a proxy's page counts by its status"
        ),
        pytest.param(Response(status=404, body=b""), NotFound, id="an empty body counts by its status"),
    ],
)
def test_leaf(response: Response, leaf: type[StatusError]) -> None:
    """Each status code has its own error."""
    assert type(status_error(ASKED, response)) is leaf


def test_an_error_says_what_was_asked_and_what_was_answered() -> None:
    """The text names the request and carries the server's own sentence."""
    error = status_error(ASKED, status(404, "NotFound", 'pods "web-0" not found', name="web-0", kind="pods"))

    assert str(error) == 'GET /api/v1/pods: pods "web-0" not found'
    assert (error.code, error.reason, error.name, error.kind) == (404, "NotFound", "web-0", "pods")


@pytest.mark.parametrize(
    ("response", "said"),
    [
        pytest.param(status(500, ""), "500", id="nothing but a code"),
        pytest.param(
            Response(status=502, body=b"bad gateway"), "bad gateway", id="a body that is not a Status"
        ),
    ],
)
def test_an_error_always_says_something(response: Response, said: str) -> None:
    """Where the server gave no sentence, whatever it gave has to do."""
    assert str(status_error(ASKED, response)) == f"GET /api/v1/pods: {said}"


def test_an_invalid_object_names_each_field() -> None:
    """Causes are kept, one for each field."""
    cause = {"reason": "FieldValueInvalid", "message": "must be positive", "field": "spec.weight"}

    error = status_error(ASKED, status(422, "Invalid", causes=[cause]))

    assert error.causes == (errors.Cause("FieldValueInvalid", "must be positive", "spec.weight"),)


@pytest.mark.parametrize(
    ("response", "seconds"),
    [
        pytest.param(status(429, "TooManyRequests", retry_after=7), 7, id="the header"),
        pytest.param(status(429, "TooManyRequests", retryAfterSeconds=3), 3, id="the details"),
        pytest.param(
            status(429, "TooManyRequests", retry_after=7, retryAfterSeconds=3), 7, id="the header first"
        ),
        pytest.param(
            status(429, "TooManyRequests", retry_after="Wed, 21 Oct"), None, id="a date is not read"
        ),
        pytest.param(status(429, "TooManyRequests"), None, id="neither"),
    ],
)
def test_retry_after(response: Response, seconds: float | None) -> None:
    """How long to wait comes from the header, or else from the details."""
    assert status_error(ASKED, response).retry_after == seconds


def test_an_eviction_that_a_budget_blocks_is_told_apart() -> None:
    """A disruption budget's refusal has a cause of its own."""
    by_budget = status_error(ASKED, status(429, "TooManyRequests", causes=[{"reason": "DisruptionBudget"}]))
    by_server = status_error(ASKED, status(429, "TooManyRequests"))

    assert isinstance(by_budget, TooManyRequests)
    assert isinstance(by_server, TooManyRequests)
    assert (by_budget.by_budget, by_server.by_budget) == (True, False)


def test_no_answer_and_a_wrong_answer_say_so() -> None:
    """What is not the server's word is told apart from what is."""
    assert str(Unreachable("no route", request=ASKED)) == "GET /api/v1/pods: no route"
    assert (
        str(UndecodableResponse("not JSON", request=ASKED))
        == "GET /api/v1/pods: cannot read the answer: not JSON"
    )


def test_a_status_of_the_wrong_shape_still_counts() -> None:
    """A body that only looks like a Status falls back to the status code."""
    body = json.dumps({"code": "four hundred", "message": ["?"]}).encode()

    assert isinstance(status_error(ASKED, Response(status=403, body=body)), Forbidden)
