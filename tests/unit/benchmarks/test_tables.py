"""Tables of figures, and the command that prints them."""

from __future__ import annotations

import importlib
from itertools import count as counter
from typing import TYPE_CHECKING

import pytest
from benchmarks import measure, suites
from benchmarks.__main__ import main
from benchmarks.measure import Case, compare, once
from benchmarks.table import Table, count, ratio, seconds, size

if TYPE_CHECKING:
    from pathlib import Path


def test_a_table_lines_up() -> None:
    """Names stand to the left, figures to the right, and notes below."""
    table = Table("speed", ("case", "cpu"), (("one", "1 ms"), ("twenty", "20 ms")), ("on paper",))

    assert str(table).splitlines() == [
        "speed",
        "case      cpu",
        "------  -----",
        "one      1 ms",
        "twenty  20 ms",
        "note: on paper",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(seconds(2.5), "2.5 s", id="seconds"),
        pytest.param(seconds(0.0123), "12.3 ms", id="milliseconds"),
        pytest.param(seconds(4.56e-6), "4.56 us", id="microseconds"),
        pytest.param(seconds(7e-9), "7 ns", id="nanoseconds"),
        pytest.param(count(1234567.8), "1,234,568", id="counts"),
        pytest.param(size(12), "12 B", id="bytes"),
        pytest.param(size(3 << 29), "1.5 GiB", id="gibibytes"),
        pytest.param(ratio(3, 2), "1.50x", id="ratios"),
        pytest.param(ratio(3, 0), "-", id="ratio to nothing"),
    ],
)
def test_figures(text: str, expected: str) -> None:
    """Figures are written in the unit that suits them."""
    assert text == expected


def test_the_best_round_counts() -> None:
    """A slow round, which others may have disturbed, does not count."""
    delays = iter([0.0, 1.0, 5.0, 2.0, 3.0, 0.0])  # warm up, calibrate, three rounds, memory
    now = [0.0]

    def work() -> None:
        now[0] += next(delays)

    assert measure.measure(work, rounds=3, clock=lambda: now[0]).seconds == 2.0


def test_a_round_is_long_enough_for_the_clock() -> None:
    """Quick work is repeated until the clock can tell, and the cost is that of one call."""
    calls = counter()
    cost = measure.measure(lambda: next(calls), rounds=1, clock=lambda: peek(calls) * 0.001)

    assert cost.seconds == pytest.approx(0.001)


def peek(calls: counter[int]) -> int:
    """Return how often a counter was asked, without asking it."""
    return int(repr(calls).removeprefix("count(").removesuffix(")"))


def test_memory_is_what_a_call_holds() -> None:
    """The peak is that of one call."""
    assert 10**6 <= measure.measure(lambda: bytes(10**6), rounds=1).peak < 2 * 10**6


def test_once_is_cold() -> None:
    """Work that takes seconds is called a single time."""
    calls: list[int] = []
    once(lambda: calls.append(1))

    assert calls == [1]


def test_comparison_with_the_first() -> None:
    """A comparison says how each case stands to the first."""
    table = compare("sums", [Case("small", lambda: sum(range(10))), Case("large", lambda: sum(range(20000)))])

    assert [(row[0], float(row[4].rstrip("x")) > 1.5) for row in table.rows] == [
        ("small", False),
        ("large", True),
    ]


@pytest.mark.parametrize("name", suites.discover())
def test_every_suite_can_be_loaded(name: str) -> None:
    """A file that is named like a suite is one, and says what it measures."""
    module = importlib.import_module(f"benchmarks.bench_{name}")

    assert (callable(module.suite), bool(module.__doc__)) == (True, True)


def test_suites_are_found_by_name(tmp_path: Path) -> None:
    """Suites are files beside each other; nothing registers them."""
    for name in ("bench_b.py", "bench_a.py", "table.py"):
        (tmp_path / name).touch()

    assert suites.discover(tmp_path) == ["a", "b"]


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    """The command names its suites."""
    assert (main(["--list"]), capsys.readouterr().out.splitlines()) == (0, suites.discover())


def test_unknown_suite(capsys: pytest.CaptureFixture[str]) -> None:
    """A suite that does not exist is refused with the names of those that do."""
    assert (main(["--only", "nothing"]), capsys.readouterr().err.split(";")[0]) == (
        2,
        "no suite named nothing",
    )


def test_only_one_suite(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The command prints the table of the suite that was asked for, and no other."""
    monkeypatch.setattr("benchmarks.__main__.run_apart", lambda name: Table(name, ("case",), (("x",),)))
    main(["--only", "quantity"])

    assert capsys.readouterr().out.splitlines() == ["quantity", "case", "----", "x", ""]


def test_long_suites_run_only_by_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a name every suite runs that is not long."""
    monkeypatch.setattr("benchmarks.__main__.run_apart", lambda name: name)
    main([])

    assert capsys.readouterr().out.split() == [name for name in suites.discover() if name not in suites.LONG]
    assert set(suites.discover()) > suites.LONG


def test_a_table_ends_with_the_memory_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table tells how much memory the process of its suite held."""
    module = importlib.import_module("benchmarks.bench_quantity")
    monkeypatch.setattr(module, "suite", lambda: Table("t", ("case",), (("x",),), ("first",)))
    first, second = suites.run("quantity").notes

    assert (first, second.startswith("the process held at most")) == ("first", True)
