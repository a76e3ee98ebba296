import ast
import re
from collections.abc import Iterator
from pathlib import Path

import karpenter

SOURCE = Path(karpenter.__file__).parent
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
EVENT = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*(?<!ing)")


def log_calls() -> Iterator[tuple[str, ast.Call]]:
    """Yield every call of a logger in the source, and where it is."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in LEVELS
            ):
                logger = node.func.value
                named = ast.unparse(logger).split("(")[0].rpartition(".")[2]
                if named in {"log", "_log"}:
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", node


def problem(call: ast.Call) -> str:
    """Say what is wrong with a call; empty when nothing is."""
    first = call.args[0] if call.args else None
    if not (isinstance(first, ast.Constant) and isinstance(first.value, str)):
        return "the event is not a plain text: facts go into keywords"
    if not EVENT.fullmatch(first.value):
        return f"{first.value!r} is not noun.past_tense"
    return "facts go into keywords" if len(call.args) > 1 else ""


def test_events_are_noun_and_past_tense() -> None:
    """Every log line of the source is an event of two words, and its facts are keywords."""
    found = [(where, problem(call)) for where, call in log_calls()]

    assert len(found) > 20
    assert not [f"{where} {wrong}" for where, wrong in found if wrong]
