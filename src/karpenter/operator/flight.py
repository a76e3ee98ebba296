"""The flight recorder, if the settings ask for one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from karpenter.operator.settings import SettingError
from karpenter.telemetry.flight.recording import FlightRecorder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.base.clock import Clock
    from karpenter.cloud.interface import NodeClassKind
    from karpenter.core.state.store import Store
    from karpenter.operator.settings import Settings


def flight_recorder(
    settings: Settings, store: Store, classes: Iterable[NodeClassKind], clock: Clock
) -> FlightRecorder | None:
    """
    Return a recorder that has begun; None if none is asked for.

    Raises:
        SettingError: the file cannot be written.
    """
    if not settings.flight_record:
        return None
    recorder = FlightRecorder(
        Path(settings.flight_record),
        limit=settings.flight_record_size,
        store=store,
        serves=((each.group, each.kind) for each in classes),
        clock=clock,
    )
    try:
        recorder.open()
    except OSError as error:
        raise SettingError(f"setting flight-record: {error.filename}: {error.strerror}") from error
    return recorder
