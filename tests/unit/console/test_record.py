"""A flight record as frames and rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.meta import convert
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.console.record import MOST_FRAMES, fitting_interval, plan_at, read_record, sampled_moments
from karpenter.core.state.cluster import ObjectDeleted, ObjectUpdated
from karpenter.replay.record import (
    INJECTED_FAULT,
    Answered,
    Asked,
    CatalogWriter,
    Done,
    RecordBegun,
    Unreadable,
    line_of,
)
from tests.unit.console.clusters import NOON, inquiry, small_cluster
from tests.unit.why.clusters import machine, pod, pool, write_catalogue

if TYPE_CHECKING:
    from pathlib import Path

    from karpenter.console.state import ConsoleDocument

KINDS: dict[str, type[Any]] = {"Node": Node, "NodeClaim": NodeClaim, "NodePool": NodePool, "Pod": Pod}
SERVES = (("karpenter.kwok.sh", "KWOKNodeClass"),)
COMMAND = {
    "reason": "Empty",
    "candidates": ["n"],
    "replacements": [],
    "moves": {},
    "hourly_before": 0.1,
    "hourly_after": 0.0,
    "pods_moved": 0,
}


class Writer:
    """Writes a record by hand."""

    def __init__(self, folder: Path) -> None:
        self._catalog = load_catalog(write_catalogue(folder))
        self._number = 0
        self.lines: list[bytes] = []
        self.begin(0)

    def begin(self, seconds: float) -> None:
        self._write(RecordBegun(version="0", at=after(seconds), serves=SERVES))
        sold = CatalogWriter().line(self._catalog)
        assert sold is not None
        self._write(sold)

    def seen(self, *objects: dict[str, Any]) -> None:
        for each in objects:
            self._write(line_of(ObjectUpdated(convert(each, KINDS[each["kind"]]))))

    def lost(self, *objects: dict[str, Any]) -> None:
        for each in objects:
            self._write(line_of(ObjectDeleted(convert(each, KINDS[each["kind"]]))))

    def decided(self, seconds: float, question: str, outcome: dict[str, Any]) -> None:
        self._number += 1
        self._write(
            Asked(number=self._number, question=question, now=after(seconds), catalog=1, given={}),
            Answered(number=self._number, outcome=msgspec.Raw(msgspec.json.encode(outcome))),
        )

    def done(self, seconds: float, effect: str, about: str = "", because: str = "") -> None:
        self._write(Done(at=after(seconds), effect=effect, about=about, because=because))

    def read(self) -> ConsoleDocument:
        """Return the record as the page shows it."""
        return read_record(self.lines, title="t")

    def _write(self, *lines: Any) -> None:
        self.lines += [msgspec.json.encode(line) + b"\n" for line in lines]


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_a_frame_for_every_moment_at_which_something_changed(tmp_path: Path) -> None:
    """Changes count for the next decision or effect, and moments without changes have no frame."""
    record = Writer(tmp_path)
    record.seen(pool(), pod("a"))
    record.decided(0, "provision", {})
    record.decided(10, "disrupt", {})
    record.seen(*machine("n"), pod("a", nodeName="n"))
    record.done(20, "Launch", "NodeClaim/claim-n")
    record.lost(pod("a", nodeName="n"))
    record.done(20.5, "Evict", "pod/default/a")
    record.decided(30, "disrupt", {})
    found = record.read()

    assert (found.at, found.snapshot.bill.waiting) == (NOON, 1)
    assert [(frame.at, frame.bill.machines, frame.bill.running) for frame in found.frames] == [
        (after(20), 1, 1),
        (after(30), 1, 0),
    ]


def test_decisions_are_rows(tmp_path: Path) -> None:
    """Launches have a price, commands are one row that counts once they hold, refusals are told once."""
    record = Writer(tmp_path)
    claim = {
        "metadata": {"labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {
            "requirements": [{"key": "node.kubernetes.io/instance-type", "values": ["four", "big"]}],
            "resources": {"requests": {"cpu": "3"}},
        },
    }
    refusal = {"pod": "default/b", "message": "it is too large"}
    launch = {"claims": [{"claim": claim, "pods": ["default/a"]}], "cost": {"hourly": 0.1}}
    record.decided(0, "provision", {**launch, "refusals": [refusal]})
    record.decided(1, "provision", {"refusals": [refusal]})
    record.decided(2, "disrupt", {"commands": [COMMAND]})
    record.decided(17, "validate", {"valid": COMMAND, "candidates": ["n"]})
    record.decided(18, "validate", {"invalid": {"why": "pods", "message": "a pod has come"}})
    rows = [(row.kind, row.title, row.because, row.hourly, row.realized) for row in record.read().decisions]

    assert rows == [
        ("provision", "launch 1 machine of NodePool default", "1 pod waits", 0.1, False),
        ("refused", "no place for default/b", "it is too large", 0.0, False),
        ("disrupt", "delete 1 machine", "Empty", -0.1, True),
        ("disrupt", "the decision does not hold any longer", "a pod has come", 0.0, False),
    ]


def test_faults_are_marked_at_their_time(tmp_path: Path) -> None:
    """Injected faults, interruptions and operators that start anew are faults, in the order of time."""
    record = Writer(tmp_path)
    record.decided(0, "disrupt", {})
    record.done(5, "Announce", "NodeClaim/claim-n SpotInterrupted", "spot interrupted")
    record.done(6, "Announce", "Node/n Unconsolidatable", "it is not empty")
    record.begin(9)
    record.decided(10, "disrupt", {})
    record.done(3, INJECTED_FAULT, "CutWatches", "watches are cut")

    assert [(row.kind, row.title) for row in record.read().decisions] == [
        ("fault", "watches are cut"),
        ("fault", "SpotInterrupted: NodeClaim/claim-n"),
        ("fault", "an operator starts anew"),
    ]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        pytest.param([], "line 1: there is no decision", id="nothing"),
        pytest.param([b"hello\n"], "line 1: this is not JSON", id="text"),
        pytest.param(
            [b'{"line":"answered","number":1,"outcome":{}}\n'], "line 1: a record begins", id="no begin"
        ),
        pytest.param(
            [b'{"line":"begun","format":1,"version":"0","at":"2025-01-01T00:00:00Z","serves":[]}\n'],
            "line 1: the record has format 1",
            id="an old format",
        ),
    ],
)
def test_what_is_no_record_is_refused(lines: list[bytes], problem: str) -> None:
    """The line is named."""
    with pytest.raises(Unreadable, match=problem):
        read_record(lines, title="t")


def test_a_last_line_that_is_not_whole_is_passed_over(tmp_path: Path) -> None:
    """An operator that was killed leaves half a line."""
    record = Writer(tmp_path)
    record.decided(0, "disrupt", {})
    record.lines.append(b'{"line":"don')

    assert record.read().at == NOON


def test_long_records_have_no_more_frames_than_a_page_can_hold(tmp_path: Path) -> None:
    """The time between frames grows with the record."""
    record = Writer(tmp_path)
    record.decided(0, "disrupt", {})
    assert fitting_interval(record.lines) == timedelta(seconds=1)
    record.decided(10 * MOST_FRAMES, "disrupt", {})
    assert fitting_interval(record.lines) == timedelta(seconds=10)


def test_moments_are_spread_over_the_record(tmp_path: Path) -> None:
    """Plans are worked out at some moments, and always at the last one."""
    record = Writer(tmp_path)
    for number in range(40):
        record.seen(pod(f"p{number}"))
        record.decided(number * 10, "disrupt", {})
    found = sampled_moments(record.read(), 4)

    assert (len(found), found[-1]) == (4, after(390))


def test_a_plan_at_a_moment(tmp_path: Path) -> None:
    """The plan of a moment has the bill of the cluster at that moment."""
    found = plan_at(inquiry(small_cluster(), tmp_path))

    assert (found.at, found.hourly) == (NOON.replace(tzinfo=UTC), 0.1)
