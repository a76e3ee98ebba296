"""Whether pods may be where they are, each by itself: labels, taints, ports, volumes and room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.api.labels import INITIALIZED, PREFER_NO_SCHEDULE, REGISTERED
from karpenter.api.pod import Pod, Toleration
from karpenter.core.model.hostportusage import HostPort, first_conflict, host_ports
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import fits, merge, pod_requests
from karpenter.core.model.taints import first_untolerated, tolerates
from karpenter.core.scheduling.problem import NO_VOLUMES, Problem
from karpenter_local.testing.validator.bins import Bin, ExistingBin, NewBin, PossibleLaunch
from karpenter_local.testing.validator.constraints import node_terms, tolerations

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet


_READY: Final = Requirements.from_labels({REGISTERED: "true", INITIALIZED: "true"})
_AVOIDANCE: Final = Toleration(operator="Exists", effect=PREFER_NO_SCHEDULE)


def each_pod(problem: Problem, where: Bin) -> Iterator[str]:
    known = problem.rules.well_known if isinstance(where, NewBin) else frozenset()
    for pod in where.pods:
        unwelcome = first_untolerated(tolerations(problem, pod), where.taints)
        if unwelcome is not None:
            yield f"{pod.key} does not tolerate {unwelcome.key} of {where.name}"
        nodes = problem.volumes.get(pod.key, NO_VOLUMES).alternatives
        for labels in where.possibilities:
            if not any(satisfied(labels, wanted, known) for wanted in node_terms(pod)):
                yield f"{pod.key} needs other labels than {where.name} would have: {labels}"
                break
            if nodes and not any(satisfied(labels, wanted, known) for wanted in nodes):
                yield f"{pod.key} cannot reach its volumes from {where.name}: {labels}"
                break
        if isinstance(where, ExistingBin) and where.node.quiet and pod.key in problem.moved:
            yield f"{pod.key} is moved to {where.name}, which is in its quiet time"


def satisfied(labels: Requirements, wanted: Requirements, known: AbstractSet[str]) -> bool:
    """Say whether a node with such labels is sure to satisfy `wanted`, whatever is still open."""
    for want in wanted:
        if want.key not in labels:
            if not want.tolerates_absence and want.key not in known:
                return False
            continue
        has = labels[want.key].without_min_values()
        if has.tolerates_absence and want.tolerates_absence:
            continue
        if has.intersect(want.without_min_values()) != has or (not has.complement and not has.values):
            return False
    return True


def ports_of(problem: Problem, where: Bin) -> Iterator[str]:
    taken: list[tuple[str, HostPort]] = []
    if isinstance(where, ExistingBin):
        taken += [(where.name, port) for port in where.node.ports]
    for pod in where.pods:
        for port in host_ports(pod):
            for owner, other in taken:
                if port.conflicts_with(other):
                    yield f"{pod.key} and {owner} both want port {port} of {where.name}"
        taken += [(pod.key, port) for port in host_ports(pod)]
    if isinstance(where, NewBin):
        for launch in where.launches:
            for daemon in daemons_of(problem, where, launch):
                if first_conflict(host_ports(daemon), [port for _, port in taken]):
                    yield f"the daemon {daemon.key} wants a port of a pod on {where.name}"


def volumes_of(problem: Problem, where: ExistingBin) -> Iterator[str]:
    """Yield which drivers of an existing node would have to attach too much."""
    for driver, most in where.node.volume_limits.items():
        wanted = [
            problem.volumes.get(pod.key, NO_VOLUMES).claims.get(driver, frozenset()) for pod in where.pods
        ]
        attached = frozenset(where.node.volumes.get(driver, ())).union(*wanted)
        if any(wanted) and len(attached) > most:
            yield f"{where.name} would attach {len(attached)} volumes of {driver}, more than {most}"


def room_of(problem: Problem, where: Bin) -> Iterator[str]:
    """Yield where pods, and the daemons that come with a new node, have no room."""
    asked = merge(pod_requests(pod) for pod in where.pods)
    if isinstance(where, ExistingBin):
        if where.pods and not fits(asked, where.node.free):
            yield f"{where.name} has {dict(where.node.free)} left, its new pods want {asked}"
        return
    seen = set()
    for launch in where.launches:
        daemons = daemons_of(problem, where, launch)
        total = merge([asked, *(pod_requests(daemon) for daemon in daemons)])
        if launch.kind.name not in seen and not fits(total, launch.kind.allocatable):
            seen.add(launch.kind.name)
            yield f"{where.name} as {launch.kind.name} has too little room for {total}"


def daemons_of(problem: Problem, where: NewBin, launch: PossibleLaunch) -> list[Pod]:
    """Return the daemons that would run on a new node if it came up this way."""
    labels = launch.labels.intersect(_READY)
    return [
        daemon
        for daemon in problem.daemons
        if tolerates((*daemon.spec.tolerations, _AVOIDANCE), where.taints)
        and any(labels.accepts(wanted, problem.rules.well_known) for wanted in node_terms(daemon))
    ]
