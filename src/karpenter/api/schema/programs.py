"""
CEL expressions, compiled once and run many times.

An expression that uses what we cannot evaluate is refused here, when its schema is read, so that
no object is ever judged by half a rule.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import msgspec

from karpenter.api.errors import InvalidObject
from karpenter.api.schema.engine import engine
from karpenter.api.schema.functions import FUNCTIONS

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

    def run(self, variables: dict[str, Any]) -> Any:
        """
        Return what the expression says.

        Raises:
            RuleFailed: if it has nothing to say, because a key is missing or a type is wrong.
        """
        try:
            return self.compiled.execute(
                engine().Context(variables=variables, functions=dict(self.functions))
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
    return _QUOTED_OR_CALL.sub(lambda match: _OTHER_NAMES.get(match[0], match[0]), source)


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
