"""
Rules about what an EC2NodeClass selects, and about the queue that tells of interruptions.

Selector terms are matched here as the provider does: terms are alternatives, the parts of a term must all
hold, and ``*`` in a value stands for anything.
"""

from __future__ import annotations

import difflib
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from karpenter.api.labels import ZONE
from karpenter.cloud.aws.policy.lint import statements_of
from karpenter.doctor.facts import (
    DoctorFacts,
    SecurityGroupFacts,
    SubnetFacts,
    at,
    list_at,
    mapping_at,
    queue_name,
    texts_at,
)
from karpenter.doctor.rule import ERROR, INFO, WARNING, DoctorRule, Symptom, listed, on

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from karpenter.api.manifests import Document

MOST_GROUPS: Final = 5
"""Security groups of one network interface. https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html"""

FEW_ADDRESSES: Final = 16

# What the operator reads from the queue. https://karpenter.sh/docs/concepts/disruption/#interruption
EVENTS: Final = {
    "EC2 Spot Instance Interruption Warning": "aws.ec2",
    "EC2 Instance Rebalance Recommendation": "aws.ec2",
    "EC2 Instance State-change Notification": "aws.ec2",
    "AWS Health Event": "aws.health",
    "EC2 Capacity Reservation Instance Interruption Warning": "aws.ec2",
}
_LATER: Final = "EC2 Capacity Reservation Instance Interruption Warning"
_SENDER: Final = "events.amazonaws.com"


def selected(
    terms: list[Any], things: tuple[SubnetFacts, ...] | tuple[SecurityGroupFacts, ...] | None
) -> list[Any]:
    return [each for each in things or () if any(_matches(term, each) for term in terms)]


def _matches(term: Any, thing: SubnetFacts | SecurityGroupFacts) -> bool:
    if not isinstance(term, dict) or not term:
        return False
    if "id" in term:
        return bool(term["id"] == thing.id)
    name = term.get("name")
    if name is not None and not fnmatchcase(getattr(thing, "name", ""), str(name)):
        return False
    return _has_tags(mapping_at(term, "tags"), thing.tags)


def _has_tags(wanted: Mapping[str, Any], tags: Mapping[str, str]) -> bool:
    return all(key in tags and fnmatchcase(tags[key], str(value or "*")) for key, value in wanted.items())


def _spelled(terms: list[Any]) -> str:
    texts = []
    for term in terms:
        tags = [f"{key}={value}" for key, value in mapping_at(term, "tags").items()]
        texts.append(" and ".join([*(f"{k}={term[k]}" for k in ("id", "name") if k in term), *tags]))
    return " or ".join(texts)


def _subnet_selector(facts: DoctorFacts) -> Iterator[Symptom]:
    for each in facts.classes():
        terms = list_at(each.plain, "spec.subnetSelectorTerms")
        if terms and not selected(terms, facts.aws.subnets):
            message = f"no subnet of {facts.region} has {_spelled(terms)}"
            yield on(each, message, field="spec.subnetSelectorTerms", fix=_tagging(terms, "SUBNET"))


def _group_selector(facts: DoctorFacts) -> Iterator[Symptom]:
    for each in facts.classes():
        terms = list_at(each.plain, "spec.securityGroupSelectorTerms")
        if terms and not selected(terms, facts.aws.security_groups):
            message = f"no security group of {facts.region} has {_spelled(terms)}"
            fix = _tagging(terms, "SECURITY_GROUP")
            yield on(each, message, field="spec.securityGroupSelectorTerms", fix=fix)


def _tagging(terms: list[Any], what: str) -> str:
    """Return the command that tags what a term would select."""
    for term in terms:
        tags = {key: value for key, value in mapping_at(term, "tags").items() if not key.startswith("aws:")}
        if tags:
            pairs = " ".join(f"Key={key},Value={value}" for key, value in tags.items())
            return f"aws ec2 create-tags --resources {what} --tags {pairs}"
    return ""


def _subnets_wide(facts: DoctorFacts) -> Iterator[Symptom]:
    vpc = facts.aws.eks.vpc if facts.aws.eks is not None else ""
    for each in facts.classes():
        found = selected(list_at(each.plain, "spec.subnetSelectorTerms"), facts.aws.subnets)
        foreign = [subnet for subnet in found if vpc and subnet.vpc != vpc]
        field = "spec.subnetSelectorTerms"
        if foreign:
            message = f"selects {listed(s.id for s in foreign)} of another VPC than the cluster's {vpc}"
            yield on(each, message, field=field)
        elif len({subnet.vpc for subnet in found}) > 1:
            yield on(each, f"selects subnets of {len({s.vpc for s in found})} VPCs", field=field)
        public = [subnet for subnet in found if subnet.public]
        if public and len(public) < len(found):
            message = f"selects public subnets ({listed(s.id for s in public)}) beside private ones"
            yield on(each, message, field=field, severity=WARNING)


def _groups_wide(facts: DoctorFacts) -> Iterator[Symptom]:
    field = "spec.securityGroupSelectorTerms"
    owned = f"kubernetes.io/cluster/{facts.cluster}"
    vpc = facts.aws.eks.vpc if facts.aws.eks is not None else ""
    for each in facts.classes():
        found = selected(list_at(each.plain, field), facts.aws.security_groups)
        foreign = [group.id for group in found if vpc and group.vpc != vpc]
        if foreign:
            message = f"selects {listed(foreign)} of another VPC than the cluster's {vpc}"
            yield on(each, message, field=field)
        if len(found) > MOST_GROUPS:
            message = f"selects {len(found)} groups; a network interface takes {MOST_GROUPS}"
            yield on(each, message, field=field)
        tagged = [group.id for group in found if owned in group.tags]
        if len(tagged) > 1:
            yield on(
                each,
                f"selects {listed(tagged)}, all tagged {owned}; load balancers need exactly one",
                field=field,
                fix=f"remove the tag {owned} from all but one, or select one",
                severity=WARNING,
            )


def _subnet_zones(facts: DoctorFacts) -> Iterator[Symptom]:
    classes = {str(at(each.plain, "metadata.name")): each for each in facts.classes()}
    for pool in facts.pools():
        found = classes.get(str(at(pool.plain, "spec.template.spec.nodeClassRef.name", "")))
        if found is None:
            continue
        subnets = selected(list_at(found.plain, "spec.subnetSelectorTerms"), facts.aws.subnets)
        there = {subnet.zone for subnet in subnets}
        wanted = zones_of(pool)
        lost = wanted - there
        if subnets and lost:
            names = at(found.plain, "metadata.name")
            yield on(
                pool,
                f"EC2NodeClass {names} selects no subnet in {listed(lost)}",
                field="spec.template.spec.requirements",
                fix=f"tag a subnet of {listed(lost)}, or leave the zone out",
                severity=ERROR if lost == wanted else WARNING,
            )


def zones_of(pool: Document) -> set[str]:
    return {
        value
        for each in list_at(pool.plain, "spec.template.spec.requirements")
        if each.get("key") == ZONE and each.get("operator") == "In"
        for value in texts_at(each, "values")
    }


def _subnet_addresses(facts: DoctorFacts) -> Iterator[Symptom]:
    for each in facts.classes():
        for subnet in selected(list_at(each.plain, "spec.subnetSelectorTerms"), facts.aws.subnets):
            if subnet.free_addresses < FEW_ADDRESSES:
                message = f"{subnet.id} in {subnet.zone} has {subnet.free_addresses} addresses left"
                yield on(each, message, field="spec.subnetSelectorTerms")


def _queue_missing(facts: DoctorFacts) -> Iterator[Symptom]:
    name, queues = queue_name(facts), facts.aws.queues or {}
    if name in queues and queues[name] is None:
        yield Symptom(
            subject=f"queue/{name}",
            field="settings.interruptionQueue",
            message=f"does not exist in {facts.region}",
        )


def _queue_unset(facts: DoctorFacts) -> Iterator[Symptom]:
    if not queue_name(facts):
        yield Symptom(
            subject="settings.interruptionQueue", message="is not set: spot interruptions are not seen"
        )


def _queue_policy(facts: DoctorFacts) -> Iterator[Symptom]:
    queue = (facts.aws.queues or {}).get(queue_name(facts))
    if queue is None:
        return
    for each in statements_of(queue.policy):
        services = at({"p": each.principal}, "p.Service", ()) if isinstance(each.principal, dict) else ()
        sends = any(fnmatchcase("sqs:sendmessage", action.lower()) for action in each.actions)
        if each.effect == "Allow" and sends and (_SENDER in services or each.principal == "*"):
            return
    yield Symptom(
        subject=f"queue/{queue.name}",
        field="Policy",
        message=f"does not allow sqs:SendMessage to {_SENDER}, so that no event arrives",
    )


def _event_rules(facts: DoctorFacts) -> Iterator[Symptom]:
    queue = (facts.aws.queues or {}).get(queue_name(facts))
    if queue is None:
        return
    arriving: set[str] = set()
    for rule in facts.aws.event_rules or ():
        kinds = [str(each) for each in rule.pattern.get("detail-type", ())]
        if queue.arn not in rule.targets:
            continue
        for kind in kinds:
            close = difflib.get_close_matches(kind, EVENTS, n=1, cutoff=0.85)
            if kind not in EVENTS and close:
                yield Symptom(
                    subject=f"rule/{rule.name}",
                    field="EventPattern.detail-type",
                    message=f"{kind!r} matches no event",
                    fix=f"write {close[0]!r}",
                )
        if not rule.enabled:
            yield Symptom(subject=f"rule/{rule.name}", field="State", message="is disabled", fix="enable it")
            continue
        arriving |= set(kinds)
    missing = [kind for kind in EVENTS if kind not in arriving]
    for severity in ("", WARNING):
        texts = [f"{kind} ({EVENTS[kind]})" for kind in missing if (kind == _LATER) == bool(severity)]
        if texts:
            message = f"no rule sends it: {', '.join(texts)}"
            yield Symptom(subject=f"queue/{queue.name}", message=message, severity=severity)


RULES: Final = (
    DoctorRule(
        id="subnet-selector",
        severity=ERROR,
        title="An EC2NodeClass selects no subnet.",
        fix="tag the subnets as the terms say, or change the terms",
        why="The class does not become ready (SubnetsNotFound), and its pools launch nothing.",
        check=_subnet_selector,
        needs=("objects", "aws.subnets"),
    ),
    DoctorRule(
        id="security-group-selector",
        severity=ERROR,
        title="An EC2NodeClass selects no security group.",
        fix="tag the security group as the terms say, or change the terms",
        why="The class does not become ready (SecurityGroupsNotFound), and its pools launch nothing.",
        check=_group_selector,
        needs=("objects", "aws.security_groups"),
    ),
    DoctorRule(
        id="subnet-selector-wide",
        severity=ERROR,
        title="An EC2NodeClass selects subnets that it should not.",
        fix="select by a tag that only the subnets for nodes of this cluster have",
        why="Instances start in another VPC and never join, or get public addresses.",
        check=_subnets_wide,
        needs=("objects", "aws.subnets"),
    ),
    DoctorRule(
        id="security-group-wide",
        severity=ERROR,
        title="An EC2NodeClass selects security groups that it should not.",
        fix="select by a tag that only the security group for nodes of this cluster has",
        why="EC2 refuses launches, or load balancers do not find the one group to open.",
        check=_groups_wide,
        needs=("objects", "aws.security_groups"),
        link="https://karpenter.sh/docs/troubleshooting/",
    ),
    DoctorRule(
        id="subnet-zones",
        severity=ERROR,
        title="A NodePool names zones in which its class has no subnet.",
        fix="tag a subnet of the zone, or leave the zone out",
        why="Nothing can be launched in that zone.",
        check=_subnet_zones,
        needs=("objects", "aws.subnets"),
    ),
    DoctorRule(
        id="subnet-addresses",
        severity=WARNING,
        title="A subnet has hardly any addresses left.",
        fix="select more or larger subnets, or use prefix delegation",
        why="Launches are refused with InsufficientFreeAddressesInSubnet, and pods get no address.",
        check=_subnet_addresses,
        needs=("objects", "aws.subnets"),
    ),
    DoctorRule(
        id="queue-missing",
        severity=ERROR,
        title="The interruption queue does not exist.",
        fix="create the queue, or set settings.interruptionQueue to the one that exists",
        why="The operator stops at its start, or learns of no interruption.",
        check=_queue_missing,
        needs=("operator", "aws.queues"),
    ),
    DoctorRule(
        id="queue-unset",
        severity=INFO,
        title="No interruption queue is set.",
        fix="create a queue with rules, and set settings.interruptionQueue",
        why="Spot instances go after two minutes without their pods being moved first.",
        check=_queue_unset,
        needs=("operator",),
        link="https://karpenter.sh/docs/concepts/disruption/#interruption",
    ),
    DoctorRule(
        id="queue-policy",
        severity=ERROR,
        title="The interruption queue refuses events.",
        fix="allow sqs:SendMessage to events.amazonaws.com and sqs.amazonaws.com in the queue's policy",
        why="Rules match, and nothing arrives.",
        check=_queue_policy,
        needs=("operator", "aws.queues"),
        link="https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html",
    ),
    DoctorRule(
        id="event-rules",
        severity=ERROR,
        title="Events that the operator reads do not reach its queue.",
        fix="create a rule for each, with the queue as target",
        why="The operator does not learn of interruptions of that sort.",
        check=_event_rules,
        needs=("operator", "aws.queues", "aws.event_rules"),
        link="https://karpenter.sh/docs/reference/cloudformation/",
    ),
)
