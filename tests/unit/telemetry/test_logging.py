import io
import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
import structlog

from karpenter.telemetry.logging import HIDDEN, BadOutput, Logs
from tests.unit.telemetry.clocks import HandClock

log = structlog.stdlib.get_logger("karpenter.test")


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return the lines that were written, read as JSON."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_line_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    """A line has message, level, time and logger first, and then the facts."""
    with Logs(clock=HandClock()):
        log.info("nodeclaim.created", nodeclaim="default-1", because="3 pods wait")

    assert capsys.readouterr().out == (
        '{"message":"nodeclaim.created","level":"INFO","time":"2025-06-01T12:00:00.007Z",'
        '"logger":"karpenter.test","nodeclaim":"default-1","because":"3 pods wait"}\n'
    )


def test_facts_never_overwrite_the_head(capsys: pytest.CaptureFixture[str]) -> None:
    """A fact called like one of the four gets an underscore."""
    with Logs(clock=HandClock()):
        log.info("nodepool.changed", level="high", time="late")

    (line,) = lines(capsys)
    assert (line["level"], line["level_"], line["time_"]) == ("INFO", "high", "late")


def test_secrets_are_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither facts nor texts tell secrets, our own or a library's."""
    with Logs(clock=HandClock()):
        log.warning("kubeconfig.read", token="abc", url="https://joe:hunter2@host")
        logging.getLogger("library").warning("sent %s", "Bearer abcdefghijkl")

    assert [(line["message"], line.get("token"), line.get("url")) for line in lines(capsys)] == [
        ("kubeconfig.read", HIDDEN, f"https://joe:{HIDDEN}@host"),
        (f"sent Bearer {HIDDEN}", None, None),
    ]


def test_an_exception_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """Errors are told without their stacks."""
    with Logs(clock=HandClock()):
        try:
            raise ValueError("no such zone")  # noqa: TRY301  the exception is the subject
        except ValueError:
            log.exception("launch.failed", nodeclaim="default-1")
            logging.getLogger("library").exception("went wrong")

    found = lines(capsys)
    assert [line["error"] for line in found] == ["ValueError: no such zone"] * 2
    assert not any("stack" in line or "exc_info" in line for line in found)


def test_debug_tells_callers_and_stacks(capsys: pytest.CaptureFixture[str]) -> None:
    """Everything is told when everything is asked for."""
    with Logs(clock=HandClock(), level="debug"):
        log.debug("cache.filled", exc_info=KeyError())

    (line,) = lines(capsys)
    assert (line["level"], line["error"], line["caller"].partition(":")[0]) == (
        "DEBUG",
        "KeyError",
        "test_logging.py",
    )
    assert "KeyError" in line["stack"]


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        pytest.param("", ["INFO", "WARN", "ERROR"], id="nothing set means info"),
        pytest.param("info", ["INFO", "WARN", "ERROR"], id="info"),
        pytest.param("error", ["ERROR"], id="error"),
        pytest.param("debug", ["DEBUG", "INFO", "WARN", "ERROR"], id="debug"),
    ],
)
def test_levels(level: str, expected: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A level lets through itself and what is worse, spelled in capitals."""
    with Logs(clock=HandClock(), level=level):
        for write in (log.debug, log.info, log.warning, log.error):
            write("node.joined")

    assert [line["level"] for line in lines(capsys)] == expected


def test_a_flood_is_sampled(capsys: pytest.CaptureFixture[str]) -> None:
    """Of 300 equal lines in one second 102 are written."""
    with Logs(clock=HandClock()):
        for _ in range(300):
            log.info("watch.cut")

    assert len(lines(capsys)) == 102


def test_values_json_has_no_words_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is logged, a line comes out."""
    with Logs(clock=HandClock()):
        log.info("oddity.found", where=Path("a"), not_a_number=float("nan"), half="\ud800")

    assert lines(capsys)[0]["message"] in {"oddity.found", "'oddity.found'"}


def test_context_is_added(capsys: pytest.CaptureFixture[str]) -> None:
    """What is bound to the context, such as the controller, is on every line."""
    with Logs(clock=HandClock()), structlog.contextvars.bound_contextvars(controller="disruption"):
        log.info("pass.finished")

    assert lines(capsys)[0]["controller"] == "disruption"


class Terminal(io.StringIO):
    """A stream that a person looks at."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_readable_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal a line is for people, without colour where none is wanted."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("NO_COLOR", "1")
    with Logs(clock=HandClock()):
        log.info("node.joined", node="kwok-1")

    words = screen.getvalue().split()
    assert words == ["2025-06-01T12:00:00.007Z", "[info", "]", "node.joined", "node=kwok-1"]


def test_several_outputs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Lines go to every output, and a file is added to."""
    file = tmp_path / "log"
    for _ in range(2):
        with Logs(clock=HandClock(), outputs=("stdout", str(file))):
            log.info("node.joined")

    assert len(capsys.readouterr().out.splitlines()) == len(file.read_text().splitlines()) == 2


def test_an_output_that_cannot_be_opened(tmp_path: Path) -> None:
    """One sentence names the output and what is allowed."""
    with pytest.raises(BadOutput, match=r"cannot write logs to .*: Is a directory; allowed are stdout"):
        Logs(clock=HandClock(), outputs=(str(tmp_path),))


def test_a_lost_line_is_told_and_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the output is gone, the operator goes on and the other output says so."""
    gone, told = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", gone)
    monkeypatch.setattr(sys, "stderr", told)
    gone.close()
    with Logs(clock=HandClock(), form="json"):
        log.info("node.joined")

    assert told.getvalue() == "log line lost: karpenter.test: ValueError: I/O operation on closed file\n"


def test_logging_is_left_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    """Closing takes nothing away from whoever logged before."""
    root = logging.getLogger()
    before = (root.level, root.handlers[:], structlog.get_config()["logger_factory"])
    with Logs(clock=HandClock(), level="debug"):
        pass

    assert (root.level, root.handlers, structlog.get_config()["logger_factory"]) == before
    assert not capsys.readouterr().out
