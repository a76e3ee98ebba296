"""Tags of everything that is created for a node class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter.api.ec2nodeclass import CLUSTER_TAG_PREFIX, RESERVED_TAGS
from karpenter.api.labels import NODEPOOL
from karpenter.cloud.aws.labels import CLUSTER_TAG, NODE_CLASS_LABEL, owned_tag
from karpenter.cloud.errors import NodeClassNotReady

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.api.ec2nodeclass import EC2NodeClass


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
    """Return tags as a TagSpecification of EC2."""
    return {"ResourceType": resource, "Tags": [{"Key": key, "Value": tags[key]} for key in sorted(tags)]}
