"""
Domains of label keys that belong to us or to a cloud provider, and the labels users may name in them.

A pool may ask for ``karpenter.k8s.aws/instance-cpu`` but not make up labels in that domain, since a
typing error there would silently match nothing. The definitions state this as rules; runtime
validation reads the same table.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from karpenter.api import labels
from karpenter.api.constraints import rule


class LabelDomain(msgspec.Struct, frozen=True, kw_only=True):
    """A domain, and the labels in it that users may name."""

    name: str
    known: tuple[str, ...]
    """Labels that pools and claims may name."""

    unknown_to_overlays: frozenset[str] = frozenset()
    """Labels among them that are decided after overlays have been applied."""

    @property
    def known_to_overlays(self) -> tuple[str, ...]:
        """Labels that overlays may name."""
        return tuple(label for label in self.known if label not in self.unknown_to_overlays)


def _in_domain(domain: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{domain}/{name}" for name in names)


CORE = LabelDomain(name=labels.GROUP, known=(labels.CAPACITY_TYPE, labels.NODEPOOL))

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
    unknown_to_overlays=frozenset(_in_domain("karpenter.k8s.aws", *_AWS_LATE)),
)

DOMAINS: tuple[LabelDomain, ...] = (CORE, KWOK, AWS)

ALL_LABEL_RULES = labels.LabelRules(
    well_known=labels.WELL_KNOWN_LABELS.union(*(domain.known for domain in DOMAINS)),
    restricted_domains=frozenset(domain.name for domain in DOMAINS),
)
"""The label rules of the core with those of every provider we ship; for checks without a provider at hand."""


def well_known_to(groups: Iterable[str]) -> frozenset[str]:
    """Return the labels that nodes of some providers have, who are known by the groups of their classes."""
    wanted = {labels.GROUP, *groups}
    return labels.WELL_KNOWN_LABELS.union(*(each.known for each in DOMAINS if each.name in wanted))


_DOMAIN = "find('^([^/]+)')"
_FEW = 4


def key_rules(*, overlay: bool = False, pool: bool = False) -> tuple[dict[str, Any], ...]:
    """
    Return the rules for one label key: one per domain, and one per label that may not be named.

    A pool may not speak of pools, since each of its nodes is in it and in no other.
    """
    domains = (_domain_rule("self", domain, overlay=overlay, pool=pool) for domain in DOMAINS)
    keys = (labels.HOSTNAME, labels.NODEPOOL) if pool else (labels.HOSTNAME,)
    return (*domains, *(rule(f"self != '{key}'", f"label {key} is restricted") for key in keys))


def map_rules() -> tuple[dict[str, Any], ...]:
    """Return the rules for the keys of a map of labels that a pool puts on its nodes."""
    domains = (_domain_rule("x", domain, pool=True) for domain in DOMAINS)
    keys = (labels.NODEPOOL, labels.HOSTNAME)
    return (
        *({**each, "rule": f"self.all(x, {each['rule']})"} for each in domains),
        *(rule(f"self.all(x, x != '{key}')", f"label {key} is restricted") for key in keys),
    )


def _domain_rule(
    variable: str, domain: LabelDomain, *, overlay: bool = False, pool: bool = False
) -> dict[str, Any]:
    known = domain.known_to_overlays if overlay else domain.known
    told = [label for label in known if not (pool and label == labels.NODEPOOL)]
    listed = ", ".join(f"'{label}'" for label in known)
    allowed = ", ".join(told) if len(told) <= _FEW else "the labels that its provider defines"
    return rule(
        f"{variable} in [{listed}] || !{variable}.{_DOMAIN}.endsWith('{domain.name}')",
        f"label domain {domain.name} is restricted; allowed are {allowed}",
    )
