"""
How much room every node has: resources, pods, and ports of the host.

Amounts are exact integers in the units of :mod:`karpenter.core.model.resources`. A resource that a node does
not offer counts as none of it. Room may be negative: pods can be bound past the scheduler.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from karpenter.core.model.hostportusage import HostPort
from karpenter.core.model.resources import CPU, MEMORY
from karpenter_local.scheduler import reasons
from karpenter_local.scheduler.podinfo import PodInfo
from karpenter_local.scheduler.rows import Ints, Mask, NodeColumn, Rows


class NodeResourceTable:
    """Offered and left, per row and resource."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._offered: dict[str, NodeColumn[np.int64]] = {}
        self._left: dict[str, NodeColumn[np.int64]] = {}
        self._pods_left = rows.ints()
        self._most_pods = rows.ints()
        self._load = (rows.ints(), rows.ints())
        self._ports: dict[int, Counter[HostPort]] = {}
        self.resource(CPU)
        self.resource(MEMORY)

    def resource(self, name: str) -> NodeColumn[np.int64]:
        """Return how much of `name` is left on each row, counting it from now on."""
        if name not in self._left:
            self._offered[name] = self._rows.ints()
            self._left[name] = self._rows.ints()
        return self._left[name]

    def offered(self, name: str) -> Ints:
        self.resource(name)
        return self._offered[name].data

    def left(self, name: str) -> Ints:
        return self.resource(name).data

    def load(self, which: int) -> Ints:
        """Return the load of each row in cpu (0) or memory (1); pods that ask for nothing count too."""
        return self._load[which].data

    def set_room(self, row: int, room: Mapping[str, int], most_pods: int) -> None:
        """Note what the node at `row` offers; what is used stays used."""
        for name in room:
            self.resource(name)
        for name, offered in self._offered.items():
            amount = room.get(name, 0)
            self._left[name].data[row] += amount - offered.data[row]
            offered.data[row] = amount
        self._pods_left.data[row] += most_pods - self._most_pods.data[row]
        self._most_pods.data[row] = most_pods

    def use(self, row: int, pod_info: PodInfo, *, by: int = 1) -> None:
        """Take the room of one pod (or give it back, with -1)."""
        for name, amount in pod_info.requests:
            self.resource(name).data[row] -= by * amount
        for column, amount in zip(self._load, pod_info.load, strict=True):
            column.data[row] += by * amount
        self._pods_left.data[row] -= by
        if pod_info.ports:
            used = self._ports.setdefault(row, Counter())
            for port in pod_info.ports:
                used[port] += by
                if not used[port]:
                    del used[port]
            if not used:
                del self._ports[row]

    def fits(self, pod_info: PodInfo) -> Mask:
        fits = self._pods_left.data >= 1
        for name, amount in pod_info.requests:
            fits &= self.resource(name).data >= amount
        return fits

    def fits_at(self, row: int, pod_info: PodInfo) -> bool:
        """Say whether one row has room for one more pod like this, its ports included."""
        if self._pods_left.data[row] < 1:
            return False
        if any(self.resource(name).data[row] < amount for name, amount in pod_info.requests):
            return False
        used = self._ports.get(row)
        return used is None or not any(want.conflicts_with(port) for want in pod_info.ports for port in used)

    def shortages(self, pod_info: PodInfo) -> Iterator[tuple[str, Mask]]:
        """Yield the words for each thing the pod needs, with the rows that have too little of it."""
        yield reasons.TOO_MANY_PODS, self._pods_left.data < 1
        for name, amount in pod_info.requests:
            yield reasons.insufficient(name), self.resource(name).data < amount

    def offers_enough(self, pod_info: PodInfo) -> Mask:
        """Return the rows that would have room if they were empty."""
        enough = self._most_pods.data >= 1
        for name, amount in pod_info.requests:
            enough &= self.offered(name) >= amount
        return enough

    def ports_taken(self, ports: Iterable[HostPort]) -> list[int]:
        wanted = tuple(ports)
        return [
            row
            for row, used in self._ports.items()
            if any(want.conflicts_with(port) for want in wanted for port in used)
        ]
