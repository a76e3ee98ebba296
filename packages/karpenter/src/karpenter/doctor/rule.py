"""
What a rule is: a name, how bad it is, what is wrong, how to put it right, and a pure function that finds it.

The topics (:mod:`.installation`, :mod:`.identity`, ...) write rules; :mod:`.rules` holds and runs them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

import msgspec

from karpenter.doctor.facts import DoctorFacts

ERROR: Final = "error"
"""Something does not work, or will not."""

WARNING: Final = "warning"
"""Something works in a way that costs money, safety or time."""

INFO: Final = "info"
"""Something to know."""

SEVERITIES: Final = (ERROR, WARNING, INFO)

PAGE: Final = "docs/reference/doctor.md"
"""The page that explains every rule; the name of a rule is its anchor."""


class SymptomPlace(Protocol):
    """Whatever can be found to be wrong: it has a name, and a file where it is from one."""

    @property
    def subject(self) -> str: ...

    @property
    def source(self) -> str:
        """The file; empty where it is from none."""
        ...


class Symptom(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule has found, where."""

    subject: str
    """The object, the file or the AWS resource."""

    message: str
    field: str = ""
    source: str = ""
    """The file, where the object is from one."""

    fix: str = ""
    """What helps here; where it is empty, what helps in general."""

    severity: str = ""
    """Where it is not as bad as usual, or worse."""


class DoctorRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule."""

    id: str
    severity: str
    title: str
    """What is wrong, in general."""

    fix: str
    """What helps, in general."""

    why: str
    """What happens otherwise."""

    check: Callable[[DoctorFacts], Iterable[Symptom]]
    needs: tuple[str, ...]
    """Which facts it looks at: paths in :class:`DoctorFacts`. Without one of them it is skipped."""

    link: str = ""
    """A public source."""

    @property
    def anchor(self) -> str:
        return f"{PAGE}#{self.id}"


class DoctorFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong, in full."""

    rule: str
    severity: str
    object: str
    field: str = ""
    message: str
    fix: str
    anchor: str
    source: str = ""

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.source, self.object, self.field) if part)
        return f"{self.severity}: {place}: {self.message}; fix: {self.fix} ({self.anchor})"


def on(place: SymptomPlace, message: str, *, field: str = "", fix: str = "", severity: str = "") -> Symptom:
    """Return a symptom of an object, a chart, a role or a block of Terraform."""
    return Symptom(
        subject=place.subject,
        source=place.source,
        field=field,
        message=message,
        fix=fix,
        severity=severity,
    )


def listed(names: Iterable[str], *, most: int = 5) -> str:
    """Return names as text, the first few of many."""
    found = sorted(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more
