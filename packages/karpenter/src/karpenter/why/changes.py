"""
Which one change would let a pod in, and how far a NodePool is from serving it.

A change is a NodePool or a pod with one field different. Only a change that was tried and gives the pod a
place is returned. Changes that would let in a pod by more than one field are not looked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.pod import Pod, PodSpec, Toleration
from karpenter.core.model.resources import (
    CPU,
    MEMORY,
    add,
    human_amount,
    parse_resources,
    pod_requests,
    render_amount,
)
from karpenter.core.model.taints import first_untolerated
from karpenter.core.scheduling.build.build import pool_usage
from karpenter.core.state.statenode import state_nodes
from karpenter.why.answer import HelpfulChange, Inquiry, alone, place_of, with_pod, with_pools

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from karpenter.api.meta import ResourceList
    from karpenter.api.node import Taint
    from karpenter.api.nodepool import NodePool
    from karpenter.core.scheduling.problem import Reason
    from karpenter.core.state.cluster import ClusterView

_MIB: Final = 1024**2
_GIB: Final = 1024**3


def changes(
    inquiry: Inquiry,
    pod: Pod,
    view: ClusterView,
    reasons: tuple[Reason, ...],
    needs: Mapping[str, Mapping[str, int]],
) -> tuple[HelpfulChange, ...]:
    """
    Return every single change that lets a refused pod in, those of NodePools first.

    `needs` has the limits with which NodePools would take the pod, by name (:func:`limit_needed`).
    """
    found: dict[str, HelpfulChange] = {}
    for text, changed in _tries(inquiry, pod, view, reasons, needs):
        place = place_of(inquiry.provision(changed), pod.key)
        if place and text not in found:
            found[text] = HelpfulChange(change=text, result=place)
    return tuple(found.values())


def _tries(
    inquiry: Inquiry,
    pod: Pod,
    view: ClusterView,
    reasons: tuple[Reason, ...],
    needs: Mapping[str, Mapping[str, int]],
) -> Iterator[tuple[str, ClusterView]]:
    for reason in reasons:
        pool = view.pools[reason.pool]
        if reason.code == "LimitReached":
            yield from _limit(view, pool, needs.get(pool.name, {}))
        elif reason.code == "TaintNotTolerated":
            yield from _toleration(pod, view, pool)
        elif reason.code == "NoInstanceTypeFits":
            yield from _request(inquiry, pod, view, pool)
    yield from _selectors(pod, view)
    yield from _topology(pod, view)


def limit_needed(inquiry: Inquiry, pod: Pod, view: ClusterView, pool: NodePool) -> dict[str, int]:
    """Return the limits of one NodePool with which a pod would fit, by resource; empty if none help."""
    free = _with_spec(view, pool, limits={})
    asked = inquiry.provision(with_pools(free, [pool.name]))
    if not place_of(asked, pod.key):
        return {}
    need = dict(pool_usage(state_nodes(view)).get(pool.name, {}))
    for node in asked.plan.new_nodes:
        kind = inquiry.catalog.find(pool.name, node.purchase.instance_type)
        if kind is not None:
            need = add(need, {**kind.capacity, "nodes": 1})
    limits = parse_resources(pool.spec.limits)
    over = {name: need[name] for name, most in limits.items() if need.get(name, 0) > most}
    return _lowest(inquiry, pod, view, pool, over) if len(over) == 1 else over


def _lowest(
    inquiry: Inquiry, pod: Pod, view: ClusterView, pool: NodePool, over: dict[str, int]
) -> dict[str, int]:
    """Return the lowest limit that helps: with more room other machines may be chosen than with less."""
    ((name, most),) = over.items()
    grain = {CPU: 1000, MEMORY: _GIB}.get(name, 1)
    low, high = parse_resources(pool.spec.limits)[name] // grain, -(-most // grain)
    while high - low > 1:
        middle = (low + high) // 2
        limits = {**pool.spec.limits, name: render_amount(name, middle * grain)}
        fits = place_of(inquiry.provision(_with_spec(view, pool, limits=limits)), pod.key)
        low, high = (low, middle) if fits else (middle, high)
    return {name: high * grain}


def _limit(view: ClusterView, pool: NodePool, need: Mapping[str, int]) -> Iterator[tuple[str, ClusterView]]:
    if not need:
        return
    raised = {name: render_amount(name, amount) for name, amount in need.items()}
    text = " and ".join(
        f"{name} from {pool.spec.limits[name]} to {human_amount(name, need[name])}" for name in raised
    )
    changed = _with_spec(view, pool, limits={**pool.spec.limits, **raised})
    yield f"raise the limit of NodePool {pool.name} on {text}", changed


def _toleration(pod: Pod, view: ClusterView, pool: NodePool) -> Iterator[tuple[str, ClusterView]]:
    taint = first_untolerated(pod.spec.tolerations, pool.spec.template.spec.taints)
    if taint is None:
        return
    given = Toleration(
        key=taint.key, operator="Equal" if taint.value else "Exists", value=taint.value, effect=taint.effect
    )
    yield (
        f"add a toleration for {_taint(taint)} to the pod",
        _with_pod_spec(view, pod, tolerations=(*pod.spec.tolerations, given)),
    )


def _request(
    inquiry: Inquiry, pod: Pod, view: ClusterView, pool: NodePool
) -> Iterator[tuple[str, ClusterView]]:
    found = largest_request(inquiry, pod, pool.name)
    if found is None:
        return
    name, most = found
    if not most:
        return
    wanted = pod_requests(pod)[name]
    text = f"lower the pod's {name} request from {human_amount(name, wanted)} to {_floor(name, most)}"
    yield text, with_pod(view, _asking(pod, name, most))


def _selectors(pod: Pod, view: ClusterView) -> Iterator[tuple[str, ClusterView]]:
    for key, value in pod.spec.node_selector.items():
        left = {each: text for each, text in pod.spec.node_selector.items() if each != key}
        yield f"drop nodeSelector {key}={value} from the pod", _with_pod_spec(view, pod, node_selector=left)
    affinity = pod.spec.affinity
    nodes = affinity.node_affinity if affinity is not None else None
    if (
        affinity is not None
        and nodes is not None
        and nodes.required_during_scheduling_ignored_during_execution
    ):
        less = msgspec.structs.replace(nodes, required_during_scheduling_ignored_during_execution=None)
        yield (
            "drop the required node affinity from the pod",
            _with_pod_spec(view, pod, affinity=msgspec.structs.replace(affinity, node_affinity=less)),
        )


def _topology(pod: Pod, view: ClusterView) -> Iterator[tuple[str, ClusterView]]:
    spreads = pod.spec.topology_spread_constraints
    for number, spread in enumerate(spreads):
        if spread.when_unsatisfiable != "ScheduleAnyway":
            left = (*spreads[:number], *spreads[number + 1 :])
            yield (
                f"make the topology spread over {spread.topology_key} ScheduleAnyway",
                _with_pod_spec(view, pod, topology_spread_constraints=left),
            )
    affinity = pod.spec.affinity
    if affinity is None:
        return
    if affinity.pod_affinity is not None:
        less = msgspec.structs.replace(affinity, pod_affinity=None)
        yield "drop the pod affinity from the pod", _with_pod_spec(view, pod, affinity=less)
    if affinity.pod_anti_affinity is not None:
        less = msgspec.structs.replace(affinity, pod_anti_affinity=None)
        yield "drop the pod anti-affinity from the pod", _with_pod_spec(view, pod, affinity=less)


def nearest_miss(inquiry: Inquiry, pod: Pod, reason: Reason, need: Mapping[str, int]) -> str:
    """Return how far a NodePool is from serving a pod; nothing where that is no amount."""
    if reason.code == "LimitReached":
        text = " and ".join(f"{human_amount(name, amount)} {name}" for name, amount in need.items())
        return f"would fit if the limit were {text}" if text else ""
    if reason.code == "NoInstanceTypeFits":
        found = largest_request(inquiry, pod, reason.pool, limited=False)
        if found is not None:
            name, most = found
            return f"needs {more(name, pod_requests(pod)[name] - most)} on the largest type"
    return ""


def more(name: str, amount: int) -> str:
    """Return how much more of a resource is missing, as people say it."""
    if name == MEMORY:
        return f"{amount / _GIB:.1f} more GiB"
    return f"{human_amount(name, amount)} more {name}"


def _floor(name: str, amount: int) -> str:
    """Return an amount that is no more than `amount`, as people write it."""
    if name == MEMORY:
        return f"{amount // _MIB}Mi"
    return render_amount(name, amount)


def largest_request(inquiry: Inquiry, pod: Pod, pool: str, *, limited: bool = True) -> tuple[str, int] | None:
    """
    Return the one resource that is too much for a NodePool, and the most that would fit of it.

    None where no single resource keeps the pod out. Unless `limited`, the NodePool's limits do not count.
    """
    view = with_pools(alone(inquiry.view, pod), [pool])
    if not limited:
        view = _with_spec(view, view.pools[pool], limits={})
    requests = pod_requests(pod)
    for name in sorted(requests, key=lambda each: (each not in {CPU, MEMORY}, each)):
        if not _fits(inquiry, view, _asking(pod, name, 0)):
            continue
        grain = _MIB if name == MEMORY else 1
        low, high = 0, -(-requests[name] // grain)
        while high - low > 1:
            middle = (low + high) // 2
            fits = _fits(inquiry, view, _asking(pod, name, middle * grain))
            low, high = (middle, high) if fits else (low, middle)
        return name, low * grain
    return None


def _fits(inquiry: Inquiry, view: ClusterView, pod: Pod) -> bool:
    return bool(place_of(inquiry.provision(with_pod(view, pod)), pod.key))


def _asking(pod: Pod, name: str, amount: int) -> Pod:
    """Return the pod with `amount` of one resource in its first container, and none in the others."""
    containers = []
    for number, each in enumerate(pod.spec.containers):
        requests = {key: value for key, value in each.resources.requests.items() if key != name}
        limits = {key: value for key, value in each.resources.limits.items() if key != name}
        if not number and amount:
            requests[name] = render_amount(name, amount)
        resources = msgspec.structs.replace(each.resources, requests=requests, limits=limits)
        containers.append(msgspec.structs.replace(each, resources=resources))
    spec = msgspec.structs.replace(pod.spec, containers=tuple(containers))
    return msgspec.structs.replace(pod, spec=spec)


def _with_spec(view: ClusterView, pool: NodePool, *, limits: ResourceList) -> ClusterView:
    changed = msgspec.structs.replace(pool, spec=msgspec.structs.replace(pool.spec, limits=limits))
    return msgspec.structs.replace(view, pools={**view.pools, pool.name: changed})


def _with_pod_spec(view: ClusterView, pod: Pod, **fields: object) -> ClusterView:
    spec: PodSpec = msgspec.structs.replace(pod.spec, **fields)
    return with_pod(view, msgspec.structs.replace(pod, spec=spec))


def _taint(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"
