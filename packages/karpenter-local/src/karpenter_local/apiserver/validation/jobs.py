"""The rules for jobs and cron jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from karpenter_local.apiserver.field_errors import FieldError, invalid, not_supported, required
from karpenter_local.apiserver.validation.pods import template
from karpenter_local.apiserver.validation.workloads import not_negative

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter_local.apiserver.entry import Object

# A job's name has eleven more characters: https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/
_LONGEST_NAME = 52
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_DESCRIPTORS = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})


def job(value: Object, old: Object | None) -> Iterator[FieldError]:
    spec = value["spec"]
    yield from _spec(spec, "spec")
    if old is not None:
        before = old["spec"]
        for key in ("completions", "selector", "template", "completionMode"):
            if key == "completions" and spec.get("completionMode") == "Indexed":
                continue
            if key == "template" and before.get("suspend"):
                continue  # a suspended job may still be steered to other nodes
            if spec.get(key) != before.get(key):
                yield invalid(f"spec.{key}", spec.get(key), "field is immutable")


def _spec(spec: dict[str, Any], path: str) -> Iterator[FieldError]:
    yield from not_negative(
        spec,
        path,
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    )
    if spec.get("completionMode") not in {None, "NonIndexed", "Indexed"}:
        yield not_supported(f"{path}.completionMode", spec["completionMode"], ("Indexed", "NonIndexed"))
    given = spec.get("template") or {}
    yield from template(given, f"{path}.template")
    policy = (given.get("spec") or {}).get("restartPolicy")
    place = f"{path}.template.spec.restartPolicy"
    if policy in {None, "", "Always"}:
        yield required(place, 'valid values: "OnFailure", "Never"')
    elif policy not in {"OnFailure", "Never"}:
        yield not_supported(place, policy, ("OnFailure", "Never"))


def cron_job(value: Object, old: Object | None) -> Iterator[FieldError]:
    spec = value["spec"]
    schedule = spec.get("schedule", "")
    if not schedule:
        yield required("spec.schedule")
    else:
        yield from _schedule(schedule)
    zone = spec.get("timeZone")
    if zone is not None:
        yield from _zone(zone)
    yield from not_negative(
        spec, "spec", "startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"
    )
    if spec.get("concurrencyPolicy") not in {"Allow", "Forbid", "Replace"}:
        known = ("Allow", "Forbid", "Replace")
        yield not_supported("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), known)
    yield from _spec((spec.get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec")
    name = value["metadata"].get("name", "")
    if old is None and len(name) > _LONGEST_NAME:
        yield invalid("metadata.name", name, f"must be no more than {_LONGEST_NAME} characters")


def _schedule(text: str) -> Iterator[FieldError]:
    if text in _DESCRIPTORS or text.startswith("@every "):
        return
    try:
        CronSim(text, _EPOCH)
    except CronSimError as error:
        yield invalid("spec.schedule", text, f"the schedule cannot be read: {error}")


def _zone(zone: str) -> Iterator[FieldError]:
    if not zone:
        yield invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string")
        return
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        yield invalid("spec.timeZone", zone, f"unknown time zone {zone}")
