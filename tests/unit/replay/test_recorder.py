"""Writing a record: never twice over the same file, and never at the operator's cost."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from karpenter.api.meta import ObjectReference
from karpenter.controllers.executor import InlineExecutor, RecordingExecutor
from karpenter.core.disruption.disrupt import DisruptionDecision, disrupt
from karpenter.core.disruption.memory import DisruptionMemory
from karpenter.core.disruption.settings import DisruptionContext
from karpenter.core.effects import Announce
from karpenter.core.model.catalog import EMPTY
from karpenter.core.state.cluster import ClusterState, NodeClass, ObjectDeleted, ObjectUpdated
from karpenter.operator.operator import flight_recorder
from karpenter.operator.options import SettingError, parse_settings
from karpenter.replay import recorder as recording
from karpenter.replay.recorder import FlightRecorder
from karpenter.replay.replay import Replay
from karpenter_local.testing.builders.pods import pod
from tests.unit.telemetry.clocks import HandClock

if TYPE_CHECKING:
    from pathlib import Path


NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)
CLASS = NodeClass(group="karpenter.kwok.sh", kind="KWOKNodeClass", name="default", ready=True)


def recorder(path: Path, store: ClusterState) -> FlightRecorder:
    made = FlightRecorder(path, limit=2**30, store=store, serves=[], clock=HandClock())
    made.open()
    return made


def question(
    store: ClusterState, *, overdue: frozenset[str] = frozenset(), **facts: Any
) -> partial[DisruptionDecision]:
    """Return the question what may go from a cluster."""
    memory = DisruptionMemory(overdue=overdue)
    return partial(disrupt, store.view(), EMPTY, memory, now=NOON, context=DisruptionContext(**facts))


def replayed(path: Path) -> list[str]:
    """Return how the decisions of a record come out."""
    with path.open("rb") as lines:
        return [each.result for each in Replay().run(lines)]


def test_a_record_is_for_its_owner_only(tmp_path: Path) -> None:
    """It holds every object of the cluster that the operator knows."""
    path = tmp_path / "records" / "flight"
    for _ in range(2):
        recorder(path, ClusterState(serves=[])).close()

    assert [each.stat().st_mode & 0o777 for each in (path, path.with_name("flight.1"))] == [0o600, 0o600]
    assert path.parent.stat().st_mode & 0o777 == 0o700


async def test_what_is_known_already_comes_first(tmp_path: Path) -> None:
    """A record that begins in the middle of things begins with all of them; what goes is told, too."""
    store, path = ClusterState(serves=[]), tmp_path / "flight"
    store.apply(ObjectUpdated(CLASS))
    store.apply(ObjectUpdated(pod("a")))
    flight = recorder(path, store)
    store.apply(ObjectUpdated(pod("b")))
    store.apply(ObjectDeleted(pod("a")))
    store.apply(ObjectDeleted(CLASS))
    await RecordingExecutor(InlineExecutor(), flight).run(question(store))
    flight.close()

    assert [line.split('"')[3] for line in path.read_text().splitlines()] == [
        "begun",
        "classified",
        "seen",
        "seen",
        "lost",
        "unclassified",
        "sold",
        "asked",
        "answered",
    ]
    assert replayed(path) == ["same"]


async def test_a_record_that_is_there_is_kept(tmp_path: Path) -> None:
    """An operator that starts again moves the record of before aside."""
    path = tmp_path / "flight"
    path.write_text("before")
    recorder(path, ClusterState(serves=[])).close()

    assert (tmp_path / "flight.1").read_text() == "before"


async def test_other_work_is_not_recorded(tmp_path: Path) -> None:
    """What is no question to the core is computed and not written down."""
    path = tmp_path / "flight"
    worker = RecordingExecutor(InlineExecutor(), flight := recorder(path, ClusterState(serves=[])))

    assert await worker.run(lambda: 1) == 1
    assert await worker.run(partial(int, "2")) == 2
    flight.close()
    assert len(path.read_text().splitlines()) == 1


async def test_a_decision_that_fails(tmp_path: Path) -> None:
    """A question that ends in an error has no answer, and the error goes where it would have gone."""
    store, path = ClusterState(serves=[]), tmp_path / "flight"
    flight = recorder(path, store)

    class Broken(InlineExecutor):
        """Breaks down over every question."""

        async def run(self, compute: Any) -> Any:
            raise ArithmeticError(str(compute.func.__name__))

    with pytest.raises(ArithmeticError, match="disrupt"):
        await RecordingExecutor(Broken(), flight).run(question(store))
    await RecordingExecutor(InlineExecutor(), flight).run(question(store))
    flight.close()

    assert replayed(path) == ["same"]


async def test_a_decision_that_tells_how_far_it_is(tmp_path: Path) -> None:
    """The function that is told what was tried is no part of the question."""
    store, path = ClusterState(serves=[]), tmp_path / "flight"
    flight = recorder(path, store)
    tried: list[str] = []
    await RecordingExecutor(InlineExecutor(), flight).run(
        question(store, tried=tried.append, overdue=frozenset({"a"}))
    )
    flight.close()

    assert tried == ["Empty", "Drifted", "Underutilized"]
    assert replayed(path) == ["same"]


async def test_a_decision_that_runs_out_of_time(tmp_path: Path) -> None:
    """A question whose time ran out says so."""
    store, path = ClusterState(serves=[]), tmp_path / "flight"
    flight = recorder(path, store)
    call = question(store, stop=lambda: True)

    class Impatient(InlineExecutor):
        """Looks at the clock before it computes."""

        async def run(self, compute: Any) -> Any:
            """Ask whether time is up, as a search does."""
            assert compute.keywords["context"].stop()
            return await super().run(compute)

    await RecordingExecutor(Impatient(), flight).run(call)
    flight.close()
    assert '"cut":true' in path.read_text()


async def test_a_full_disk_ends_the_recording_only(tmp_path: Path) -> None:
    """When the file cannot be written any more, that is logged once, and decisions go on."""
    store = ClusterState(serves=[])
    flight = FlightRecorder(tmp_path / "flight", limit=2**30, store=store, serves=[], clock=HandClock())
    flight.open()
    flight.close()
    flight._file = open("/dev/full", "wb")  # noqa: ASYNC230, PTH123, SIM115  the recorder's own to close
    worker = RecordingExecutor(InlineExecutor(), flight)
    with capture_logs() as logs:
        for _ in range(3):
            assert (await worker.run(question(store))).commands == ()

    assert [each["event"] for each in logs] == ["flight_record.ended"]


async def test_a_mistake_of_ours_ends_the_recording_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be written down is decided all the same, and events go on."""

    def break_down(*_: object, **__: object) -> None:
        raise ValueError("no words for it")

    store, path = ClusterState(serves=[]), tmp_path / "flight"
    flight = recorder(path, store)
    monkeypatch.setattr(recording, "given", break_down)
    with capture_logs() as logs:
        assert (await RecordingExecutor(InlineExecutor(), flight).run(question(store))).commands == ()
        store.apply(ObjectUpdated(pod("a")))
        flight.done(Announce(about=ObjectReference(kind="Pod", name="a"), reason="Heard", message="heard"))
        flight.close()

    assert [(each["event"], each["error"]) for each in logs] == [("flight_record.ended", "no words for it")]


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    """A place where nothing can be written refuses to start."""
    (tmp_path / "file").touch()
    settings = parse_settings({"flight-record": str(tmp_path / "file" / "flight")})
    with pytest.raises(SettingError, match="setting flight-record: "):
        flight_recorder(settings, ClusterState(serves=[]), (), HandClock())
