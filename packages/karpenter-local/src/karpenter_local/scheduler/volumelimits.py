"""
Which volumes are in use on which node, and how many more each driver can take there.

A volume that several pods of a node share counts once. A claim that has no volume yet counts as one of its
own.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec
import numpy as np

from karpenter_local.scheduler.rows import Mask, NodeColumn, Rows

NO_LIMIT = 2**31


class VolumeId(msgspec.Struct, frozen=True, order=True):
    """One volume as its driver knows it; an empty driver means that there is no limit."""

    driver: str
    handle: str


class NodeVolumes:
    """Volumes per row, and the limits of drivers."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._users: dict[VolumeId, Counter[int]] = {}
        """Volume to the number of pods that use it, by row."""
        self._used: dict[str, NodeColumn[np.int64]] = {}
        self._limits: dict[str, NodeColumn[np.int64]] = {}

    def use(self, volume: VolumeId, row: int, *, by: int = 1) -> None:
        """Note one more pod (or `by`) at `row` that uses `volume`."""
        if not volume.driver:
            return
        at_rows = self._users.setdefault(volume, Counter())
        before = at_rows[row]
        at_rows[row] += by
        used = self._used_by(volume.driver).data
        if before == 0:
            used[row] += 1
        if at_rows[row] == 0:
            used[row] -= 1
            del at_rows[row]
        if not at_rows:
            del self._users[volume]

    def set_limits(self, row: int, limits: dict[str, int]) -> None:
        """Note how many volumes of each driver the node at `row` can take; others have no limit."""
        for driver in limits:
            if driver not in self._limits:
                self._limits[driver] = self._rows.ints(fill=NO_LIMIT)
        for driver, column in self._limits.items():
            column.data[row] = limits.get(driver, NO_LIMIT)

    def full(self, volumes: Iterable[VolumeId]) -> Mask:
        """Return the rows where one of the drivers cannot take these volumes besides what is there."""
        found = np.zeros(self._rows.capacity, np.bool_)
        by_driver: dict[str, list[VolumeId]] = {}
        for volume in volumes:
            by_driver.setdefault(volume.driver, []).append(volume)
        for driver, wanted in by_driver.items():
            limit = self._limits.get(driver)
            if limit is None:
                continue
            needed = self._used_by(driver).data + len(wanted)
            for volume in wanted:
                for row in self._users.get(volume, ()):
                    needed[row] -= 1
            found |= needed > limit.data
        return found

    def _used_by(self, driver: str) -> NodeColumn[np.int64]:
        used = self._used.get(driver)
        if used is None:
            used = self._used[driver] = self._rows.ints()
        return used
