"""
Fields that a CEL rule names and its schema does not have.

:mod:`karpenter.api.schema.cel` compiles rules without their schema, so a misspelt field would only show
when an object is validated. This module checks plain chains from ``self`` and ``oldSelf``
(``self.spec.replicas``) and accepts every other expression.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.api.schema import Schema

_TEXT = re.compile(r"""r?("([^"\\]|\\.)*"|'([^'\\]|\\.)*')""")
_CHAIN = re.compile(r"(?<![\w.])(?:self|oldSelf)((?:\s*\.\s*[A-Za-z_]\w*)+)\s*(\()?")


def undeclared(rule: str, schema: Schema) -> Iterator[str]:
    """Yield the fields that `rule`, a rule of `schema`, names and `schema` does not have."""
    for match in _CHAIN.finditer(_TEXT.sub('""', rule)):
        names = [name.strip() for name in match[1].split(".")[1:]]
        if match[2]:
            names.pop()  # the last one is a function
        missing = _first_missing(names, schema)
        if missing:
            yield missing


def _first_missing(names: list[str], schema: Schema) -> str:
    here: Schema | None = schema
    for depth, name in enumerate(names):
        if here is None or here.type != "object" or here.preserve_unknown or here.embedded:
            return ""
        if here.additional_properties is not None or "__" in name:
            return ""
        if depth == 0 and name in {"apiVersion", "kind", "metadata"}:
            return ""
        if name not in here.properties:
            return name
        here = here.properties[name]
    return ""
