"""``karpenter simulate`` on short runs."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from karpenter.cli.errors import UNUSABLE
from karpenter_local.aws.requirements import NotInstalled
from karpenter_local.cli.simulate import RunProgress, _join_records, simulate
from karpenter_local.simulation.faults import CutWatches
from karpenter_local.simulation.run import RunResult
from karpenter_local.simulation.scenario import Scenario

if TYPE_CHECKING:
    from pathlib import Path

SHORT = ("--hours", "0.01", "--machines", "1", "--faults", "none")


def test_seeds_are_run_and_counted() -> None:
    """Every seed is a run; the summary is data, and nothing violated means success."""
    result = CliRunner().invoke(simulate, ["--seed", "15..16", *SHORT])

    assert result.exit_code == 0
    assert result.stdout.startswith("2 runs, ")
    assert result.stdout.endswith("0 with violations\n")


def test_the_outcome_is_data() -> None:
    """As JSON, each run has its seed, its digest and what was violated."""
    result = CliRunner().invoke(simulate, ["--seed", "15", *SHORT, "-o", "json"])
    (run,) = json.loads(result.stdout)

    assert (run["seed"], run["violations"]) == (15, [])
    assert run["digest"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param(("--seed", "many"), "is no seed", id="no number"),
        pytest.param(("--seed", "9..3"), "holds no seed", id="an empty range"),
        pytest.param(("--hours", "0"), "0", id="no time"),
        pytest.param(("--set", "packing-policy=best"), "packing-policy", id="a setting that cannot be"),
        pytest.param(("--set", "packing-policy"), "NAME=VALUE", id="a setting without a value"),
        pytest.param(
            (*SHORT, "--set", f"flight-record={__file__}/flight"),
            "error: setting flight-record: ",
            id="a record that cannot be written",
        ),
    ],
)
def test_bad_input_is_refused(arguments: tuple[str, ...], problem: str) -> None:
    """What cannot be run is refused with a sentence, before anything is."""
    result = CliRunner().invoke(simulate, list(arguments))

    assert result.exit_code == 2
    assert problem in result.output


def test_aws_needs_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the libraries of the embedded AWS, the command that installs them is named."""

    def refuse() -> None:
        raise NotInstalled(("moto",))

    monkeypatch.setattr("karpenter_local.aws.requirements.check_needs", refuse)

    result = CliRunner().invoke(simulate, ["--provider", "aws", *SHORT])

    assert result.exit_code == 2
    assert "hint: pip install boto3 flask" in result.output


def test_a_record_is_of_one_run() -> None:
    """Several seeds cannot be written to one record."""
    result = CliRunner().invoke(simulate, ["--seed", "1..3", "--record", "run.jsonl"])

    assert result.exit_code == 2
    assert "--record: is of one run, and --seed names 3" in result.output


def test_records_of_all_operators_become_one(tmp_path: Path) -> None:
    """What an operator wrote follows what the one before wrote, whole lines only, then the faults."""
    file = tmp_path / "run.jsonl"
    file.write_bytes(b"first\n")
    for number, text in ((10, b"third\n"), (2, b"second\ntorn")):
        (tmp_path / f"run.jsonl.operator-{number}").write_bytes(text)
    scenario = Scenario(seed=1, seconds=60.0, steps=(CutWatches(at=30.0),))
    _join_records(file, scenario)
    *lines, fault = file.read_text().splitlines()

    assert lines == ["first", "second", "third"]
    assert json.loads(fault) == {
        "line": "done",
        "at": "2025-01-01T00:00:30Z",
        "effect": "InjectedFault",
        "about": "CutWatches",
        "because": "watches are cut",
    }
    assert [each.name for each in tmp_path.iterdir()] == ["run.jsonl"]


def test_seeds_are_run_in_several_processes() -> None:
    """However many processes there are, the outcome is the same and in the order of seeds."""
    alone, together = (
        CliRunner().invoke(simulate, ["--seed", "15..17", *SHORT, "--jobs", jobs, "-o", "json"])
        for jobs in ("1", "2")
    )

    assert json.loads(together.stdout) == json.loads(alone.stdout)
    assert [run["seed"] for run in json.loads(together.stdout)] == [15, 16, 17]


def test_progress_is_shown_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where standard error is no terminal, a whole line comes every few seconds, and says what is left."""
    moments = iter([0.0, 6.0, 7.0, 12.0])
    clock = SimpleNamespace(monotonic=lambda: next(moments))  # other threads go on with their own
    monkeypatch.setattr("karpenter_local.cli.simulate.time", clock)
    progress = RunProgress(4)
    for _ in range(3):
        progress.ran(RunResult(seed=1, violations=(), digest="", writes=1, seconds=1.0, machines=1))
    progress.clear()

    assert capsys.readouterr().err.splitlines() == [
        "1 of 4 runs, 0 with violations, 18 s left",
        "3 of 4 runs, 0 with violations, 4 s left",
    ]


def test_progress_is_shown_while_a_run_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line comes every few seconds also when no run ends, and none after the command has."""
    monkeypatch.setattr("karpenter_local.cli.simulate._PIPED_SECONDS", 0.05)
    with RunProgress(2):
        time.sleep(0.5)
    lines = capsys.readouterr().err.splitlines()
    time.sleep(0.2)

    assert set(lines) == {"0 of 2 runs, 0 with violations"}
    assert len(lines) > 1
    assert not capsys.readouterr().err


def test_nothing_stays_on_a_terminal_after_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C clears the line, as the end of the last run does."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)

    def interrupted() -> None:
        with RunProgress(2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert capsys.readouterr().err.endswith("\r\x1b[K")


def test_a_process_that_is_killed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that the kernel ends, for its memory perhaps, is an error with a hint, and no traceback."""
    ran = RunProgress.ran

    def killing(progress: RunProgress, result: RunResult) -> None:
        ran(progress, result)
        for process in multiprocessing.active_children():
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)

    monkeypatch.setattr(RunProgress, "ran", killing)
    result = CliRunner().invoke(simulate, ["--seed", "15..40", *SHORT, "--jobs", "2"])

    assert result.exit_code == UNUSABLE
    assert "a process that ran seeds was killed\nhint: if that was for its memory" in result.output
