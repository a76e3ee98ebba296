"""
Label, annotation and taint keys that mean something to us, and which labels a user may set.

The sets here are those of the core. A cloud provider adds its own well-known labels, restricted
domains and renamed keys by making a :class:`LabelRules` of its own; nothing here is ever changed
in place.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

# The groups of our kinds.
GROUP = "karpenter.sh"

# Labels of nodes and claims.
NODEPOOL = "karpenter.sh/nodepool"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
REGISTERED = "karpenter.sh/registered"
INITIALIZED = "karpenter.sh/initialized"
DO_NOT_SYNC_TAINTS = "karpenter.sh/do-not-sync-taints"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ARCH = "kubernetes.io/arch"
OS = "kubernetes.io/os"
HOSTNAME = "kubernetes.io/hostname"
WINDOWS_BUILD = "node.kubernetes.io/windows-build"
EXCLUDE_FROM_LOAD_BALANCERS = "node.kubernetes.io/exclude-from-external-load-balancers"
"""Added with the value ``karpenter`` while a node leaves."""

# Values of the capacity type.
SPOT = "spot"
ON_DEMAND = "on-demand"
RESERVED = "reserved"
CAPACITY_TYPES = frozenset({SPOT, ON_DEMAND, RESERVED})

# Architectures and operating systems, as nodes spell them.
AMD64 = "amd64"
ARM64 = "arm64"
LINUX = "linux"
WINDOWS = "windows"

# Annotations.
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
"""On a node only ``true`` counts; on a pod ``true`` or a duration."""

NODEPOOL_HASH = "karpenter.sh/nodepool-hash"
NODEPOOL_HASH_VERSION = "karpenter.sh/nodepool-hash-version"
TERMINATION_TIMESTAMP = "karpenter.sh/nodeclaim-termination-timestamp"
MIN_VALUES_RELAXED = "karpenter.sh/nodeclaim-min-values-relaxed"
REQUESTED_DRA_DRIVERS = "karpenter.sh/requested-dra-drivers"
PRICE_OVERLAY_APPLIED = "karpenter.sh/price-overlay-applied"
CAPACITY_OVERLAY_APPLIED = "karpenter.sh/capacity-overlay-applied"
BUFFER_FAKE_POD = "karpenter.sh/capacity-buffer-fake-pod"
BUFFER_NAME = "karpenter.sh/capacity-buffer-name"
BUFFER_NAMESPACE = "karpenter.sh/capacity-buffer-namespace"
POD_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
DELETION_COST_SET = "karpenter.sh/deletion-cost-set"
"""The deletion cost that we have set: another one is somebody else's."""

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"

# Finalizers.
TERMINATION_FINALIZER = "karpenter.sh/termination"
"""On claims and on nodes: neither goes before its machine has."""

# Taints (the key; the effect is beside it).
DISRUPTED = "karpenter.sh/disrupted"
"""With NoSchedule: the node is about to leave."""

EMPTYING = "karpenter.sh/emptying"
"""With PreferNoSchedule: the node is to empty by itself. To us it is as good as any."""

UNREGISTERED = "karpenter.sh/unregistered"
"""With NoExecute: the machine has booted but its node is not ours yet."""

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
CLOUD_UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
READINESS_TAINT_PREFIX = "readiness.k8s.io/"

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"
TAINT_EFFECTS = frozenset({NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE})

# Resources.
WELL_KNOWN_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
NODES = "nodes"
"""The pseudo resource that counts nodes in the limits of a pool."""

WELL_KNOWN_LABELS = frozenset({NODEPOOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD})
"""Labels a template need not define for pods to ask for them."""

WELL_KNOWN_VALUES: Mapping[str, frozenset[str]] = MappingProxyType({CAPACITY_TYPE: CAPACITY_TYPES})
"""The values of labels whose values are all known."""

RESTRICTED_DOMAINS = frozenset({GROUP})
"""Domains whose labels (and those of their subdomains) users may not set, well-known ones aside."""

RESTRICTED_LABELS = frozenset({HOSTNAME})
"""Labels users may not set, whatever their domain."""

NORMALIZED_LABELS: Mapping[str, str] = MappingProxyType(
    {
        "failure-domain.beta.kubernetes.io/zone": ZONE,
        "failure-domain.beta.kubernetes.io/region": REGION,
        "beta.kubernetes.io/arch": ARCH,
        "beta.kubernetes.io/os": OS,
        "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
        "topology.ebs.csi.aws.com/zone": ZONE,
    }
)
"""Other spellings of labels, old ones and those of drivers, and today's."""


def domain_of(key: str) -> str:
    """Return the part of a label key before its slash; empty when there is none."""
    domain, slash, _ = key.partition("/")
    return domain if slash else ""


def node_class_label(group: str, kind: str) -> str:
    """Return the label key by which nodes name their node class."""
    return f"{group}/{kind.lower()}"


class LabelRules(msgspec.Struct, frozen=True, kw_only=True):
    """Which labels mean what: the core's own rules, with a provider's additions."""

    well_known: frozenset[str] = WELL_KNOWN_LABELS
    restricted_domains: frozenset[str] = RESTRICTED_DOMAINS
    restricted_labels: frozenset[str] = RESTRICTED_LABELS
    known_values: Mapping[str, frozenset[str]] = WELL_KNOWN_VALUES
    normalized: Mapping[str, str] = NORMALIZED_LABELS

    def normalize(self, key: str) -> str:
        """Return today's spelling of a label key."""
        return self.normalized.get(key, key)

    def is_restricted(self, key: str) -> bool:
        """Say whether users are kept from setting this label on nodes."""
        if key in self.well_known:
            return False
        domain = domain_of(key)
        in_domain = any(domain == each or domain.endswith(f".{each}") for each in self.restricted_domains)
        return in_domain or key in self.restricted_labels


CORE_LABEL_RULES = LabelRules()
"""The rules without any provider's additions."""


def is_restricted(key: str) -> bool:
    """Say whether the core's rules keep users from setting this label on nodes."""
    return CORE_LABEL_RULES.is_restricted(key)
