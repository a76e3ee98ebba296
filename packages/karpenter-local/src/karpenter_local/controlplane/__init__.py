"""
The real control plane on loopback: etcd, kube-apiserver, kube-controller-manager and kube-scheduler as child
processes.

It answers the same clients as the embedded server, from the same kind of kubeconfig, so a test or a demo may
run on either. Nothing here builds the binaries (``make controlplane`` does) and nothing here runs pods: nodes
and their kubelets are simulated by :mod:`karpenter_local`, as they are for the embedded server.
"""

from karpenter_local.controlplane.binaries import Binaries, BinariesMissing, find_binaries
from karpenter_local.controlplane.plane import RealControlPlane
from karpenter_local.controlplane.process import ProcessFailed

__all__ = ["Binaries", "BinariesMissing", "ProcessFailed", "RealControlPlane", "find_binaries"]
