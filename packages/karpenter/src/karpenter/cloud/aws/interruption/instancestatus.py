"""
Machines that EC2 calls unwell, or has plans for.

A check that has failed for two minutes means that the machine is broken: there is nothing left to drain. A
maintenance event means that it will be: its pods move in time. Checks of disks are not acted on.
"""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from karpenter.cloud.aws.errors import AccessDenied
from karpenter.cloud.aws.metrics import UNHEALTHY
from karpenter.cloud.aws.subnet import where
from karpenter.core.effects import Step
from karpenter.core.lifecycle.interruption import interrupted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.interruption.controller import InstanceClaims
    from karpenter.cloud.aws.metrics import ProviderMetrics
    from karpenter.cloud.aws.sdk import ApiResponse, AwsApi
    from karpenter.core.effects import Effect

log = structlog.stdlib.get_logger(__name__)

PERIOD: Final = 60.0
NOT_ALLOWED: Final = 600.0
"""Seconds until a question is asked again that we are not allowed to ask."""

BROKEN_AFTER: Final = timedelta(seconds=120)
EVENTS: Final = (
    "instance-reboot",
    "system-reboot",
    "system-maintenance",
    "instance-retirement",
    "instance-stop",
)
QUESTIONS: Final = (
    where("instance-status.status", "impaired"),
    where("system-status.status", "impaired"),
    where("event.code", *EVENTS),
)

INSTANCE: Final = "InstanceStatus"
SYSTEM: Final = "SystemStatus"
EVENT: Final = "EventStatus"
_KINDS: Final = {INSTANCE: "instance_status", SYSTEM: "system_status", EVENT: "event_status"}
_DONE: Final = ("[Completed]", "[Canceled]")


class UnhealthyInstance(msgspec.Struct, frozen=True):
    """What is wrong with an instance."""

    instance: str
    category: str

    @property
    def forceful(self) -> bool:
        """Whether the machine is broken already."""
        return self.category != EVENT


class InstanceStatusController:
    """Asks EC2 which machines are unwell, and lets their claims go."""

    name = "interruption.instancestatus"

    def __init__(self, aws: AwsApi, *, roster: InstanceClaims, clock: Clock, meters: ProviderMetrics) -> None:
        self._aws = aws
        self._roster = roster
        self._clock = clock
        self._meters = meters
        self._counted: set[UnhealthyInstance] = set()

    async def look(self) -> Step:
        """Ask once."""
        try:
            complaints = await self.complaints()
        except AccessDenied as error:
            log.warning("instance_status.not_allowed", error=str(error))
            return Step(again=NOT_ALLOWED)
        effects: list[Effect] = []
        seen: set[UnhealthyInstance] = set()
        for each in complaints:
            claim = self._roster.claim_of(each.instance)
            if claim is None:
                continue
            seen.add(each)
            if each not in self._counted:
                self._meters.count(UNHEALTHY, category=each.category)
            if claim.metadata.deletion_timestamp is None:
                effects += interrupted(
                    claim,
                    self._roster.nodes_of(claim),
                    kind=_KINDS[each.category],
                    drains=True,
                    forceful=each.forceful,
                    now=self._clock.now(),
                )
        self._counted = seen
        return Step(effects=tuple(effects), again=PERIOD)

    async def complaints(self) -> tuple[UnhealthyInstance, ...]:
        """Return what is wrong with any instance, one complaint for each."""
        told: dict[str, ApiResponse] = {}
        for question in QUESTIONS:
            for each in await self._aws.every(
                "ec2", "DescribeInstanceStatus", "InstanceStatuses", Filters=[question]
            ):
                told.setdefault(each["InstanceId"], each)
        found = (next(self._judged(each), None) for each in told.values())
        return tuple(each for each in found if each is not None)

    def _judged(self, told: ApiResponse) -> Iterator[UnhealthyInstance]:
        number = told["InstanceId"]
        for category, field in ((INSTANCE, "InstanceStatus"), (SYSTEM, "SystemStatus")):
            for detail in told.get(field, {}).get("Details", ()):
                if detail.get("Status") == "failed" and self._lasts(detail.get("ImpairedSince")):
                    yield UnhealthyInstance(number, category)
        for event in told.get("Events", ()):
            finished = str(event.get("Description", "")).startswith(_DONE)
            if event.get("Code") in EVENTS and not finished:
                yield UnhealthyInstance(number, EVENT)

    def _lasts(self, since: datetime | None) -> bool:
        if since is None:
            return False
        moment = since if since.tzinfo else since.replace(tzinfo=UTC)
        return self._clock.now() - moment >= BROKEN_AFTER
