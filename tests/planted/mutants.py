"""
Mutation testing of the core: ``make mutants``.

    python -m tests.planted.mutants [--seconds N] [--seed N] [--jobs N] [--only MODULE]

A mutant is the core with one small change: a comparison turned around, ``and`` for ``or``, a ``not`` left
out, a number one higher. For as long as it was told, the command takes mutants at random, and runs the tests
of the folder that mirrors the module, then those of parity, each until the first failure. A mutant
that no test fails survives; it is either a test that is missing, or a change that makes no difference.

Prints the survivors and the share that was killed; exits 1 when that is less than 97 of 100.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import signal
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.planted.plant import PRODUCT, ROOT, SOURCES, copy_with

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SHARE: Final = 0.97
CORE: Final = PRODUCT / "karpenter" / "core"
UNIT: Final = ROOT / "tests" / "unit" / "core"
SECOND: Final = ("tests/parity",)
"""What is run where the tests of the mirrored folder pass."""

_LONGEST: Final = 400.0
"""Seconds after which a mutant counts as killed: it does not end."""

_PRELOADED: Final = ("numpy", "msgspec", "pytest", "structlog", "click", "yaml", "rich.console")
_TURNED: Final = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_OPERATORS: Final = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv}


class Mutant(NamedTuple):
    """A change of one place in a module."""

    path: Path
    line: int
    before: str
    after: str
    text: str
    """The whole module with the change."""

    def __str__(self) -> str:
        """Return the mutant as a line."""
        return f"{self.path.relative_to(PRODUCT)}:{self.line}: {self.before}  ->  {self.after}"


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield every mutant of a module."""
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for statement in function.body:
            for node in _mutable(statement):
                for changed in _changes(node):
                    yield _splice(path, text, node, changed)


def _mutable(statement: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a statement that may be changed; inner functions are reached on their own."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Assert | ast.Raise | ast.JoinedStr):
        return
    yield statement
    for child in ast.iter_child_nodes(statement):
        if not (isinstance(statement, ast.AnnAssign) and child is statement.annotation):
            yield from _mutable(child)


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _TURNED:
            yield ast.Compare(node.left, [_TURNED[type(operator)]()], node.comparators)
        case ast.BoolOp(op=ast.And()):
            yield ast.BoolOp(ast.Or(), node.values)
        case ast.BoolOp(op=ast.Or()):
            yield ast.BoolOp(ast.And(), node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.BinOp(op=operator) if type(operator) in _OPERATORS:
            yield ast.BinOp(node.left, _OPERATORS[type(operator)](), node.right)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Continue():
            yield ast.Break()
        case ast.If():
            yield ast.If(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)


def _splice(path: Path, text: str, node: ast.AST, changed: ast.AST) -> Mutant:
    """Return the module with one node in another form; of a statement `if`, only its test is written."""
    old, new = (
        (node.test, changed.test)
        if isinstance(node, ast.If) and isinstance(changed, ast.If)
        else (node, changed)
    )
    before = ast.get_source_segment(text, old) or ""
    after = ast.unparse(ast.fix_missing_locations(new))
    if not isinstance(node, ast.If | ast.Continue):
        after = f"({after})"
    lines = text.splitlines(keepends=True)
    starts = [0]
    for each in lines:
        starts.append(starts[-1] + len(each.encode()))
    raw = text.encode()
    begin = starts[old.lineno - 1] + old.col_offset  # type: ignore[attr-defined]
    end = starts[old.end_lineno - 1] + old.end_col_offset  # type: ignore[attr-defined]
    spliced = (raw[:begin] + after.encode() + raw[end:]).decode()
    return Mutant(path, old.lineno, " ".join(before.split()), " ".join(after.split()), spliced)  # type: ignore[attr-defined]


@cache
def mirrored_tests(path: Path) -> tuple[str, ...]:
    """Return the tests of a module: those of its name first, then the others of its folder."""
    folder = UNIT / path.relative_to(CORE).parent
    own = sorted(folder.glob(f"test_{path.stem}*.py"))
    others = sorted(set(folder.rglob("test_*.py")) - set(own))
    return tuple(str(each.relative_to(ROOT)) for each in (*own, *others))


class _Running(NamedTuple):
    mutant: Mutant
    began: float
    directory: tempfile.TemporaryDirectory[str]


def _start(mutant: Mutant) -> tuple[int, _Running]:
    """Run the tests of a mutant in a process that has loaded the libraries, but nothing of the product."""
    directory = tempfile.TemporaryDirectory(prefix="mutant-")
    path = copy_with(mutant.path, mutant.text, Path(directory.name))
    pid = os.fork()
    if pid:
        return pid, _Running(mutant, time.monotonic(), directory)
    os.setsid()
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    sys.path[:0] = [str(path), *map(str, SOURCES), str(ROOT)]
    sys.dont_write_bytecode = True
    import pytest  # noqa: PLC0415  it was loaded before the fork

    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "no:randomly", "--no-header"]
    for tests in (mirrored_tests(mutant.path), SECOND):
        if tests and pytest.main([*options, *tests]):
            os._exit(1)
    os._exit(0)


class Tally:
    """What became of the mutants."""

    def __init__(self, *, told: bool) -> None:
        self._told = told
        self.killed = 0
        self.survived: list[Mutant] = []

    def add(self, mutant: Mutant, *, killed: bool) -> None:
        """Count a mutant, and tell of one that survives."""
        self.killed += killed
        if not killed:
            self.survived.append(mutant)
        if not killed and self._told:
            print(f"survives: {mutant}", flush=True)  # noqa: T201  a command

    @property
    def share(self) -> float:
        """The share that was killed."""
        whole = self.killed + len(self.survived)
        return self.killed / whole if whole else 1.0


def hunt(mutants: Sequence[Mutant], *, seconds: float, jobs: int, told: bool = True) -> Tally:
    """Run the tests of one mutant after the other, until the time is up; survivors are `told`."""
    tally, ends, left = Tally(told=told), time.monotonic() + seconds, iter(mutants)
    running: dict[int, _Running] = {}
    while True:
        while len(running) < jobs and time.monotonic() < ends and (mutant := next(left, None)) is not None:
            pid, started = _start(mutant)
            running[pid] = started
        if not running:
            return tally
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            done = running.pop(pid)
            done.directory.cleanup()
            tally.add(done.mutant, killed=status != 0)
            continue
        for child, each in running.items():
            if time.monotonic() - each.began > _LONGEST:
                os.killpg(child, signal.SIGKILL)
        time.sleep(0.05)


def main(arguments: Sequence[str]) -> int:
    """Take mutants at random, print the survivors and the share that was killed, return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted.mutants", description="Test the tests.")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long mutants are taken")
    parser.add_argument("--seed", type=int, default=1, help="which mutants are taken")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("--only", default="", help="only mutants of modules whose path holds this")
    given = parser.parse_args(arguments)
    for name in _PRELOADED:
        __import__(name)
    modules = [path for path in sorted(CORE.rglob("*.py")) if given.only in str(path.relative_to(CORE))]
    mutants = [mutant for path in modules for mutant in mutants_of(path)]
    random.Random(given.seed).shuffle(mutants)  # noqa: S311  a sample, not secrets
    os.chdir(ROOT)
    smallest = min(modules, key=lambda path: len(mirrored_tests(path)) or len(modules))
    same = Mutant(smallest, 1, "nothing", "nothing", smallest.read_text("utf-8"))
    if hunt([same], seconds=given.seconds, jobs=1, told=False).killed:
        print("error: tests fail though nothing was changed", file=sys.stderr)  # noqa: T201  a command
        return 1
    tally = hunt(mutants, seconds=given.seconds, jobs=given.jobs)
    whole = tally.killed + len(tally.survived)
    sampled = f"of {len(mutants)} in {len(modules)} modules"
    print(f"{tally.killed} of {whole} mutants killed, {tally.share:.1%}; {sampled}")  # noqa: T201  a command
    return 0 if tally.share >= SHARE else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
