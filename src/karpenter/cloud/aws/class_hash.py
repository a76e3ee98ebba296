"""
The hash of a node class: machines whose class has another hash than theirs have drifted.

It covers what machines are made of and what is not looked up: tags, disks, user data, kubelet settings, the
role, and so on. What is selected (subnets, security groups, images, reservations) is compared one by one
elsewhere. Lists count as sets, and what is empty, zero or absent does not count.

The number is our own, and so is :data:`CLASS_HASH_VERSION`, which must change with anything that is hashed:
claims that carry another version are stamped anew instead of being replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.wire import to_plain
from karpenter.base.hashing import hash_integer, hash_set, hash_struct, hash_text
from karpenter.base.quantity import QuantityError, parse_quantity

if TYPE_CHECKING:
    from karpenter.api.ec2nodeclass import EC2NodeClass

CLASS_HASH_VERSION: Final = "p1"

_HASHED: Final = (
    "placementGroupSelector",
    "associatePublicIPAddress",
    "userData",
    "role",
    "instanceProfile",
    "tags",
    "blockDeviceMappings",
    "instanceStorePolicy",
    "networkInterfaces",
    "detailedMonitoring",
    "metadataOptions",
    "connectionTracking",
    "context",
    "cpuOptions",
)
_SIZE: Final = "volumeSize"


def class_hash(node_class: EC2NodeClass, *, ca_bundle: str) -> str:
    """Return the hash of a class as it stands in annotations: a decimal number."""
    plain = to_plain(node_class.spec)
    hashed: dict[str, Any] = {name: plain[name] for name in _HASHED if name in plain}
    hashed["family"] = node_class.spec.family
    hashed["caBundle"] = ca_bundle
    hashed["kubelet"] = msgspec.json.encode(node_class.spec.kubelet or None, order="deterministic").decode()
    return str(_hash(hashed))


def _hash(value: Any) -> int:
    match value:
        case str():
            return hash_text(value)
        case bool() | int():
            return hash_integer(int(value))
        case list():
            return hash_set(map(_hash, value))
        case _:
            fields = ((key, _canonical(key, value[key])) for key in sorted(value))
            return hash_struct("", ((key, _hash(each)) for key, each in fields if each))


def _canonical(key: str, value: Any) -> Any:
    """Return a size spelled the way sizes are printed, so that 1024Gi is 1Ti."""
    if key != _SIZE:
        return value
    try:
        return str(parse_quantity(value))
    except QuantityError:
        return value
