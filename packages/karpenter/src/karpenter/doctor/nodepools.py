"""
Rules about NodePools and EC2NodeClasses: what they may buy, what they cannot buy, and what they forget.

What a cluster would refuse outright is found by the rules of ``karpenter validate``, which run here too.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from karpenter.api.labels import ZONE
from karpenter.api.validation.documents import Finding, check_document, refusal
from karpenter.cloud.catalogs.ec2.data import region_of_zone
from karpenter.doctor.facts import (
    DoctorFacts,
    KindDenied,
    Plain,
    at,
    list_at,
    mapping_at,
    parse_version,
    spelled,
    text_at,
)
from karpenter.doctor.labels import zones_in
from karpenter.doctor.network import zones_of
from karpenter.doctor.objects import EC2_GROUP, OBJECT_RULES, REQUIREMENTS, buys_from_ec2
from karpenter.doctor.rule import ERROR, INFO, WARNING, DoctorRule, Symptom, listed, on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.api.manifests import Document

# The last Kubernetes version for which EKS publishes Amazon Linux 2.
# https://docs.aws.amazon.com/eks/latest/userguide/eks-ami-deprecation-faqs.html
LAST_AL2: Final = (1, 32)

_OURS: Final = frozenset({"karpenter.sh", EC2_GROUP})


def _invalid_object(facts: DoctorFacts) -> Iterator[Symptom]:
    for each in facts.objects or ():
        group = each.identity[0].partition("/")[0]
        if group not in _OURS or refusal(*each.identity) is not None:
            continue
        for found in check_document(each):
            if isinstance(found, Finding):
                yield on(each, found.message, field=found.field)


def _unreadable(facts: DoctorFacts) -> Iterator[Symptom]:
    for each in facts.unreadable:
        yield Symptom(subject=each.source, message=each.problem, severity="" if each.broken else INFO)


def of_objects(name: str) -> DoctorRule:
    """Return a rule about single objects as one about all of them."""
    rule = next(each for each in OBJECT_RULES if each.id == name)

    def check(facts: DoctorFacts) -> Iterator[Symptom]:
        for each in (*facts.pools(), *facts.classes()):
            if each.identity[1] in rule.kinds:
                yield from rule.check(each)

    return DoctorRule(
        id=rule.id,
        severity=rule.severity,
        title=rule.title,
        fix=rule.fix,
        why=rule.why,
        check=check,
        needs=("objects",),
        link=rule.link,
    )


def _limits(facts: DoctorFacts) -> Iterator[Symptom]:
    for pool in facts.pools():
        if at(pool.plain, "spec.replicas") is None and not at(pool.plain, "spec.limits"):
            yield on(pool, "nothing bounds what this pool may buy", field="spec.limits")


def ec2_pools(facts: DoctorFacts) -> Iterator[Document]:
    """Yield the pools that buy from EC2."""
    return filter(buys_from_ec2, facts.pools())


def _zone_unknown(facts: DoctorFacts) -> Iterator[Symptom]:
    for pool in ec2_pools(facts):
        named = sorted(zones_of(pool))
        regions = {region_of_zone(zone) for zone in named} - {""}
        region = facts.region or (regions.pop() if len(regions) == 1 else "")
        known = set(facts.aws.zones or ()) or zones_in(region)
        # Local zones and wavelength zones are opted into, and only the account knows them.
        lost = [zone for zone in named if zone not in known and (facts.aws.zones or not _is_local(zone))]
        if known and lost:
            yield on(
                pool,
                f"{region} has no zone {listed(lost)}; it has {listed(known, most=6)}",
                field=f"{REQUIREMENTS}[{ZONE}]",
                fix="name zones of the region",
                severity=ERROR if len(lost) == len(named) else WARNING,
            )
        elif not facts.region and len(regions) > 1:
            message = f"names zones of {listed(regions)}; a cluster is in one region"
            yield on(pool, message, field=f"{REQUIREMENTS}[{ZONE}]")


def _is_local(zone: str) -> bool:
    """Return whether a zone is named as a local zone or a wavelength zone, such as us-west-2-lax-1a."""
    return zone.removeprefix(region_of_zone(zone)).startswith("-")


def _class_missing(facts: DoctorFacts) -> Iterator[Symptom]:
    there = {
        (each.identity[0].partition("/")[0], each.identity[1], text_at(each.plain, "metadata.name"))
        for each in facts.objects or ()
    }
    for pool in facts.pools():
        found = mapping_at(pool.plain, "spec.template.spec.nodeClassRef")
        wanted = tuple(text_at(found, key) for key in ("group", "kind", "name"))
        if all(wanted) and wanted not in there:
            if wanted[1] in facts.denied:
                raise KindDenied(wanted[1])
            yield on(
                pool,
                f"{wanted[1]} {wanted[2]} is not {'there' if facts.live else 'among the manifests'}",
                field="spec.template.spec.nodeClassRef",
                fix=f"apply {wanted[1]} {wanted[2]}, or name another",
                severity=ERROR if facts.live else WARNING,
            )


def _al2(facts: DoctorFacts) -> Iterator[Symptom]:
    version = parse_version(facts.kubernetes or "")
    if version is None or version[:2] <= LAST_AL2:
        return
    for each in facts.classes():
        aliases = [str(at(term, "alias", "")) for term in list_at(each.plain, "spec.amiSelectorTerms")]
        if any(alias.startswith("al2@") for alias in aliases):
            message = f"there is no Amazon Linux 2 for Kubernetes {spelled(version[:2])}"
            yield on(each, message, field="spec.amiSelectorTerms")


def _pinned(facts: DoctorFacts) -> Iterator[Symptom]:
    for each in facts.classes():
        pinned = [str(term["id"]) for term in list_at(each.plain, "spec.amiSelectorTerms") if "id" in term]
        if pinned:
            message = f"{listed(pinned)}: an id is of one region, one version of Kubernetes and one release"
            yield on(each, message, field="spec.amiSelectorTerms")


def _not_ready(facts: DoctorFacts) -> Iterator[Symptom]:
    for each in (*facts.pools(), *facts.classes()):
        conditions = [
            condition
            for condition in list_at(each.plain, "status.conditions")
            if condition.get("status") in {"False", "Unknown"}
            and condition.get("type") != "NodeRegistrationHealthy"
        ]
        parts = [condition for condition in conditions if condition.get("type") != "Ready"]
        # Ready follows from the others: it is as bad as they are.
        begins = all(_begins(condition, facts.now) for condition in parts or conditions)
        for condition in conditions:
            message = f"{condition.get('reason', '')}: {condition.get('message', '')}".strip(": ")
            young = begins or _begins(condition, facts.now)
            yield on(
                each,
                (message or "is not ready") + (", for less than a minute" if young else ""),
                field=f"status.conditions[{condition.get('type')}]",
                fix="look again in a minute: the operator is about to find out" if young else "",
                severity=INFO if young else "",
            )


def _begins(condition: Plain, now: datetime | None) -> bool:
    """Whether it is not known yet how a part is, because the object has only just been written."""
    unknown = condition.get("status") == "Unknown" or condition.get("reason") in _NOT_KNOWN_YET
    try:
        since = datetime.fromisoformat(str(condition.get("lastTransitionTime")))
        return unknown and now is not None and now - since < _YOUNG
    except (TypeError, ValueError):  # of no form that says when
        return False


_NOT_KNOWN_YET: Final = frozenset({"NodeClassReadinessUnknown", "DependenciesNotReady", "NodeClassNotFound"})
"""Reasons of False that only say that something else is not known."""

_YOUNG: Final = timedelta(minutes=1)


RULES: Final = (
    DoctorRule(
        id="invalid-object",
        severity=ERROR,
        title="An object breaks a rule of its definition.",
        fix="correct the field; karpenter validate -f FILE checks files alone",
        why="The API server or the operator refuses it.",
        check=_invalid_object,
        needs=("objects",),
    ),
    DoctorRule(
        id="unreadable-manifest",
        severity=ERROR,
        title="A file is not a Kubernetes manifest.",
        fix="correct the YAML, or leave the file out",
        why="kubectl refuses it. Templates of charts and files of settings are named and left alone.",
        check=_unreadable,
        needs=("objects",),
    ),
    of_objects("placeholder"),
    DoctorRule(
        id="nodepool-limits",
        severity=WARNING,
        title="A NodePool has no limits.",
        fix="set spec.limits, such as cpu: 1000",
        why="A workload that runs away buys machines until the account's quota ends it.",
        check=_limits,
        needs=("objects",),
        link="https://karpenter.sh/docs/concepts/nodepools/#speclimits",
    ),
    of_objects("label-value"),
    DoctorRule(
        id="zone-unknown",
        severity=ERROR,
        title="A NodePool names zones that the region does not have.",
        fix="name zones of the region: aws ec2 describe-availability-zones",
        why="Nothing can be launched there.",
        check=_zone_unknown,
        needs=("objects",),
    ),
    of_objects("nodepool-empty"),
    DoctorRule(
        id="nodeclass-missing",
        severity=ERROR,
        title="A NodePool refers to a node class that is not there.",
        fix="apply the node class, or name another",
        why="The pool does not become ready.",
        check=_class_missing,
        needs=("objects",),
    ),
    DoctorRule(
        id="al2-image",
        severity=ERROR,
        title="Amazon Linux 2 is asked for, and there is none for this version of Kubernetes.",
        fix="use the alias al2023@latest, after testing that workloads run with cgroup v2",
        why="The class finds no image and does not become ready.",
        check=_al2,
        needs=("objects", "kubernetes"),
        link="https://docs.aws.amazon.com/eks/latest/userguide/eks-ami-deprecation-faqs.html",
    ),
    DoctorRule(
        id="pinned-ami",
        severity=INFO,
        title="An EC2NodeClass names images by id.",
        fix="use an alias, such as al2023@v20240807",
        why="Nodes get no security fixes, and keep their kubelet when the cluster is upgraded.",
        check=_pinned,
        needs=("objects",),
        link="https://karpenter.sh/docs/tasks/managing-amis/",
    ),
    of_objects("user-data"),
    of_objects("user-data-script"),
    of_objects("budget-zero"),
    DoctorRule(
        id="not-ready",
        severity=ERROR,
        title="A NodePool or an EC2NodeClass is not ready.",
        fix="put right what the condition names",
        why="The operator launches nothing for it.",
        check=_not_ready,
        needs=("live",),
    ),
)
