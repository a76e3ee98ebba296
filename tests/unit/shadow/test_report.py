"""What both sides come to, the record of it, and its report."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from karpenter.cli import main
from karpenter.shadow.account import ShadowAccount, ShadowAction, ShadowStarted, Side
from karpenter.shadow.report import BadRecord, read_record, sentence, sum_up

if TYPE_CHECKING:
    from pathlib import Path


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def after(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def act(
    account: ShadowAccount, minute: float, side: Side, action: str, *, offering: str, reason: str
) -> None:
    """Let a side launch or remove a machine."""
    account.acted(
        ShadowAction(
            at=after(minute),
            side=side,
            action="launch" if action == "launch" else "remove",
            machine=f"{side}-{minute}",
            pool="default",
            offering=offering,
            reason=reason,
        )
    )


def an_hour(record: Path) -> ShadowAccount:
    """Write an hour in which Karpenter has two machines and the shadow gives one up at half time."""
    account = ShadowAccount(record)
    account.begin(ShadowStarted(at=NOON))
    account.integrate(NOON, (2.0, 2), (2.0, 2))
    for minute in range(1, 30):
        account.integrate(after(minute), (2.0, 2), (2.0, 2))
    account.integrate(after(30), (2.0, 2), (1.0, 1))
    act(account, 30, "shadow", "remove", offering="m5.large a on-demand", reason="Underutilized")
    account.evicted("shadow")
    for _ in range(3):
        account.evicted("real")
    account.placed("real", 5.0)
    account.placed("shadow", 3.0)
    act(account, 40, "real", "launch", offering="m5.large a on-demand", reason="provisioned")
    act(account, 41, "shadow", "launch", offering="m5.large b on-demand", reason="provisioned")
    account.integrate(after(60), (2.0, 2), (1.0, 1))
    return account


def test_money_is_the_price_over_time(tmp_path: Path) -> None:
    """Prices are integrated between looks: two dollars an hour, and one from half time on."""
    account = an_hour(tmp_path / "record")

    assert [account.real.cost, account.shadow.cost] == pytest.approx([2.0, 1.5])


def test_the_report_of_an_hour(tmp_path: Path) -> None:
    """The sentence has what is saved, evicted fewer, placed sooner, and how often both sides differ."""
    an_hour(tmp_path / "record")

    found = sum_up(read_record((tmp_path / "record").read_bytes().splitlines()))

    assert sentence(found) == (
        "In 1.0 hours we would have paid $0.50 less (-25.0 %), evicted 2 pods fewer, "
        "and placed pods 2.0 s sooner; in 1 cases we differ."
    )
    (case,) = found.cases
    assert (case.action, case.real, case.shadow) == ("remove", (), ("m5.large a on-demand",))
    assert "its pods fit elsewhere for less" in case.why


def test_starts_are_added_up(tmp_path: Path) -> None:
    """A shadow that was restarted begins its sums anew; the report has the sum of both."""
    an_hour(tmp_path / "one")
    an_hour(tmp_path / "two")
    lines = [*(tmp_path / "one").read_bytes().splitlines(), *(tmp_path / "two").read_bytes().splitlines()]
    moved = [line.replace(b"2026-03-01", b"2026-03-02") for line in lines[len(lines) // 2 :]]

    found = sum_up(read_record([*lines[: len(lines) // 2], *moved]))

    assert [found.starts, found.hours, found.real.cost, found.shadow.cost] == pytest.approx(
        [2, 2.0, 4.0, 3.0]
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", "no sums yet", id="an empty file has nothing to sum up"),
        pytest.param("hello", "line 1", id="what is no JSON is refused"),
        pytest.param('{"type":"start","at":"2026-03-01T12:00:00Z"}', "no sums yet", id="a start alone"),
    ],
)
def test_what_is_no_record_is_refused(text: str, problem: str) -> None:
    """A file that is no record is refused with one sentence."""
    with pytest.raises(BadRecord, match=problem):
        sum_up(read_record(text.encode().splitlines()))


def test_an_unfinished_last_line_is_left_out(tmp_path: Path) -> None:
    """A process that was killed may leave half a line; the rest counts."""
    an_hour(tmp_path / "record")
    text = (tmp_path / "record").read_bytes()

    assert read_record([*text.splitlines(), b'{"type":"sam']) == read_record(text.splitlines())


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_the_command_prints_every_form(tmp_path: Path, form: str) -> None:
    """Text fits 80 columns, JSON is JSON, HTML is a page without scripts."""
    record = tmp_path / "record"
    an_hour(record)

    result = CliRunner().invoke(main, ["shadow", "report", str(record), "-o", form])

    assert result.exit_code == 0, result.output
    assert "$0.50 less" in result.stdout
    match form:
        case "text":
            assert max(map(len, result.stdout.splitlines())) <= 80
        case "json":
            assert json.loads(result.stdout)["shadow"]["evicted"] == 1
        case _:
            assert result.stdout.startswith("<!doctype html>")
            assert "<script" not in result.stdout


def test_a_file_that_is_not_there_is_named() -> None:
    """The command ends with 2, and says which option writes the file."""
    result = CliRunner().invoke(main, ["shadow", "report", "nothing.jsonl"])

    assert result.exit_code == 2
    assert "--shadow-record" in result.stderr
