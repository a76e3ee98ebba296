"""One case, and the short ways of writing it."""

import copy
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

ABSENT = object()
"""In changes: take the field out."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """An object, what it replaces if anything, and which field is to be refused, if any."""

    what: str
    plain: dict[str, Any]
    field: str | None = None
    """The field that is wrong; None when everything is right."""

    old: dict[str, Any] | None = None
    server_accepts: bool | None = None
    """What an API server says where it differs from us; None where it does not."""

    @property
    def accepted_by_server(self) -> bool:
        """Whether an API server takes the object."""
        return self.field is None if self.server_accepts is None else self.server_accepts


def changed(base: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with the fields at some paths changed, such as ``spec.weight``."""
    plain = copy.deepcopy(base)
    for path, value in changes.items():
        *above, last = path.split(".")
        place = plain
        for step in above:
            place = place.setdefault(step, {})
        if value is ABSENT:
            place.pop(last, None)
        else:
            place[last] = value
    return plain


def params(cases: list[Case]) -> list[Any]:
    """Return the cases for pytest, each with its sentence as its id."""
    return [pytest.param(case, id=case.what) for case in cases]
