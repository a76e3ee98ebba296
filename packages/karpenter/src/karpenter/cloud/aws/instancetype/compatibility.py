"""
Whether instances of a type can be what a node class asks for.

The AMI family, network interfaces, nested virtualization, the placement group and connection tracking each
exclude some instance types. Offerings of an incompatible type stay in the catalogue and are not available, so
that nodes of it keep their price.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.api.ec2nodeclass import AL2023
from karpenter.api.labels import AMD64

if TYPE_CHECKING:
    from karpenter.cloud.aws.instancetype.types import InstanceTypeInfo, Traits

# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CpuOptionsRequest.html
_NESTED: Final = "nested-virtualization"
_NITRO: Final = "nitro"

# Amazon Linux 2023 needs a processor with ARMv8.2, and a1 has ARMv8.0:
# https://docs.aws.amazon.com/linux/al2023/ug/system-requirements.html
_NOT_ON_AL2023: Final = "a1."


def is_compatible(info: InstanceTypeInfo, traits: Traits) -> bool:
    """Return whether instances of a type can be what a node class asks for."""
    if traits.family_name == AL2023 and info.name.startswith(_NOT_ON_AL2023):
        return False
    if traits.family.is_windows and info.facts.arch != AMD64:
        return False
    if traits.interfaces and not _takes_interfaces(info, traits):
        return False
    if traits.nested and _NESTED not in info.features:
        return False
    if traits.group is not None and traits.group.strategy not in info.strategies:
        return False
    # Only Nitro instances track connections with configurable timeouts:
    # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/security-group-connection-tracking.html
    return not traits.tracking or info.facts.hypervisor == _NITRO


def _takes_interfaces(info: InstanceTypeInfo, traits: Traits) -> bool:
    # Several network interfaces need the Elastic Network Adapter:
    # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/enhanced-networking-ena.html
    if not info.cards or not info.ena or len(traits.efa_only) > info.facts.efa_interfaces:
        return False
    return all(each.device_index < info.cards.get(each.network_card_index, 0) for each in traits.interfaces)
