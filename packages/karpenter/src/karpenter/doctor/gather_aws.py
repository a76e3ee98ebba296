"""
Facts from an AWS account: what the rules look at, read once, in a few threads.

Every read stands alone: one that AWS refuses or does not know leaves its fact unread, with the reason, and
the others go on. Only reads are made (Describe, Get, List).
"""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.parsers import ResponseParserError

from karpenter.api.labels import ON_DEMAND, SPOT
from karpenter.doctor.facts import (
    SPOT_ROLE,
    AccessEntryFacts,
    AwsFacts,
    DoctorFacts,
    EksFacts,
    EventRuleFacts,
    FargateSelector,
    PodIdentityFacts,
    PolicyText,
    QueueFacts,
    QuotaFacts,
    RoleFacts,
    SecurityGroupFacts,
    SubnetFacts,
    at,
    controller_role,
    node_roles,
    queue_name,
    role_name,
)
from karpenter.doctor.quotas import QUOTAS, quota_code, vcpus_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


THREADS: Final = 8
_LONGEST: Final = 160
_NOT_THERE: Final = frozenset(
    {
        "NoSuchEntity",
        "ResourceNotFoundException",
        "AWS.SimpleQueueService.NonExistentQueue",
        "QueueDoesNotExist",
    }
)
_AWS_MANAGED: Final = ":iam::aws:policy/"

T = TypeVar("T")


class AccountReader:
    """Reads one account for one cluster."""

    def __init__(self, client: Callable[[str], Any], *, region: str, cluster: str) -> None:
        self._clients = {
            name: client(name) for name in ("ec2", "eks", "events", "iam", "service-quotas", "sqs")
        }  # made here, because making them in threads is not safe
        self._region, self._cluster = region, cluster
        self.unread: dict[str, str] = {}
        self.missing = False
        """Whether EKS says that there is no such cluster."""

    def read(self, facts: DoctorFacts) -> AwsFacts:
        """Return what the account holds, as far as rules will look at it."""
        first = self._together(
            {
                "zones": self._zones,
                "subnets": self._subnets,
                "security_groups": self._groups,
                "oidc_providers": self._providers,
                "eks": self._eks,
                "pod_identities": self._associations,
                "access_entries": self._entries,
                "addons": self._addons,
                "fargate": self._fargate,
                "quotas": self._quotas,
                "instance_profiles": lambda: self._profiles(facts),
            }
        )
        aws = AwsFacts(**first)
        if aws.eks is not None and not aws.eks.vpc and aws.subnets:
            aws = msgspec.structs.replace(aws, eks=self._with_vpc(aws.eks, aws.subnets))
        known = msgspec.structs.replace(facts, aws=aws)
        names = {SPOT_ROLE, *node_roles(facts)}
        names |= {role for roles in (aws.instance_profiles or {}).values() for role in roles or ()}
        names |= {role_name(arn) for arn in [controller_role(known)] if arn}
        second = self._together(
            {"roles": lambda: self._roles(names), "queues": lambda: self._queues(queue_name(known))}
        )
        aws = msgspec.structs.replace(aws, **second)
        arns = [each.arn for each in (aws.queues or {}).values() if each is not None]
        return msgspec.structs.replace(aws, **self._together({"event_rules": lambda: self._rules(arns)}))

    def _together(self, reads: dict[str, Callable[[], Any]]) -> dict[str, Any]:
        """Return what reads answer; None for one that fails, with the reason noted."""
        with ThreadPoolExecutor(THREADS, thread_name_prefix="doctor") as pool:
            answers = {name: pool.submit(self._guarded, name, read) for name, read in reads.items()}
            return {name: answer.result() for name, answer in answers.items()}

    def _guarded(self, name: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except (ClientError, BotoCoreError, HTTPClientError, ResponseParserError) as error:
            self.unread[f"aws.{name}"] = f"{name.replace('_', ' ')} could not be read: {_reason(error)}"
            return None

    def _call(self, service: str, operation: str, **arguments: Any) -> Any:
        return getattr(self._clients[service], operation)(**arguments)

    def _find(self, service: str, operation: str, **arguments: Any) -> Any:
        """Return an answer; None where what is asked for does not exist."""
        try:
            return self._call(service, operation, **arguments)
        except ClientError as error:
            if error.response["Error"]["Code"] in _NOT_THERE:
                return None
            raise

    def _every(self, service: str, operation: str, field: str, **arguments: Any) -> Iterator[Any]:
        for page in self._clients[service].get_paginator(operation).paginate(**arguments):
            yield from page.get(field, ())

    def _zones(self) -> tuple[str, ...]:
        found = self._call("ec2", "describe_availability_zones")["AvailabilityZones"]
        return tuple(sorted(each["ZoneName"] for each in found))

    def _subnets(self) -> tuple[SubnetFacts, ...]:
        return tuple(
            SubnetFacts(
                id=each["SubnetId"],
                vpc=each["VpcId"],
                zone=each["AvailabilityZone"],
                tags=_tags(each.get("Tags", ())),
                free_addresses=int(each.get("AvailableIpAddressCount", 0)),
                public=bool(each.get("MapPublicIpOnLaunch")),
            )
            for each in self._every("ec2", "describe_subnets", "Subnets")
        )

    def _groups(self) -> tuple[SecurityGroupFacts, ...]:
        return tuple(
            SecurityGroupFacts(
                id=each["GroupId"],
                vpc=each.get("VpcId", ""),
                name=each["GroupName"],
                tags=_tags(each.get("Tags", ())),
            )
            for each in self._every("ec2", "describe_security_groups", "SecurityGroups")
        )

    def _providers(self) -> tuple[str, ...]:
        found = self._call("iam", "list_open_id_connect_providers")["OpenIDConnectProviderList"]
        return tuple(each["Arn"].partition(":oidc-provider/")[2] for each in found)

    def clusters(self) -> list[str]:
        """Return the names of the clusters that there are; none, where EKS does not say."""
        listed = self._guarded("clusters", lambda: list(self._every("eks", "list_clusters", "clusters")))
        return sorted(listed or ())

    def _eks(self) -> EksFacts:
        try:
            found = self._call("eks", "describe_cluster", name=self._cluster)["cluster"]
        except ClientError as error:
            self.missing = error.response["Error"]["Code"] in _NOT_THERE
            raise
        return EksFacts(
            name=self._cluster,
            version=str(found.get("version", "")),
            issuer=str(at(found, "identity.oidc.issuer", "")).removeprefix("https://"),
            vpc=str(at(found, "resourcesVpcConfig.vpcId", "")),
            auth_mode=str(at(found, "accessConfig.authenticationMode", "")),
        )

    def _with_vpc(self, eks: EksFacts, subnets: tuple[SubnetFacts, ...]) -> EksFacts:
        found = self._guarded("eks", lambda: self._call("eks", "describe_cluster", name=self._cluster)) or {}
        own = set(at(found, "cluster.resourcesVpcConfig.subnetIds", []))
        vpcs = {each.vpc for each in subnets if each.id in own}
        return msgspec.structs.replace(eks, vpc=vpcs.pop()) if len(vpcs) == 1 else eks

    def _associations(self) -> tuple[PodIdentityFacts, ...]:
        listed = self._every(
            "eks", "list_pod_identity_associations", "associations", clusterName=self._cluster
        )
        found = []
        for each in listed:
            told = self._call(
                "eks",
                "describe_pod_identity_association",
                clusterName=self._cluster,
                associationId=each["associationId"],
            )["association"]
            found.append(
                PodIdentityFacts(
                    namespace=told["namespace"], service_account=told["serviceAccount"], role=told["roleArn"]
                )
            )
        return tuple(found)

    def _entries(self) -> tuple[AccessEntryFacts, ...]:
        found = []
        for arn in self._every("eks", "list_access_entries", "accessEntries", clusterName=self._cluster):
            told = self._call("eks", "describe_access_entry", clusterName=self._cluster, principalArn=arn)[
                "accessEntry"
            ]
            groups = tuple(told.get("kubernetesGroups", ()))
            found.append(AccessEntryFacts(principal=arn, type=told.get("type", "STANDARD"), groups=groups))
        return tuple(found)

    def _addons(self) -> tuple[str, ...]:
        return tuple(self._every("eks", "list_addons", "addons", clusterName=self._cluster))

    def _fargate(self) -> tuple[FargateSelector, ...]:
        names = self._every("eks", "list_fargate_profiles", "fargateProfileNames", clusterName=self._cluster)
        return tuple(
            FargateSelector(namespace=each["namespace"], labels=each.get("labels") or {})
            for name in names
            for each in self._call(
                "eks", "describe_fargate_profile", clusterName=self._cluster, fargateProfileName=name
            )["fargateProfile"].get("selectors", ())
        )

    def _quotas(self) -> tuple[QuotaFacts, ...]:
        """Return the quotas of vCPUs, with what runs in this region."""
        listed = self._every("service-quotas", "list_service_quotas", "Quotas", ServiceCode="ec2")
        known = {each.code for each in QUOTAS}
        found = {each["QuotaCode"]: each for each in listed if each["QuotaCode"] in known}
        used = Counter[str]()
        running = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
        for reservation in self._every("ec2", "describe_instances", "Reservations", Filters=running):
            for each in reservation["Instances"]:
                bought = each.get("InstanceLifecycle") or ON_DEMAND
                if bought not in {SPOT, ON_DEMAND}:
                    continue  # a capacity block has a quota of its own
                used[quota_code(each["InstanceType"], bought)] += _vcpus(each)
        return tuple(
            QuotaFacts(code=code, name=each["QuotaName"], limit=float(each["Value"]), used=used[code])
            for code, each in sorted(found.items())
        )

    def _profiles(self, facts: DoctorFacts) -> dict[str, tuple[str, ...] | None]:
        names = {str(at(each.plain, "spec.instanceProfile", "")) for each in facts.classes()} - {""}
        found: dict[str, tuple[str, ...] | None] = {}
        for name in sorted(names):
            told = self._find("iam", "get_instance_profile", InstanceProfileName=name)
            roles = told["InstanceProfile"]["Roles"] if told is not None else None
            found[name] = tuple(each["RoleName"] for each in roles) if roles is not None else None
        return found

    def _roles(self, names: Iterable[str]) -> dict[str, RoleFacts | None]:
        return {name: self._role(name) for name in sorted(names)}

    def _role(self, name: str) -> RoleFacts | None:
        told = self._find("iam", "get_role", RoleName=name)
        if told is None:
            return None
        attached = list(self._every("iam", "list_attached_role_policies", "AttachedPolicies", RoleName=name))
        policies = [
            self._managed(each["PolicyArn"]) for each in attached if _AWS_MANAGED not in each["PolicyArn"]
        ]
        for inline in self._every("iam", "list_role_policies", "PolicyNames", RoleName=name):
            document = self._call("iam", "get_role_policy", RoleName=name, PolicyName=inline)[
                "PolicyDocument"
            ]
            policies.append(PolicyText(source=f"role/{name}/{inline}", text=_text(document), sort="inline"))
        return RoleFacts(
            name=name,
            arn=told["Role"]["Arn"],
            trust=_document(told["Role"].get("AssumeRolePolicyDocument")),
            attached=tuple(each["PolicyName"] for each in attached),
            policies=tuple(policies),
        )

    def _managed(self, arn: str) -> PolicyText:
        version = self._call("iam", "get_policy", PolicyArn=arn)["Policy"]["DefaultVersionId"]
        told = self._call("iam", "get_policy_version", PolicyArn=arn, VersionId=version)
        text = _text(told["PolicyVersion"]["Document"])
        return PolicyText(source=f"policy/{role_name(arn)}", text=text, sort="managed")

    def _queues(self, name: str) -> dict[str, QueueFacts | None]:
        if not name:
            return {}
        told = self._find("sqs", "get_queue_url", QueueName=name)
        if told is None:
            return {name: None}
        asked = {"QueueUrl": told["QueueUrl"], "AttributeNames": ["All"]}
        attributes = self._call("sqs", "get_queue_attributes", **asked)["Attributes"]
        policy = _document(attributes.get("Policy"))
        return {name: QueueFacts(name=name, arn=attributes["QueueArn"], policy=policy)}

    def _rules(self, arns: Iterable[str]) -> tuple[EventRuleFacts, ...]:
        return tuple(
            EventRuleFacts(
                name=name,
                pattern=_document(told.get("EventPattern")),
                enabled=told.get("State", "ENABLED") == "ENABLED",
                targets=(arn,),
            )
            for arn in arns
            for name in self._call("events", "list_rule_names_by_target", TargetArn=arn).get("RuleNames", ())
            for told in [self._call("events", "describe_rule", Name=name)]
        )


def _vcpus(instance: dict[str, Any]) -> int:
    options = instance.get("CpuOptions") or {}
    stated = int(options.get("CoreCount", 0)) * int(options.get("ThreadsPerCore", 1))
    return stated or vcpus_of(instance["InstanceType"])


def _reason(error: Exception) -> str:
    """Return what AWS said, in one line; a web page instead of an answer is left out."""
    text = str(error)
    if isinstance(error, ClientError):
        told = error.response.get("Error", {})
        text = f"{error.operation_name}: {told.get('Code', '')} {told.get('Message', '')}"
    return " ".join(text.partition("<")[0].split())[:_LONGEST]


def _tags(pairs: Iterable[dict[str, str]]) -> dict[str, str]:
    return {each["Key"]: each["Value"] for each in pairs}


def _document(document: Any) -> dict[str, Any]:
    """Return a document, which the SDK hands over as data or as text."""
    if isinstance(document, str):
        try:
            document = json.loads(document)
        except ValueError:
            return {}
    return document if isinstance(document, dict) else {}


def _text(document: Any) -> str:
    return document if isinstance(document, str) else json.dumps(document, indent=2)
