"""
What the embedded AWS can be told to do: inert values, the same over HTTP, on the command line and in tests.

Each is one wish of whoever tests, shows or simulates. :mod:`.control` carries them out.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

NOTICE: float = 120.0
"""Seconds between the warning and the end of a spot instance, as on AWS."""


class _Wish(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", rename="camel"):
    """Something that the embedded AWS can be told to do."""


class SellOut(_Wish, frozen=True, kw_only=True, tag="sell-out"):
    """Let nobody get these offerings any longer; whatever is left empty does not matter."""

    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""
    code: str = "InsufficientInstanceCapacity"
    """How fleets are told, such as ``MaxSpotInstanceCountExceeded`` for a quota."""


class Limit(_Wish, frozen=True, kw_only=True, tag="limit"):
    """Let no more than so many instances of these offerings run at a time."""

    count: int
    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""


class Restock(_Wish, frozen=True, kw_only=True, tag="restock"):
    """Undo what was said of the same offerings; of none, of all."""

    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""


class Interrupt(_Wish, frozen=True, kw_only=True, tag="interrupt"):
    """Warn that a spot instance will be taken away, and take it away after the notice."""

    instance: str
    notice: float = NOTICE


class Rebalance(_Wish, frozen=True, kw_only=True, tag="rebalance"):
    """Say that a spot instance may be interrupted some time; nothing follows."""

    instance: str


class Retire(_Wish, frozen=True, kw_only=True, tag="retire"):
    """Say that the hardware under an instance will be retired; nothing follows."""

    instance: str


class Kill(_Wish, frozen=True, kw_only=True, tag="kill"):
    """Let an instance end at once, without a warning."""

    instance: str


class Impair(_Wish, frozen=True, kw_only=True, tag="impair"):
    """Let a check of an instance fail from now on, or schedule an event for it."""

    instance: str
    what: str = "instance"
    """The check, ``instance`` or ``system``, or the code of an event, such as ``instance-retirement``."""


class Heal(_Wish, frozen=True, kw_only=True, tag="heal"):
    """Let an instance be well again."""

    instance: str


class Lag(_Wish, frozen=True, kw_only=True, tag="lag"):
    """Let EC2 not show what it has just launched, for so many seconds."""

    seconds: float


class ShiftZone(_Wish, frozen=True, kw_only=True, tag="shift-zone"):
    """Shift traffic away from a zone, for so many seconds; for none, let it come back."""

    zone_id: str
    seconds: float = 3600.0


class ReleaseAmi(_Wish, frozen=True, kw_only=True, tag="release-ami"):
    """Publish newer images of every family, so that aliases to the latest one mean them."""


class PublishAmi(_Wish, frozen=True, kw_only=True, tag="publish-ami"):
    """Publish one image under a name, and under an id if one is given."""

    name: str
    arch: str = "x86_64"
    id: str = ""


class SetPrice(_Wish, frozen=True, kw_only=True, tag="set-price"):
    """Change what an instance type costs per hour: on demand, or as spot in a zone."""

    instance_type: str
    price: float
    zone: str = ""


class MovePrices(_Wish, frozen=True, kw_only=True, tag="move-prices"):
    """Let every spot price move by chance, up or down by up to a share of it."""

    spread: float = 0.2
    seed: int = 0


class Refuse(_Wish, frozen=True, kw_only=True, tag="refuse"):
    """Let calls of an operation be refused: so many, or all of them from now on."""

    operation: str
    code: str = "RequestLimitExceeded"
    count: int = 0
    """How many; 0 means all."""


class Allow(_Wish, frozen=True, kw_only=True, tag="allow"):
    """Let an operation go well again."""

    operation: str


Command: TypeAlias = (
    SellOut
    | Limit
    | Restock
    | Interrupt
    | Rebalance
    | Retire
    | Kill
    | Impair
    | Heal
    | Lag
    | ShiftZone
    | ReleaseAmi
    | PublishAmi
    | SetPrice
    | MovePrices
    | Refuse
    | Allow
)
