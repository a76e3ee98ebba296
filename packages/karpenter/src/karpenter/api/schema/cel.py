r"""
CEL expressions as Kubernetes evaluates them, and regular expressions in RE2.

An expression is compiled once and run many times. The functions that Kubernetes adds to CEL are here for
text, regular expressions, lists and quantities (https://kubernetes.io/docs/reference/using-api/cel/).
Functions over URLs, IP addresses, versions and authorisation are not; an expression that calls one is
refused when its schema is read, so that no object is ever checked by half a rule.

A quantity is a map with one entry inside CEL, because the library passes on plain data only.

Patterns of schemas are RE2: linear in time, and unanchored unless they say so. Python's ``re`` is not used
for them, because it takes exponential time on some patterns and reads ``$`` and ``\d`` differently.

The CEL library is imported with the first expression: it brings its own command line, which costs start time.
"""

import math
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from itertools import islice, pairwise
from types import MappingProxyType
from typing import Any

import msgspec

from karpenter.api.meta import InvalidObject
from karpenter.base.quantity import NANOS, QuantityError, parse_quantity


@cache
def engine() -> Any:
    """Return the CEL library. Its log is off, because it logs every error that it also raises."""
    logging = import_module("logging")
    logging.getLogger("cel").setLevel(logging.CRITICAL)
    # The package imports its own command line, and so 170 modules of prompt_toolkit, pygments and typer: half
    # of the time that a command takes to start. The extension in it needs none of them.
    package = find_spec("cel")
    within = package.submodule_search_locations if package is not None else None
    extension = PathFinder.find_spec("cel.cel", within)
    if extension is None or extension.loader is None:
        return import_module("cel")
    found = module_from_spec(extension)
    extension.loader.exec_module(found)
    return found


# RE2 classes are ASCII: https://github.com/google/re2/wiki/Syntax
_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": "\\t\\n\\f\\r "}
_MAX_CACHED_LENGTH = 512


def matches(pattern: str, text: str) -> bool:
    """
    Say whether `text` contains a match of `pattern`.

    Raises:
        InvalidObject: if the pattern is none.
    """
    if len(text) > _MAX_CACHED_LENGTH:
        return _search(pattern, text)
    return _search_kept(pattern, text)


def _search(pattern: str, text: str) -> bool:
    clean = text.encode(errors="replace").decode()  # lone surrogates are not text to anyone else
    try:
        return bool(_program().execute({"text": clean, "pattern": to_ascii_classes(pattern)}))
    except (RuntimeError, ValueError) as error:
        raise InvalidObject(subject="schema", problem=f"{pattern!r} is not a regular expression") from error


@cache
def _program() -> Any:
    return engine().compile("text.matches(pattern)")


_search_kept = lru_cache(maxsize=4096)(_search)


@lru_cache(maxsize=512)
def to_ascii_classes(pattern: str) -> str:
    r"""Spell out ``\d``, ``\w`` and ``\s``, which mean ASCII to RE2 and Unicode to others."""
    spelled: list[str] = []
    in_brackets = False
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            spelled.append(_spell_out(next(characters, ""), in_brackets=in_brackets))
            continue
        if character == "[":
            in_brackets = True
        elif character == "]":
            in_brackets = False
        spelled.append(character)
    return "".join(spelled)


def _spell_out(letter: str, *, in_brackets: bool) -> str:
    known = _CLASSES.get(letter)
    if known is not None:
        return known if in_brackets else f"[{known}]"
    negated = _CLASSES.get(letter.lower())
    if negated is not None and not in_brackets:
        return f"[^{negated}]"
    return f"\\{letter}"


_BAD_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_QUANTITY = "quantity in billionths"
_PLACEHOLDER = re.compile(r"%(?:\.(?P<places>[0-9]+))?(?P<letter>[sdfexXob%])")


@lru_cache(maxsize=256)
def _finder(pattern: str) -> Any:
    """Return a compiled pattern: the CEL library only says whether there is a match, RE2 says where."""
    re2 = import_module("re2")
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


def find(text: str, pattern: str) -> str:
    match = _finder(pattern).search(text)
    return match[0] if match else ""


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """Return the matches, at most `limit` of them unless that is negative."""
    found = (match[0] for match in _finder(pattern).finditer(text))
    return list(found if limit < 0 else islice(found, limit))


def size(value: Any) -> int:
    """Return the number of characters, items or entries."""
    return len(value)


def to_bool(value: Any) -> bool:
    """Return the truth that a text spells."""
    known = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
    return value if isinstance(value, bool) else known[value.lower()]


def char_at(text: str, position: int) -> str:
    """Return one character; at the very end there is none left."""
    if not 0 <= position <= len(text):
        raise IndexError(position)
    return text[position : position + 1]


def index_of(value: Any, wanted: Any, start: int = 0) -> int:
    """Return where `wanted` is first, or -1."""
    if isinstance(value, str):
        return value.find(wanted, start)
    return next((i for i, each in enumerate(value) if each == wanted), -1)


def last_index_of(value: Any, wanted: Any) -> int:
    """Return where `wanted` is last, or -1."""
    if isinstance(value, str):
        return value.rfind(wanted)
    return max((i for i, each in enumerate(value) if each == wanted), default=-1)


def join(parts: list[str], separator: str = "") -> str:
    return separator.join(parts)


def lower_ascii(text: str) -> str:
    return "".join(c.lower() if c.isascii() else c for c in text)


def upper_ascii(text: str) -> str:
    return "".join(c.upper() if c.isascii() else c for c in text)


def replace(text: str, old: str, new: str, limit: int = -1) -> str:
    """Return the text with `old` replaced by `new`, at most `limit` times unless that is negative."""
    return text.replace(old, new, limit)


def split(text: str, separator: str, limit: int = -1) -> list[str]:
    """Return the parts between separators, at most `limit` of them unless that is negative."""
    if limit == 0:
        return []
    if separator == "":
        parts = list(text)
        return parts if limit < 0 or len(parts) <= limit else [*parts[: limit - 1], text[limit - 1 :]]
    return text.split(separator, -1 if limit < 0 else limit - 1)


def substring(text: str, start: int, end: int | None = None) -> str:
    """Return the characters from `start` up to, not including, `end`."""
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise IndexError(start)
    return text[start:stop]


def trim(text: str) -> str:
    """Return the text without white space at its ends."""
    return text.strip()


def reverse(value: Any) -> Any:
    """Return the characters or items in the opposite order."""
    return value[::-1]


def format_text(template: str, values: list[Any]) -> str:
    """Fill in ``%s``, ``%d``, ``%.2f`` and their like, one value each."""
    remaining = iter(values)

    def fill(match: re.Match[str]) -> str:
        letter = match["letter"]
        if letter == "%":
            return "%"
        value = next(remaining)
        if letter == "s":
            return str(value).lower() if isinstance(value, bool) else str(value)
        places = f".{match['places']}" if match["places"] else ""
        return f"{value:{places}{letter}}"

    return _PLACEHOLDER.sub(fill, template)


def is_sorted(items: list[Any]) -> bool:
    """Say whether no item is smaller than the one before it."""
    return all(a <= b for a, b in pairwise(items))


def total(items: list[Any]) -> Any:
    return sum(items)


def smallest(items: list[Any]) -> Any:
    return min(items)


def largest(items: list[Any]) -> Any:
    return max(items)


def quantity(text: Any) -> dict[str, str]:
    try:
        return {_QUANTITY: str(parse_quantity(text).nanos)}
    except QuantityError as error:
        raise ValueError(_BAD_QUANTITY) from error


def is_quantity(text: Any) -> bool:
    try:
        parse_quantity(text)
    except QuantityError:
        return False
    return True


def _nanos(value: Any) -> int:
    return int(value[_QUANTITY]) if isinstance(value, dict) else int(value) * NANOS


def sign(value: Any) -> int:
    """Return -1, 0 or 1."""
    nanos = _nanos(value)
    return (nanos > 0) - (nanos < 0)


def is_integer(value: Any) -> bool:
    """Say whether the quantity is whole and fits 64 bits."""
    whole, rest = divmod(_nanos(value), NANOS)
    return rest == 0 and -(2**63) <= whole < 2**63


def as_integer(value: Any) -> int:
    if not is_integer(value):
        raise ValueError("cannot convert value to integer")
    return _nanos(value) // NANOS


def as_approximate_float(value: Any) -> float:
    try:
        return _nanos(value) / NANOS
    except OverflowError:
        return math.inf


def add(a: Any, b: Any) -> dict[str, str]:
    return {_QUANTITY: str(_nanos(a) + _nanos(b))}


def sub(a: Any, b: Any) -> dict[str, str]:
    return {_QUANTITY: str(_nanos(a) - _nanos(b))}


def compare_to(a: Any, b: Any) -> int:
    """Return -1, 0 or 1 as `a` is less than, equal to or greater than `b`."""
    left, right = _nanos(a), _nanos(b)
    return (left > right) - (left < right)


def is_less_than(a: Any, b: Any) -> bool:
    return _nanos(a) < _nanos(b)


def is_greater_than(a: Any, b: Any) -> bool:
    return _nanos(a) > _nanos(b)


FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "add": add,
        "asApproximateFloat": as_approximate_float,
        "asInteger": as_integer,
        "bool": to_bool,
        "charAt": char_at,
        "compareTo": compare_to,
        "find": find,
        "findAll": find_all,
        "format": format_text,
        "indexOf": index_of,
        "isGreaterThan": is_greater_than,
        "isInteger": is_integer,
        "isLessThan": is_less_than,
        "isQuantity": is_quantity,
        "isSorted": is_sorted,
        "join": join,
        "lastIndexOf": last_index_of,
        "lowerAscii": lower_ascii,
        "matchesInAscii": lambda text, pattern: matches(pattern, text),
        "max": largest,
        "min": smallest,
        "quantity": quantity,
        "replace": replace,
        "reverse": reverse,
        "sign": sign,
        "sizeInCharacters": size,
        "split": split,
        "sub": sub,
        "substring": substring,
        "sum": total,
        "trim": trim,
        "upperAscii": upper_ascii,
    }
)
"""By the name that rules call them."""


_OPERATORS = frozenset(
    "!_ -_ @in @not_strictly_false _!=_ _%_ _&&_ _*_ _+_ "  # noqa: SIM905  words read best as words
    "_-_ _/_ _<=_ _<_ _==_ _>=_ _>_ _?_:_ _[_] _||_".split()
)
_BUILT_IN = frozenset(
    "bytes contains double duration dyn endsWith "  # noqa: SIM905  words read best as words
    "getDate getDayOfMonth getDayOfWeek getDayOfYear getFullYear getHours getMilliseconds getMinutes "
    "getMonth getSeconds hasValue int none of ofNonZeroValue or orValue startsWith string timestamp "
    "type uint value".split()
)


class RuleFailed(ValueError):  # noqa: N818  the rule did not answer; the object may be at fault
    """An expression that could not be evaluated on the data at hand; the text says why."""


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """An expression, ready to run."""

    source: str
    uses_old_self: bool
    compiled: Any
    functions: Mapping[str, Callable[..., Any]]

    def run(
        self, variables: dict[str, Any], functions: Mapping[str, Callable[..., Any]] = MappingProxyType({})
    ) -> Any:
        """
        Return what the expression says; `functions` take the place of those that it was compiled with.

        Raises:
            RuleFailed: if it has nothing to say, because a key is missing or a type is wrong.
        """
        try:
            return self.compiled.execute(
                engine().Context(variables=variables, functions={**self.functions, **functions})
            )
        except ZeroDivisionError as error:
            raise RuleFailed("division by zero") from error
        except KeyError as error:
            raise RuleFailed(f"no such key: {error.args[0]}") from error
        except TypeError as error:
            raise RuleFailed("no such overload") from error
        except (ArithmeticError, LookupError, RuntimeError, ValueError) as error:
            raise RuleFailed(_first_sentence(str(error))) from error


_OUR_FUNCTION = re.compile(r"Function '\w+' error: Python function call failed: \w+: ")
_BAD_CONVERSION = re.compile(r"Function '(?P<type>[a-z]+)' error: string parse error.*")


def _first_sentence(text: str) -> str:
    """Return what the library says without its advice for programmers, and conversions as others say them."""
    said = _OUR_FUNCTION.sub("", text.splitlines()[0].partition(". Check ")[0].rstrip("."))
    return _BAD_CONVERSION.sub(r"type conversion error from 'string' to '\g<type>'", said)


# What is built in cannot be replaced, and two functions of the library count or read otherwise than
# others do: sizes in bytes, and classes of characters in Unicode. Calls to ours go by other names.
_OTHER_NAMES: Mapping[str, str] = MappingProxyType({"size": "sizeInCharacters", "matches": "matchesInAscii"})
_QUOTED_OR_CALL = re.compile(
    r"\b[rR]'[^']*'"
    r'|\b[rR]"[^"]*"'
    r"|'(?:\\.|[^'\\])*'"
    r'|"(?:\\.|[^"\\])*"'
    r"|\b(?:size|matches)(?=\s*\()",
    re.DOTALL,
)


def _with_our_functions(source: str) -> str:
    """Return an expression that calls our functions; texts in quotes stay as they are."""
    plain = _without_optional_selection(source) if "?" in source else source
    return _QUOTED_OR_CALL.sub(lambda match: _OTHER_NAMES.get(match[0], match[0]), plain)


# The library does not parse optional selection (https://github.com/google/cel-spec/wiki/proposal-246), which
# rules spell ``a.b.?c.d.orValue(x)`` and ``a[?'key'].hasValue()``: the steps from the first mark on are made
# conditions. What follows them must be orValue, hasValue or value.
_PLAIN = r"\.[A-Za-z_]\w*+|\[(?:'[^'\\]*'|\"[^\"\\]*\"|[A-Za-z0-9_.]+)\]"
_MARKED = r"\.\?[A-Za-z_]\w*+|\[\?(?:'[^'\\]*'|\"[^\"\\]*\")\]"
_STEP = rf"{_MARKED}|{_PLAIN}"
_END = r"\.(?P<ends>orValue|hasValue|value)\("
_NO_END = r"(?!\.(?:orValue|hasValue|value)\()"
# Nothing is tried twice, so that the time is linear in the length of the text. A name after a mark is no
# head.
_OPTIONAL = re.compile(
    r"(?<![\w.])(?<!\.\?)(?P<head>[A-Za-z_]\w*+)"
    rf"(?P<steps>(?:{_NO_END}(?:{_PLAIN}))*+(?:{_MARKED})(?:{_NO_END}(?:{_STEP}))*+){_END}"
)
_MAX_STEPS = 32
"""Steps of an optional selection: each becomes a condition, which repeats the steps before it."""


def _without_optional_selection(source: str) -> str:
    """Return an expression in which optional selection is spelled with ``has`` and ``in``."""
    found = _OPTIONAL.search(source)
    if found is None:
        return source
    opened = found.end()
    closed = _closing(source, opened)
    whole, conditions = _conditions(found["head"], found["steps"])
    inner = _without_optional_selection(source[opened:closed])
    holds = " && ".join(conditions)
    match found["ends"]:
        case "hasValue":
            spelled = f"({holds})"
        case "value":
            spelled = whole
        case _:
            spelled = f"({holds} ? {whole} : {inner})"
    return source[: found.start()] + spelled + _without_optional_selection(source[closed + 1 :])


def _conditions(head: str, steps: str) -> tuple[str, list[str]]:
    """
    Return a selection without marks, and what must hold for it to be there.

    Raises:
        ValueError: the selection has too many steps.
    """
    whole, conditions, marked = head, list[str](), False
    found: list[str] = re.findall(_STEP, steps)
    if len(found) > _MAX_STEPS:
        raise ValueError(f"an optional selection has more than {_MAX_STEPS} steps")
    for step in found:
        marked = marked or "?" in step[:2]
        plain = step.replace("?", "", 1) if "?" in step[:2] else step
        if marked:
            is_key = plain.startswith("[")
            conditions.append(f"{plain[1:-1]} in {whole}" if is_key else f"has({whole}{plain})")
        whole += plain
    return whole, conditions


def _closing(source: str, opened: int) -> int:
    """Return where the bracket that was opened before a position is closed."""
    depth = 1
    quote = ""
    for position in range(opened, len(source)):
        letter = source[position]
        if quote:
            quote = "" if letter == quote and source[position - 1] != "\\" else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "()":
            depth += 1 if letter == "(" else -1
            if depth == 0:
                return position
    return len(source)


@lru_cache(maxsize=1024)
def compile_program(source: str) -> Program:
    """
    Compile an expression.

    Raises:
        InvalidObject: if it is not CEL, or calls a function that is not known here.
    """
    return compile_with(source, FUNCTIONS)


def compile_with(source: str, functions: Mapping[str, Callable[..., Any]]) -> Program:
    """
    Compile an expression that may call `functions`; nothing is remembered.

    Raises:
        InvalidObject: if it is not CEL, or calls a function that is not known here.
    """
    try:
        compiled = engine().compile(_with_our_functions(source))
    except (ValueError, RuntimeError) as error:
        problem = f"not a CEL expression: {_first_sentence(str(error))}"
        raise InvalidObject(subject="rule", field=source, problem=problem) from error
    used = frozenset(compiled.functions())
    unknown = used - _OPERATORS - _BUILT_IN - functions.keys()
    if unknown:
        problem = f"calls {', '.join(sorted(unknown))}, which cannot be evaluated here"
        raise InvalidObject(subject="rule", field=source, problem=problem)
    return Program(
        source=source,
        uses_old_self="oldSelf" in compiled.variables(),
        compiled=compiled,
        functions={name: functions[name] for name in used & functions.keys()},
    )
