"""
Mutation testing of the core: ``make mutants``.

    python -m tests.planted.mutants [--seconds N] [--count N] [--seed N] [--jobs N] [--only PATTERN] [--near]

A mutant is the core with one small change: a comparison turned around, ``and`` for ``or``, a ``not`` left
out, a number one higher. Mutants are taken at random. A mutant that no test fails survives; it is either a
test that is missing, or a change that makes no difference. Those of the second kind that were looked at are
in :mod:`tests.planted.equivalent`, each with its reason, and are not taken.

One process collects the tests once. It first learns which tests execute which lines, and how long each takes;
that is kept in ``build/mutants`` for every file of tests, until it or a module that it executes changes. Then
it forks for every mutant: the child compiles the changed function into the modules that are loaded already,
and runs the tests of its folder that execute the changed line, the fastest first, until one fails. Where none
does, all other tests that execute it follow, and then a new process runs the files of tests that name the
module, because some call it when they are loaded, for a table of cases.

Prints the survivors and the share that was killed; exits 1 when that is less than 97 of 100; ``--least`` is
another share, since a small sample varies. A mutant that does not end is killed, and counted apart, too.
"""

from __future__ import annotations

import argparse
import ast
import faulthandler
import functools
import gc
import hashlib
import math
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import coverage
import msgspec
import pytest
from coverage.exceptions import CoverageWarning
from hypothesis import Phase, settings

from tests.planted.equivalent import EQUIVALENT
from tests.planted.plant import PRODUCT, ROOT, copy_with, environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

SHARE: Final = 0.97
CORE: Final = PRODUCT / "karpenter" / "core"
UNIT: Final = ROOT / "tests" / "unit" / "core"
SUITES: Final = ("tests/unit/core", "tests/unit/controllers", "tests/parity", "tests/property")
"""The tests that are asked."""

_KEPT: Final = ROOT / "build" / "mutants"
_ENOUGH: Final = 20.0
"""Processor seconds of tests after which a mutant survives; the slowest of many tests find little more."""

_SLOWER: Final = 10
"""How many times longer than usual a test may run, and three seconds: it may not end."""

_IDLE: Final = 20
"""Seconds without a tenth of processor time after which a mutant is killed: it waits for what never comes."""

_COLD: Final = 60
"""Processor seconds of a new process that loads everything anew, beside three times those of its tests."""

_TIME_IS_UP: Final = (signal.SIGPROF, signal.SIGALRM)
"""The signals that end a mutant whose time is up: one of processor time, or of waiting; one of the clock."""

_MEMORY: Final = 6 << 30
_TELL: Final = 25
"""After so many mutants the command says how it goes."""

_OPTIONS: Final = ("-qq", "-x", "-n", "0", "-p", "no:cacheprovider", "-p", "no:randomly", "--no-header")
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
_NEGATED: Final = (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)
"""Comparisons that are turned into their opposite, which `not` before them also is."""

_OPERATORS: Final = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv}

# A test that fails is enough: the shortest example of it is of no use here, and takes the longest.
settings.register_profile(
    "mutants",
    max_examples=40,
    derandomize=True,
    deadline=None,
    database=None,
    phases=(Phase.explicit, Phase.generate),
)


class Mutant(NamedTuple):
    """A change of one place in a module."""

    path: Path
    function: str
    """The qualified name of the outermost function that it is in."""

    lines: range
    """Those of its statement; of a compound one, those before its body."""

    before: str
    after: str
    place: tuple[int, int]
    """Where the changed text begins and ends in the bytes of the module."""

    def __str__(self) -> str:
        return f"{self.module}:{self.lines.start}: {self.before}  ->  {self.after}"

    @property
    def module(self) -> str:
        """The path of the module within the core."""
        return str(self.path.relative_to(CORE))

    @property
    def text(self) -> str:
        raw = _source(self.path)
        return (raw[: self.place[0]] + self.after.encode() + raw[self.place[1] :]).decode()

    @property
    def is_equivalent(self) -> bool:
        """Whether it is known to make no difference."""
        return (self.module, self.function, self.before, self.after) in EQUIVALENT


@functools.cache
def _source(path: Path) -> bytes:
    """Return a module as it was when the command began, and is loaded."""
    return path.read_bytes()


def mutants_of(path: Path) -> Iterator[Mutant]:
    text = _source(path).decode()
    starts = [0]
    for each in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(each.encode()))
    for function, statement, node in _places(ast.parse(text), ()):
        for changed in _changes(node):
            # Of a statement `if`, only its test is written.
            old: Any = node.test if isinstance(node, ast.If) else node
            new = changed.test if isinstance(changed, ast.If) else changed
            after = ast.unparse(ast.fix_missing_locations(new))
            yield Mutant(
                path,
                function,
                range(statement.lineno, _last_line(statement) + 1),
                " ".join((ast.get_source_segment(text, old) or "").split()),
                after if isinstance(node, ast.If | ast.Continue) else f"({after})",
                (
                    starts[old.lineno - 1] + old.col_offset,
                    starts[old.end_lineno - 1] + old.end_col_offset,
                ),
            )


def _places(node: ast.AST, inside: tuple[str, ...]) -> Iterator[tuple[str, ast.stmt, ast.AST]]:
    """Yield what may be changed, with its statement, of all functions of a module or class."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _places(child, (*inside, child.name))
        elif isinstance(child, ast.FunctionDef):
            for statement in child.body:
                for place in _mutable(statement, statement):
                    yield ".".join((*inside, child.name)), *place


def _mutable(node: ast.AST, statement: ast.stmt) -> Iterator[tuple[ast.stmt, ast.AST]]:
    """Yield the parts of a statement that may be changed, each with the innermost statement it is in."""
    if isinstance(node, ast.Assert | ast.Raise | ast.JoinedStr):  # what is said is not what is decided
        return
    if isinstance(node, ast.keyword) and node.arg == "strict":  # of zip, which only finds mistakes
        return
    statement = node if isinstance(node, ast.stmt) else statement
    yield statement, node
    for child in ast.iter_child_nodes(node):
        is_annotation = isinstance(node, ast.AnnAssign) and child is node.annotation
        is_signature = isinstance(child, ast.arguments) and isinstance(node, ast.FunctionDef)
        if not is_annotation and not is_signature:
            yield from _mutable(child, statement)


def _last_line(statement: ast.stmt) -> int:
    body = getattr(statement, "body", None) or getattr(statement, "cases", None)
    if not body:
        return statement.end_lineno or statement.lineno
    first = body[0].pattern if isinstance(body[0], ast.match_case) else body[0]
    return max(statement.lineno, first.lineno - 1)


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
        case ast.If() if not _has_opposite(node.test):
            yield ast.If(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)


def _has_opposite(test: ast.expr) -> bool:
    """Whether another change of a test is the same as `not` before it."""
    match test:
        case ast.Compare(ops=[operator]):
            return isinstance(operator, _NEGATED)
        case _:
            return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)


class Executed(msgspec.Struct, frozen=True):
    """What is known of a file of tests: how long each takes, and which of them execute a line of a module."""

    digests: dict[str, str]
    """Those of the file itself and of the modules of the core that it executes."""

    tests: list[tuple[str, float]]
    lines: dict[str, dict[int, str]]
    """A bit for every test, as a hexadecimal number: there are thousands of both."""

    @property
    def holds(self) -> bool:
        """Whether neither the file nor what it executes has changed since."""
        return all(_digest(ROOT / path) == digest for path, digest in self.digests.items())

    def of(self, mutant: Mutant) -> list[tuple[str, float]]:
        lines = self.lines.get(mutant.module, {})
        bits = functools.reduce(int.__or__, (int(lines.get(line, "0"), 16) for line in mutant.lines), 0)
        return [test for number, test in enumerate(self.tests) if bits >> number & 1]


def in_order(mutant: Mutant, tests: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return tests in the order in which they are run: those of the module's name, then the fastest."""
    own = f"{_folder(mutant)}/test_{mutant.path.stem}"
    return dict(sorted(tests, key=lambda test: (not test[0].startswith(own), test[1], test[0])))


def _folder(mutant: Mutant) -> str:
    return str((UNIT / mutant.path.relative_to(CORE).parent).relative_to(ROOT))


@functools.cache
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""


class MutationRun:
    """A plugin of pytest that takes mutants where the tests would be run."""

    def __init__(self, mutants: Sequence[Mutant], *, seconds: float, jobs: int, near: bool) -> None:
        self.killed = 0
        self.timed_out = 0
        """How many of the killed did not end."""

        self.survived: list[Mutant] = []
        self._mutants = mutants
        self._seconds = seconds
        self._jobs = jobs
        self._near = near
        self._functions: dict[tuple[str, str], list[FunctionType]] = {}
        self._caches: list[functools._lru_cache_wrapper[object]] = []

    @property
    def share(self) -> float:
        return self.killed / max(1, self.killed + len(self.survived))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Take one mutant after the other until the time is up: first by the tests of its folder alone."""
        if session.testsfailed:
            return True
        _find_functions(self._functions, self._caches)
        gc.collect()
        gc.freeze()  # so that a collection in a child does not copy what was there before
        files: dict[str, list[pytest.Item]] = {}
        for item in session.items:
            files.setdefault(item.nodeid.partition("::")[0], []).append(item)
        tests = SuiteFiles(session, files, self._jobs)
        left = []
        for mutant, status in self._run(tests, self._mutants, near=True):
            if status or self._near:
                self.count(mutant, status)
            else:
                left.append(mutant)
        self._seconds = math.inf
        for mutant, status in self._run(tests, left, near=False):
            self.count(mutant, status)
        return True

    def _run(
        self, tests: SuiteFiles, mutants: Sequence[Mutant], *, near: bool
    ) -> Iterator[tuple[Mutant, int]]:
        """Run tests on mutants, each in a child; yield its wait status, which is 0 for one that survives."""
        tests.learn({_folder(mutant) for mutant in mutants} if near or not mutants else {""})
        ends, left = time.monotonic() + self._seconds, iter(mutants)
        running: dict[int, Mutant] = {}
        while True:
            while len(running) < self._jobs and time.monotonic() < ends and (mutant := next(left, None)):
                some = tests.of(mutant, near=near)
                if not (pid := os.fork()):
                    os._exit(self._try(tests, mutant, some, loads=not near))
                running[pid] = mutant
            if not running:
                return
            pid, status = os.wait()
            shutil.rmtree(_directory(pid), ignore_errors=True)
            yield running.pop(pid), status

    def count(self, mutant: Mutant, status: int) -> None:
        """Count a mutant by the wait status of its child: killed, killed because it did not end, or not."""
        self.killed += status != 0
        self.timed_out += os.WIFSIGNALED(status) and os.WTERMSIG(status) in _TIME_IS_UP
        if not status:
            self.survived.append(mutant)
            print(f"survives: {mutant}", flush=True)  # noqa: T201  a command
        whole = self.killed + len(self.survived)
        if whole % _TELL == 0:
            print(f"{self.killed} of {whole} killed", file=sys.stderr, flush=True)  # noqa: T201  likewise

    def _try(
        self, tests: SuiteFiles, mutant: Mutant, some: Mapping[pytest.Item, float], *, loads: bool
    ) -> int:
        """Run some tests on a mutant, in a child; return 0 if it survives."""
        _be_quiet()
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        _end_when_idle()
        compiled = compile(mutant.text, str(mutant.path), "exec", dont_inherit=True)
        codes = list(_codes_in(compiled))
        names = Counter(code.co_qualname for code in codes)
        inside = f"{mutant.function}.<locals>."  # made when modules were loaded
        for code in codes:
            name = code.co_qualname
            if name == mutant.function or (name.startswith(inside) and names[name] == 1):
                for function in self._functions.get((mutant.module, name), ()):
                    function.__code__ = code
        for cache in self._caches:
            cache.cache_clear()
        for item, following in _in_turn(tuple(some)):
            if time.process_time() > _ENOUGH:
                break
            signal.setitimer(signal.ITIMER_PROF, 3 + _SLOWER * some[item])
            if _fails(tests.session, item, following):
                return 1
        files = _files_naming(mutant.module)
        if loads and files:
            limit = _COLD + 3 * tests.seconds_of(files)
            signal.setitimer(signal.ITIMER_PROF, limit)
            # A new process keeps the timers, but not the function that looks whether it is idle.
            signal.setitimer(signal.ITIMER_REAL, _SLOWER * limit)
            directory = _directory(os.getpid())
            directory.mkdir()
            env = environment(copy_with(mutant.path, mutant.text, directory))
            os.execve(sys.executable, [sys.executable, "-m", "pytest", *_OPTIONS, *files], env)  # noqa: S606
        return 0


def _directory(pid: int) -> Path:
    """Return where a child puts the source that a new process reads."""
    return Path(tempfile.gettempdir()) / f"mutant-{pid}"


@functools.cache
def _files_naming(module: str) -> tuple[str, ...]:
    """Return the files of tests that import a module of the core."""
    dotted = ("karpenter.core." + module.removesuffix(".py").replace("/", ".")).removesuffix(".__init__")
    package, _, name = dotted.rpartition(".")
    named = re.compile(rf"{re.escape(dotted)}\b|from {re.escape(package)} import [^\n]*\b{name}\b")
    return tuple(
        str(path.relative_to(ROOT))
        for path in sorted(UNIT.rglob("test_*.py"))
        if named.search(path.read_text("utf-8"))
    )


def _be_quiet() -> None:
    faulthandler.disable()
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)


def _end_when_idle() -> None:
    used = 0.0

    def look(*_: object) -> None:
        nonlocal used
        if time.process_time() - used < 1 / 10:
            os.kill(os.getpid(), signal.SIGPROF)
        used = time.process_time()

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _IDLE, _IDLE)


def _in_turn(items: Sequence[pytest.Item]) -> Iterable[tuple[pytest.Item, pytest.Item | None]]:
    return zip(items, (*items[1:], None), strict=True)


def _fails(session: pytest.Session, item: pytest.Item, following: pytest.Item | None) -> bool:
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    return session.testsfailed > 0


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes_in(each)


def _find_functions(
    functions: dict[tuple[str, str], list[FunctionType]],
    caches: list[functools._lru_cache_wrapper[object]],
) -> None:
    """Find the functions of the core that are loaded, and what some of them remember."""
    for each in gc.get_objects():
        if isinstance(each, functools._lru_cache_wrapper):
            caches.append(each)
        elif isinstance(each, FunctionType) and each.__code__.co_filename.startswith(str(CORE)):
            module = str(Path(each.__code__.co_filename).relative_to(CORE))
            functions.setdefault((module, each.__code__.co_qualname), []).append(each)


class SuiteFiles:
    """The files of tests, and what is known of them."""

    def __init__(
        self, session: pytest.Session, items: Mapping[str, Sequence[pytest.Item]], jobs: int
    ) -> None:
        self.session = session
        self._items = items
        self._by_id = {item.nodeid: item for some in items.values() for item in some}
        self._jobs = jobs
        self._known: dict[str, Executed] = {}

    def learn(self, folders: Iterable[str]) -> None:
        """Run the tests in some folders whose files, or what they execute, changed since the last run."""
        _KEPT.mkdir(parents=True, exist_ok=True)
        begins = tuple(folders)
        wanted = [file for file in self._items if file.startswith(begins) and file not in self._known]
        running: set[int] = set()
        for number, file in enumerate(wanted):
            kept = _kept(file)
            if kept.exists() and (known := msgspec.json.decode(kept.read_bytes(), type=Executed)).holds:
                self._known[file] = known
                continue
            if number % _TELL == 0:
                print(f"learning what {len(wanted) - number} files of tests execute", file=sys.stderr)  # noqa: T201
            if len(running) == self._jobs:
                running.remove(_after_success(os.waitpid(-1, 0)))
            if not (pid := os.fork()):
                try:
                    _record(self.session, self._items[file], kept)
                finally:
                    os._exit(1)
            running.add(pid)
        while running:
            running.remove(_after_success(os.waitpid(-1, 0)))
        for file in wanted:
            if file not in self._known:
                self._known[file] = msgspec.json.decode(_kept(file).read_bytes(), type=Executed)

    def seconds_of(self, files: Iterable[str]) -> float:
        """Return how long the tests of some files take."""
        return sum(seconds for file in files for _, seconds in self._known[file].tests)

    def of(self, mutant: Mutant, *, near: bool) -> dict[pytest.Item, float]:
        """Return the tests of a mutant: those in the folder of its tests, or all others."""
        found = [
            test
            for file, known in self._known.items()
            if file.startswith(_folder(mutant)) == near
            for test in known.of(mutant)
        ]
        return {self._by_id[test]: seconds for test, seconds in in_order(mutant, found).items()}


def _kept(file: str) -> Path:
    return _KEPT / (file.replace("/", ".") + ".json")


def _after_success(ended: tuple[int, int]) -> int:
    if ended[1]:
        raise pytest.UsageError("tests fail though nothing was changed")
    return ended[0]


def _record(session: pytest.Session, items: Sequence[pytest.Item], to: Path) -> NoReturn:
    """Write what the tests of a file execute, in a child."""
    _be_quiet()
    warnings.simplefilter("ignore", CoverageWarning)  # some files execute nothing of the core
    measured = coverage.Coverage(data_file=None, include=[f"{CORE}/*"], config_file=False)
    tests: list[tuple[str, float]] = []
    for item, following in _in_turn(items):
        began = time.process_time()
        measured.start()
        measured.switch_context(item.nodeid)
        failed = _fails(session, item, following)
        measured.stop()
        tests.append((item.nodeid, time.process_time() - began))
        if failed:
            os._exit(1)
    data, numbers = measured.get_data(), {name: number for number, (name, _) in enumerate(tests)}
    lines = {
        str(Path(name).relative_to(CORE)): {
            line: f"{sum(1 << numbers[each] for each in contexts if each):x}"
            for line, contexts in data.contexts_by_lineno(name).items()
        }
        for name in data.measured_files()
    }
    paths = [ROOT / items[0].nodeid.partition("::")[0], *map(Path, data.measured_files())]
    digests = {str(path.relative_to(ROOT)): _digest(path) for path in paths}
    to.write_bytes(msgspec.json.encode(Executed(digests, tests, lines)))
    os._exit(0)


def main(arguments: Sequence[str]) -> int:
    """Take mutants at random, print the survivors and the share that was killed, return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted.mutants", description="Test the tests.")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long mutants are taken")
    parser.add_argument("--count", type=int, default=10_000, help="how many are taken at most")
    parser.add_argument("--seed", type=int, default=1, help="which mutants are taken")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("--least", type=float, default=SHARE, help="exit with 1 below this share, 0 to 1")
    parser.add_argument("--near", action="store_true", help="ask only the tests in the folder of the module")
    parser.add_argument("--only", default="", help="only modules whose path matches this expression")
    given = parser.parse_args(arguments)
    modules = [
        path for path in sorted(CORE.rglob("*.py")) if re.search(given.only, str(path.relative_to(CORE)))
    ]
    mutants = [mutant for path in modules for mutant in mutants_of(path) if not mutant.is_equivalent]
    random.Random(given.seed).shuffle(mutants)  # noqa: S311  a sample, not secrets
    os.chdir(ROOT)
    began = time.monotonic()
    run = MutationRun(mutants[: given.count], seconds=given.seconds, jobs=given.jobs, near=given.near)
    options = ["-s", "-W", "ignore::pytest.PytestAssertRewriteWarning", "--hypothesis-profile=mutants"]
    suites = sorted({_folder(mutant) for mutant in mutants}) if given.near else SUITES
    code = pytest.main([*_OPTIONS, *options, *suites], plugins=[run])
    whole = run.killed + len(run.survived)
    if code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        print(f"error: {whole} mutants were taken when the run broke off: {code!r}", file=sys.stderr)  # noqa: T201  a command
        return 1
    if not whole:
        print("error: no mutant was taken; hint: --only is asked of paths in core", file=sys.stderr)  # noqa: T201  a command
        return 1
    sampled = f"of {len(mutants)} in {len(modules)} modules"
    took = f"{(time.monotonic() - began) / whole:.1f} s each"
    ended = f"{run.killed} of {whole} mutants killed, {run.share:.1%}, {run.timed_out} of them by time"
    print(f"{ended}; {sampled}; {took}")  # noqa: T201  a command
    return 0 if run.share >= given.least else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
