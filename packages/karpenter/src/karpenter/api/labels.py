"""
Keys of labels, annotations, taints and finalizers, and which labels a user may set.

The sets here are those of the core. A cloud provider adds its own well-known labels, restricted domains and
normalized labels with a :class:`LabelRules` of its own; the sets are never changed in place.

A NodePool may require ``karpenter.k8s.aws/instance-cpu`` but may not invent labels in that domain, because
a typing error there would silently match nothing. The CustomResourceDefinitions state this as CEL rules;
runtime validation reads the same table.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from karpenter.api.constraints import rule

# The groups of our kinds.
GROUP = "karpenter.sh"

# Labels of nodes and claims.
NODEPOOL = "karpenter.sh/nodepool"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
REGISTERED = "karpenter.sh/registered"
INITIALIZED = "karpenter.sh/initialized"
DO_NOT_SYNC_TAINTS = "karpenter.sh/do-not-sync-taints"
# Well-known labels of Kubernetes: https://kubernetes.io/docs/reference/labels-annotations-taints/
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ARCH = "kubernetes.io/arch"
OS = "kubernetes.io/os"
HOSTNAME = "kubernetes.io/hostname"
WINDOWS_BUILD = "node.kubernetes.io/windows-build"
# https://kubernetes.io/docs/reference/labels-annotations-taints/ has what load balancers do with it.
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
SOLD_OUT = "karpenter.sh/sold-out-offerings"
"""On an Event: the offerings that a launch was refused, with spaces."""

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
# https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/ defines the order of scale-down.
POD_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
DELETION_COST_SET = "karpenter.sh/deletion-cost-set"
"""The deletion cost that Karpenter has set. A pod whose cost differs from it was given its cost by a user."""

NODE_PRICE = "karpenter.sh/node-price"
"""On NodePools: what each of its nodes costs per hour besides the cloud's bill, in dollars."""

VCPU_PRICE = "karpenter.sh/vcpu-price"
"""On NodePools: the same for each vCPU."""

PREFERRED_POOL_PRICE = "karpenter.sh/preferred-pool-price"
"""On NodePools: what moving pods back to it is worth, as a share of the price of the node that they leave."""

ON_DEMAND_FLOOR = "karpenter.sh/on-demand-floor"
"""On NodePools and pods: how many nodes, or replicas, are kept on demand; a number, or a share in percent."""

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

# Taints that Kubernetes sets by conditions of the node, and that new nodes lose by themselves:
# https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
# Set by kubelets with an external cloud provider until its controller has seen the node:
# https://kubernetes.io/docs/tasks/administer-cluster/running-cloud-controller/
CLOUD_UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
# Taints of node readiness rules; their controller removes them once the node is ready for pods.
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

# A hostname is known only once the node exists, so no NodePool may require it.
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


class LabelDomain(msgspec.Struct, frozen=True, kw_only=True):
    """A domain, and the labels in it that users may name."""

    name: str
    known: tuple[str, ...]
    """Labels that pools and claims may name."""

    undefined: frozenset[str] = frozenset()
    """Labels that pods may name but that the definitions refuse, as those of Karpenter 1.14 do."""

    unknown_to_overlays: frozenset[str] = frozenset()
    """Labels among them that are decided after overlays have been applied."""

    def defined(self, *, overlay: bool) -> tuple[str, ...]:
        """Return the labels that the definitions let pools, claims or overlays name."""
        refused = self.undefined | self.unknown_to_overlays if overlay else self.undefined
        return tuple(label for label in self.known if label not in refused)


def _in_domain(domain: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{domain}/{name}" for name in names)


CORE = LabelDomain(name=GROUP, known=(CAPACITY_TYPE, NODEPOOL))

KWOK = LabelDomain(
    name="karpenter.kwok.sh",
    known=_in_domain(
        "karpenter.kwok.sh", "instance-cpu", "instance-family", "instance-memory", "instance-size"
    ),
)

_AWS_LATE = (
    "capacity-reservation-id",
    "capacity-reservation-interruptible",
    "capacity-reservation-type",
    "instance-tenancy",
    "placement-group-id",
    "placement-group-partition",
)

AWS = LabelDomain(
    name="karpenter.k8s.aws",
    known=_in_domain(
        "karpenter.k8s.aws",
        *_AWS_LATE,
        "ec2nodeclass",
        "instance-accelerator-count",
        "instance-accelerator-manufacturer",
        "instance-accelerator-name",
        "instance-capability-flex",
        "instance-category",
        "instance-cpu",
        "instance-cpu-manufacturer",
        "instance-cpu-sustained-clock-speed-mhz",
        "instance-ebs-bandwidth",
        "instance-encryption-in-transit-supported",
        "instance-family",
        "instance-generation",
        "instance-gpu-count",
        "instance-gpu-manufacturer",
        "instance-gpu-memory",
        "instance-gpu-name",
        "instance-hypervisor",
        "instance-local-nvme",
        "instance-memory",
        "instance-network-bandwidth",
        "instance-size",
        "nitro-sandbox",
    ),
    undefined=frozenset(_in_domain("karpenter.k8s.aws", "nitro-sandbox")),
    unknown_to_overlays=frozenset(_in_domain("karpenter.k8s.aws", *_AWS_LATE)),
)

DOMAINS: tuple[LabelDomain, ...] = (CORE, KWOK, AWS)

_DEFINED: tuple[LabelDomain, ...] = (CORE, AWS)
"""The domains that the definitions speak of, as Karpenter's definitions for AWS do."""

ALL_LABEL_RULES = LabelRules(
    well_known=WELL_KNOWN_LABELS.union(*(domain.known for domain in DOMAINS)),
    restricted_domains=frozenset(domain.name for domain in DOMAINS),
)
"""The label rules of the core with those of every provider we ship; for checks without a provider at hand."""


def label_rules_of(group: str) -> LabelRules:
    """Return the label rules of the provider whose classes are in `group`; of all where it is unknown."""
    found = [domain for domain in DOMAINS if domain.name == group]
    if not found:
        return ALL_LABEL_RULES
    return LabelRules(
        well_known=WELL_KNOWN_LABELS.union(CORE.known, *(domain.known for domain in found)),
        restricted_domains=frozenset({CORE.name, *(domain.name for domain in found)}),
    )


def well_known_to(groups: Iterable[str]) -> frozenset[str]:
    """Return the well-known labels of the providers whose node classes are in one of `groups`."""
    wanted = {GROUP, *groups}
    return WELL_KNOWN_LABELS.union(*(each.known for each in DOMAINS if each.name in wanted))


_DOMAIN = "find('^([^/]+)')"
# The message of a rule lists at most so many labels.
_MAX_LISTED_LABELS = 4


def key_rules(*, overlay: bool = False, pool: bool = False) -> tuple[dict[str, Any], ...]:
    """
    Return the rules for one label key: one per domain, and one per label that may not be named.

    A pool may not speak of pools, since each of its nodes is in it and in no other.
    """
    domains = (_domain_rule("self", domain, overlay=overlay, pool=pool) for domain in _DEFINED)
    keys = (HOSTNAME, NODEPOOL) if pool else (HOSTNAME,)
    return (*domains, *(rule(f"self != '{key}'", f"label {key} is restricted") for key in keys))


def map_rules() -> tuple[dict[str, Any], ...]:
    """Return the rules for the keys of a map of labels that a pool puts on its nodes."""
    domains = (_domain_rule("x", domain, pool=True) for domain in _DEFINED)
    keys = (NODEPOOL, HOSTNAME)
    return (
        *({**each, "rule": f"self.all(x, {each['rule']})"} for each in domains),
        *(rule(f"self.all(x, x != '{key}')", f"label {key} is restricted") for key in keys),
    )


def _domain_rule(
    variable: str, domain: LabelDomain, *, overlay: bool = False, pool: bool = False
) -> dict[str, Any]:
    known = domain.defined(overlay=overlay)
    told = [label for label in known if not (pool and label == NODEPOOL)]
    listed = ", ".join(f"'{label}'" for label in known)
    allowed = ", ".join(told) if len(told) <= _MAX_LISTED_LABELS else "the labels that its provider defines"
    return rule(
        f"{variable} in [{listed}] || !{variable}.{_DOMAIN}.endsWith('{domain.name}')",
        f"label domain {domain.name} is restricted; allowed are {allowed}",
    )
