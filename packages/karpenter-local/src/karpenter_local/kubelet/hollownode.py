"""The state of a hollow node: its address, its health and the pods that it runs."""

import msgspec

from karpenter_local.kubelet.health import FINE, Health
from karpenter_local.kubelet.script import PodScript


class PodRun(msgspec.Struct, kw_only=True):
    """One pod on its node."""

    key: str
    uid: str
    node: str
    script: PodScript
    stage: str = "bound"
    """bound, creating, running, ready, ended, stopping."""
    started: float = 0.0
    """When the containers began to run, in the loop's time."""
    restarts: int = 0
    stop_by: float | None = None
    """When it must have stopped, once it is being deleted."""
    address: str = ""
    deadline: float | None = None
    """When it has been active for too long, in the loop's time."""
    holds: dict[str, int] = {}
    """What it takes of the node, once it was let in."""


class HollowNode(msgspec.Struct, kw_only=True):
    """One node."""

    name: str
    uid: str
    number: int
    joined: bool = False
    health: Health = FINE
    runs: dict[str, PodRun] = {}
    held_up: dict[str, None] = {}
    """Pods whose next step came while nothing was heard of the node."""
    addresses: int = 0
    used: dict[str, int] = {}
    """What the pods that were let in take together."""

    def let_in(self, run: PodRun, requests: dict[str, int]) -> None:
        run.holds = requests
        for name, amount in requests.items():
            self.used[name] = self.used.get(name, 0) + amount

    def give_back(self, run: PodRun) -> None:
        for name, amount in run.holds.items():
            self.used[name] -= amount
        run.holds = {}

    @property
    def address(self) -> str:
        return f"10.{64 + self.number // 65536 % 128}.{self.number // 256 % 256}.{self.number % 256}"

    def next_address(self) -> str:
        self.addresses += 1
        return f"10.{192 + self.number // 256 % 64}.{self.number % 256}.{self.addresses % 255 + 1}"
