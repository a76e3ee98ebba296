"""
Provisioner, NodePool v1beta1 and NodeClaim v1beta1 as their v1 kinds.

Kubelet settings belong to the node class now: they are taken out here and placed by :mod:`.documents`, who
sees all objects. A pool that never removed nodes goes on never removing them.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.base.duration import NEVER
from karpenter.convert.findings import (
    ConversionFinding,
    ConversionOptions,
    Findings,
    NewDocument,
    Path,
    Plain,
    mapping,
    without_empty,
)
from karpenter.convert.labels import (
    converted_labels,
    converted_metadata,
    converted_requirements,
    moved_labels,
    with_defaults,
)
from karpenter.convert.nodeclasses import API_VERSION as CLASS_VERSION
from karpenter.convert.nodeclasses import GROUP, KIND, class_spec

if TYPE_CHECKING:
    from collections.abc import Mapping


POOL_VERSION: Final = "karpenter.sh/v1"
_SECONDS_AN_HOUR: Final = 3600
_SECONDS_A_MINUTE: Final = 60
_EMPTY: Final = "WhenEmpty"
_UNDERUTILIZED: Final = "WhenEmptyOrUnderutilized"
_PROVISIONER_FIELDS: Final = frozenset(
    {
        "annotations",
        "consolidation",
        "kubeletConfiguration",
        "labels",
        "limits",
        "provider",
        "providerRef",
        "requirements",
        "startupTaints",
        "taints",
        "ttlSecondsAfterEmpty",
        "ttlSecondsUntilExpired",
        "weight",
    }
)
_KUBELET_FIELDS: Final = frozenset(
    {
        "clusterDNS",
        "containerRuntime",
        "cpuCFSQuota",
        "evictionHard",
        "evictionMaxPodGracePeriod",
        "evictionSoft",
        "evictionSoftGracePeriod",
        "imageGCHighThresholdPercent",
        "imageGCLowThresholdPercent",
        "kubeReserved",
        "maxPods",
        "podsPerCore",
        "systemReserved",
    }
)
_TEMPLATE: Final[Path] = ("spec", "template")
_MOVES: Final[Mapping[Path, Path]] = MappingProxyType(
    {
        (*_TEMPLATE, "metadata", "labels"): ("spec", "labels"),
        (*_TEMPLATE, "metadata", "annotations"): ("spec", "annotations"),
        (*_TEMPLATE, "spec", "taints"): ("spec", "taints"),
        (*_TEMPLATE, "spec", "startupTaints"): ("spec", "startupTaints"),
        (*_TEMPLATE, "spec", "requirements"): ("spec", "requirements"),
        (*_TEMPLATE, "spec", "nodeClassRef"): ("spec", "providerRef"),
        (*_TEMPLATE, "spec", "expireAfter"): ("spec", "ttlSecondsUntilExpired"),
        ("spec", "disruption"): ("spec", "consolidation"),
        ("spec", "disruption", "consolidationPolicy"): ("spec", "consolidation", "enabled"),
        ("spec", "disruption", "consolidateAfter"): ("spec", "ttlSecondsAfterEmpty"),
        ("spec", "limits"): ("spec", "limits", "resources"),
    }
)
_BETA_MOVES: Final[Mapping[Path, Path]] = MappingProxyType(
    {
        (*_TEMPLATE, "spec", "expireAfter"): ("spec", "disruption", "expireAfter"),
        (*_TEMPLATE, "spec", "nodeClassRef", "group"): (*_TEMPLATE, "spec", "nodeClassRef", "apiVersion"),
    }
)


class PoolOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A pool as it will be, the class that it needs, and the kubelet settings that go there."""

    pool: NewDocument
    findings: tuple[ConversionFinding, ...]
    kubelet: dict[str, Any] | None = None
    node_class: NewDocument | None = None
    """The class that an inline provider becomes."""


def convert_provisioner(
    plain: Plain, options: ConversionOptions, *, profile: str, class_name: str
) -> PoolOutcome:
    """Return what becomes of a Provisioner; `class_name` names the class of an inline provider."""
    findings = Findings()
    findings.info("Kind", "Provisioner (v1alpha5) becomes NodePool (v1)")
    spec, name = mapping(plain.get("spec")), str(mapping(plain.get("metadata")).get("name", ""))
    for field in spec:
        if field not in _PROVISIONER_FIELDS:
            findings.error("UnknownField", "Provisioner has no such field", f"spec.{field}")
    reference, node_class = _node_class(spec, name, options, findings, profile=profile, class_name=class_name)
    labels = converted_labels(spec.get("labels"), findings, "spec.labels")
    requirements = converted_requirements(
        spec.get("requirements"), findings, pool=name, field="spec.requirements"
    )
    if not options.ignore_defaults:
        requirements, added = with_defaults(requirements, labels)
        if added:
            findings.info(
                "Defaults",
                f"requirements that the old API added by itself are spelled out: {', '.join(added)}",
                "spec.requirements",
            )
    template = without_empty(
        {"metadata": without_empty({"labels": labels, "annotations": spec.get("annotations")})}
    )
    template["spec"] = without_empty(
        {"taints": spec.get("taints"), "startupTaints": spec.get("startupTaints")}
    ) | {
        "requirements": requirements,
        "nodeClassRef": reference,
        "expireAfter": _expiry(spec, findings),
    }
    findings.warn(
        "Drift", "drift is always on: nodes that no longer match the NodePool or its class are replaced"
    )
    pool_spec: Plain = {"template": template, "disruption": _disruption(spec, findings)}
    pool_spec |= without_empty(
        {"limits": mapping(spec.get("limits")).get("resources"), "weight": spec.get("weight")}
    )
    document = {
        "apiVersion": POOL_VERSION,
        "kind": "NodePool",
        "metadata": converted_metadata(plain),
        "spec": pool_spec,
    }
    moves = moved_labels(spec.get("labels"), (*_TEMPLATE, "metadata", "labels"), ("spec", "labels"))
    return PoolOutcome(
        pool=NewDocument(plain=document, moves={**_MOVES, **moves}),
        kubelet=_kubelet(spec.get("kubeletConfiguration"), findings, "spec.kubeletConfiguration"),
        node_class=node_class,
        findings=tuple(findings.found),
    )


def _node_class(
    spec: Plain, name: str, options: ConversionOptions, findings: Findings, *, profile: str, class_name: str
) -> tuple[Plain, NewDocument | None]:
    given, reference = spec.get("provider"), spec.get("providerRef")
    if bool(given) == bool(reference):
        amount = "both" if given else "neither"
        findings.error(
            "Provider", f"exactly one of provider and providerRef has to be set, not {amount}", "spec"
        )
    if reference:
        kind = str(mapping(reference).get("kind") or "AWSNodeTemplate")
        if kind not in {"AWSNodeTemplate", KIND}:
            findings.error("Provider", f"kind {kind} is not one we know", "spec.providerRef.kind")
        return class_reference(str(mapping(reference).get("name", ""))), None
    if not given:
        return class_reference(name), None
    findings.info("InlineProvider", f"provider becomes an EC2NodeClass named {class_name}", "spec.provider")
    own = Findings()
    document = {
        "apiVersion": CLASS_VERSION,
        "kind": KIND,
        "metadata": {"name": class_name},
        "spec": class_spec(mapping(given), options, own, profile=profile),
    }
    for each in own.found:
        field = each.field.replace("spec.", "spec.provider.", 1)
        findings.found.append(msgspec.structs.replace(each, field=field))
    old: Path = ("spec", "provider")
    moves: dict[Path, Path] = {
        ("metadata",): ("spec", "provider", "metadata"),
        ("spec",): old,
        ("spec", "subnetSelectorTerms"): (*old, "subnetSelector"),
        ("spec", "securityGroupSelectorTerms"): (*old, "securityGroupSelector"),
        ("spec", "amiSelectorTerms"): (
            *old,
            "amiSelector" if mapping(given).get("amiSelector") else "amiFamily",
        ),
        ("spec", "role"): (*old, "instanceProfile"),
    }
    return class_reference(class_name), NewDocument(plain=document, moves=moves)


def class_reference(name: str) -> Plain:
    return {"group": GROUP, "kind": KIND, "name": name}


def _expiry(spec: Plain, findings: Findings) -> str:
    seconds = spec.get("ttlSecondsUntilExpired")
    if seconds is None:
        return NEVER
    warn_of_expiry(findings, "spec.ttlSecondsUntilExpired")
    return duration_of(seconds)


def warn_of_expiry(findings: Findings, field: str) -> None:
    findings.warn(
        "ForcefulExpiration",
        "expired nodes are drained at once: no replacement is started first, and budgets do not hold it back",
        field,
    )


def duration_of(seconds: object) -> str:
    """Return whole seconds in the largest unit that they are a multiple of."""
    if isinstance(seconds, bool) or not isinstance(seconds, int) or seconds < 0:
        return str(seconds)  # refused by the schema, which says what is allowed
    for size, unit in ((_SECONDS_AN_HOUR, "h"), (_SECONDS_A_MINUTE, "m")):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _disruption(spec: Plain, findings: Findings) -> Plain:
    enabled, seconds = mapping(spec.get("consolidation")).get("enabled"), spec.get("ttlSecondsAfterEmpty")
    if enabled and seconds is not None:
        findings.error(
            "Consolidation",
            "consolidation.enabled and ttlSecondsAfterEmpty exclude each other",
            "spec.consolidation",
        )
    if enabled:
        return {"consolidationPolicy": _UNDERUTILIZED, "consolidateAfter": "0s"}
    if seconds is not None:
        findings.warn(
            "ConsolidateAfter",
            "consolidateAfter counts from the last pod that came or went, not from the node becoming empty",
            "spec.ttlSecondsAfterEmpty",
        )
        return {"consolidationPolicy": _EMPTY, "consolidateAfter": duration_of(seconds)}
    findings.info(
        "NoScaleDown",
        "nodes were never removed for being empty and still are not: consolidateAfter is Never",
        "spec",
    )
    return {"consolidationPolicy": _EMPTY, "consolidateAfter": NEVER}


def _kubelet(given: object, findings: Findings, field: str) -> Plain | None:
    kubelet = mapping(given)
    if not kubelet:
        return None
    runtime = kubelet.get("containerRuntime")
    if runtime == "dockerd":
        findings.error(
            "ContainerRuntime", "dockerd is gone: nodes run containerd", f"{field}.containerRuntime"
        )
    elif runtime:
        findings.info("ContainerRuntime", "is dropped: nodes run containerd", f"{field}.containerRuntime")
    for each in kubelet:
        if each not in _KUBELET_FIELDS:
            findings.error("UnknownField", "is no kubelet setting that this API had", f"{field}.{each}")
    found = {key: value for key, value in kubelet.items() if key != "containerRuntime"}
    if found:
        findings.info("Kubelet", "kubelet settings belong to the EC2NodeClass", field)
    return found or None


def convert_beta_pool(plain: Plain) -> PoolOutcome:
    findings = Findings()
    findings.info("Kind", "NodePool (v1beta1) becomes NodePool (v1)")
    spec, name = mapping(plain.get("spec")), str(mapping(plain.get("metadata")).get("name", ""))
    template = mapping(spec.get("template"))
    inner = mapping(template.get("spec"))
    disruption = mapping(spec.get("disruption"))
    new_inner = {key: value for key, value in inner.items() if key not in {"kubelet", "resources"}}
    field = "spec.template.spec.requirements"
    new_inner["requirements"] = converted_requirements(
        inner.get("requirements"), findings, pool=name, field=field
    )
    new_inner["nodeClassRef"] = beta_reference(inner.get("nodeClassRef"))
    if "expireAfter" in disruption:
        new_inner["expireAfter"] = disruption["expireAfter"]
    if disruption.get("expireAfter") != NEVER:
        warn_of_expiry(findings, "spec.disruption.expireAfter")
    new_template = {**template, "spec": new_inner}
    metadata = mapping(template.get("metadata"))
    if "labels" in metadata:
        labels = converted_labels(metadata["labels"], findings, "spec.template.metadata.labels")
        new_template["metadata"] = {**metadata, "labels": labels}
    new_spec = {**spec, "template": new_template}
    new_disruption = _beta_disruption(disruption, findings)
    if new_disruption:
        new_spec["disruption"] = new_disruption
    else:
        new_spec.pop("disruption", None)
    document = {
        "apiVersion": POOL_VERSION,
        "kind": "NodePool",
        "metadata": converted_metadata(plain),
        "spec": new_spec,
    }
    place: Path = (*_TEMPLATE, "metadata", "labels")
    moves = moved_labels(metadata.get("labels"), place, place)
    return PoolOutcome(
        pool=NewDocument(plain=document, moves={**_BETA_MOVES, **moves}),
        kubelet=_kubelet(inner.get("kubelet"), findings, "spec.template.spec.kubelet"),
        findings=tuple(findings.found),
    )


def _beta_disruption(disruption: Plain, findings: Findings) -> Plain:
    found = {key: value for key, value in disruption.items() if key != "expireAfter"}
    if found.get("consolidationPolicy") == "WhenUnderutilized":
        findings.info(
            "Renamed",
            f"policy WhenUnderutilized is {_UNDERUTILIZED} now",
            "spec.disruption.consolidationPolicy",
        )
        found["consolidationPolicy"] = _UNDERUTILIZED
    if found:
        # v1 requires consolidateAfter wherever disruption is given: https://karpenter.sh/docs/upgrading/v1-migration/
        found.setdefault("consolidateAfter", "0s")
    return found


def beta_reference(reference: object) -> Plain:
    """Return a reference to a node class by its group, which v1beta1 named by its apiVersion."""
    found = mapping(reference)
    group = found.get("group") or str(found.get("apiVersion") or "").partition("/")[0] or GROUP
    return {"group": group, "kind": found.get("kind") or KIND, "name": str(found.get("name", ""))}


def convert_beta_claim(plain: Plain) -> PoolOutcome:
    findings = Findings()
    findings.info("Kind", "NodeClaim (v1beta1) becomes NodeClaim (v1)")
    findings.warn(
        "NodeClaim", "claims are made by the operator for its pools; applying one launches a machine"
    )
    spec = mapping(plain.get("spec"))
    found = {key: value for key, value in spec.items() if key != "kubelet"}
    found["nodeClassRef"] = beta_reference(spec.get("nodeClassRef"))
    if spec.get("kubelet"):
        findings.warn(
            "Kubelet", "kubelet settings are dropped: those of its EC2NodeClass hold", "spec.kubelet"
        )
    document = {
        "apiVersion": POOL_VERSION,
        "kind": "NodeClaim",
        "metadata": converted_metadata(plain),
        "spec": found,
    }
    moves: Mapping[Path, Path] = {
        ("spec", "nodeClassRef", "group"): ("spec", "nodeClassRef", "apiVersion"),
    }
    return PoolOutcome(pool=NewDocument(plain=document, moves=moves), findings=tuple(findings.found))
