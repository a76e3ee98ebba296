"""
Rules about NodePools and EC2NodeClasses: what they may buy, what they cannot buy, and what they forget.

What a cluster would refuse outright is found by the rules of ``karpenter validate``, which run here too.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.ec2nodeclass import AL2023, EC2NodeClassSpec
from karpenter.api.labels import ZONE
from karpenter.api.validation.documents import Finding, check_document, refusal
from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import BadUserData, Bootstrap
from karpenter.cloud.aws.amifamily.bootstrap.nodeadm import script_problem
from karpenter.cloud.aws.amifamily.bootstrap.userdata import render_user_data
from karpenter.cloud.aws.amifamily.family import family_of
from karpenter.doctor.facts import (
    DoctorFacts,
    Plain,
    at,
    list_at,
    mapping_at,
    parse_version,
    spelled,
    text_at,
    texts_at,
)
from karpenter.doctor.labels import matching_types, region_of, value_problem, zones_in
from karpenter.doctor.network import zones_of
from karpenter.doctor.rule import ERROR, INFO, WARNING, DoctorRule, Symptom, listed, on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.api.manifests import Document

# The last Kubernetes version for which EKS publishes Amazon Linux 2.
# https://docs.aws.amazon.com/eks/latest/userguide/eks-ami-deprecation-faqs.html
LAST_AL2: Final = (1, 32)

EC2_GROUP: Final = "karpenter.k8s.aws"
REQUIREMENTS: Final = "spec.template.spec.requirements"
_OURS: Final = frozenset({"karpenter.sh", EC2_GROUP})
_PLACEHOLDER: Final = re.compile(r"\$\{?[A-Za-z_][A-Za-z_0-9]*\}?|<<.+?>>|<[a-z][a-z-]*>")


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


def _placeholder(facts: DoctorFacts) -> Iterator[Symptom]:
    for each in (*facts.pools(), *facts.classes()):
        spec = {key: value for key, value in mapping_at(each.plain, "spec").items() if key != "userData"}
        for field, text in _texts(spec, "spec"):
            found = _PLACEHOLDER.search(text)
            if found:
                yield on(each, f"{text!r} has a placeholder that was not filled in", field=field)


def _texts(plain: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(plain, dict):
        for key, value in plain.items():
            yield from _texts(value, f"{path}.{key}")
    elif isinstance(plain, list):
        for number, value in enumerate(plain):
            yield from _texts(value, f"{path}[{number}]")
    elif isinstance(plain, str):
        yield path, plain


def _limits(facts: DoctorFacts) -> Iterator[Symptom]:
    for pool in facts.pools():
        if at(pool.plain, "spec.replicas") is None and not at(pool.plain, "spec.limits"):
            yield on(pool, "nothing bounds what this pool may buy", field="spec.limits")


def _requirements(pool: Document) -> list[dict[str, Any]]:
    return list_at(pool.plain, REQUIREMENTS)


def ec2_pools(facts: DoctorFacts) -> Iterator[Document]:
    """Yield the pools that buy from EC2."""
    for pool in facts.pools():
        if at(pool.plain, "spec.template.spec.nodeClassRef.group", EC2_GROUP) == EC2_GROUP:
            yield pool


def _label_value(facts: DoctorFacts) -> Iterator[Symptom]:
    for pool in ec2_pools(facts):
        for number, each in enumerate(_requirements(pool)):
            yield from wrong_values(pool, each, f"{REQUIREMENTS}[{number}].values")


def wrong_values(document: Document, requirement: dict[str, Any], field: str) -> Iterator[Symptom]:
    key, operator = text_at(requirement, "key"), text_at(requirement, "operator")
    values = texts_at(requirement, "values")
    if operator not in {"In", "NotIn"}:
        return
    problems = [found for value in values if (found := value_problem(key, value)) is not None]
    for each in problems:
        nothing_left = operator == "In" and len(problems) == len(values)
        meant = f"; did you mean {each.meant!r}?" if each.meant else ""
        effect = "so that nothing matches" if nothing_left else "so that it has no effect"
        yield on(
            document,
            f"{key} is never {each.value!r}, {effect}{meant}",
            field=field,
            fix=f"write {each.meant}" if each.meant else "leave it out; karpenter catalog lists the types",
            severity=ERROR if nothing_left and each.certain else WARNING,
        )


def _zone_unknown(facts: DoctorFacts) -> Iterator[Symptom]:
    for pool in ec2_pools(facts):
        named = sorted(zones_of(pool))
        regions = {region_of(zone) for zone in named} - {""}
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
    return zone.removeprefix(region_of(zone)).startswith("-")


def _empty(facts: DoctorFacts) -> Iterator[Symptom]:
    for pool in ec2_pools(facts):
        requirements = _requirements(pool)
        if any(True for each in requirements for _ in wrong_values(pool, each, "")):
            continue  # said already
        if not matching_types(requirements):
            yield on(pool, "no instance type of EC2 meets all of them", field=REQUIREMENTS)


def _class_missing(facts: DoctorFacts) -> Iterator[Symptom]:
    there = {
        (each.identity[0].partition("/")[0], each.identity[1], text_at(each.plain, "metadata.name"))
        for each in facts.objects or ()
    }
    for pool in facts.pools():
        found = mapping_at(pool.plain, "spec.template.spec.nodeClassRef")
        wanted = tuple(text_at(found, key) for key in ("group", "kind", "name"))
        if all(wanted) and wanted not in there:
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


def _specs(facts: DoctorFacts) -> Iterator[tuple[Document, EC2NodeClassSpec]]:
    for each in facts.classes():
        try:
            yield each, msgspec.convert(each.plain.get("spec"), EC2NodeClassSpec)
        except msgspec.ValidationError:
            continue  # invalid-object says so


def _user_data_script(facts: DoctorFacts) -> Iterator[Symptom]:
    for each, spec in _specs(facts):
        if spec.family != AL2023:
            continue
        try:
            problem = script_problem(spec.user_data or "")
        except BadUserData:
            continue  # user-data says so
        if problem:
            yield on(each, problem, field="spec.userData")


def _user_data(facts: DoctorFacts) -> Iterator[Symptom]:
    for each, spec in _specs(facts):
        node = Bootstrap(cluster="c", endpoint="https://c", ca_bundle="", custom=spec.user_data or "")
        try:
            render_user_data(family_of(spec.family), node)
        except BadUserData as error:
            yield on(each, str(error), field="spec.userData")


def _zero_budget(facts: DoctorFacts) -> Iterator[Symptom]:
    for pool in facts.pools():
        for number, each in enumerate(list_at(pool.plain, "spec.disruption.budgets")):
            always = not each.get("schedule") and not each.get("reasons")
            if always and str(each.get("nodes")) in {"0", "0%"}:
                message = "is 0 at all times: nodes never drift, consolidate or get new images"
                yield on(pool, message, field=f"spec.disruption.budgets[{number}].nodes")


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
    DoctorRule(
        id="placeholder",
        severity=ERROR,
        title="A manifest still has a placeholder in it.",
        fix="fill it in; a heredoc without quotes around EOF lets the shell do so",
        why="The text is taken as it is, and no role, tag or subnet is called that.",
        check=_placeholder,
        needs=("objects",),
    ),
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
    DoctorRule(
        id="label-value",
        severity=ERROR,
        title="A NodePool asks for a label value that no node has.",
        fix="write the value as nodes carry it; most are lower case",
        why="The requirement matches nothing (In), or excludes nothing (NotIn).",
        check=_label_value,
        needs=("objects",),
        link="https://karpenter.sh/docs/reference/instance-types/",
    ),
    DoctorRule(
        id="zone-unknown",
        severity=ERROR,
        title="A NodePool names zones that the region does not have.",
        fix="name zones of the region: aws ec2 describe-availability-zones",
        why="Nothing can be launched there.",
        check=_zone_unknown,
        needs=("objects",),
    ),
    DoctorRule(
        id="nodepool-empty",
        severity=ERROR,
        title="No instance type meets all requirements of a NodePool.",
        fix="karpenter plan --catalog aws -f FILE says which requirement excludes what",
        why="The pool is accepted and launches nothing.",
        check=_empty,
        needs=("objects",),
    ),
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
    DoctorRule(
        id="user-data",
        severity=ERROR,
        title="The user data of an EC2NodeClass cannot be merged with what its image family needs.",
        fix="write it as the family reads it: TOML for Bottlerocket, a script or a MIME archive else",
        why="The class does not become ready, and nothing is launched for it.",
        check=_user_data,
        needs=("objects",),
        link="https://karpenter.sh/docs/concepts/nodeclasses/#specuserdata",
    ),
    DoctorRule(
        id="user-data-script",
        severity=WARNING,
        title="The user data of an EC2NodeClass is no NodeConfig, and no script that can run.",
        fix="put the YAML of the NodeConfig right, or begin a script with #!/bin/bash",
        why="Karpenter runs what is no NodeConfig as a script; nodes start without what it was to set.",
        check=_user_data_script,
        needs=("objects",),
        link="https://karpenter.sh/docs/concepts/nodeclasses/#specuserdata",
    ),
    DoctorRule(
        id="budget-zero",
        severity=WARNING,
        title="A NodePool allows no disruption, ever.",
        fix="give the budget a schedule and a duration",
        why="Nodes never get new images and are never consolidated; only expiry and interruptions end them.",
        check=_zero_budget,
        needs=("objects",),
        link="https://karpenter.sh/docs/concepts/disruption/#nodepool-disruption-budgets",
    ),
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
