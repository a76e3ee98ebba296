"""Describes a problem in a few lines, for reading a failure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from karpenter.api.meta import to_plain
from karpenter.core.scheduling.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.api.pod import Pod
    from karpenter.core.model.catalog import InstanceType, Offering


class Invented(Problem, frozen=True, kw_only=True):
    """A problem that describes itself in a few lines."""

    def __repr__(self) -> str:
        return described(self)


def described(problem: Problem) -> str:
    """Return a problem as text: each different pod, node, pool and type once."""
    return "\n".join(("", *_lines(problem)))


def _lines(problem: Problem) -> Iterator[str]:
    names: dict[str, list[str]] = {}
    for pod in problem.pods:
        more = [
            each for each in (_volumes(problem, pod), "moved" if pod.key in problem.moved else "") if each
        ]
        names.setdefault(" ".join([_pod(pod), *more]), []).append(pod.key)
    for text, keys in names.items():
        yield f"{len(keys)} x {keys[0]}: {text}"
    for node in problem.nodes:
        yield f"node: {msgspec.json.encode(node).decode()}"
    for each in problem.topology_nodes:
        yield f"topology node {each.name}: {dict(each.labels)} {each.taints or ''}"
    for bound in problem.bound_pods:
        yield f"on {bound.node}: {bound.pod.key} {_pod(bound.pod)}"
    for pool in problem.pools:
        kinds = [kind.name for kind in pool.types]
        yield f"pool {pool.name}: {pool.requirements} {kinds} {pool.taints or ''} {dict(pool.limits) or ''}"
    for kind in {kind.name: kind for pool in problem.pools for kind in pool.types}.values():
        yield f"type {kind.name}: {_type(kind)}"
    for daemon in problem.daemons:
        yield f"daemon {daemon.key}: {_pod(daemon)}"
    yield f"options: {problem.options}"


def _pod(pod: Pod) -> str:
    spec: dict[str, Any] = to_plain(pod)["spec"]
    (container,) = spec.pop("containers")
    short = {"labels": pod.metadata.labels, **container["resources"]["requests"], **spec}
    if "ports" in container:
        short["ports"] = [port["hostPort"] for port in container["ports"]]
    return json.dumps(short)


def _volumes(problem: Problem, pod: Pod) -> str:
    held = problem.volumes.get(pod.key)
    return f"volumes {[str(each) for each in held.alternatives]} {dict(held.claims)}" if held else ""


def _type(kind: InstanceType) -> str:
    sold = [f"{o.zone} {o.capacity_type} {o.price} {_reservation(o)}".rstrip() for o in kind.available]
    return f"{dict(kind.capacity)} less {dict(kind.overhead)}; {', '.join(sold)}"


def _reservation(offering: Offering) -> str:
    return f"{offering.reservation_id} x{offering.reservation_capacity}" if offering.reservation_id else ""
