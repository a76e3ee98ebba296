"""A server that is killed in the middle of its work loses nothing that it has answered for."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

from karpenter_local.apiserver.server import Server
from karpenter_local.home import Home
from tests.unit.local.apiserver.asking import CONFIGMAPS, ask, configmap, watch

REAL_TIME = True
ANSWERED = 300

CHILD = """
import asyncio, sys
from pathlib import Path
from karpenter_local.home import Home
from karpenter_local.apiserver.server import Server
from tests.unit.local.apiserver.asking import CONFIGMAPS, MERGE, ask, configmap


async def writer(server, number):
    for turn in range(100_000):
        name = f"w{number}-{turn % 50}"
        answer = await ask(server, "POST", CONFIGMAPS, configmap(name, {"turn": str(turn)}))
        if answer.status == 409:
            body = {"data": {"turn": str(turn)}}
            answer = await ask(server, "PATCH", f"{CONFIGMAPS}/{name}", body, kind=MERGE)
        meta = answer.json["metadata"]
        sys.stdout.write(f"{name} {turn} {meta['resourceVersion']}\\n")
        sys.stdout.flush()


async def main():
    home = Home(Path(sys.argv[1]))
    home.journal._limit = 50_000  # so that snapshots happen meanwhile
    server = Server(store=home.store)
    await asyncio.gather(*(writer(server, number) for number in range(4)))


asyncio.run(main())
"""


def killed_in_the_middle(directory: Path) -> dict[str, tuple[int, int]]:
    """Let a child write until it is killed; return the turn and revision it answered for, by object."""
    child = subprocess.Popen(  # noqa: S603  the program is ours
        [sys.executable, "-c", CHILD, str(directory)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert child.stdout is not None
    lines = [child.stdout.readline() for _ in range(ANSWERED)]
    child.send_signal(signal.SIGKILL)
    lines += child.stdout.readlines()
    child.wait()
    child.stdout.close()
    done: dict[str, tuple[int, int]] = {}
    for line in lines:
        match line.split():
            case [name, turn, revision]:
                done[name] = max(done.get(name, (0, 0)), (int(turn), int(revision)))
            case _:
                break  # the last line may be cut
    return done


async def test_what_was_answered_survives(tmp_path: Path) -> None:
    """After a kill, every acknowledged write is there, and revisions go on from where they were."""
    done = await asyncio.to_thread(killed_in_the_middle, tmp_path)

    async with Home(tmp_path) as home:
        server = Server(store=home.store)
        items = (await ask(server, "GET", CONFIGMAPS)).json["items"]
        found = {item["metadata"]["name"]: int(item["data"]["turn"]) for item in items}
        later = await ask(server, "POST", CONFIGMAPS, configmap("later"))

    assert {name: turn for name, (turn, _) in done.items() if found.get(name, -1) < turn} == {}
    assert int(later.json["metadata"]["resourceVersion"]) > max(revision for _, revision in done.values())


async def test_a_client_resumes_where_it_was(tmp_path: Path) -> None:
    """A watch from the last revision that a client saw misses nothing after a restart."""
    async with Home(tmp_path) as home:
        server = Server(store=home.store)
        seen = (await ask(server, "POST", CONFIGMAPS, configmap("seen"))).json["metadata"]["resourceVersion"]
        await ask(server, "POST", CONFIGMAPS, configmap("missed"))

    async with Home(tmp_path) as home:
        stream = await watch(Server(store=home.store), CONFIGMAPS, resourceVersion=seen)
        line = await anext(stream.lines)
        await stream.lines.aclose()

    assert b'"missed"' in line
