"""
Node groups of Cluster Autoscaler as NodePools: Auto Scaling groups as the AWS CLI prints them, and eksctl
configs.

A group is read into one value whatever describes it; the pool and class come from that. What Cluster
Autoscaler did by default (ten minutes before a node goes, no expiry) is spelled out. What a group does and
a pool does not (a minimum, a fixed share of on-demand) is a warning.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.ec2nodeclass import CLUSTER_TAG_PREFIX, RESERVED_TAGS
from karpenter.api.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, OS, SPOT, ZONE
from karpenter.convert.findings import (
    ConversionOptions,
    ConversionOutcome,
    Findings,
    NewDocument,
    Plain,
    at,
    items,
    mapping,
    without_empty,
)
from karpenter.convert.nodeclasses import API_VERSION, KIND
from karpenter.convert.nodepools import POOL_VERSION, class_reference

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


# Labels, taints and resources of a group that is scaled from zero are in tags of this prefix:
# https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/aws/README.md
_TEMPLATE: Final = "k8s.io/cluster-autoscaler/node-template/"
# https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
_CLUSTER_TAG: Final = f"{CLUSTER_TAG_PREFIX}/"
_ALL_ON_DEMAND: Final = 100
# --scale-down-unneeded-time of Cluster Autoscaler is ten minutes by default:
# https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md
_UNNEEDED: Final = "10m"
_CPU: Final = "karpenter.k8s.aws/instance-cpu"
_MEMORY: Final = "karpenter.k8s.aws/instance-memory"
_GPUS: Final = "karpenter.k8s.aws/instance-gpu-count"
_EKSCTL_FAMILIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AmazonLinux2": "al2@latest",
        "AmazonLinux2023": "al2023@latest",
        "Bottlerocket": "bottlerocket@latest",
        "WindowsServer2019CoreContainer": "windows2019@latest",
        "WindowsServer2019FullContainer": "windows2019@latest",
        "WindowsServer2022CoreContainer": "windows2022@latest",
        "WindowsServer2022FullContainer": "windows2022@latest",
    }
)
_DEFAULT_ALIAS: Final = "al2023@latest"
_FOREIGN_TAG: Final = re.compile(r"^(aws:|eks:|k8s\.io/|kubernetes\.io/|eksctl\.|alpha\.eksctl\.io/|Name$)")


class NodeGroupConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A node group, whatever described it."""

    name: str
    cluster: str = ""
    requirements: tuple[dict[str, Any], ...] = ()
    labels: dict[str, str] = {}
    taints: tuple[dict[str, Any], ...] = ()
    tags: dict[str, str] = {}
    most: int | None = None
    subnets: tuple[dict[str, Any], ...] = ()
    groups: tuple[dict[str, Any], ...] = ()
    alias: str = ""
    image: str = ""
    role: str = ""
    profile: str = ""
    disks: tuple[dict[str, Any], ...] = ()
    kubelet: dict[str, Any] = {}


def is_description(plain: Plain) -> bool:
    """Say whether a document describes node groups."""
    return isinstance(plain.get("AutoScalingGroups"), list) or is_cluster_config(plain)


def is_cluster_config(plain: Plain) -> bool:
    """Say whether a document is a config of eksctl with node groups."""
    is_config = plain.get("kind") == "ClusterConfig" and str(plain.get("apiVersion")).startswith("eksctl.io/")
    return is_config and bool(plain.get("nodeGroups") or plain.get("managedNodeGroups"))


def convert_groups(plain: Plain, options: ConversionOptions) -> ConversionOutcome | None:
    """Return the pools and classes for the node groups of a document; None when it describes none."""
    if not is_description(plain):
        return None
    findings = Findings()
    if is_cluster_config(plain):
        groups = list(_eksctl_groups(plain, findings))
    else:
        groups = [_scaling_group(mapping(each), findings) for each in items(plain["AutoScalingGroups"])]
    if not groups:
        findings.error("NoGroups", "no node group is described here")
    names = [group.name for group in groups]
    for name in sorted({each for each in names if names.count(each) > 1}):
        findings.error("Duplicate", f"two groups would become NodePool {name}")
    documents: list[NewDocument] = []
    for group in groups:
        findings.info("Kind", f"node group {group.name} becomes NodePool and EC2NodeClass {group.name}")
        documents += [NewDocument(plain=each) for each in _objects(group, options, findings)]
    return ConversionOutcome(documents=tuple(documents), findings=tuple(findings.found))


def _objects(group: NodeGroupConfig, options: ConversionOptions, findings: Findings) -> Iterator[Plain]:
    role = options.node_role or group.role
    if not role and not group.profile:
        findings.error("Role", f"{group.name}: the role of its nodes is not known: give it with --node-role")
    if not group.subnets:
        findings.error("Subnets", f"{group.name}: its subnets are not known")
    if not group.groups:
        findings.error(
            "SecurityGroups", f"{group.name}: its cluster is not known, so its security group is not"
        )
    template = without_empty({"metadata": without_empty({"labels": group.labels})})
    template["spec"] = without_empty({"taints": list(group.taints)}) | {
        "requirements": list(group.requirements),
        "nodeClassRef": class_reference(group.name),
        "expireAfter": "Never",
    }
    spec: Plain = {
        "template": template,
        "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": _UNNEEDED},
    }
    if group.most is not None:
        spec["limits"] = {"nodes": str(group.most)}
    yield {
        "apiVersion": POOL_VERSION,
        "kind": "NodePool",
        "metadata": {"name": group.name},
        "spec": spec,
    }
    image: Plain = {"amiSelectorTerms": [{"alias": group.alias or _DEFAULT_ALIAS}]}
    if group.image:
        family = {"al2": "AL2", "bottlerocket": "Bottlerocket"}.get(group.alias.partition("@")[0], "AL2023")
        image = {"amiFamily": family, "amiSelectorTerms": [{"id": group.image}]}
    identity = {"role": role} if role else {"instanceProfile": group.profile}
    yield {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": group.name},
        "spec": image
        | identity
        | {"subnetSelectorTerms": list(group.subnets), "securityGroupSelectorTerms": list(group.groups)}
        | without_empty(
            {"tags": group.tags, "blockDeviceMappings": list(group.disks), "kubelet": group.kubelet}
        )
        # Answers of the metadata service travel two hops in node groups of EKS, and one by default here:
        # https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
        | {"metadataOptions": {"httpPutResponseHopLimit": 2}},
    }


def pool_name(text: str) -> str:
    return re.sub(r"[^a-z0-9.-]+", "-", text.lower()).strip("-.")[:63].strip("-.")


def requirement(key: str, operator: str, *values: object) -> Plain:
    return {"key": key, "operator": operator, "values": [str(each) for each in values]}


def _warn_of_size(name: str, least: object, findings: Findings) -> None:
    if isinstance(least, int) and least > 0:
        findings.warn(
            "MinSize",
            f"{name}: a NodePool has no minimum size (the group had {least}); a CapacityBuffer or a "
            "static NodePool "
            "keeps room",
        )


def _capacity(name: str, base: object, percentage: object, findings: Findings) -> tuple[str, ...]:
    """Return the capacity types of a group with a mix of both."""
    share = percentage if isinstance(percentage, int) else _ALL_ON_DEMAND
    if share >= _ALL_ON_DEMAND:
        return (ON_DEMAND,)
    if share == 0 and not base:
        return (SPOT,)
    findings.warn(
        "CapacitySplit",
        f"{name}: a NodePool keeps no fixed share of on-demand; it buys what is cheapest, so spot "
        "where there is any",
    )
    return (SPOT, ON_DEMAND)


def _scaling_group(group: Plain, findings: Findings) -> NodeGroupConfig:
    tags = {
        str(mapping(each).get("Key")): str(mapping(each).get("Value", ""))
        for each in items(group.get("Tags"))
    }
    name = pool_name(tags.get("eks:nodegroup-name") or str(group.get("AutoScalingGroupName", "")))
    cluster = tags.get("eks:cluster-name") or next(
        (key.removeprefix(_CLUSTER_TAG) for key in tags if key.startswith(_CLUSTER_TAG)), ""
    )
    _warn_of_size(name, group.get("MinSize"), findings)
    if group.get("NewInstancesProtectedFromScaleIn"):
        findings.warn(
            "ScaleInProtection", f"{name}: protection from scale-in has no counterpart; use budgets"
        )
    findings.warn(
        "LaunchTemplate",
        f"{name}: image, disks and user data are in its launch template, which is not part of this "
        "description; "
        f"{_DEFAULT_ALIAS} is assumed",
    )
    subnets = [each.strip() for each in str(group.get("VPCZoneIdentifier") or "").split(",") if each.strip()]
    zones = items(group.get("AvailabilityZones"))
    return NodeGroupConfig(
        name=name,
        cluster=cluster,
        requirements=(
            *_scaling_types(name, group, findings),
            *([requirement(ZONE, "In", *zones)] if zones else []),
        ),
        labels={k: v for k, v in _template_tags(tags, "label") if not k.startswith("eks.amazonaws.com/")},
        taints=tuple(_taint(key, value) for key, value in _template_tags(tags, "taint")),
        tags=_own_tags(_propagated(group)),
        most=group.get("MaxSize"),
        subnets=tuple({"id": each} for each in subnets),
        groups=_cluster_groups(cluster),
    )


def _scaling_types(name: str, group: Plain, findings: Findings) -> list[Plain]:
    mixed = mapping(group.get("MixedInstancesPolicy"))
    overrides = [mapping(each) for each in items(at(mixed, ("LaunchTemplate", "Overrides")))]
    types = [each["InstanceType"] for each in overrides if each.get("InstanceType")]
    if not types:
        types = [
            mapping(e)["InstanceType"]
            for e in items(group.get("Instances"))
            if mapping(e).get("InstanceType")
        ]
    found: list[Plain] = []
    wanted = next(
        (mapping(e["InstanceRequirements"]) for e in overrides if e.get("InstanceRequirements")), None
    )
    if wanted is not None:
        found += _ranges(wanted)
    elif types:
        found.append(requirement(INSTANCE_TYPE, "In", *dict.fromkeys(map(str, types))))
    else:
        findings.error(
            "InstanceTypes", f"{name}: its instance types are in its launch template only; list them"
        )
    distribution = mapping(mixed.get("InstancesDistribution"))
    share = distribution.get("OnDemandPercentageAboveBaseCapacity") if mixed else _ALL_ON_DEMAND
    capacity = _capacity(name, distribution.get("OnDemandBaseCapacity"), share, findings)
    return [*found, requirement(CAPACITY_TYPE, "In", *capacity), requirement(OS, "In", "linux")]


def _ranges(wanted: Plain) -> list[Plain]:
    found = []
    for field, key in (("VCpuCount", _CPU), ("MemoryMiB", _MEMORY), ("AcceleratorCount", _GPUS)):
        span = mapping(wanted.get(field))
        if isinstance(span.get("Min"), int) and span["Min"] > 0:
            found.append(requirement(key, "Gt", span["Min"] - 1))
        if isinstance(span.get("Max"), int):
            found.append(requirement(key, "Lt", span["Max"] + 1))
    return found


def _template_tags(tags: Mapping[str, str], sort: str) -> Iterator[tuple[str, str]]:
    prefix = f"{_TEMPLATE}{sort}/"
    for key, value in tags.items():
        if key.startswith(prefix):
            yield key.removeprefix(prefix), value


def _taint(key: str, text: str) -> Plain:
    value, _, effect = text.rpartition(":")
    return without_empty({"key": key, "value": value or None, "effect": effect})


def _propagated(group: Plain) -> dict[str, str]:
    return {
        str(mapping(each).get("Key")): str(mapping(each).get("Value", ""))
        for each in items(group.get("Tags"))
        if mapping(each).get("PropagateAtLaunch")
    }


def _own_tags(tags: Mapping[str, object]) -> dict[str, str]:
    return {
        key: str(value)
        for key, value in tags.items()
        if not _FOREIGN_TAG.match(key) and key not in RESERVED_TAGS and value != ""
    }


def _cluster_groups(cluster: str) -> tuple[dict[str, Any], ...]:
    # EKS tags the security group that it makes for a cluster:
    # https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html
    return ({"tags": {"aws:eks:cluster-name": cluster}},) if cluster else ()


def _eksctl_groups(plain: Plain, findings: Findings) -> Iterator[NodeGroupConfig]:
    for field in ("nodeGroups", "managedNodeGroups"):
        for each in items(plain.get(field)):
            yield _eksctl_group(plain, mapping(each), findings)


def _eksctl_group(config: Plain, group: Plain, findings: Findings) -> NodeGroupConfig:
    cluster = str(at(config, ("metadata", "name")) or "")
    name = pool_name(str(group.get("name", "")))
    _warn_of_size(name, group.get("minSize"), findings)
    for field in ("preBootstrapCommands", "overrideBootstrapCommand", "bottlerocket"):
        if group.get(field):
            findings.warn(
                "UserData", f"{name}: {field} is not carried over: put it into spec.userData", field
            )
    if group.get("ssh"):
        findings.warn("SSH", f"{name}: ssh is not carried over: use Session Manager", "ssh")
    family = str(group.get("amiFamily") or "AmazonLinux2023")
    image = str(group.get("ami") or "") if str(group.get("ami", "")).startswith("ami-") else ""
    if family not in _EKSCTL_FAMILIES and not image:
        findings.error(
            "Images", f"{name}: there is no alias for amiFamily {family}: name an image", "amiFamily"
        )
    iam = mapping(group.get("iam"))
    role = str(iam.get("instanceRoleName") or str(iam.get("instanceRoleARN") or "").rpartition("/")[2])
    attached = items(at(group, ("securityGroups", "attachIDs")))
    zones = items(group.get("availabilityZones")) or items(config.get("availabilityZones"))
    return NodeGroupConfig(
        name=name,
        cluster=cluster,
        requirements=(
            *_eksctl_types(name, group, findings),
            requirement(OS, "In", "windows" if family.startswith("Windows") else "linux"),
            *([requirement(ZONE, "In", *zones)] if zones else []),
        ),
        labels={key: str(value) for key, value in mapping(group.get("labels")).items()},
        taints=tuple(_eksctl_taints(group.get("taints"))),
        tags=_own_tags(mapping(group.get("tags")) or mapping(at(config, ("metadata", "tags")))),
        most=group.get("maxSize"),
        subnets=_eksctl_subnets(cluster, group),
        groups=(*_cluster_groups(cluster), *({"id": each} for each in attached)),
        alias=_EKSCTL_FAMILIES.get(family, _DEFAULT_ALIAS),
        image=image,
        role=role,
        profile=str(iam.get("instanceProfileARN") or "").rpartition("/")[2],
        disks=_eksctl_disks(group, family),
        kubelet=mapping(group.get("kubeletExtraConfig"))
        | without_empty({"maxPods": group.get("maxPodsPerNode")}),
    )


def _eksctl_types(name: str, group: Plain, findings: Findings) -> list[Plain]:
    mixed, selector = mapping(group.get("instancesDistribution")), mapping(group.get("instanceSelector"))
    types = items(group.get("instanceTypes")) or items(mixed.get("instanceTypes"))
    if not types and group.get("instanceType") not in {None, "mixed"}:
        types = [group["instanceType"]]
    found: list[Plain] = []
    if types:
        found.append(requirement(INSTANCE_TYPE, "In", *types))
    elif selector:
        found += _selector_requirements(name, selector, findings)
    else:
        found.append(requirement(INSTANCE_TYPE, "In", "m5.large"))  # what eksctl launches where none is named
    if group.get("spot"):
        capacity: tuple[str, ...] = (SPOT,)
    elif mixed:
        base, share = mixed.get("onDemandBaseCapacity"), mixed.get("onDemandPercentageAboveBaseCapacity")
        capacity = _capacity(name, base, share, findings)
    else:
        capacity = (ON_DEMAND,)
    return [*found, requirement(CAPACITY_TYPE, "In", *capacity)]


def _selector_requirements(name: str, selector: Plain, findings: Findings) -> list[Plain]:
    found = []
    if selector.get("vCPUs"):
        found.append(requirement(_CPU, "In", selector["vCPUs"]))
    if selector.get("gpus"):
        found.append(requirement(_GPUS, "In", selector["gpus"]))
    if selector.get("cpuArchitecture"):
        arch = {"x86_64": "amd64"}.get(selector["cpuArchitecture"], selector["cpuArchitecture"])
        found.append(requirement(ARCH, "In", arch))
    if selector.get("memory"):
        digits = re.match(r"\d+", str(selector["memory"]))
        if digits:
            found.append(requirement(_MEMORY, "In", int(digits[0]) * 1024))
    if not found:
        findings.error(
            "InstanceTypes", f"{name}: its instanceSelector selects by nothing that a pool can", ""
        )
    return found


def _eksctl_taints(taints: object) -> Iterator[Plain]:
    if isinstance(taints, dict):
        yield from (_taint(key, str(value)) for key, value in taints.items())
    for each in items(taints):
        taint = mapping(each)
        yield without_empty(
            {"key": taint.get("key"), "value": taint.get("value"), "effect": taint.get("effect")}
        )


def _eksctl_subnets(cluster: str, group: Plain) -> tuple[dict[str, Any], ...]:
    ids = [each for each in items(group.get("subnets")) if str(each).startswith("subnet-")]
    if ids:
        return tuple({"id": each} for each in ids)
    if not cluster:
        return ()
    tier = "Private" if group.get("privateNetworking") else "Public"
    return ({"tags": {"Name": f"eksctl-{cluster}-cluster/Subnet{tier}*"}},)


def _eksctl_disks(group: Plain, family: str) -> tuple[dict[str, Any], ...]:
    if group.get("volumeSize") is None:
        return ()
    device = (
        "/dev/xvdb" if family == "Bottlerocket" else "/dev/sda1" if family.startswith("Win") else "/dev/xvda"
    )
    ebs = {
        "volumeSize": f"{group['volumeSize']}Gi",
        "volumeType": group.get("volumeType") or "gp3",
        "encrypted": group.get("volumeEncrypted"),
        "iops": group.get("volumeIOPS"),
        "throughput": group.get("volumeThroughput"),
        "kmsKeyID": group.get("volumeKmsKeyID"),
    }
    return (
        {"deviceName": str(group.get("volumeName") or device), "rootVolume": True, "ebs": without_empty(ebs)},
    )
