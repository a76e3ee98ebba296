"""
What lies behind a refusal and is not said by the solver: the volume, the daemons, the nodes that count for a
spread, the label that is misspelled, the launches that failed.

One sentence each, from the cluster alone; what would help is in :mod:`.changes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.base.quantity import QuantityError
from karpenter.core.model.resources import parse_resources
from karpenter.core.state.volumetopology import volume_requirements
from karpenter.core.state.volumeusage import VolumeProblem, claimed_volumes, storage_class_of, volume_claim
from karpenter.why.daemons import daemon_sentence, daemons_of, request_text
from karpenter.why.options import cheapest_option
from karpenter.why.pod_changes import foreign_nodes
from karpenter.why.spelling import misspellings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.api.pod import Pod
    from karpenter.core.state.cluster import ClusterView
    from karpenter.why.answer import Inquiry
    from karpenter.why.refused import RefusedPods

_SHOWN = 5


def causes(refused: RefusedPods) -> Iterator[str]:
    """Yield what lies behind the reasons for which pods are refused."""
    inquiry, pod, view = refused.inquiry, refused.pod, refused.view
    yield from map(str, misspellings(pod, view, inquiry.catalog))
    codes = {each.code for each in refused.reasons}
    if "VolumeNotReachable" in codes:
        yield from volume_sentences(pod, view)
    if "NoInstanceTypeFits" in codes:
        yield from _overhead(pod)
    if codes & {"NoInstanceTypeFits", "HostPortTaken"}:
        yield from _daemons(refused)
    yield from _spreads(refused)
    yield from failure_sentences(inquiry)


def volume_sentences(pod: Pod, view: ClusterView) -> Iterator[str]:
    """Yield from where each volume of a pod can be reached, where that is not from everywhere."""
    for key, volume in claimed_volumes(pod):
        alone = type(pod)(metadata=pod.metadata, spec=type(pod.spec)(volumes=(volume,)))
        try:
            claim, spec = volume_claim(key, volume, view)
            places = " or ".join(map(str, volume_requirements(alone, view)))
        except VolumeProblem:
            continue
        if not places:
            continue
        if claim is not None and spec.volume_name:
            bound = f"PersistentVolumeClaim {key} is bound to PersistentVolume {spec.volume_name}"
            yield f"{bound}, which is in {places}"
        elif (made_by := storage_class_of(spec, view)) is not None:
            made = f"PersistentVolumeClaim {key} gets its volume from StorageClass {made_by.name}"
            yield f"{made}, which allows {places}"


def _overhead(pod: Pod) -> Iterator[str]:
    try:
        overhead = parse_resources(pod.spec.overhead)
    except QuantityError:
        return
    if overhead:
        by = f" of RuntimeClass {pod.spec.runtime_class_name}" if pod.spec.runtime_class_name else ""
        yield f"the overhead{by} adds {request_text(overhead)} to what the containers request"


def _daemons(refused: RefusedPods) -> Iterator[str]:
    """Yield which daemons take the room of machines that would be large enough without them."""
    inquiry, view = refused.inquiry, refused.view
    for reason in refused.reasons:
        pool = view.pools[reason.pool]
        fits = refused.demand is not None and cheapest_option(pool, refused.demand, inquiry.catalog)
        if reason.code in {"NoInstanceTypeFits", "HostPortTaken"} and fits:
            daemons = daemons_of(pool, view, inquiry.catalog)
            if reason.code == "HostPortTaken":
                daemons = tuple(each for each in daemons if each.has_ports)
            if told := daemon_sentence(pool.name, daemons[:_SHOWN]):
                yield told


def _spreads(refused: RefusedPods) -> Iterator[str]:
    """Yield which domains count for a spread only because of nodes that take no more pods."""
    failing = {each.label for each in refused.reasons if each.code == "TopologySpreadNotMet"}
    for spread in refused.pod.spec.topology_spread_constraints:
        if spread.topology_key not in failing or spread.when_unsatisfiable == "ScheduleAnyway":
            continue
        nodes = foreign_nodes(refused, spread)
        for domain in sorted({node.labels[spread.topology_key] for node in nodes}):
            names = [node.name for node in nodes if node.labels[spread.topology_key] == domain]
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            yield (
                f"{domain} counts for the topology spread over {spread.topology_key} because of node "
                f"{names[0]}{more}, which Karpenter does not manage; no NodePool launches nodes there"
            )


def failure_sentences(inquiry: Inquiry) -> Iterator[str]:
    """Yield which launches failed lately for want of capacity, and what was sold out."""
    if not inquiry.failures:
        return
    last = max(inquiry.failures, key=lambda each: each.at)
    sold_out = sorted({str(name) for each in inquiry.failures for name in each.offerings})
    count = len(inquiry.failures)
    launches = "1 launch" if count == 1 else f"{count} launches"
    when = f"the last at {last.at:%H:%M:%SZ} ({last.claim})"
    yield f"{launches} failed for want of capacity, {when}: {last.message}"
    if sold_out:
        more = f" and {len(sold_out) - _SHOWN} more" if len(sold_out) > _SHOWN else ""
        yield f"the operator leaves these out for 3 minutes: {', '.join(sold_out[:_SHOWN])}{more}"
