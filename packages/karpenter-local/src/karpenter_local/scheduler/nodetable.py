"""
The cluster as the scheduler sees it: nodes as rows, pods as what they occupy, kept up to date one event at a
time.

One writer, synchronous methods, no I/O. Everything expensive is remembered and only what changed is worked
out again, so that placing a pod costs a handful of array operations however many pods there are.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime

import msgspec

from karpenter.api.pod import NodeSelectorTerm
from karpenter_local.scheduler.domains import Domains
from karpenter_local.scheduler.nodefilters import NodeFilterResult, NodeFilterResults
from karpenter_local.scheduler.nodeinfo import NodeInfo
from karpenter_local.scheduler.noderesources import NodeResourceTable
from karpenter_local.scheduler.podcounts import AffinityRule, PodCounts, RuleCarriers
from karpenter_local.scheduler.podinfo import NodeConstraints, PodInfo, WeightedAffinityRule
from karpenter_local.scheduler.rows import Mask, Rows
from karpenter_local.scheduler.storage import Storage
from karpenter_local.scheduler.volumelimits import NodeVolumes
from karpenter_local.scheduler.volumes import VolumeFilter


class AssignedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that holds room on a node: bound there, or about to be."""

    key: str
    uid: str
    node: str
    pod_info: PodInfo
    claims: tuple[str, ...] = ()
    """Keys of the claims it uses."""
    living: bool = True
    """False once it is being deleted."""
    preempted: bool = False
    """Whether it is being deleted because it was preempted."""
    started: datetime | None = None

    def takes_the_same_as(self, other: "AssignedPod") -> bool:
        """Say whether the other takes the same room on the same node, so that no count changes."""
        return (
            self.node == other.node
            and self.pod_info is other.pod_info
            and self.claims == other.claims
            and self.living is other.living
        )


class NodeTable:
    """All nodes and the pods on them."""

    def __init__(self) -> None:
        self.rows = Rows()
        self.namespaces: dict[str, dict[str, str]] = {}
        self.node_resources = NodeResourceTable(self.rows)
        self.domains = Domains(self.rows)
        self.pod_counts = PodCounts(self.rows, self.namespaces)
        self.repelling: RuleCarriers[AffinityRule] = RuleCarriers(self.rows, self.namespaces)
        """Required anti-affinity of the pods that are placed."""
        self.drawing: RuleCarriers[WeightedAffinityRule] = RuleCarriers(self.rows, self.namespaces)
        """Preferences of the pods that are placed."""
        self.attached = NodeVolumes(self.rows)
        self.storage = Storage(self.attached)
        self.volumes = VolumeFilter(self.rows, self.storage, self.attached, self._reach)
        self.nodes: dict[int, NodeInfo] = {}
        self.occupants: dict[str, AssignedPod] = {}
        self._on: dict[int, dict[str, AssignedPod]] = {}
        self._views = NodeFilterResults(self.rows)
        self._node_changed = self.rows.ints(fill=-1)
        self._node_revision = 0
        self.lowest_priority = 0
        """Of all pods that were ever placed: a pod whose priority is not above it can preempt none."""
        self.revision = 0
        """Grows with every change, so that an answer can be known to be stale."""

    def set_node(self, node: NodeInfo) -> None:
        row = self.rows.claim(node.name)
        self.rows.set_alive(row, True)
        self.nodes[row] = node
        self.node_resources.set_room(row, node.room, node.most_pods)
        self.domains.put(row, node.labels)
        self._touch(row)

    def drop_node(self, name: str) -> None:
        """Forget a node; pods bound to it stay known."""
        row = self.rows.find(name)
        if row is None or row not in self.nodes:
            return
        del self.nodes[row]
        self.rows.set_alive(row, False)
        self.node_resources.set_room(row, {}, 0)
        self.domains.drop(row)
        self._touch(row)
        self._release_if_empty(row)

    def set_volume_limits(self, node: str, limits: dict[str, int]) -> None:
        if limits or self.rows.find(node) is not None:
            self.attached.set_limits(self.rows.claim(node), limits)
            self.revision += 1

    def set_namespace(self, name: str, labels: dict[str, str] | None) -> bool:
        """Note the labels of a namespace, or that it is gone; say whether anything changed."""
        if self.namespaces.get(name) == labels:
            return False
        if labels is None:
            self.namespaces.pop(name, None)
        else:
            self.namespaces[name] = labels
        self.pod_counts.forget_namespace_rules()
        self.repelling.forget_namespace_rules()
        self.drawing.forget_namespace_rules()
        self.revision += 1
        return True

    def put(self, pod: AssignedPod) -> None:
        """Note a pod on its node, in place of what was known of it."""
        known = self.occupants.get(pod.key)
        row = self.rows.claim(pod.node)
        self.lowest_priority = min(self.lowest_priority, pod.pod_info.priority)
        if known is not None:
            if known.takes_the_same_as(pod):
                self.occupants[pod.key] = self._on[row][pod.key] = pod
                return
            self.take(pod.key)
            row = self.rows.claim(pod.node)  # its old row may have been given up
        self.occupants[pod.key] = pod
        self._on.setdefault(row, {})[pod.key] = pod
        self._occupy(pod, row, 1)

    def take(self, key: str) -> AssignedPod | None:
        """Forget a pod and return what was known of it."""
        pod = self.occupants.pop(key, None)
        if pod is None:
            return None
        row = self.rows.claim(pod.node)
        del self._on[row][key]
        self._occupy(pod, row, -1)
        self._release_if_empty(row)
        return pod

    def on(self, row: int) -> Iterable[AssignedPod]:
        return self._on.get(row, {}).values()

    def view(self, placement: NodeConstraints) -> NodeFilterResult:
        return self._views.of(placement, self.nodes, self._node_changed.data, self._node_revision)

    @contextmanager
    def supposing(
        self, *, without: Iterable[AssignedPod] = (), having: Iterable[AssignedPod] = ()
    ) -> Iterator[None]:
        """Look at the cluster as if some pods were gone and others were there; all is put back after."""
        revision = self.revision
        gone = [pod for pod in without if self.take(pod.key) is not None]
        added = [pod for pod in having if pod.key not in self.occupants]
        for pod in added:
            self.put(pod)
        try:
            yield
        finally:
            for pod in added:
                self.take(pod.key)
            for pod in gone:
                self.put(pod)
            self.revision = revision

    def _reach(self, terms: tuple[NodeSelectorTerm, ...]) -> Mask:
        return self.view(NodeConstraints(terms=terms)).matches

    def _occupy(self, pod: AssignedPod, row: int, by: int) -> None:
        self.node_resources.use(row, pod.pod_info, by=by)
        self.pod_counts.add(pod.pod_info.pod_labels, row, living=pod.living, by=by)
        for rule in pod.pod_info.apart:
            self.repelling.add(rule, row, by=by)
        for affinity_score in pod.pod_info.carried_rules:
            self.drawing.add(affinity_score, row, by=by)
        for claim in pod.claims:
            self.storage.use(claim, row, by=by)
        self.revision += 1

    def _touch(self, row: int) -> None:
        self._node_revision += 1
        self._node_changed.data[row] = self._node_revision
        self.revision += 1

    def _release_if_empty(self, row: int) -> None:
        if row not in self.nodes and not self._on.get(row):
            self._on.pop(row, None)
            self.attached.set_limits(row, {})
            self.rows.release(row)
