import asyncio
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter_local.apiserver.journal import FileJournal
from karpenter_local.apiserver.request import RequestInfo
from karpenter_local.apiserver.resources import Registry
from karpenter_local.apiserver.store import ObjectStore
from karpenter_local.apiserver.verbs.selecting import at
from tests.unit.local.apiserver.asking import request

Step = tuple[str, int]
STEPS = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 3)), max_size=25)


def play(store: ObjectStore, steps: Sequence[Step]) -> list[dict[str, bytes]]:
    """Write or delete, and return the state after each step; zero deletes."""
    states = []
    for name, number in steps:
        key = f"default/{name}"
        if number:
            store.put("configmaps", key, {"metadata": {"name": name}, "n": number})
        elif store.get("configmaps", key) is not None:
            store.delete("configmaps", key)
        states.append(state(store))
    return states


def state(store: ObjectStore) -> dict[str, bytes]:
    return {key: entry.raw for key, entry in store.table("configmaps").entries.items()}


class Backend:
    """As much of a backend as looking back needs."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store


@given(steps=STEPS)
def test_looking_back_shows_what_was(steps: list[Step]) -> None:
    """The state at any revision that is remembered is the state that there was."""
    store = ObjectStore()
    seen: dict[int, dict[str, bytes]] = {store.revision: {}}
    for step in steps:
        play(store, [step])
        seen[store.revision] = state(store)
    resource = Registry().find("", "v1", "configmaps")
    assert resource is not None
    call = RequestInfo(verb="list", resource=resource, request=request("GET", "/"))
    backend: Any = Backend(store)

    looked = {revision: at(backend, call, revision) for revision in seen}

    assert {
        revision: {key: entry.raw for key, entry in (found or {}).items()}
        for revision, found in looked.items()
    } == seen


@settings(max_examples=40, deadline=None)
@given(steps=STEPS, cut=st.floats(0, 1))
def test_a_cut_log_is_a_moment_of_the_past(steps: list[Step], cut: float) -> None:
    """Wherever a crash cuts the log, what comes back is a state that there was, and never a mixture."""
    with TemporaryDirectory() as folder:
        directory = Path(folder)
        store, journal = ObjectStore(), FileJournal(directory)
        journal.open(store)
        states = [{}, *play(store, steps)]
        asyncio.run(journal.close())
        [log] = directory.glob("log-*")
        content = log.read_bytes()
        log.write_bytes(content[: int(len(content) * cut)])

        again, second = ObjectStore(), FileJournal(directory)
        second.open(again)
        second.abandon()

    assert state(again) in states
