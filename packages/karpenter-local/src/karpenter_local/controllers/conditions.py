"""Conditions of plain objects: one entry per type, with the time at which its status last changed."""

from datetime import datetime
from typing import Any

from karpenter.kube.targets import Plain
from karpenter_local.controllers.plain import render_time


def find(conditions: list[Plain], kind: str) -> Plain | None:
    return next((each for each in conditions if each["type"] == kind), None)


def holds(conditions: list[Plain], kind: str) -> bool:
    found = find(conditions, kind)
    return found is not None and found["status"] == "True"


def with_condition(
    conditions: list[Plain],
    kind: str,
    status: str,
    *,
    now: datetime,
    reason: str = "",
    message: str = "",
    **more: Any,
) -> list[Plain]:
    """
    Return the conditions with one of them as given, at the end as the latest.

    Its transition time moves only if its status does.
    """
    known = find(conditions, kind)
    moved = known is None or known["status"] != status
    entry: Plain = {
        "type": kind,
        "status": status,
        "lastTransitionTime": render_time(now) if moved or known is None else known["lastTransitionTime"],
        **more,
    }
    if reason:
        entry["reason"] = reason
    if message:
        entry["message"] = message
    return [*(each for each in conditions if each is not known), entry]


def without(conditions: list[Plain], kind: str) -> list[Plain]:
    return [each for each in conditions if each["type"] != kind]
