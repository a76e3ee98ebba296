"""
Commands, fed with sound files in which a few values were exchanged for hostile ones.

Texts that are made of pieces seldom get past the reader; what is wrong in one field of a sound object does. A
command ends with 0, 1 or 2, and anything else is a finding: an exception, another code, or something on the
screen that a terminal would obey.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml
from click.testing import CliRunner
from hypothesis import strategies as st

from karpenter.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT: Final = Path(__file__).parents[2]
VALUES: Final = (
    *(
        "null",
        '""',
        '"x"',
        "-1",
        "0",
        "1e308",
        "1e999",
        "9" * 30,
        "[]",
        "{}",
        "true",
        "[[]]",
        "[null]",
        "NaN",
    ),
    *(
        '{"": null}',
        '{"x": {"y": [1]}}',
        '"-1"',
        '"1e9"',
        '"100%"',
        '"\\u0000"',
        '"*"',
        '"a/b/c"',
        '["a", "a"]',
    ),
    *('{"1": 2}', '"2020-01-01T00:00:00Z"', '"0s"', '"Never"', '"\\u00e9"', f'"{"9" * 60}"'),
    *('"\\u001b]0;x\\u0007\\u001b[2J"', '"a\\nerror: b"', '"\\u202ea\\u2066"', '"a\\rb"', '"\\u009b2J"'),
    *(f'"{"=" * 300}"', '"--- {}"', '"{{ x }}"', "[" * 60 + "]" * 60),
)
"""In JSON, so that each place gets a value of its own."""

KEYS: Final = (
    *("", "x", "limits", "replicas", "karpenter.sh/node-price", "karpenter.sh/on-demand-floor"),
    *("karpenter.sh/do-not-disrupt", "karpenter.sh/preferred-pool-price", "minValues", "weight"),
)

_LINES: Final = "\n\t\xa0\u3000"

_MOST: Final = 3
"""Changes to one file."""

POOL: Final = "examples/inflate/nodepool.yaml"
CLASSES: Final = "examples/aws/quickstart.yaml"
LIVE: Final = "examples/gitops/live.yaml"
COMMANDS: Final[dict[str, tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]]] = {
    "plan": (
        ("plan", "-f", "FILE", "--catalog", "aws", "--disruption"),
        (
            (POOL, "examples/inflate/inflate.yaml"),
            (POOL, "tests/data/seeds/inflate-spread.yaml"),
            ("examples/devices/cluster.yaml", "examples/devices/workloads.yaml"),
            (CLASSES,),
            (LIVE,),
        ),
    ),
    "top": (("top", "--once", "-f", "FILE"), ((LIVE,), (POOL, "examples/inflate/inflate.yaml"))),
    "why": (("why", "pods", "-f", "FILE"), ((LIVE,), (POOL, "examples/inflate/inflate.yaml"))),
    "validate": (("validate", "-f", "FILE"), ((POOL,), (CLASSES,), ("examples/devices/cluster.yaml",))),
    "hash": (("hash", "-f", "FILE"), ((POOL,), (CLASSES,))),
    "doctor": (("doctor", "-f", "FILE"), ((CLASSES,), (POOL, "examples/inflate/inflate.yaml"))),
    "convert": (
        ("convert", "-f", "FILE", "--node-role", "r"),
        (
            *(
                (f"tests/data/convert/{name}.yaml",)
                for name in ("provisioners", "several", "templates", "groups", "beta", "workloads", "values")
            ),
            ("tests/data/seeds/legacy-provisioner.yaml",),
        ),
    ),
    "definition render": (
        ("definition", "render", "FILE", "--cluster-name", "c"),
        (("tests/data/definitions/cluster.yaml",), ("tests/data/seeds/cluster-definition.yaml",)),
    ),
    "definition import": (("definition", "import", "-f", "FILE"), ((CLASSES,), (LIVE,))),
    "manifests": (
        ("manifests", "-f", "FILE"),
        tuple((f"tests/data/chart/values/{name}.yaml",) for name in ("all-settings", "tolerations", "logs")),
    ),
}
"""Command lines, and the files that are put together for them."""


def command(arguments: Sequence[str]) -> Callable[[str], None]:
    """Return a function that runs a command with a file in the place of ``FILE``."""

    def run(text: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "f.yaml"
            path.write_text(text, "utf-8", errors="surrogatepass")
            filled = [str(path) if each == "FILE" else each for each in arguments]
            result = CliRunner().invoke(main, filled, catch_exceptions=False)
        assert result.exit_code in {0, 1, 2}, result.output
        obeyed = {each for each in result.output if not (each.isprintable() or each in _LINES)}
        assert not obeyed, (obeyed, result.output)

    return run


@st.composite
def changed(draw: st.DrawFn, files: tuple[tuple[str, ...], ...]) -> str:
    """Return the text of some files in which values were exchanged, left out or added."""
    documents: Any = _read(draw(st.sampled_from(files)))
    for _ in range(draw(st.integers(1, _MOST))):
        places = list(_places(documents))
        holder, key = places[draw(st.integers(0, len(places) - 1))]
        value = json.loads(draw(st.sampled_from(VALUES)))
        match draw(st.sampled_from(("exchange", "exchange", "exchange", "leave out", "add"))):
            case "exchange":
                holder[key] = value
            case "leave out" if holder is not documents:
                del holder[key]
            case "add" if isinstance(holder, dict):
                holder[draw(st.sampled_from(KEYS))] = value
    if draw(st.booleans()):
        return yaml.dump_all(documents, Dumper=yaml.CSafeDumper)
    return "\n---\n".join(json.dumps(each) for each in documents)


def _read(files: tuple[str, ...]) -> list[Any]:
    texts = [(ROOT / each).read_text("utf-8") for each in files]
    plains = [plain for text in texts for plain in yaml.load_all(text, yaml.CSafeLoader) if plain is not None]
    found: list[Any] = json.loads(json.dumps(plains, default=str))
    return found


def _places(plain: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every map and list with each of its keys."""
    match plain:
        case dict():
            pairs: list[tuple[Any, Any]] = list(plain.items())
        case list():
            pairs = list(enumerate(plain))
        case _:
            return
    for key, value in pairs:
        yield plain, key
        yield from _places(value)
