"""
Labels, annotations, tags and resources of nodes on EC2, as Karpenter and AWS spell them.

Tags of everything that is created for a node class are put together here, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karpenter.api.ec2nodeclass import CLUSTER_TAG_PREFIX, RESERVED_TAGS, EC2NodeClass
from karpenter.api.labels import NODEPOOL
from karpenter.cloud.errors import NodeClassNotReady

if TYPE_CHECKING:
    from collections.abc import Mapping


DOMAIN: Final = "karpenter.k8s.aws"

# Labels of nodes and claims.
NODE_CLASS_LABEL: Final = f"{DOMAIN}/ec2nodeclass"
# The name of a zone stands for another location in each account; its id is the same in all:
# https://docs.aws.amazon.com/global-infrastructure/latest/regions/az-ids.html
ZONE_ID: Final = "topology.k8s.aws/zone-id"
# The labels of instance types and their domain are those of Karpenter, which pods and pools select by:
# https://karpenter.sh/docs/concepts/scheduling/
TENANCY: Final = f"{DOMAIN}/instance-tenancy"
RESERVATION_ID: Final = f"{DOMAIN}/capacity-reservation-id"
RESERVATION_TYPE: Final = f"{DOMAIN}/capacity-reservation-type"
RESERVATION_INTERRUPTIBLE: Final = f"{DOMAIN}/capacity-reservation-interruptible"
PLACEMENT_GROUP: Final = f"{DOMAIN}/placement-group-id"
PLACEMENT_PARTITION: Final = f"{DOMAIN}/placement-group-partition"
GPU_COUNT: Final = f"{DOMAIN}/instance-gpu-count"
ACCELERATOR_COUNT: Final = f"{DOMAIN}/instance-accelerator-count"
HYPERVISOR: Final = f"{DOMAIN}/instance-hypervisor"
SIZE: Final = f"{DOMAIN}/instance-size"

# Annotations of classes and claims.
CLASS_HASH: Final = f"{DOMAIN}/ec2nodeclass-hash"
CLASS_HASH_VERSION: Final = f"{DOMAIN}/ec2nodeclass-hash-version"
PROFILE_NAME: Final = f"{DOMAIN}/instance-profile-name"
TAGGED: Final = f"{DOMAIN}/tagged"
CLUSTER_NAME_TAGGED: Final = f"compatibility.{DOMAIN}/cluster-name-tagged"

# Tags of everything that is created.
CLUSTER_TAG: Final = "eks:eks-cluster-name"
# The tags that Karpenter's IAM policy allows and asks for; instances are found by them:
# https://karpenter.sh/docs/reference/cloudformation/
NODE_CLAIM_TAG: Final = "karpenter.sh/nodeclaim"
NAME_TAG: Final = "Name"
LAUNCH_TAG: Final = f"{DOMAIN}/launched-for"
"""With a number behind it: for which claims an instance was launched; see :mod:`.instance.createfleet`."""

# Extended resources that pods request.
POD_ENI: Final = "vpc.amazonaws.com/pod-eni"
# Resources that device plugins and the VPC resource controller of EKS announce on nodes:
# https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html
# https://docs.aws.amazon.com/eks/latest/userguide/windows-support.html
EFA: Final = "vpc.amazonaws.com/efa"
PRIVATE_IPV4: Final = "vpc.amazonaws.com/PrivateIPv4Address"
NIP_SLOTS: Final = "eks.amazonaws.com/nip-slots"
NITRO_SANDBOX: Final = "eks.amazonaws.com/nitro-sandbox"
"""What Karpenter after 1.14 calls :data:`NIP_SLOTS`."""

# Keeps an EC2NodeClass until its claims, profile and templates are gone:
# https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/
TERMINATION_FINALIZER: Final = f"{DOMAIN}/termination"
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/dedicated-instance.html
DEFAULT_TENANCY: Final = "default"
DEDICATED_TENANCY: Final = "dedicated"


def owned_tag(cluster: str) -> str:
    """Return the key of the tag that marks resources of a cluster; its value is ``owned``."""
    return f"kubernetes.io/cluster/{cluster}"


def wrong_tags(tags: Mapping[str, str]) -> tuple[str, ...]:
    """Return the tags of a node class that only Karpenter may set."""
    return tuple(
        key
        for key in sorted(tags)
        if not key or key in RESERVED_TAGS or key.startswith(f"{CLUSTER_TAG_PREFIX}/")
    )


def tags_of(node_class: EC2NodeClass, *, cluster: str, pool: str) -> dict[str, str]:
    """
    Return the tags of instances, their volumes and network interfaces, fleets and launch templates.

    Raises:
        NodeClassNotReady: the node class sets tags that only Karpenter may set.
    """
    wrong = wrong_tags(node_class.spec.tags)
    if wrong:
        because = f"spec.tags: {', '.join(map(repr, wrong))} may not be set"
        raise NodeClassNotReady(node_class=node_class.name, because=because)
    return {
        # Tags of the user first: those of Karpenter, which its IAM policy depends on, win.
        **node_class.spec.tags,
        owned_tag(cluster): "owned",
        NODEPOOL: pool,
        CLUSTER_TAG: cluster,
        NODE_CLASS_LABEL: node_class.name,
    }


def specification(resource: str, tags: Mapping[str, str]) -> dict[str, Any]:
    return {"ResourceType": resource, "Tags": [{"Key": key, "Value": tags[key]} for key in sorted(tags)]}
