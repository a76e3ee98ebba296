"""
Builds :class:`~karpenter.core.scheduling.dynamicresources.types.DynamicResources` from the objects of a
cluster.

A pod whose claims cannot be read, or request what is not supported, is refused with a sentence before any
node is considered. A claim that is to be generated from a ResourceClaimTemplate counts as if it existed, so
that pods can be planned for before the resource claim controller has created it
(https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import INSTANCE_TYPE
from karpenter.core.model.requirement import RequirementError
from karpenter.core.scheduling.dynamicresources.request import compile_claim
from karpenter.core.scheduling.dynamicresources.types import (
    ANYWHERE,
    AllocatedClaim,
    Consumer,
    DeviceClaimError,
    DynamicResources,
    NodeTerms,
    PodClaim,
    PodClaims,
    read_node_terms,
)
from karpenter.core.state.pod import has_dra_requirements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from karpenter.api.dra import ResourceClaim, ResourceSlice
    from karpenter.api.pod import Pod, PodResourceClaim
    from karpenter.core.model.catalog import Catalog, DeviceTemplates
    from karpenter.core.state.cluster import ClusterView
    from karpenter.core.state.statenode import StateNode


def build_dynamic_resources(
    view: ClusterView,
    catalog: Catalog,
    *,
    pods: Iterable[Pod],
    active: Sequence[StateNode],
    deleting: Iterable[StateNode],
) -> tuple[DynamicResources | None, dict[str, str]]:
    """
    Return what a problem says about devices, and why the claims of some pods cannot be served.

    None where no pod claims devices. `active` nodes take pods, `deleting` nodes lose theirs.
    """
    reader = _Reader(view)
    for pod in pods:
        if has_dra_requirements(pod):
            reader.read(pod)
    if not reader.pod_claims:
        return None, reader.problems
    devices = DynamicResources(
        pod_claims=reader.pod_claims,
        classes={name: each.spec for name, each in view.device_classes.items()},
        slices=tuple(each.spec for each in _published(view, active)),
        allocated_claims=tuple(_allocated_claims(view)),
        deleting_pods=tuple(Consumer(pod.key, pod.metadata.uid) for node in deleting for pod in node.pods),
        templates=dict(_template_devices(active, catalog)),
    )
    return devices, reader.problems


def claims_of(pod: Pod, view: ClusterView) -> Iterator[PodClaim]:
    """
    Yield the claims of a pod.

    Raises:
        BadDevices: naming what is missing, or what is not understood.
    """
    entries = {entry.name for entry in pod.spec.resource_claims}
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        for used in container.resources.claims:
            if used.name not in entries:
                raise DeviceClaimError(
                    f"container {container.name} uses claim {used.name}, which the pod lacks"
                )
    made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    seen: set[str] = set()
    for entry in pod.spec.resource_claims:
        claim = _claim(pod, entry, made, view)
        if claim is not None and claim.key not in seen:
            seen.add(claim.key)
            yield claim


def _claim(
    pod: Pod, entry: PodResourceClaim, made: dict[str, str | None], view: ClusterView
) -> PodClaim | None:
    namespace = pod.metadata.namespace
    if entry.resource_claim_name:
        return _existing(f"{namespace}/{entry.resource_claim_name}", entry.name, view, generated=False)
    if not entry.resource_claim_template_name:
        raise DeviceClaimError(f"claim {entry.name} of the pod names neither a ResourceClaim nor a template")
    if entry.name in made:
        name = made[entry.name]
        # The status names the generated claim; an empty name means that none is needed.
        return _existing(f"{namespace}/{name}", entry.name, view, generated=True) if name else None
    key = f"{namespace}/{entry.resource_claim_template_name}"
    template = view.resource_claim_templates.get(key)
    if template is None:
        raise DeviceClaimError(f"ResourceClaimTemplate {key} does not exist")
    return PodClaim(
        key=f"{pod.key}-{entry.name}", name=entry.name, generated=True, devices=template.spec.spec.devices
    )


def _existing(key: str, name: str, view: ClusterView, *, generated: bool) -> PodClaim:
    found = view.resource_claims.get(key)
    if found is None:
        raise DeviceClaimError(f"ResourceClaim {key} does not exist")
    if found.metadata.deletion_timestamp is not None:
        raise DeviceClaimError(f"ResourceClaim {key} is being deleted")
    return PodClaim(
        key=key, name=name, generated=generated, devices=found.spec.devices, node_terms=_node_terms(found)
    )


def _node_terms(claim: ResourceClaim) -> NodeTerms | None:
    given = claim.status.allocation
    if given is None:
        return None
    try:
        return (
            read_node_terms(None, given.node_selector, everywhere=False) if given.node_selector else ANYWHERE
        )
    except RequirementError as error:
        raise DeviceClaimError(f"ResourceClaim {claim.key}: {error}") from None


class _Reader:
    """Reads the claims of pods; equal claims are checked once."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._classes = {name: each.spec for name, each in view.device_classes.items()}
        self._checked: dict[bytes, str] = {}
        self.pod_claims: dict[str, PodClaims] = {}
        self.problems: dict[str, str] = {}

    def read(self, pod: Pod) -> None:
        """Read the claims of one pod, or record what is wrong with them."""
        try:
            pod_claims = PodClaims(tuple(claims_of(pod, self._view)))
        except DeviceClaimError as error:
            self.problems[pod.key] = str(error)
            return
        if pod_claims.identity not in self._checked:
            self._checked[pod_claims.identity] = next(filter(None, map(self._problem, pod_claims.claims)), "")
        if problem := self._checked[pod_claims.identity]:
            self.problems[pod.key] = problem
        elif pod_claims.claims:
            self.pod_claims[pod.key] = pod_claims

    def _problem(self, claim: PodClaim) -> str:
        if claim.node_terms is not None and not _consumers(self._view.resource_claims[claim.key]):
            return ""  # it is allocated, and keeps its devices
        try:
            compile_claim(claim.devices, self._classes)
        except DeviceClaimError as error:
            return f"claim {claim.name} of the pod: {error}"
        return ""


def _published(view: ClusterView, active: Iterable[StateNode]) -> Iterator[ResourceSlice]:
    """Yield the ResourceSlices, except of nodes that are not initialized: their template devices count."""
    complete = {node.name for node in active if node.is_initialized}
    for _, each in sorted(view.resource_slices.items()):
        node_names = {owner.name for owner in each.metadata.owner_references if owner.kind == "Node"}
        if each.spec.node_name:
            node_names.add(each.spec.node_name)
        if node_names <= complete:
            yield each


def _allocated_claims(view: ClusterView) -> Iterator[AllocatedClaim]:
    for key, claim in sorted(view.resource_claims.items()):
        given = claim.status.allocation
        if given is not None and given.devices.results:
            yield AllocatedClaim(claim=key, results=given.devices.results, consumers=_consumers(claim))


def _consumers(claim: ResourceClaim) -> tuple[Consumer, ...]:
    """Return the pods that a claim is reserved for; nothing when it is reserved for anything else too."""
    holders = claim.status.reserved_for
    # status.reservedFor may name other objects than pods (a PodGroup, say), whose end is not known here.
    if any(each.api_group or each.resource != "pods" for each in holders):
        return ()
    return tuple(Consumer(f"{claim.metadata.namespace}/{each.name}", each.uid) for each in holders)


def _template_devices(active: Iterable[StateNode], catalog: Catalog) -> Iterator[tuple[str, DeviceTemplates]]:
    for node in active:
        if node.is_initialized:
            continue
        wanted = node.labels.get(INSTANCE_TYPE)
        kind = next((kind for kind in catalog.types_of(node.pool) if kind.name == wanted), None)
        if kind is not None and kind.devices is not None:
            yield node.name, kind.devices
