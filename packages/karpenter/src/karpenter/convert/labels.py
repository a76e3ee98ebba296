"""
Old label and annotation keys, and what is written instead.

Requirements of pools are judged here, too: what the old API filled in by itself is spelled out, and what a
pool may no longer say is dropped or refused.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from karpenter.api.labels import (
    ARCH,
    CAPACITY_TYPE,
    DO_NOT_DISRUPT,
    INSTANCE_TYPE,
    NODEPOOL,
    OS,
    REGION,
    ZONE,
)
from karpenter.convert.findings import Findings, Path, Plain, items, mapping

if TYPE_CHECKING:
    from collections.abc import Mapping


PROVISIONER_NAME: Final = "karpenter.sh/provisioner-name"
INSTANCE_PODS: Final = "karpenter.k8s.aws/instance-pods"
_CATEGORY: Final = "karpenter.k8s.aws/instance-category"
_FAMILY: Final = "karpenter.k8s.aws/instance-family"
_GENERATION: Final = "karpenter.k8s.aws/instance-generation"

STABLE_LABELS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "beta.kubernetes.io/arch": ARCH,
        "beta.kubernetes.io/os": OS,
        "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
        "failure-domain.beta.kubernetes.io/zone": ZONE,
        "failure-domain.beta.kubernetes.io/region": REGION,
    }
)
"""Labels that Kubernetes deprecated: https://kubernetes.io/docs/reference/labels-annotations-taints/"""

# https://karpenter.sh/v1.0/upgrading/v1-migration/
RENAMED_LABELS: Final[Mapping[str, str]] = MappingProxyType({**STABLE_LABELS, PROVISIONER_NAME: NODEPOOL})

RENAMED_ANNOTATIONS: Final[Mapping[str, str]] = MappingProxyType(
    {"karpenter.sh/do-not-evict": DO_NOT_DISRUPT, "karpenter.sh/do-not-consolidate": DO_NOT_DISRUPT}
)

FOREIGN_ANNOTATIONS: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "karpenter.sh/nodepool-hash",
        "karpenter.sh/nodepool-hash-version",
        "karpenter.sh/provisioner-hash",
        "karpenter.k8s.aws/ec2nodeclass-hash",
        "karpenter.k8s.aws/ec2nodeclass-hash-version",
        "karpenter.k8s.aws/nodetemplate-hash",
        "compatibility.karpenter.sh/v1beta1-kubelet-conversion",
        "compatibility.karpenter.sh/v1beta1-nodeclass-reference",
        "compatibility.karpenter.k8s.aws/v1beta1-ubuntu",
    }
)
"""Annotations that a cluster wrote and that are wrong for the converted object."""

_DROPPED_METADATA: Final = (
    "creationTimestamp",
    "resourceVersion",
    "uid",
    "managedFields",
    "generation",
    "selfLink",
)


def converted_metadata(plain: Plain) -> Plain:
    """Return the metadata of an object without what only the cluster writes."""
    metadata = mapping(plain.get("metadata"))
    found = {key: value for key, value in metadata.items() if key not in _DROPPED_METADATA}
    if "annotations" in found:
        kept = {k: v for k, v in mapping(found["annotations"]).items() if k not in FOREIGN_ANNOTATIONS}
        found["annotations"] = kept
        if not kept:
            del found["annotations"]
    return found


def converted_labels(labels: object, findings: Findings, field: str) -> Plain:
    """Return the labels that a pool gives its nodes, in today's spelling."""
    found: Plain = {}
    for key, value in mapping(labels).items():
        if key in {PROVISIONER_NAME, NODEPOOL}:
            findings.info("PoolLabel", f"label {key} is dropped: nodes get {NODEPOOL} by themselves", field)
            continue
        new = STABLE_LABELS.get(key, key)
        if new != key:
            findings.info("Renamed", f"label {key} is {new} now", field)
        found[new] = value
    return found


def moved_labels(labels: object, new: Path, old: Path) -> dict[Path, Path]:
    return {(*new, STABLE_LABELS[key]): (*old, key) for key in mapping(labels) if key in STABLE_LABELS}


def converted_requirements(requirements: object, findings: Findings, *, pool: str, field: str) -> list[Any]:
    found: list[Any] = []
    for requirement in items(requirements):
        key = str(mapping(requirement).get("key"))
        if key in {PROVISIONER_NAME, NODEPOOL}:
            if requirement.get("operator") == "In" and requirement.get("values") == [pool]:
                findings.info("PoolLabel", f"requirement on {key} is dropped: it always holds", field)
            else:
                findings.error("PoolLabel", f"a pool may not ask for {key}: its nodes are in it", field)
        elif key == INSTANCE_PODS:
            findings.warn(
                "InstancePods",
                f"requirement on {key} is dropped: there is no such label; use spec.kubelet.maxPods",
                field,
            )
        elif key in STABLE_LABELS:
            findings.info("Renamed", f"label {key} is {STABLE_LABELS[key]} now", field)
            found.append({**requirement, "key": STABLE_LABELS[key]})
        else:
            found.append(requirement)
    return found


def with_defaults(requirements: list[Any], labels: Plain) -> tuple[list[Any], list[str]]:
    """
    Return requirements with those that the v1alpha5 webhook filled in, and the keys of what was added.

    The NodePool API fills in nothing: https://karpenter.sh/v0.32/upgrading/v1beta1-migration/
    """
    named = {str(mapping(each).get("key")) for each in requirements} | set(labels)
    added = [
        _requirement(key, "In", [value])
        for key, value in ((OS, "linux"), (ARCH, "amd64"), (CAPACITY_TYPE, "on-demand"))
        if key not in named
    ]
    if not named & {INSTANCE_TYPE, _FAMILY, _CATEGORY, _GENERATION}:
        added.append(_requirement(_CATEGORY, "In", ["c", "m", "r"]))
        added.append(_requirement(_GENERATION, "Gt", ["2"]))
    return [*requirements, *added], [each["key"] for each in added]


def _requirement(key: str, operator: str, values: list[str]) -> Plain:
    return {"key": key, "operator": operator, "values": values}
