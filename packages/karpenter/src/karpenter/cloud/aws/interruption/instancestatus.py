"""
Interrupts NodeClaims whose instance fails its status checks, or has a scheduled event.

A check that has failed for two minutes means that the instance is broken: its pods cannot be drained. A
scheduled event means that it will be stopped or rebooted: its pods are moved in time. Checks of EBS volumes
are not acted on.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitoring-system-instance-status-check.html
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from karpenter.cloud.aws.errors import AccessDenied
from karpenter.cloud.aws.metrics import UNHEALTHY, ProviderMetrics
from karpenter.cloud.aws.subnet import where
from karpenter.core.effects import Effect, Step
from karpenter.core.lifecycle.interruption import handle_interruption

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.interruption.controller import InstanceClaims
    from karpenter.cloud.aws.sdk import ApiResponse, AwsApi

log = structlog.stdlib.get_logger(__name__)

# EC2 performs status checks every minute:
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitoring-system-instance-status-check.html
POLL_SECONDS: Final = 60.0
NOT_ALLOWED_RETRY_SECONDS: Final = 600.0
"""Seconds until a call is tried again that a permission is missing for."""

# Shorter impairments often pass: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/TroubleshootingInstances.html
BROKEN_AFTER: Final = timedelta(seconds=120)
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitoring-instances-status-check_sched.html
EVENTS: Final = (
    "instance-reboot",
    "system-reboot",
    "system-maintenance",
    "instance-retirement",
    "instance-stop",
)
FILTERS: Final = (
    where("instance-status.status", "impaired"),
    where("system-status.status", "impaired"),
    where("event.code", *EVENTS),
)

# A failed instance check can be the fault of its software, a failed system check is one of AWS:
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitoring-system-instance-status-check.html
INSTANCE: Final = "InstanceStatus"
SYSTEM: Final = "SystemStatus"
EVENT: Final = "EventStatus"
_KINDS: Final = {INSTANCE: "instance_status", SYSTEM: "system_status", EVENT: "event_status"}
# EC2 keeps finished events for some days, and only marks their description.
_FINISHED: Final = ("[Completed]", "[Canceled]")


class UnhealthyInstance(msgspec.Struct, frozen=True):
    """An instance, and which check fails."""

    instance: str
    category: str

    @property
    def forceful(self) -> bool:
        """Whether the instance is broken already, so that its pods cannot be drained."""
        return self.category != EVENT


class InstanceStatusController:
    """Asks EC2 for failing status checks and scheduled events, and interrupts the claims."""

    name = "interruption.instancestatus"

    def __init__(
        self, aws: AwsApi, *, claims: InstanceClaims, clock: Clock, metrics: ProviderMetrics
    ) -> None:
        self._aws = aws
        self._claims = claims
        self._clock = clock
        self._metrics = metrics
        self._counted: set[UnhealthyInstance] = set()

    async def look(self) -> Step:
        """Ask once, and return the effects for the claims."""
        try:
            unhealthy = await self.unhealthy()
        except AccessDenied as error:
            log.warning("instance_status.not_allowed", error=str(error))
            return Step(again=NOT_ALLOWED_RETRY_SECONDS)
        effects: list[Effect] = []
        seen: set[UnhealthyInstance] = set()
        for each in unhealthy:
            claim = self._claims.claim_of(each.instance)
            if claim is None:
                continue
            seen.add(each)
            if each not in self._counted:
                self._metrics.count(UNHEALTHY, category=each.category)
            if claim.metadata.deletion_timestamp is None:
                effects += handle_interruption(
                    claim,
                    self._claims.nodes_of(claim),
                    kind=_KINDS[each.category],
                    drains=True,
                    forceful=each.forceful,
                    now=self._clock.now(),
                )
        self._counted = seen
        return Step(effects=tuple(effects), again=POLL_SECONDS)

    async def unhealthy(self) -> tuple[UnhealthyInstance, ...]:
        """Return the unhealthy instances of the account, each once."""
        statuses: dict[str, ApiResponse] = {}
        for wanted in FILTERS:
            for each in await self._aws.list_all(
                "ec2", "DescribeInstanceStatus", "InstanceStatuses", Filters=[wanted]
            ):
                statuses.setdefault(each["InstanceId"], each)
        found = (next(self._failures(each), None) for each in statuses.values())
        return tuple(each for each in found if each is not None)

    def _failures(self, status: ApiResponse) -> Iterator[UnhealthyInstance]:
        instance = status["InstanceId"]
        for category, field in ((INSTANCE, "InstanceStatus"), (SYSTEM, "SystemStatus")):
            for detail in status.get(field, {}).get("Details", ()):
                if detail.get("Status") == "failed" and self._lasts(detail.get("ImpairedSince")):
                    yield UnhealthyInstance(instance, category)
        for event in status.get("Events", ()):
            finished = str(event.get("Description", "")).startswith(_FINISHED)
            if event.get("Code") in EVENTS and not finished:
                yield UnhealthyInstance(instance, EVENT)

    def _lasts(self, since: datetime | None) -> bool:
        if since is None:
            return False
        moment = since if since.tzinfo else since.replace(tzinfo=UTC)
        return self._clock.now() - moment >= BROKEN_AFTER
