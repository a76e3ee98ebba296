"""Every test here runs twice, once per server, in a namespace of its own."""

import secrets
from collections.abc import Iterator

import pytest

from tests.contract.kubernetes.api import Api, done
from tests.contract.kubernetes.servers import Running, embedded, real
from tests.contract.kubernetes.wire import Wire


@pytest.fixture(scope="session")
def embedded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Our server, started once."""
    with embedded(tmp_path_factory.mktemp("embedded")) as running:
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
