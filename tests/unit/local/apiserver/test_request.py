import pytest

from karpenter_local.apiserver.errors import APIStatusError
from karpenter_local.apiserver.request import agent, parse
from karpenter_local.apiserver.resources import Registry
from tests.unit.local.apiserver.asking import request


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        pytest.param("GET", "/api/v1/pods", ("list", "pods", "", "", ""), id="everywhere"),
        pytest.param("GET", "/api/v1/namespaces/a/pods", ("list", "pods", "a", "", ""), id="in a namespace"),
        pytest.param("GET", "/api/v1/namespaces/a/pods/b", ("get", "pods", "a", "b", ""), id="one object"),
        pytest.param(
            "PUT", "/api/v1/namespaces/a/pods/b/status", ("update", "pods", "a", "b", "status"), id="a part"
        ),
        pytest.param(
            "GET", "/api/v1/namespaces/a", ("get", "namespaces", "", "a", ""), id="a namespace itself"
        ),
        pytest.param(
            "PUT",
            "/api/v1/namespaces/a/finalize",
            ("update", "namespaces", "", "a", "finalize"),
            id="its part",
        ),
        pytest.param(
            "DELETE", "/api/v1/nodes", ("deletecollection", "nodes", "", "", ""), id="all of a kind"
        ),
        pytest.param(
            "PATCH",
            "/apis/apps/v1/namespaces/a/deployments/b/scale",
            ("patch", "deployments", "a", "b", "scale"),
            id="in a group",
        ),
        pytest.param(
            "GET", "/api/v1/watch/namespaces/a/pods", ("watch", "pods", "a", "", ""), id="the old watch"
        ),
        pytest.param("GET", "/api/v1/namespaces/a/pods/b%2Fc", ("get", "pods", "a", "b/c", ""), id="escaped"),
    ],
)
def test_paths(method: str, path: str, expected: tuple[str, ...]) -> None:
    """A path says verb, kind, namespace, name and part."""
    call = parse(request(method, path), Registry())

    assert call is not None
    assert (call.verb, call.resource.plural, call.namespace, call.name, call.subresource) == expected


@pytest.mark.parametrize("path", ["/", "/version", "/api", "/apis/apps/v1", "/openapi/v3/api/v1"])
def test_pages_are_not_objects(path: str) -> None:
    """What names no kind is left to others."""
    assert parse(request("GET", path), Registry()) is None


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        pytest.param("GET", "/api/v1/things", 404, id="an unknown kind"),
        pytest.param("GET", "/api/v1/pods/a", 404, id="a name without its namespace"),
        pytest.param("GET", "/api/v1/namespaces/a/nodes/b", 404, id="a namespace where there is none"),
        pytest.param("POST", "/api/v1/pods", 405, id="nowhere to create"),
        pytest.param("PUT", "/api/v1/namespaces/a/pods", 405, id="nothing to replace"),
        pytest.param("OPTIONS", "/api/v1/nodes", 405, id="no such method"),
        pytest.param("GET", "/api/v1/namespaces/a/pods/b/eviction", 405, id="a part that is only created"),
    ],
)
def test_paths_that_lead_nowhere(method: str, path: str, code: int) -> None:
    """What cannot be meant is refused before anything is looked up."""
    with pytest.raises(APIStatusError) as caught:
        parse(request(method, path), Registry())

    assert caught.value.code == code


def test_a_user_agent_stands_for_a_field_manager() -> None:
    """A client that does not say who manages is known by the name of its program."""
    assert [agent(text) for text in ("kubectl/v1.34 (linux)", "curl", "")] == ["kubectl", "curl", "unknown"]
