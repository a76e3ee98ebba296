"""
What a node reports about itself: conditions, addresses, room, and how a node of a demo looks.

Pure. A node that says how much room it has (because a cloud made it) is taken at its word.
"""

from collections.abc import Mapping
from datetime import datetime

from karpenter.api.labels import ZONE
from karpenter.api.node import Node
from karpenter.kube.targets import Plain
from karpenter_local.controllers.plain import render_time
from karpenter_local.kubelet.settings import KubeletSettings

DEFAULT_ROOM: dict[str, str] = {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "100Gi", "pods": "110"}

_ZONES_OF = {"ebs.csi.aws.com": "topology.ebs.csi.aws.com/zone"}
"""Drivers that call zones by a name of their own."""

_CALM = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


def conditions(node: Node, now: datetime, *, ready: bool, why: str = "") -> list[Plain]:
    """Return the conditions a kubelet reports; `why` says what is wrong if it is not ready."""
    wanted = [(kind, "False", reason, message) for kind, reason, message in _CALM]
    if ready:
        wanted.append(("Ready", "True", "KubeletReady", "kubelet is posting ready status"))
    else:
        wanted.append(("Ready", "False", "KubeletNotReady", why or "container runtime is down"))
    known = {each.type: each for each in node.status.conditions}
    result = []
    for kind, status, reason, message in wanted:
        before = known.get(kind)
        kept = before is not None and before.status == status and before.last_transition_time is not None
        since = before.last_transition_time if before is not None and kept else now
        result.append(
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": render_time(now),
                "lastTransitionTime": render_time(since or now),
            }
        )
    return result


def first_report(
    node: Node, now: datetime, *, address: str, version: str = KubeletSettings().version
) -> Plain:
    """Return the status with which a kubelet joins; what the node already says of its room stays."""
    labels = node.metadata.labels
    architecture = labels.get("kubernetes.io/arch", "amd64")
    report: Plain = {"conditions": conditions(node, now, ready=True)}
    if not node.status.capacity:
        report["capacity"] = dict(DEFAULT_ROOM)
    if not node.status.allocatable:
        report["allocatable"] = dict(node.status.capacity or DEFAULT_ROOM)
    if not node.status.addresses:
        report["addresses"] = [
            {"type": "InternalIP", "address": address},
            {"type": "Hostname", "address": labels.get("kubernetes.io/hostname", node.name)},
        ]
    if not node.status.node_info.kubelet_version:
        report["nodeInfo"] = {
            "architecture": architecture,
            "operatingSystem": labels.get("kubernetes.io/os", "linux"),
            "kubeletVersion": version,
            "kubeProxyVersion": "",
            "containerRuntimeVersion": "simulated://1",
            "kernelVersion": "6.12",
            "osImage": "Simulated",
            "machineID": node.name,
            "systemUUID": node.name,
            "bootID": node.name,
        }
    return report


def demo_node(number: int, *, zones: tuple[str, ...], room: dict[str, str] | None = None) -> Plain:
    """Return a node for people who want some to play with."""
    name = f"node-{number}"
    zone = zones[(number - 1) % len(zones)]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "simulated",
                "topology.kubernetes.io/region": region_of(zone),
                "topology.kubernetes.io/zone": zone,
            },
        },
        "spec": {"providerID": f"simulated:///{zone}/{name}"},
        "status": {"capacity": room or dict(DEFAULT_ROOM), "allocatable": room or dict(DEFAULT_ROOM)},
    }


ATTACHES = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
"""The annotation by which a kubelet leaves it to the cluster to attach volumes."""


def region_of(zone: str) -> str:
    """Return the region of a zone: what is left without the letter at its end, if a digit comes first."""
    return zone[:-1] if zone[-1:].isalpha() and zone[-2:-1].isdigit() else zone


def lease_for(node: Node, now: datetime, *, seconds: int) -> Plain:
    return {
        "metadata": {
            "name": node.name,
            "namespace": "kube-node-lease",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.metadata.uid}
            ],
        },
        "spec": {
            "holderIdentity": node.name,
            "leaseDurationSeconds": seconds,
            "renewTime": render_micro(now),
        },
    }


def render_micro(moment: datetime) -> str:
    """Return a time as leases carry it, to the microsecond."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def driver_labels(node: Node, drivers: Mapping[str, int]) -> dict[str, str]:
    zone = node.metadata.labels.get(ZONE)
    return {_ZONES_OF[name]: zone for name in drivers if zone and name in _ZONES_OF}


def csi_node_for(node: Node, drivers: Mapping[str, int]) -> Plain:
    return {
        "metadata": {
            "name": node.name,
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.metadata.uid}
            ],
        },
        "spec": {
            "drivers": [
                {
                    "name": name,
                    "nodeID": node.name,
                    "topologyKeys": sorted({ZONE, _ZONES_OF.get(name, ZONE)}),
                    "allocatable": {"count": most},
                }
                for name, most in sorted(drivers.items())
            ]
        },
    }
