"""
Nodes as rows of arrays: assigns row numbers to nodes.

A row belongs to a node name from the first time it is heard of (a Node, or a pod bound to it) until both the
Node and its pods are gone; then the row is given to the next name. A :class:`NodeColumn` is one array with a
cell per row that grows with the table. Cells of rows that are not ``alive`` are undefined.
"""

from typing import Any, Generic, TypeVar
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

Cell = TypeVar("Cell", bound=np.generic)

_FIRST_CAPACITY = 64


class NodeColumn(Generic[Cell]):
    """One value per row, in an array that is replaced when the table grows."""

    def __init__(self, data: npt.NDArray[Cell], fill: Any) -> None:
        self.data = data
        self.fill = fill

    def widen(self, capacity: int) -> None:
        """Make room for `capacity` rows; new cells hold the fill value."""
        wider = np.full(capacity, self.fill, self.data.dtype)
        wider[: len(self.data)] = self.data
        self.data = wider


class Rows:
    """Gives each node name a row number, and every column its length."""

    def __init__(self) -> None:
        self.capacity = _FIRST_CAPACITY
        self.names: list[str] = []
        self._index: dict[str, int] = {}
        self._unused: list[int] = []
        self._columns: WeakSet[NodeColumn[Any]] = WeakSet()
        self._alive = self.flags()
        self._nodes = 0

    @property
    def alive(self) -> Mask:
        return self._alive.data

    @property
    def nodes(self) -> int:
        """How many rows have a Node behind them."""
        return self._nodes

    def find(self, name: str) -> int | None:
        return self._index.get(name)

    def claim(self, name: str) -> int:
        """Return the row of the node called `name`, giving it one if need be."""
        row = self._index.get(name)
        if row is not None:
            return row
        if self._unused:
            row = self._unused.pop()
            self.names[row] = name
        else:
            row = len(self.names)
            self.names.append(name)
            if row >= self.capacity:
                self.capacity *= 2
                for column in self._columns:
                    column.widen(self.capacity)
        self._index[name] = row
        return row

    def release(self, row: int) -> None:
        """Take the row back from its name; the caller has emptied its cells."""
        del self._index[self.names[row]]
        self.names[row] = ""
        self._unused.append(row)

    def set_alive(self, row: int, alive: bool) -> None:
        """Note whether a Node stands behind `row`."""
        self._nodes += int(alive) - int(self._alive.data[row])
        self._alive.data[row] = alive

    def flags(self, *, fill: bool = False) -> NodeColumn[np.bool_]:
        return self._add(NodeColumn(np.full(self.capacity, fill, np.bool_), fill))

    def ints(self, *, fill: int = 0) -> NodeColumn[np.int64]:
        return self._add(NodeColumn(np.full(self.capacity, fill, np.int64), fill))

    def _add(self, column: NodeColumn[Cell]) -> NodeColumn[Cell]:
        self._columns.add(column)
        return column
