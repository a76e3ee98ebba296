"""Every test here runs twice, once per server, in a namespace of its own."""

import secrets
from collections.abc import Iterator

import pytest

from tests.contract.kubernetes.api import Api, done, eventually
from tests.contract.kubernetes.servers import Running, embedded, real
from tests.contract.kubernetes.things import DEFINITION, place, served
from tests.contract.kubernetes.wire import Wire


@pytest.fixture(scope="session")
def embedded_server() -> Iterator[Running]:
    """Our server, started once."""
    with embedded() as running:
        yield running


@pytest.fixture(scope="session")
def real_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The real server, started once."""
    with real(tmp_path_factory.mktemp("real")) as running:
        yield running


@pytest.fixture(
    params=[
        pytest.param("embedded", id="embedded"),
        pytest.param("real", id="real", marks=pytest.mark.controlplane),
    ]
)
def server(request: pytest.FixtureRequest) -> Running:
    """One server after the other."""
    running: Running = request.getfixturevalue(f"{request.param}_server")
    return running


@pytest.fixture
def api(server: Running) -> Iterator[Api]:
    """A client with a namespace of its own, which is deleted afterwards."""
    unique = f"c{secrets.token_hex(4)}"
    wire = Wire(server.address)
    client = Api(wire, namespace=unique, unique=unique)
    done(client.send("POST", "/api/v1/namespaces", {"metadata": {"name": unique}}))
    try:
        yield client
        client.clean()
        client.send("DELETE", f"/api/v1/namespaces/{unique}")
    finally:
        wire.close()


@pytest.fixture
def empty_cluster(api: Api) -> Iterator[None]:
    """A cluster without nodes, and without pods that the scheduler could mistake for this test's."""

    def quiet() -> bool:
        pods = done(api.find(api.everywhere("pods")))["items"]
        for each in pods:
            where = api.path("pods", each["metadata"]["name"], namespace=each["metadata"]["namespace"])
            api.send("DELETE", where, gracePeriodSeconds=0)
        return not pods and not done(api.find("nodes"))["items"]

    eventually(quiet)
    yield
    api.clean()
    done(api.delete_all("pods", gracePeriodSeconds=0))


@pytest.fixture
def things(api: Api) -> str:
    """Where things are; the definition is installed if it is not there yet."""
    if api.get("customresourcedefinitions", DEFINITION["metadata"]["name"]).status == 404:
        done(api.send("POST", api.path("customresourcedefinitions"), DEFINITION))
    path = place(api)
    assert served(api, path)
    return path
