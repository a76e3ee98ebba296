"""
What is wrong with a catalogue, and where: one line per problem, every problem found.

A reader notes a problem at a :class:`Place` and reads on; only when the whole
file has been looked at does :class:`InvalidCatalog` carry all of them out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong: the file, the instance type, the field, and what is allowed there."""

    file: str
    subject: str
    field: str
    problem: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.subject, self.field, self.problem) if part)


class InvalidCatalog(ValueError):  # noqa: N818  reads as what it is: a catalogue that is not valid
    """A catalogue that cannot be used; its text has one line for each problem."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class Place(msgspec.Struct, frozen=True, gc=False):
    """
    A spot in a catalogue file, where a problem can be noted.

    There is one for every field of a file and most are never complained about, so
    the path is put together only when it is needed.
    """

    noted: list[Problem]
    file: str
    subject: str = ""
    above: Place | None = None
    key: str | int = ""

    def refuse(self, problem: str) -> None:
        """Note that what stands here is not allowed."""
        self.noted.append(Problem(self.file, self.subject, self.path, problem))

    def of(self, subject: str) -> Place:
        """Return the beginning of the object `subject` in the same file."""
        return Place(self.noted, self.file, subject)

    def at(self, key: str | int) -> Place:
        """Return the spot of a field or an item below this one."""
        return Place(self.noted, self.file, self.subject, self, key)

    @property
    def path(self) -> str:
        """The fields and items that lead here, such as ``offerings[0].Price``."""
        if self.above is None:
            return ""
        path = self.above.path
        if isinstance(self.key, int):
            return f"{path}[{self.key}]"
        return f"{path}.{self.key}" if path else self.key
