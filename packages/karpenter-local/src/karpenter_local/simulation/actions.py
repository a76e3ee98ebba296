"""
What users do to a cluster, as values: each at a moment, each shown as one line.

The first few create the NodePools and are never left out when a scenario is shrunk. An action on an object
that does not exist does nothing; none depends on an earlier one having been performed.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec


class Action(msgspec.Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Something that a user does."""

    at: float
    """Seconds after the beginning."""

    kept: ClassVar[bool] = False
    """Whether a scenario makes no sense without it."""


class AddPool(Action, frozen=True):
    """Create a NodePool."""

    name: str
    capacity_types: tuple[str, ...] = ("on-demand",)
    consolidate_after: str = "30s"
    policy: str = "WhenEmptyOrUnderutilized"
    budgets: tuple[str, ...] = ("100%",)
    """Such as 1, 10%, 0/Drifted for one reason, or 0@4:2m for two minutes of every four."""

    cpu_limit: int = 0
    """Cores that the pool's machines may have together; 0 for no limit."""

    replicas: int | None = None
    """How many machines it always has; None for as many as pods need."""

    node_limit: int = 0
    """How many machines it may have; 0 for no limit."""

    expire_after: str = "Never"
    grace: str = ""
    """The terminationGracePeriod of its machines."""

    startup: int = 0
    """Seconds for which a startup taint stays on its nodes; 0 for none."""

    weight: int = 0
    """Which pool is tried first: that of the highest weight."""

    zone: str = ""
    """The zone of its machines; empty for any."""

    kept: ClassVar[bool] = True

    def __str__(self) -> str:
        limit = f", at most {self.cpu_limit} cores" if self.cpu_limit else ""
        limit += f", always {self.replicas} machines" if self.replicas is not None else ""
        limit += f", at most {self.node_limit} machines" if self.node_limit else ""
        limit += f", weight {self.weight}" if self.weight else ""
        limit += f", in {self.zone}" if self.zone else ""
        grace = f", grace {self.grace}" if self.grace else ""
        grace += f", startup taint for {self.startup} s" if self.startup else ""
        budgets = " and ".join(self.budgets) or "none"
        return (
            f"create pool {self.name}: {' or '.join(self.capacity_types)}, {self.policy} after "
            f"{self.consolidate_after}, budgets {budgets}, expires {self.expire_after}{limit}{grace}"
        )


class Deploy(Action, frozen=True):
    """Create a Deployment, with a disruption budget if one is wanted."""

    name: str
    replicas: int
    milli: int
    """Thousandths of a core per pod."""

    mebi: int = 128
    pool: str = ""
    """The pool that its pods insist on."""

    zone: str = ""
    """The zone that its pods insist on."""

    spread: str = ""
    """The topology key over which its pods are spread."""

    apart: bool = False
    """Whether no two of its pods may share a node."""

    keep: bool = False
    """Whether its pods say that they must not be disrupted."""

    keep_for: str = ""
    """For how long after their start its pods say so, such as 45s."""

    critical: bool = False
    """Whether its pods are of a critical priority, so that a drain leaves them for last."""

    min_available: int | None = None
    """What its disruption budget asks for; None for no budget."""

    grace: int = 1
    """Seconds that its pods take to stop."""

    def __str__(self) -> str:
        facts = [
            f"{self.milli}m",
            f"in pool {self.pool}" if self.pool else "",
            f"in {self.zone}" if self.zone else "",
            f"spread over {self.spread.rpartition('/')[2]}s" if self.spread else "",
            "no two on a node" if self.apart else "",
            "do-not-disrupt" if self.keep else "",
            f"do-not-disrupt for {self.keep_for}" if self.keep_for else "",
            "critical" if self.critical else "",
            f"minAvailable {self.min_available}" if self.min_available is not None else "",
        ]
        return f"create deployment {self.name}: {self.replicas} x {', '.join(each for each in facts if each)}"


class Scale(Action, frozen=True):
    """Change how many pods a Deployment has."""

    name: str
    replicas: int

    def __str__(self) -> str:
        return f"scale {self.name} to {self.replicas}"


class Rollout(Action, frozen=True):
    """Change the template of a Deployment."""

    name: str

    def __str__(self) -> str:
        return f"roll out a new version of {self.name}"


class RunJob(Action, frozen=True):
    """Create a Job."""

    name: str
    completions: int
    milli: int
    seconds: int

    def __str__(self) -> str:
        return f"create job {self.name}: {self.completions} x {self.milli}m for {self.seconds} s"


class AddDaemon(Action, frozen=True):
    """Create a DaemonSet."""

    name: str
    milli: int

    def __str__(self) -> str:
        return f"create daemonset {self.name}: {self.milli}m"


class AddStateful(Action, frozen=True):
    """Create a StatefulSet whose pods each have a volume."""

    name: str
    replicas: int
    milli: int

    def __str__(self) -> str:
        return f"create statefulset {self.name}: {self.replicas} x {self.milli}m, each with a volume"


class Remove(Action, frozen=True):
    """Delete a Deployment."""

    name: str

    def __str__(self) -> str:
        return f"delete deployment {self.name}"


class DeleteNode(Action, frozen=True):
    """Delete a Node, or its claim, as a user may with kubectl."""

    pick: float
    """Which of all, from 0 to 1."""

    claim: bool = False

    def __str__(self) -> str:
        return f"delete {'claim' if self.claim else 'node'} number {self.pick:.2f}"


class ChangeTemplate(Action, frozen=True):
    """Change the template of a pool, so that all its machines drift."""

    pool: str
    version: int

    def __str__(self) -> str:
        return f"change the template of pool {self.pool}"


class ResizePool(Action, frozen=True):
    """Change how many machines a static pool has."""

    pool: str
    replicas: int

    def __str__(self) -> str:
        return f"let pool {self.pool} have {self.replicas} machines"


class AddBuffer(Action, frozen=True):
    """Ask for room for pods that do not exist yet."""

    name: str
    replicas: int
    milli: int

    def __str__(self) -> str:
        return f"create buffer {self.name}: {self.replicas} x {self.milli}m"


class ResizeBuffer(Action, frozen=True):
    """Ask for more room, or for less."""

    name: str
    replicas: int

    def __str__(self) -> str:
        return f"let buffer {self.name} be for {self.replicas} pods"


class AddOverlay(Action, frozen=True):
    """Say that everything costs more, or less, than the cloud says."""

    name: str
    percent: int
    weight: int = 1

    def __str__(self) -> str:
        return f"create overlay {self.name}: prices {self.percent:+d} %, weight {self.weight}"


class Protect(Action, frozen=True):
    """Say of a node, or of a pod on it, that it must not be disrupted, for a while."""

    pick: float
    """Which of all nodes, from 0 to 1."""

    seconds: float
    pod: bool = False
    late: bool = False
    """Whether it is the next node that is disrupted, right after that has begun."""

    def __str__(self) -> str:
        which = "that is disrupted next" if self.late else f"number {self.pick:.2f}"
        return f"protect {'a pod on node' if self.pod else 'node'} {which} for {self.seconds:.0f} s"
