"""Only what cannot have happened, or may happen twice, is sent again."""

import pytest

from karpenter.kube import rest
from karpenter.kube.client import may_retry, retry_after_of
from karpenter.kube.errors import KubeError, UndecodableResponse, Unreachable, status_error
from karpenter.kube.patches import Apply, JsonPatch, MergePatch
from karpenter.kube.targets import untyped
from karpenter.kube.transport import Request
from tests.unit.kube.toy import status

NODES = untyped("v1", "nodes", kind="Node", namespaced=False)
GET = rest.get(NODES, "n1")
CREATE = rest.create(NODES, {}, manager="me")
MERGE = rest.patch(NODES, "n1", MergePatch({}), manager="me")
JSON = rest.patch(NODES, "n1", JsonPatch([]), manager="me")
APPLY = rest.patch(NODES, "n1", Apply({}), manager="me")
DELETE = rest.delete(NODES, "n1")
EVICT = rest.evict("web-0", namespace="shop")

NEVER_SENT = Unreachable("connection refused", request=GET, sent=False)
NO_ANSWER = Unreachable("connection reset", request=GET)
BUSY = status_error(GET, status(429, "TooManyRequests"))
DOWN = status_error(GET, status(503, "ServiceUnavailable"))
TURNED_AWAY = status_error(GET, status(503, "ServiceUnavailable", retry_after=1))
CONFLICT = status_error(GET, status(409, "Conflict"))


@pytest.mark.parametrize(
    ("request_", "error", "expected"),
    [
        pytest.param(GET, NO_ANSWER, True, id="a read without an answer"),
        pytest.param(GET, DOWN, True, id="a read that failed"),
        pytest.param(GET, CONFLICT, False, id="not a refusal for good"),
        pytest.param(
            GET, UndecodableResponse("?", request=GET), False, id="not an answer that makes no sense"
        ),
        pytest.param(APPLY, NO_ANSWER, True, id="applying the same again"),
        pytest.param(CREATE, NO_ANSWER, False, id="not a create that may have happened"),
        pytest.param(MERGE, NO_ANSWER, False, id="not a patch that may have happened"),
        pytest.param(JSON, NO_ANSWER, False, id="nor one of operations"),
        pytest.param(DELETE, NO_ANSWER, False, id="not a delete: the name may be another object's by now"),
        pytest.param(CREATE, NEVER_SENT, True, id="anything that was never sent"),
        pytest.param(CREATE, BUSY, True, id="anything that was too much"),
        pytest.param(CREATE, DOWN, False, id="not a write that failed inside"),
        pytest.param(CREATE, TURNED_AWAY, True, id="a write that was turned away at the door"),
        pytest.param(EVICT, BUSY, False, id="not an eviction that a budget refuses"),
        pytest.param(EVICT, NEVER_SENT, True, id="an eviction that was never sent"),
    ],
)
def test_may_repeat(request_: Request, error: KubeError, expected: bool) -> None:
    """Whether a request may be sent again depends on what it does and how it failed."""
    assert may_retry(request_, error) is expected


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        pytest.param(TURNED_AWAY, 1, id="the server said"),
        pytest.param(BUSY, 0, id="the server did not say"),
        pytest.param(NO_ANSWER, 0, id="there was no server to say it"),
    ],
)
def test_asked_wait(error: KubeError, seconds: float) -> None:
    """The server may ask for a pause."""
    assert retry_after_of(error) == seconds
