"""
What can be asked about, and the answer to a question about one object.

This is the one entry for every form of the question: the command, the console and a page of many answers.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final, TypeVar

from karpenter.why.classes import explain_class
from karpenter.why.nodes import explain_claim, explain_node, explain_pool
from karpenter.why.pods import explain_pod
from karpenter.why.workloads import explain_daemon_set, explain_workload, pods_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from karpenter.core.state.cluster import ClusterView
    from karpenter.why.answer import Explanation, Inquiry

T = TypeVar("T")

_NAMES: Final = {
    "pod": ("pods", "po"),
    "node": ("nodes", "no"),
    "nodepool": ("nodepools",),
    "nodeclaim": ("nodeclaims",),
    "ec2nodeclass": ("ec2nodeclasses", "ec2nc", "ec2ncs"),
    "kwoknodeclass": ("kwoknodeclasses",),
    "deployment": ("deployments", "deploy"),
    "replicaset": ("replicasets", "rs"),
    "statefulset": ("statefulsets", "sts"),
    "replicationcontroller": ("replicationcontrollers", "rc"),
    "job": ("jobs",),
    "cronjob": ("cronjobs", "cj"),
    "daemonset": ("daemonsets", "ds"),
}
KINDS: Final = {spelled: kind for kind, others in _NAMES.items() for spelled in (kind, *others)}
"""Kinds by every name that kubectl knows them by."""

_WORKLOADS: Final = {
    "deployment": ("Deployment", "deployments"),
    "replicaset": ("ReplicaSet", "replica_sets"),
    "statefulset": ("StatefulSet", "stateful_sets"),
    "replicationcontroller": ("ReplicationController", "replication_controllers"),
    "job": ("Job", ""),
    "cronjob": ("CronJob", ""),
    "daemonset": ("DaemonSet", "daemon_sets"),
}
"""Their kinds, and the fields of a view that hold them; Jobs are known by their pods."""


_CLASSES: Final = {"ec2nodeclass": "EC2NodeClass", "kwoknodeclass": "KWOKNodeClass"}


class UnknownObjectError(LookupError):
    """There is no such object, or more than one."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.hint = hint


def explain(inquiry: Inquiry, kind: str, name: str, namespace: str = "") -> Explanation:
    """
    Return the answer about one object.

    Raises:
        UnknownObjectError: there is no such object, or the name is in more than one namespace.
    """
    view = inquiry.view
    if kind == "pod":
        return explain_pod(inquiry, view.pods[_key("pod", name, namespace, view.pods)])
    if kind in _WORKLOADS:
        return _workload(inquiry, kind, name, namespace)
    if kind == "node":
        node = inquiry.node(name)
        if node is None:
            raise _unknown("node", name, view.nodes)
        return explain_node(inquiry, node)
    if kind == "nodepool":
        return explain_pool(inquiry, _named("NodePool", name, view.pools))
    if kind == "nodeclaim":
        return explain_claim(inquiry, _named("NodeClaim", name, view.claims))
    classes = {each.name: each for each in view.node_classes.values() if each.kind.lower() == kind}
    return explain_class(
        inquiry, _named("EC2NodeClass" if kind[0] == "e" else "KWOKNodeClass", name, classes)
    )


def _workload(inquiry: Inquiry, kind: str, name: str, namespace: str) -> Explanation:
    view, (written, field) = inquiry.view, _WORKLOADS[kind]
    known = set(getattr(view, field)) if field else set()
    known |= _owners(view, written)
    key = _key(written, name, namespace, known)
    if kind == "daemonset" and key in view.daemon_sets:
        return explain_daemon_set(inquiry, view.daemon_sets[key])
    return explain_workload(inquiry, written, key, pods_of(view, written, key))


def _owners(view: ClusterView, kind: str) -> set[str]:
    """Return the keys of the workloads of a kind that pods belong to."""
    return {
        f"{pod.namespace}/{name}"
        for pod in view.pods.values()
        for each in pod.metadata.owner_references
        for name in _owner_names(kind, each.kind, each.name)
    }


def _owner_names(kind: str, owner: str, name: str) -> tuple[str, ...]:
    # The CronJob controller names Jobs after the CronJob and the minute, and a live cluster has no CronJobs
    # among what decisions read.
    if kind == "CronJob" and owner == "Job" and name.rpartition("-")[0]:
        return (name.rpartition("-")[0],)
    return (name,) if owner == kind else ()


def _named(kind: str, name: str, objects: Mapping[str, T]) -> T:
    if name not in objects:
        raise _unknown(kind, name, objects)
    return objects[name]


def _key(kind: str, name: str, namespace: str, keys: Iterable[str]) -> str:
    """Return the key of the object that is meant."""
    known = list(keys)
    if "/" in name or namespace:
        wanted = name if "/" in name else f"{namespace}/{name}"
        found = [wanted] if wanted in known else []
    else:
        found = [key for key in known if key.rpartition("/")[2] == name]
        found = [f"default/{name}"] if f"default/{name}" in found else found
    if not found:
        raise _unknown(kind, name, known)
    if len(found) > 1:
        where = ", ".join(sorted(found))
        raise UnknownObjectError(f"{kind} {name} is in {len(found)} namespaces: {where}", "name one with -n")
    return found[0]


def _unknown(kind: str, name: str, names: Iterable[str]) -> UnknownObjectError:
    known = {each.rpartition("/")[2]: each for each in names}
    close = difflib.get_close_matches(name.rpartition("/")[2], known, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(known[each] for each in close)}?" if close else ""
    return UnknownObjectError(f"there is no {kind} {name}", hint)
