"""
The Node that a machine registers as, and what the cloud's controller adds to it afterwards.

A kubelet sets only the labels that it may; one that is told to set others does not start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karpenter.api.labels import (
    ARCH,
    CLOUD_UNINITIALIZED,
    HOSTNAME,
    INSTANCE_TYPE,
    NO_SCHEDULE,
    OS,
    REGION,
    WINDOWS_BUILD,
    ZONE,
)
from karpenter.api.meta import to_plain
from karpenter.cloud.catalogs.ec2.instancetypes import VM_OVERHEAD
from karpenter.core.model.resources import render_resources
from karpenter_local.aws.boot.amounts import allocatable, capacity
from karpenter_local.aws.boot.bootconfig import BootConfig, CannotJoin

if TYPE_CHECKING:
    from karpenter_local.aws.boot.hardware import Hardware
    from karpenter_local.aws.boot.images import System

ZONE_ID: Final = "topology.k8s.aws/zone-id"
# The NodeRestriction plugin: https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/
_RESERVED: Final = ("kubernetes.io", "k8s.io")
_OPEN: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_ALLOWED: Final = frozenset(
    {
        ARCH,
        OS,
        HOSTNAME,
        INSTANCE_TYPE,
        REGION,
        ZONE,
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
    }
)


def node_of(
    hardware: Hardware, system: System, config: BootConfig, *, version: str, overhead: float = VM_OVERHEAD
) -> dict[str, Any]:
    """
    Return the Node as the kubelet registers it.

    Raises:
        CannotJoin: the kubelet was told something that it does not accept.
    """
    check_labels(config)
    has = capacity(hardware, system, config, overhead=overhead)
    left = allocatable(hardware, system, config, has)
    os = "windows" if system.is_windows else "linux"
    arch = hardware.facts.arch
    own = {
        ARCH: arch,
        OS: os,
        HOSTNAME: hardware.name,
        "beta.kubernetes.io/arch": arch,
        "beta.kubernetes.io/os": os,
    }
    if system.is_windows:
        own[WINDOWS_BUILD] = system.windows_build
    uninitialized = {"key": CLOUD_UNINITIALIZED, "value": "true", "effect": NO_SCHEDULE}
    return {
        "metadata": {"name": hardware.name, "labels": {**config.labels, **own}},
        "spec": {
            "providerID": hardware.provider_id,
            "taints": [*(to_plain(each) for each in config.taints), uninitialized],
        },
        "status": {
            "capacity": dict(render_resources(has)),
            "allocatable": dict(render_resources(left)),
            "addresses": [
                {"type": "InternalIP", "address": hardware.address},
                {"type": "InternalDNS", "address": hardware.name},
                {"type": "Hostname", "address": hardware.name},
            ],
            "nodeInfo": _info(hardware, system, os=os, version=version),
        },
    }


def cloud_labels(hardware: Hardware) -> dict[str, str]:
    kind = hardware.facts.name
    return {
        INSTANCE_TYPE: kind,
        "beta.kubernetes.io/instance-type": kind,
        REGION: hardware.region,
        "failure-domain.beta.kubernetes.io/region": hardware.region,
        ZONE: hardware.zone,
        "failure-domain.beta.kubernetes.io/zone": hardware.zone,
        ZONE_ID: hardware.zone_id,
        "topology.ebs.csi.aws.com/zone": hardware.zone,  # the driver's, which we take to be installed
    }


def check_labels(config: BootConfig) -> None:
    """
    Refuse labels that a kubelet may not set on its own node.

    Raises:
        CannotJoin: naming them.
    """
    unknown = sorted(key for key in config.labels if key not in _ALLOWED and _is_reserved(key))
    if unknown:
        raise CannotJoin(
            "kubelet: unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels:"
            f" {', '.join(unknown)}"
        )


def _is_reserved(key: str) -> bool:
    domain = key.rpartition("/")[0]
    return _within(domain, _RESERVED) and not _within(domain, _OPEN)


def _within(domain: str, parents: tuple[str, ...]) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)


def _info(hardware: Hardware, system: System, *, os: str, version: str) -> dict[str, str]:
    return {
        "architecture": hardware.facts.arch,
        "operatingSystem": os,
        "kubeletVersion": version,
        "kubeProxyVersion": "",
        "containerRuntimeVersion": "containerd://simulated",
        "kernelVersion": "simulated",
        "osImage": system.name,
        "machineID": hardware.id,
        "systemUUID": hardware.id,
        "bootID": hardware.id,
    }
