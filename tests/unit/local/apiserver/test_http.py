import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path

import aiohttp
import yaml

from karpenter_local import kubeconfig
from karpenter_local.apiserver.errors import MAX_BODY
from karpenter_local.apiserver.http import SecureServer
from karpenter_local.apiserver.server import Server
from tests.unit.local.apiserver.asking import CONFIGMAPS, configmap


@asynccontextmanager
async def running() -> AsyncIterator[tuple[SecureServer, aiohttp.ClientSession]]:
    """Yield a server on a port, and a client that knows its token."""
    front = SecureServer(Server(seed=1))
    await front.start()
    trust = ssl.create_default_context(cadata=front.certificates.authority.decode())
    headers = {"authorization": f"Bearer {front.token}"}
    connector = aiohttp.TCPConnector(ssl=trust)
    async with aiohttp.ClientSession(front.url, headers=headers, connector=connector) as session:
        yield front, session
    await front.stop()


async def test_it_listens_on_loopback_with_a_certificate_of_its_own() -> None:
    """A client that trusts the generated authority can verify the server."""
    async with running() as (front, session), session.get("/version") as answer:
        assert front.url.startswith("https://127.0.0.1:")
        assert answer.status == 200


async def test_nobody_gets_in_without_the_token() -> None:
    """A missing or wrong token is a 401 with a Status."""
    async with running() as (_, session):
        for header in ("", "Bearer wrong", "Basic x"):
            async with session.get("/api/v1/nodes", headers={"authorization": header}) as answer:
                assert (answer.status, (await answer.json())["reason"]) == (401, "Unauthorized")


async def test_bodies_have_a_limit() -> None:
    """A body that is too large is refused, said beforehand or not."""

    async def drip() -> AsyncIterator[bytes]:
        for _ in range(MAX_BODY // 65536 + 1):
            yield b"x" * 65536

    async with running() as (_, session):
        async with session.post(CONFIGMAPS, data=BytesIO(b"x" * (MAX_BODY + 1))) as answer:
            assert (answer.status, (await answer.json())["reason"]) == (413, "RequestEntityTooLarge")
        async with session.post(CONFIGMAPS, data=drip()) as answer:
            assert answer.status == 413


async def test_the_end_does_not_wait_for_watches() -> None:
    """A client that watches for ever does not keep the server from stopping."""
    async with running() as (front, session), session.get(CONFIGMAPS, params={"watch": "true"}) as stream:
        assert stream.status == 200
        await asyncio.wait_for(front.stop(), 5.0)


async def test_a_watch_streams_and_ends_with_its_client() -> None:
    """Events arrive as they happen; a client that leaves leaves no watcher behind."""
    async with running() as (front, session):
        history = front.server.store.table("configmaps").history
        async with session.get(CONFIGMAPS, params={"watch": "true"}) as stream:
            async with session.post(CONFIGMAPS, json=configmap("a")) as made:
                assert made.status == 201
            line = await stream.content.readline()
            assert b'"ADDED"' in line
        for _ in range(100):
            if not history._waiting:
                break
            await asyncio.sleep(0.02)
        assert history._waiting == {}


async def test_warnings_travel_as_headers() -> None:
    """Each warning is a header of its own."""
    async with (
        running() as (_, session),
        session.post(CONFIGMAPS, json={**configmap("a"), "dta": {}, "x": 1}) as answer,
    ):
        assert answer.headers.getall("warning") == [
            r'299 - "unknown field \"dta\""',
            r'299 - "unknown field \"x\""',
        ]


async def test_a_kubeconfig_holds_all_that_is_needed(tmp_path: Path) -> None:
    """One cluster, one user, one context; for the owner's eyes only."""
    path = tmp_path / "deep" / "config"

    kubeconfig.write(
        path, kubeconfig.render(name="local", url="https://127.0.0.1:1", authority=b"CA", token="t")
    )

    config = yaml.safe_load(path.read_text())
    assert (config["current-context"], config["users"][0]["user"]) == ("local", {"token": "t"})
    assert config["clusters"][0]["cluster"] == {
        "server": "https://127.0.0.1:1",
        "certificate-authority-data": "Q0E=",
    }
    assert path.stat().st_mode & 0o777 == 0o600


async def test_long_answers_are_compressed_for_those_who_can_unpack_them() -> None:
    """A long body comes compressed if the client says that it may; short ones never do."""
    async with running() as (_, session):
        for number in range(3):
            made = configmap(f"m{number}", data={"text": "x" * 100_000})
            async with session.post(CONFIGMAPS, json=made) as answer:
                assert answer.status == 201
        bodies = []
        for accepted, encoding in (("gzip", "gzip"), ("identity", None)):
            async with session.get(CONFIGMAPS, headers={"accept-encoding": accepted}) as answer:
                assert answer.headers.get("content-encoding") == encoding
                bodies.append(await answer.read())
        async with session.get(f"{CONFIGMAPS}/m0", headers={"accept-encoding": "gzip"}) as answer:
            assert "content-encoding" not in answer.headers

    assert bodies[0] == bodies[1]
    assert len(bodies[0]) > 300_000
