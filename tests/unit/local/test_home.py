import asyncio
from pathlib import Path

from karpenter_local.apiserver.server import Server
from karpenter_local.home import Home
from tests.unit.local.apiserver.asking import (
    CONFIGMAPS,
    DEFINITIONS,
    THINGS,
    ask,
    configmap,
    definition,
    thing,
)


async def test_a_cluster_comes_home_as_it_left(tmp_path: Path) -> None:
    """Objects, custom kinds, token and certificates are the same after a restart."""
    async with Home(tmp_path) as home:
        server = Server(store=home.store)
        await ask(server, "POST", DEFINITIONS, definition())
        await ask(server, "POST", THINGS, thing("t"))
        made = (await ask(server, "POST", CONFIGMAPS, configmap("a"))).json
        before = (home.token, home.certificates, server.store.revision)

    async with Home(tmp_path) as home:
        server = Server(store=home.store)
        after = (home.token, home.certificates, server.store.revision)
        assert (await ask(server, "GET", f"{CONFIGMAPS}/a")).json == made
        assert (await ask(server, "GET", f"{THINGS}/t")).status == 200

    assert before == after


async def test_clients_find_it_where_it_was(tmp_path: Path) -> None:
    """The port is remembered; if another process has it by then, another one will do."""
    urls = []
    for _ in range(2):
        async with Home(tmp_path) as home:
            front = home.front(Server(store=home.store))
            await home.listen(front)
            urls.append(front.url)
            await front.stop()
    async with Home(tmp_path) as home:
        taken = await asyncio.start_server(lambda _, __: None, "127.0.0.1", int(urls[0].rpartition(":")[2]))
        front = home.front(Server(store=home.store))
        await home.listen(front)
        await front.stop()
        taken.close()

    assert urls[0] == urls[1] != front.url


async def test_ids_are_not_dealt_twice(tmp_path: Path) -> None:
    """A seed makes a run repeatable; it must not make a second run repeat the first one's ids."""
    uids = []
    for name in ("a", "b"):
        async with Home(tmp_path) as home:
            server = Server(store=home.store, seed=1)
            uids.append((await ask(server, "POST", CONFIGMAPS, configmap(name))).json["metadata"]["uid"])

    assert uids[0] != uids[1]


async def test_secrets_are_for_the_owner_only(tmp_path: Path) -> None:
    """Token and key cannot be read by others."""
    async with Home(tmp_path):
        modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("token", "tls.key")]

    assert modes == [0o600, 0o600]
