"""
The hash of an EC2NodeClass, which drift is detected by, and the controller that writes it.

The hash covers the fields that are not selectors: tags, volumes, user data, kubelet settings, the role, and
so on. What is selected (subnets, security groups, AMIs, capacity reservations) is compared in
:mod:`karpenter.cloud.aws.drift`. The AMI family counts as it is resolved, and the cluster's CA bundle counts
too.

The number equals the one that Karpenter 1.14 writes under the same version, for every spec. The declarations
below are Go's: the names, the order, the types and the tags of the fields are all part of the hash.
https://karpenter.sh/docs/concepts/disruption/#drift
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from karpenter.api.ec2nodeclass import METADATA_DEFAULT, EC2NodeClass, family_of_spec, names_class
from karpenter.api.meta import Resource, to_plain
from karpenter.base.hashstructure import (
    ANY_SLICE,
    BOOL,
    DURATION,
    INT32,
    INT64,
    QUANTITY,
    STRING,
    STRING_MAP,
    GoField,
    GoMap,
    GoPointer,
    GoSlice,
    GoStruct,
    UnhashableError,
    hash_bytes,
    hash_set,
    hash_text,
)
from karpenter.base.pretty import excerpt
from karpenter.cloud.aws import labels
from karpenter.core.effects import NOTHING, Amend, Step
from karpenter.core.lifecycle.conditions import DRIFTED
from karpenter.core.state.cluster import ClusterView, NodeClass, ObjectUpdated, StateEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.cloud.aws.cluster import EksCluster
    from karpenter.cloud.cloudprovider import ClusterObjects


# Karpenter's own version: with another one, every class would be restamped at the switch, and changes made
# just before it would be lost.
# https://github.com/aws/karpenter-provider-aws/blob/v1.14.1/pkg/apis/v1/ec2nodeclass.go
CLASS_HASH_VERSION: Final = "v5"

_TEXT: Final = GoPointer(STRING)
_SWITCH: Final = GoPointer(BOOL)
_SHORT: Final = GoPointer(INT32)
_LONG: Final = GoPointer(INT64)

_KUBELET: Final = GoStruct(
    "KubeletConfiguration",
    (
        GoField("ClusterDNS", "clusterDNS", GoSlice(STRING)),
        GoField("MaxPods", "maxPods", _SHORT),
        GoField("PodsPerCore", "podsPerCore", _SHORT),
        GoField("SystemReserved", "systemReserved", STRING_MAP),
        GoField("KubeReserved", "kubeReserved", STRING_MAP),
        GoField("EvictionHard", "evictionHard", STRING_MAP),
        GoField("EvictionSoft", "evictionSoft", STRING_MAP),
        GoField("EvictionSoftGracePeriod", "evictionSoftGracePeriod", GoMap(DURATION)),
        GoField("EvictionMaxPodGracePeriod", "evictionMaxPodGracePeriod", _SHORT),
        GoField("ImageGCHighThresholdPercent", "imageGCHighThresholdPercent", _SHORT),
        GoField("ImageGCLowThresholdPercent", "imageGCLowThresholdPercent", _SHORT),
        GoField("CPUCFSQuota", "cpuCFSQuota", _SWITCH),
    ),
)
_BLOCK_DEVICE: Final = GoStruct(
    "BlockDevice",
    (
        GoField("DeleteOnTermination", "deleteOnTermination", _SWITCH),
        GoField("Encrypted", "encrypted", _SWITCH),
        GoField("IOPS", "iops", _LONG),
        GoField("KMSKeyID", "kmsKeyID", _TEXT),
        GoField("SnapshotID", "snapshotID", _TEXT),
        GoField("Throughput", "throughput", _LONG),
        GoField("VolumeInitializationRate", "volumeInitializationRate", _SHORT),
        GoField("VolumeSize", "volumeSize", GoPointer(QUANTITY)),
        GoField("VolumeType", "volumeType", _TEXT),
    ),
)
_MAPPING: Final = GoStruct(
    "BlockDeviceMapping",
    (
        GoField("DeviceName", "deviceName", _TEXT),
        GoField("EBS", "ebs", GoPointer(_BLOCK_DEVICE)),
        GoField("RootVolume", "rootVolume", BOOL),
    ),
)
_INTERFACE: Final = GoStruct(
    "NetworkInterface",
    (
        GoField("NetworkCardIndex", "networkCardIndex", INT32),
        GoField("DeviceIndex", "deviceIndex", INT32),
        GoField("InterfaceType", "interfaceType", STRING),
    ),
)
_METADATA: Final = GoStruct(
    "MetadataOptions",
    (
        GoField("HTTPEndpoint", "httpEndpoint", _TEXT),
        GoField("HTTPProtocolIPv6", "httpProtocolIPv6", _TEXT),
        GoField("HTTPPutResponseHopLimit", "httpPutResponseHopLimit", _LONG),
        GoField("HTTPTokens", "httpTokens", _TEXT),
    ),
)
_TRACKING: Final = GoStruct(
    "ConnectionTracking",
    (
        GoField("TCPEstablishedTimeout", "tcpEstablishedTimeout", _SHORT),
        GoField("UDPStreamTimeout", "udpStreamTimeout", _SHORT),
        GoField("UDPTimeout", "udpTimeout", _SHORT),
    ),
)
_GROUP: Final = GoStruct(
    "PlacementGroupSelector", (GoField("Name", "name", _TEXT), GoField("ID", "id", _TEXT))
)
_CPU: Final = GoStruct("CPUOptions", (GoField("NestedVirtualization", "nestedVirtualization", _TEXT),))
_SPEC: Final = GoStruct(
    "EC2NodeClassSpec",
    (
        GoField("SubnetSelectorTerms", "subnetSelectorTerms", ANY_SLICE, ignored=True),
        GoField("SecurityGroupSelectorTerms", "securityGroupSelectorTerms", ANY_SLICE, ignored=True),
        GoField(
            "CapacityReservationSelectorTerms", "capacityReservationSelectorTerms", ANY_SLICE, ignored=True
        ),
        GoField("PlacementGroupSelector", "placementGroupSelector", GoPointer(_GROUP)),
        GoField("AssociatePublicIPAddress", "associatePublicIPAddress", _SWITCH),
        GoField("IPPrefixCount", "ipPrefixCount", _SHORT, ignored=True),
        GoField("AMISelectorTerms", "amiSelectorTerms", ANY_SLICE, ignored=True),
        GoField("AMIFamily", "amiFamily", _TEXT, ignored=True),
        GoField("UserData", "userData", _TEXT),
        GoField("Role", "role", STRING),
        GoField("InstanceProfile", "instanceProfile", _TEXT),
        GoField("Tags", "tags", STRING_MAP),
        GoField("Kubelet", "kubelet", GoPointer(_KUBELET)),
        GoField("BlockDeviceMappings", "blockDeviceMappings", GoSlice(GoPointer(_MAPPING))),
        GoField("InstanceStorePolicy", "instanceStorePolicy", _TEXT),
        GoField("NetworkInterfaces", "networkInterfaces", GoSlice(GoPointer(_INTERFACE))),
        GoField("DetailedMonitoring", "detailedMonitoring", _SWITCH),
        GoField("MetadataOptions", "metadataOptions", GoPointer(_METADATA)),
        GoField("ConnectionTracking", "connectionTracking", GoPointer(_TRACKING)),
        GoField("Context", "context", _TEXT),
        GoField("CPUOptions", "cpuOptions", GoPointer(_CPU)),
    ),
)


def class_hash(node_class: EC2NodeClass, *, ca_bundle: str) -> str:
    """Return the hash of a class as it stands in annotations: a decimal number."""
    plain = to_plain(node_class.spec)
    plain["metadataOptions"] = {**METADATA_DEFAULT, **plain.get("metadataOptions", {})}
    try:
        return _hash(plain, family=node_class.spec.family, ca_bundle=ca_bundle)
    except UnhashableError:
        # The schema allows durations that Go cannot decode, and such a class has no hash there. Ours only has
        # to change with the spec.
        return str(hash_bytes(msgspec.json.encode(plain, order="deterministic")))


def plain_class_hash(spec: Mapping[str, Any], *, ca_bundle: str) -> str:
    """
    Return the hash of an EC2NodeClass's spec exactly as it is written: no default is filled in.

    Raises:
        UnhashableError: if something in the spec is not what it should be.
    """
    terms = spec.get("amiSelectorTerms") or []
    if not isinstance(terms, list | tuple):
        raise UnhashableError("spec.amiSelectorTerms", f"expected a list, not {excerpt(terms)}")
    return _hash(spec, family=family_of_spec(spec), ca_bundle=ca_bundle)


def _hash(spec: Mapping[str, Any], *, family: str, ca_bundle: str) -> str:
    return str(hash_set([_SPEC.hash(spec, "spec"), hash_text(family), hash_text(ca_bundle)]))


class NodeClassHashController:
    """Annotates node classes with their hash, and claims when the version of the hash has changed."""

    name = "nodeclass.hash"
    kinds: ClassVar = (NodeClass,)
    workers = 10

    def __init__(
        self, *, objects: ClusterObjects, view: Callable[[], ClusterView], cluster: EksCluster
    ) -> None:
        self._objects = objects
        self._view = view
        self._cluster = cluster

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        del before
        if isinstance(event, ObjectUpdated) and isinstance(event.object, NodeClass):
            yield event.object.name

    async def reconcile(self, key: str) -> Step:
        node_class = await self._objects.get(EC2NodeClass, key)
        if node_class is None or node_class.metadata.deletion_timestamp is not None:
            return NOTHING
        joining = await self._cluster.joining()
        stamp = {
            labels.CLASS_HASH: class_hash(node_class, ca_bundle=joining.ca_bundle),
            labels.CLASS_HASH_VERSION: CLASS_HASH_VERSION,
        }
        held = node_class.metadata.annotations
        effects = []
        if held.get(labels.CLASS_HASH_VERSION) != CLASS_HASH_VERSION:
            effects += [
                stamped_anew(claim, stamp)
                for claim in self._view().claims.values()
                if names_class(claim.spec.node_class_ref, key)
                and claim.metadata.annotations.get(labels.CLASS_HASH_VERSION) != CLASS_HASH_VERSION
            ]
        if any(held.get(name) != value for name, value in stamp.items()):
            effects.append(_amend(node_class, stamp, "its hash has changed"))
        return Step(effects=tuple(effects))


def stamped_anew(claim: NodeClaim, stamp: dict[str, str]) -> Amend:
    """Return the change that lets a claim be compared again; one that has drifted keeps its hash."""
    drifted = any(each.type == DRIFTED for each in claim.status.conditions)
    kept = {labels.CLASS_HASH_VERSION: stamp[labels.CLASS_HASH_VERSION]} if drifted else stamp
    return _amend(claim, kept, "classes are hashed in another way now")


def _amend(item: EC2NodeClass | NodeClaim, annotations: dict[str, str], because: str) -> Amend:
    return Amend(
        kind=item.kind, name=item.name, changes={"metadata": {"annotations": annotations}}, because=because
    )
