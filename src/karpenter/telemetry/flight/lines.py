"""
The lines of a record, and how they are spelled.

    begun      a record begins here, with nothing known
    seen       an object is there, as it is now           lost      and is there no longer
    classified the same for a node class                  unclassified
    sold       what can be bought, from here on; instance types are written once and then named by number
    asked      a question to the core, with everything that it depends on and the state does not hold
    answered   what came out of it
    done       an effect that was carried out

Two lines stand for one decision because others happen between them: it takes its time in a thread.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, TypeAlias

import msgspec

from karpenter.core.state.view import NodeClass

FORMAT: Final = 1
"""Rises when a record of today could not be read any more."""


class Begun(msgspec.Struct, frozen=True, kw_only=True, tag="begun", tag_field="line"):
    """A record begins."""

    format: int = FORMAT
    version: str
    """The version of the operator."""

    at: datetime
    serves: tuple[tuple[str, str], ...]
    """Group and kind of the node classes that are the operator's."""


class Seen(msgspec.Struct, frozen=True, kw_only=True, tag="seen", tag_field="line"):
    """An object is there."""

    kind: str
    object: msgspec.Raw


class Lost(msgspec.Struct, frozen=True, kw_only=True, tag="lost", tag_field="line"):
    """An object is there no longer; this is what was known of it last."""

    kind: str
    object: msgspec.Raw


class Classified(msgspec.Struct, frozen=True, kw_only=True, tag="classified", tag_field="line"):
    """A node class is there."""

    node_class: NodeClass


class Unclassified(msgspec.Struct, frozen=True, kw_only=True, tag="unclassified", tag_field="line"):
    """A node class is there no longer."""

    node_class: NodeClass


class Sold(msgspec.Struct, frozen=True, kw_only=True, tag="sold", tag_field="line"):
    """What can be bought."""

    number: int
    new: tuple[msgspec.Raw, ...] = ()
    """Instance types that no line before has named; they are counted from the beginning of the record."""

    types: tuple[int, ...]
    by_pool: dict[str, tuple[int, ...]] = {}
    rest: dict[str, Any] = {}
    """The fields of the catalogue that are not types."""


class Asked(msgspec.Struct, frozen=True, kw_only=True, tag="asked", tag_field="line"):
    """A question."""

    number: int
    question: str
    """The name of the function."""

    now: datetime
    catalog: int
    marked: tuple[str, ...] = ()
    """Claims that were about to go."""

    given: dict[str, Any]
    """Every other argument."""


class Answered(msgspec.Struct, frozen=True, kw_only=True, tag="answered", tag_field="line"):
    """The answer to a question."""

    number: int
    cut: bool = False
    """Whether the time ran out: how far it came then cannot be repeated."""

    outcome: msgspec.Raw


class Done(msgspec.Struct, frozen=True, kw_only=True, tag="done", tag_field="line"):
    """An effect that was carried out, as far as it tells people something."""

    at: datetime
    effect: str
    about: str
    because: str


Line: TypeAlias = Begun | Seen | Lost | Classified | Unclassified | Sold | Asked | Answered | Done

DECODER: Final = msgspec.json.Decoder(Line)
