"""
Kinds of the past: what they were, and what has taken their place.

They are refused by name rather than skipped, because whoever hands them in expects nodes from them.
"""

from collections.abc import Mapping
from types import MappingProxyType

_COMING = "a converter for it is coming and is not part of this version"

_SUCCESSORS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("karpenter.sh/v1alpha5", "Provisioner"): "NodePool (karpenter.sh/v1)",
        ("karpenter.sh/v1alpha5", "Machine"): "NodeClaim (karpenter.sh/v1)",
        ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate"): "EC2NodeClass (karpenter.k8s.aws/v1)",
        ("karpenter.sh/v1beta1", "NodePool"): "NodePool (karpenter.sh/v1)",
        ("karpenter.sh/v1beta1", "NodeClaim"): "NodeClaim (karpenter.sh/v1)",
        ("karpenter.k8s.aws/v1beta1", "EC2NodeClass"): "EC2NodeClass (karpenter.k8s.aws/v1)",
    }
)


def refusal(api_version: str, kind: str) -> str | None:
    """Say what a kind of the past was and what has replaced it; None for every other kind."""
    successor = _SUCCESSORS.get((api_version, kind))
    if successor is None:
        return None
    return f"{api_version} {kind} is from before version 1 and was replaced by {successor}; {_COMING}"
