"""The kubelet's admission of a pod that was bound to its node: enough of every resource must be free."""

import msgspec

from karpenter.core.model.resources import Resources


class Shortage(msgspec.Struct, frozen=True):
    """A resource of which a node has too little."""

    resource: str
    requested: int
    used: int
    capacity: int

    def __str__(self) -> str:
        return (
            f"Node didn't have enough resource: {self.resource}, requested: {self.requested}, "
            f"used: {self.used}, capacity: {self.capacity}"
        )


def shortage(requests: Resources, used: Resources, capacity: Resources) -> Shortage | None:
    """Return the first resource there is too little of for one more pod."""
    for name, amount in sorted(requests.items()):
        if amount and used.get(name, 0) + amount > capacity.get(name, 0):
            return Shortage(name, amount, used.get(name, 0), capacity.get(name, 0))
    return None
