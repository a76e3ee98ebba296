from datetime import UTC, datetime, timedelta

from karpenter_local.apiserver.server import Server
from tests.unit.local.apiserver.asking import (
    CONFIGMAPS,
    DEPLOYMENTS,
    MERGE,
    PODS,
    ask,
    configmap,
    deployment,
    pod,
)


class Standing:
    """A clock that moves a second with every look."""

    def __init__(self) -> None:
        self._now = datetime(2025, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        self._now += timedelta(seconds=1)
        return self._now

    def monotonic(self) -> float:
        return 0.0

    def boottime(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        _ = seconds


async def history(seed: int) -> dict[str, bytes]:
    """Return every byte that a story leaves behind."""
    server = Server(clock=Standing(), seed=seed)
    for number in range(5):
        await ask(server, "POST", PODS, {**pod("x"), "metadata": {"generateName": "p-"}})
        await ask(server, "POST", CONFIGMAPS, configmap(f"c{number}"))
    await ask(server, "POST", DEPLOYMENTS, deployment("web"))
    await ask(server, "PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": 4}}, kind=MERGE)
    return {
        f"{table.name}/{key}": entry.raw
        for table in server.store.tables()
        for key, entry in table.entries.items()
    }


async def test_the_same_seed_gives_the_same_cluster() -> None:
    """Ids, generated names and every byte repeat."""
    assert await history(7) == await history(7)


async def test_another_seed_gives_other_ids() -> None:
    """Seeds are not decoration."""
    assert await history(7) != await history(8)
