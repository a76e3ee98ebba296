"""Planted bugs fit the source, and mutants can be made of it."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.planted.__main__ import Hunted, line, part_of, summary
from tests.planted.bugs import BUGS
from tests.planted.equivalent import EQUIVALENT
from tests.planted.hunt import Finding
from tests.planted.mutants import CORE, Executed, MutationRun, in_order, mutants_of
from tests.planted.plant import ROOT, PlantedBug, PlantError, environment, place_of, plant, with_bug

MANY = 40


@pytest.mark.parametrize("bug", [pytest.param(each, id=each.name) for each in BUGS])
def test_every_bug_fits_the_source(bug: PlantedBug) -> None:
    """The text of a bug is in the source exactly once, and the file with the bug still compiles."""
    compile(with_bug(bug), str(place_of(bug)), "exec")

    assert bug.find != bug.put


def test_there_are_enough_bugs() -> None:
    """There are at least forty, each with a name of its own."""
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= MANY


def test_parts_cover_all_bugs() -> None:
    """Every bug is in one part of seven, whatever number the first part has."""
    parts = [part_of(BUGS, f"{day}/7") for day in range(300, 307)]

    assert sorted(bug.name for part in parts for bug in part) == sorted(bug.name for bug in BUGS)


def test_a_process_imports_the_bug(tmp_path: Path) -> None:
    """A process whose path begins with the copy has the bug, and everything else is as it was."""
    bug = next(each for each in BUGS if each.name == "budgets forget running disruptions")
    source = (
        "import inspect; from karpenter.core.disruption import budgets;"
        "import karpenter.core.disruption.candidates; print(inspect.getsource(budgets))"
    )
    done = subprocess.run(  # noqa: S603  the program is ours
        [sys.executable, "-c", source],
        env=environment(plant(bug, tmp_path)),
        capture_output=True,
        text=True,
        check=True,
    )

    assert bug.put in done.stdout


@pytest.mark.parametrize(
    "find",
    [
        pytest.param("no such text", id="a text that is nowhere"),
        pytest.param("import", id="one that is often"),
    ],
)
def test_a_bug_that_does_not_fit_is_refused(find: str) -> None:
    """A text that is not in the source, or in several places, is an error that names the bug."""
    with pytest.raises(PlantError, match="bug 'lost'"):
        place_of(PlantedBug(name="lost", find=find, put="", rules=("drain",)))


def test_the_table_says_what_found_a_bug() -> None:
    """A line names the bug, the rule and the runs; a rule that was not meant does not count."""
    bug = PlantedBug(name="it", find="a", put="b", rules=("drain",))
    found = Hunted(bug=bug, finding=Finding(runs=3, seconds=1.0, rule="drain"))
    other = Hunted(bug=bug, finding=Finding(runs=1, seconds=1.0, rule="health"))
    missed = Hunted(bug=bug, finding=Finding(runs=20, seconds=1.0))
    late = Hunted(bug=bug, finding=Finding(runs=21, seconds=1.0, rule="drain"))

    assert [each.is_found for each in (found, other, missed)] == [True, False, False]
    assert [line(each).split()[1] for each in (found, other, missed)] == ["drain", "health,", "NOT"]
    assert summary([found, other, missed, late]) == "2 of 4 bugs found, 1 of them within 20 runs"


def test_mutants_change_one_place() -> None:
    """A mutant compiles, and differs from the module in one place."""
    path = CORE / "lifecycle" / "termination.py"
    mutants = list(mutants_of(path))

    assert "(not found.is_done and (not _was_tainted_long_enough(condition_set, now)))" in {
        each.after for each in mutants
    }
    for each in mutants:
        compile(each.text, str(path), "exec")
        assert each.text != path.read_text("utf-8")


def test_mutants_that_make_no_difference_are_in_the_source() -> None:
    """Each that is left out is still a mutant of the core, and says why it is left out."""
    modules = {CORE / module for module, *_ in EQUIVALENT}
    there = {
        (each.module, each.function, each.before, each.after) for path in modules for each in mutants_of(path)
    }

    assert EQUIVALENT.keys() <= there
    assert all(EQUIVALENT.values())


def test_a_mutant_has_the_tests_that_execute_it() -> None:
    """Tests of the module's name come first, then those that take the least; others are not run."""
    mutant = next(each for each in mutants_of(CORE / "lifecycle" / "termination.py") if len(each.lines) == 1)
    own, quick, slow = "tests/unit/core/lifecycle/test_termination.py::test_a", "tests/a", "tests/b"
    known = Executed(
        {},
        [(slow, 2.0), (quick, 1.0), (own, 3.0), ("tests/c", 0.1)],
        {mutant.module: {mutant.lines.start: "7"}},
    )

    assert list(in_order(mutant, known.of(mutant))) == [own, quick, slow]


def test_a_mutant_that_does_not_end_is_killed_and_counted_apart() -> None:
    """Of five children one ends well, one fails, two are out of time, and one breaks off."""
    mutant = next(mutants_of(CORE / "lifecycle" / "termination.py"))
    run = MutationRun((), seconds=0, jobs=1, near=False)
    for status in (0, 1 << 8, signal.SIGPROF, signal.SIGALRM, signal.SIGSEGV):
        run.count(mutant, status)

    assert (run.killed, run.timed_out, run.survived) == (4, 2, [mutant])
    assert run.share == pytest.approx(4 / 5)


def test_what_is_known_of_a_file_of_tests_holds_until_it_or_its_modules_change() -> None:
    """Digests of files that are not there, or are others, do not hold."""
    here = str(Path(__file__).relative_to(ROOT))
    digest = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]

    assert Executed({here: digest}, [], {}).holds
    assert not Executed({here: digest, "tests/planted/gone.py": "0"}, [], {}).holds
    assert not Executed({here: "0"}, [], {}).holds


def test_the_soak_covers_every_seed_once() -> None:
    """The pods of the example take as many seeds as it says, one range after the other."""
    (job,) = yaml.safe_load_all((ROOT / "examples/soak/job.yaml").read_text("utf-8"))
    (container,) = job["spec"]["template"]["spec"]["containers"]
    (seeds,) = container["env"]
    script = container["args"][0].replace("karpenter simulate", "echo").replace("--provider aws", "")
    ranges = [
        subprocess.run(  # noqa: S603  the program is ours
            ["/bin/sh", "-euc", script],
            env={"JOB_COMPLETION_INDEX": str(index), seeds["name"]: seeds["value"], "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()[1]
        for index in (0, 1, 59)
    ]

    assert job["spec"]["completionMode"] == "Indexed"
    assert ranges == ["1..50", "51..100", "2951..3000"]
