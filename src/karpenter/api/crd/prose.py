"""
The words of a definition: the docstrings of structs, and those below their fields.

Python keeps the docstring of a class but not those below fields, so they are read from the source.
"""

import ast
import inspect
import re
import textwrap
from functools import lru_cache

import msgspec

_CODE = re.compile(r"``([^`]*)``")


def describe_struct(struct: type[msgspec.Struct]) -> str:
    """Return what a struct's docstring says."""
    return _plain(inspect.cleandoc(struct.__doc__ or ""))


@lru_cache(maxsize=256)
def describe_fields(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return what is said below each field of a struct, its bases included, by the name in Python."""
    words: dict[str, str] = {}
    for each in reversed(struct.__mro__):
        if issubclass(each, msgspec.Struct) and each is not msgspec.Struct:
            words |= _own_fields(each)
    return words


def _own_fields(struct: type[msgspec.Struct]) -> dict[str, str]:
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(struct))).body
    assert isinstance(definition, ast.ClassDef)
    words = {}
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str() as text)),
            ):
                words[name] = _plain(inspect.cleandoc(text))
    return words


def _plain(text: str) -> str:
    """Return a docstring as prose: paragraphs on one line each, code in single quotes of code."""
    paragraphs = (" ".join(each.split()) for each in text.split("\n\n"))
    return _CODE.sub(r"`\1`", "\n\n".join(paragraphs))
