"""
Commands of the embedded AWS: values, the same over HTTP, on the command line and in tests.

:mod:`.control` carries them out.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
NOTICE_SECONDS: float = 120.0
"""Seconds between the warning and the end of a spot instance, as on AWS."""


class _AwsCommand(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", rename="camel"):
    """A command of the embedded AWS."""


class SellOutOfferings(_AwsCommand, frozen=True, kw_only=True, tag="sell-out"):
    """Let these offerings be out of capacity; a field that is empty matches all."""

    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""
    code: str = "InsufficientInstanceCapacity"
    """The error code of CreateFleet, such as ``MaxSpotInstanceCountExceeded`` for a quota."""


class Limit(_AwsCommand, frozen=True, kw_only=True, tag="limit"):
    """Let no more than so many instances of these offerings run at a time."""

    count: int
    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""


class SetQuota(_AwsCommand, frozen=True, kw_only=True, tag="quota"):
    """Let the account run so many vCPUs of the families that count against a type's quota."""

    vcpus: int
    instance_type: str
    capacity_type: str = "on-demand"


class Restock(_AwsCommand, frozen=True, kw_only=True, tag="restock"):
    """Undo what was said of the same offerings; of none, of all, and of quotas."""

    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""


class Interrupt(_AwsCommand, frozen=True, kw_only=True, tag="interrupt"):
    """Warn that a spot instance will be taken away, and take it away after the notice."""

    instance: str
    notice: float = NOTICE_SECONDS


class Rebalance(_AwsCommand, frozen=True, kw_only=True, tag="rebalance"):
    """Say that a spot instance may be interrupted some time; nothing follows."""

    instance: str


class Retire(_AwsCommand, frozen=True, kw_only=True, tag="retire"):
    """Say that the hardware under an instance will be retired; nothing follows."""

    instance: str


class Kill(_AwsCommand, frozen=True, kw_only=True, tag="kill"):
    """Let an instance end at once, without a warning."""

    instance: str


class Impair(_AwsCommand, frozen=True, kw_only=True, tag="impair"):
    """Let a check of an instance fail from now on, or schedule an event for it."""

    instance: str
    what: str = "instance"
    """The check, ``instance`` or ``system``, or the code of an event, such as ``instance-retirement``."""


class Heal(_AwsCommand, frozen=True, kw_only=True, tag="heal"):
    """Let an instance be well again."""

    instance: str


class Lag(_AwsCommand, frozen=True, kw_only=True, tag="lag"):
    """Let EC2 not show what it has just launched, for so many seconds."""

    seconds: float


class ShiftZone(_AwsCommand, frozen=True, kw_only=True, tag="shift-zone"):
    """Shift traffic away from a zone, for so many seconds; for none, let it come back."""

    zone_id: str
    seconds: float = 3600.0


class ReleaseAmi(_AwsCommand, frozen=True, kw_only=True, tag="release-ami"):
    """Publish newer images of every family, so that aliases to the latest one mean them."""


class PublishAmi(_AwsCommand, frozen=True, kw_only=True, tag="publish-ami"):
    """Publish one image under a name, and under an id if one is given."""

    name: str
    arch: str = "x86_64"
    id: str = ""


class SetPrice(_AwsCommand, frozen=True, kw_only=True, tag="set-price"):
    """Change what an instance type costs per hour: on demand, or as spot in a zone."""

    instance_type: str
    price: float
    zone: str = ""


class MovePrices(_AwsCommand, frozen=True, kw_only=True, tag="move-prices"):
    """Let every spot price move by chance, up or down by up to a share of it."""

    spread: float = 0.2
    seed: int = 0


class RefuseCalls(_AwsCommand, frozen=True, kw_only=True, tag="refuse"):
    """Let calls of an operation be refused: so many, or all of them from now on."""

    operation: str
    code: str = "RequestLimitExceeded"
    count: int = 0
    """How many; 0 means all."""


class Allow(_AwsCommand, frozen=True, kw_only=True, tag="allow"):
    """Let an operation go well again."""

    operation: str


Command: TypeAlias = (
    SellOutOfferings
    | Limit
    | SetQuota
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
    | RefuseCalls
    | Allow
)
