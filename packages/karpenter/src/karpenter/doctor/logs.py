"""
Known texts of logs and what they mean.

The texts are those that AWS, Kubernetes, Helm, the CDK add-on and Karpenter print; the explanations are ours.
Each text is found once per log, with the number of its first line and how often it occurs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.doctor.rule import ERROR, WARNING, DoctorRule, Symptom

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from karpenter.doctor.facts import DoctorFacts

TROUBLESHOOTING: Final = "https://karpenter.sh/docs/troubleshooting/"
_LONGEST: Final = 120


class KnownText(msgspec.Struct, frozen=True, kw_only=True):
    """A text that logs have, and what it means."""

    id: str
    pattern: str
    """A regular expression; a group called ``what`` is quoted in the message."""

    title: str
    fix: str
    why: str
    severity: str = ERROR
    link: str = TROUBLESHOOTING


KNOWN: Final = (
    KnownText(
        id="log-release-name",
        pattern=r'Error: path "[^"]*/(?P<what>[\w.-]+)" not found',
        title="The chart from the registry unpacks under the release name karpenter only.",
        fix="remove the add-on, then deploy it again with the release name karpenter",
        why="Charts from 0.17.0 on are in an OCI registry; one that was installed under another name cannot "
        "be upgraded in place.",
        link="https://karpenter.sh/docs/upgrading/upgrade-guide/",
    ),
    KnownText(
        id="log-addon-order",
        pattern=r"Missing a dependency for (?P<what>\w+)",
        title="An add-on that this one needs is missing from the list, or comes after it.",
        fix="put the named add-on into the list, before Karpenter",
        why="The CDK add-on looks at add-ons that were deployed before it.",
    ),
    KnownText(
        id="log-addon-conflict",
        pattern=r"failed due to conflicting add-on: (?P<what>\w+)",
        title="Karpenter and another autoscaler are in one list of add-ons.",
        fix="remove one of the two",
        why="Both answer the same pending pods with nodes.",
    ),
    KnownText(
        id="log-spot-role",
        pattern=r"ServiceLinkedRoleCreationNotPermitted|create the service-linked role for EC2 Spot",
        title="The account has no service-linked role for EC2 Spot.",
        fix="aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
        why="AWS makes the role with the first spot request of a principal that may create it, which the "
        "operator may not.",
    ),
    KnownText(
        id="log-dns",
        pattern=r"dial tcp: lookup (?P<what>[\w.-]+)(?: on [\d.:]+)?: "
        r"(?:i/o timeout|no such host|server misbehaving)",
        title="The operator cannot resolve names.",
        fix="set the chart value dnsPolicy: Default, or let CoreDNS run on the operator's nodes",
        why="It asks CoreDNS, which may wait for a node that only the operator can make.",
    ),
    KnownText(
        id="log-oidc",
        pattern=r"No OpenIDConnect provider found|InvalidIdentityToken",
        title="The account does not trust the cluster's OIDC issuer.",
        fix="eksctl utils associate-iam-oidc-provider --cluster CLUSTER --approve",
        why="STS does not accept tokens of the cluster's service accounts.",
    ),
    KnownText(
        id="log-irsa-trust",
        pattern=r"[Nn]ot authorized to perform:? sts:AssumeRoleWithWebIdentity",
        title="The operator's role does not trust its service account.",
        fix="trust sub system:serviceaccount:NAMESPACE:NAME with aud sts.amazonaws.com",
        why="Usual reasons: another namespace, another release name, or the issuer of a deleted cluster.",
    ),
    KnownText(
        id="log-no-credentials",
        pattern=r"no EC2 IMDS role found|NoCredentialProviders|Unable to locate credentials",
        title="The operator has no credentials.",
        fix="annotate its service account with eks.amazonaws.com/role-arn, or associate a role with it",
        why="Neither IRSA nor pod identity gives it a role, and the node's is out of reach for pods.",
    ),
    KnownText(
        id="log-not-authorized",
        pattern=r"not authorized to perform: (?!sts:AssumeRoleWithWebIdentity)(?P<what>[\w-]+:\w+)",
        title="A policy lacks an action.",
        fix="karpenter doctor --policy FILE says what is missing",
        why="AWS refused the call.",
    ),
    KnownText(
        id="log-malformed-policy",
        pattern=r"MalformedPolicyDocument|Syntax errors in policy",
        title="IAM cannot read a policy document.",
        fix="karpenter doctor --policy FILE says where",
        why="IAM does not say in which line the mistake is.",
    ),
    KnownText(
        id="log-no-subnets",
        pattern=r"no subnets (?:found|exist given constraints|matched)|SubnetsNotFound"
        r"|SubnetSelector did not match",
        title="An EC2NodeClass selects no subnet.",
        fix="tag the subnets with karpenter.sh/discovery=CLUSTER, or change subnetSelectorTerms",
        why="Terms are compared with the tags of subnets, letter by letter.",
    ),
    KnownText(
        id="log-no-security-groups",
        pattern=r"no security groups (?:found|exist given constraints)|SecurityGroupsNotFound"
        r"|SecurityGroupSelector did not match",
        title="An EC2NodeClass selects no security group.",
        fix="tag the group with karpenter.sh/discovery=CLUSTER, or change securityGroupSelectorTerms",
        why="Terms are compared with the tags of security groups, letter by letter.",
    ),
    KnownText(
        id="log-many-security-groups",
        pattern=r"[Mm]ultiple tagged security groups found for instance",
        title="Several security groups of a node are tagged as the cluster's.",
        fix="leave the tag kubernetes.io/cluster/CLUSTER on one of them",
        why="The load balancer controller opens ports in exactly one group.",
    ),
    KnownText(
        id="log-webhook",
        pattern=r'failed calling webhook "(?P<what>[\w.-]*karpenter[\w.-]*)"'
        r"|conversion webhook for karpenter",
        title="A webhook of another version is asked and does not answer.",
        fix="kubectl delete the webhook configuration, and apply the definitions: karpenter crds",
        why="Versions before 1.1 registered webhooks; upgrades by hand leave them behind.",
    ),
    KnownText(
        id="log-no-definitions",
        pattern=r'no matches for kind "(?P<what>NodePool|NodeClaim|EC2NodeClass)"',
        title="The CustomResourceDefinitions are not installed.",
        fix="karpenter crds | kubectl apply --server-side -f -",
        why="Helm installs definitions with the first release only.",
        link="https://helm.sh/docs/chart_best_practices/custom_resource_definitions/",
    ),
    KnownText(
        id="log-kubernetes-version",
        pattern=r"karpenter version is not compatible with K8s version (?P<what>[\d.]+)",
        title="This version of Karpenter does not support the cluster's version of Kubernetes.",
        fix="upgrade Karpenter to a version of the compatibility matrix, then the cluster",
        why="The operator stops at its start.",
        link="https://karpenter.sh/docs/upgrading/compatibility/",
    ),
    KnownText(
        id="log-registry",
        pattern=r"public\.ecr\.aws.*(?:403|[Ff]orbidden|denied: Your authorization token has expired)",
        title="The registry refuses an old login.",
        fix="helm registry logout public.ecr.aws",
        why="Public images need no login, and one that has expired is worse than none.",
    ),
    KnownText(
        id="log-no-capacity",
        pattern=r"InsufficientInstanceCapacity|UnfulfillableCapacity",
        title="AWS has no capacity of an instance type in a zone at this moment.",
        fix="allow more instance types and zones in the NodePool",
        why="The operator tries others for three minutes; a pool with one type has none.",
        severity=WARNING,
    ),
    KnownText(
        id="log-quota",
        pattern=r"VcpuLimitExceeded|MaxSpotInstanceCountExceeded|InstanceLimitExceeded",
        title="A quota of the account is used up.",
        fix="ask for more in the console of Service Quotas",
        why="EC2 counts vCPUs per family, for spot and on-demand apart.",
        link="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-resource-limits.html",
    ),
    KnownText(
        id="log-no-addresses",
        pattern=r"InsufficientFreeAddressesInSubnet",
        title="A subnet has no free addresses.",
        fix="select more or larger subnets",
        why="Every node and every pod takes an address of its subnet.",
    ),
    KnownText(
        id="log-queue",
        pattern=r"NonExistentQueue|specified queue does not exist",
        title="The interruption queue does not exist.",
        fix="create it, or set settings.interruptionQueue to the one that exists",
        why="The name is that of another cluster or region, or the stack was deleted.",
    ),
    KnownText(
        id="log-instance-profile",
        pattern=r"iamInstanceProfile\.name is invalid|Invalid IAM Instance Profile",
        title="EC2 does not know the instance profile.",
        fix="use spec.role in the EC2NodeClass and let the operator make the profile",
        why="The profile does not exist, has no role, or is seconds old.",
    ),
    KnownText(
        id="log-not-registered",
        pattern=r"[Nn]ode not registered with cluster|registration (?:ttl|timeout)|[Rr]egistrationTimeout",
        title="An instance started and its node did not join.",
        fix="check the access entry of the node role, its security groups, and the console output",
        why="The operator deletes a claim without a node after 15 minutes.",
    ),
    KnownText(
        id="log-no-instance-type",
        pattern=r"no instance type (?:satisfied|met|which (?:had|met))|no instance type has the required",
        title="No instance type fits a pod and the requirements of a pool.",
        fix="karpenter plan --why -f FILE says which requirement excludes what",
        why="The pod is larger than what the pool allows, or its selectors contradict the pool's.",
        severity=WARNING,
    ),
    KnownText(
        id="log-limits",
        pattern=r"all available instance types exceed limits for nodepool",
        title="A NodePool has reached its limits.",
        fix="raise spec.limits, or add a pool",
        why="Another machine would go past them.",
        severity=WARNING,
    ),
    KnownText(
        id="log-pdb",
        pattern=r"[Pp]db \"?(?P<what>[\w./-]+)\"? prevents pod evictions|violate the pod's disruption budget",
        title="A PodDisruptionBudget keeps a node.",
        fix="karpenter doctor -f FILE says which budget never allows an eviction",
        why="The node can be drained when the budget allows an eviction.",
        severity=WARNING,
    ),
    KnownText(
        id="log-throttled",
        pattern=r"RequestLimitExceeded|Throttling: Rate exceeded",
        title="AWS wants fewer calls.",
        fix="find what else calls EC2 in the account and region: CloudTrail counts by caller",
        why="All programs of an account share one rate.",
        severity=WARNING,
        link="https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html",
    ),
)


def _found(known: KnownText) -> Callable[[DoctorFacts], Iterator[Symptom]]:
    pattern = re.compile(known.pattern)

    def check(facts: DoctorFacts) -> Iterator[Symptom]:
        for log in facts.logs or ():
            hits = list(pattern.finditer(log.text))
            if not hits:
                continue
            line = log.text.count("\n", 0, hits[0].start()) + 1
            what = (hits[0].groupdict().get("what") or hits[0][0])[:_LONGEST]
            often = f" ({len(hits)} times)" if len(hits) > 1 else ""
            yield Symptom(subject=f"{log.source}:{line}", message=f"{what}: {known.title}{often}")

    return check


RULES: Final = tuple(
    DoctorRule(
        id=each.id,
        severity=each.severity,
        title=each.title,
        fix=each.fix,
        why=each.why,
        check=_found(each),
        needs=("logs",),
        link=each.link,
    )
    for each in KNOWN
)
