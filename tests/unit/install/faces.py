"""
The faces of a plan in one form, each read by other means than those that wrote it.

The form is a mapping of what a resource is to what it says: ``("role", name)`` to its trust and policies, and
so on. A script is read as a shell reads it, templates by the rules of CloudFormation's references, Terraform
by python-hcl2, and stacks of CDK as templates whose references are worked out.
"""

from __future__ import annotations

import itertools
import json
import re
import shlex
from functools import cache
from typing import TYPE_CHECKING, Any

import hcl2
import yaml

from karpenter.install.resources import (
    AwsAuthMapping,
    Ec2Tags,
    EksAccessEntry,
    EksAddon,
    EksPodIdentityAssociation,
    EventBridgeRule,
    IamInstanceProfile,
    IamPolicy,
    IamRole,
    OpenIDConnectProvider,
    ServiceLinkedRole,
    SqsQueue,
)
from karpenter_local.aws.cloudformation.template import TemplateScope, parse, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from karpenter.install.plan import InstallationPlan

Face = dict[tuple[str, ...], Any]

COMBINATIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "as it comes": ({}, {}),
    "pod identity": ({"identity": "pod-identity"}, {}),
    "aws-auth": ({"auth": "aws-auth"}, {}),
    "pod identity and aws-auth": ({"identity": "pod-identity", "auth": "aws-auth"}, {}),
    "an access entry where both are read": ({"auth": "access-entry"}, {}),
    "a cluster that reads access entries only": ({}, {"authentication_mode": "API"}),
    "a cluster that reads aws-auth only": ({}, {"authentication_mode": "CONFIG_MAP"}),
    "a namespace of its own": ({"namespace": "karpenter"}, {}),
    "another service account": ({"service_account": "autoscaler"}, {}),
    "another service account by pod identity": (
        {"service_account": "autoscaler", "namespace": "infra", "identity": "pod-identity"},
        {},
    ),
    "Bottlerocket": ({"ami_family": "Bottlerocket"}, {}),
    "values that are set": ({"sets": ("replicas=1", "settings.interruptionQueue=x")}, {}),
    "no drift, spot to spot": ({"disable_drift": True, "spot_to_spot": True}, {}),
    "names that are cut": ({"cluster": "a-cluster-with-a-name-of-more-than-forty-characters"}, {}),
    "China": ({}, {"partition": "aws-cn", "region": "cn-north-1"}),
    "China by pod identity": ({"identity": "pod-identity"}, {"partition": "aws-cn", "region": "cn-north-1"}),
    "GovCloud": ({}, {"partition": "aws-us-gov", "region": "us-gov-west-1"}),
    "eksdemo": ({"naming": "eksdemo"}, {}),
    "eksdemo by pod identity": ({"naming": "eksdemo", "identity": "pod-identity"}, {}),
    "eksdemo with an access entry": ({"naming": "eksdemo", "auth": "access-entry", "namespace": "k"}, {}),
}
"""Twenty combinations: options, and facts of the cluster."""


def of_plan(plan: InstallationPlan) -> Face:
    """Return what `karpenter install` makes in the account, step by step."""
    found: Face = {}
    for each in plan.resources:
        match each:
            case IamRole():
                inline = {name: dict(document) for name, document in each.inline.items()}
                found["role", each.name] = {
                    "trust": each.trust,
                    "attached": {*each.attached},
                    "inline": inline,
                }
            case IamPolicy():
                found["policy", each.name] = each.document
            case IamInstanceProfile():
                found["profile", each.name] = {each.role}
            case ServiceLinkedRole():
                found["linked role", each.service] = {}
            case AwsAuthMapping():
                found["aws-auth", each.role] = {"username": each.username, "groups": [*each.groups]}
            case OpenIDConnectProvider():
                found["oidc", each.url] = {each.audience}
            case SqsQueue():
                found["queue", each.name] = {"retention": each.retention, "sse": True, "policy": each.policy}
            case EventBridgeRule():
                found["rule", each.name] = {"pattern": each.pattern, "targets": {each.target_id: each.target}}
            case EksAccessEntry():
                found["entry", each.cluster, each.principal] = each.type
            case EksAddon():
                found["add-on", each.cluster, each.name] = {}
            case EksPodIdentityAssociation():
                found["association", each.cluster, each.namespace, each.service_account] = each.role
            case Ec2Tags():
                found |= {("tag", one, each.key): each.value for one in each.resources}
    return found


def of_script(text: str) -> Face:  # noqa: C901, PLR0912  one case for each command
    """Return what a script for the AWS CLI makes."""
    found: Face = {}
    for service, verb, options, words in _commands(text):
        name = options.get("role-name", "")
        match service, verb:
            case "iam", "create-role":
                trust = json.loads(options["assume-role-policy-document"])
                found["role", name] = {"trust": trust, "attached": set(), "inline": {}}
            case "iam", "attach-role-policy":
                found["role", name]["attached"].add(options["policy-arn"])
            case "iam", "put-role-policy":
                found["role", name]["inline"][options["policy-name"]] = json.loads(options["policy-document"])
            case "iam", "create-policy":
                found["policy", options["policy-name"]] = json.loads(options["policy-document"])
            case "iam", "create-instance-profile":
                found["profile", options["instance-profile-name"]] = set()
            case "iam", "add-role-to-instance-profile":
                found["profile", options["instance-profile-name"]].add(name)
            case "iam", "create-service-linked-role":
                found["linked role", options["aws-service-name"]] = {}
            case "iam", "create-open-id-connect-provider":
                found["oidc", options["url"]] = {options["client-id-list"]}
            case "sqs", "create-queue":
                given = json.loads(options["attributes"])
                found["queue", options["queue-name"]] = {
                    "retention": int(given["MessageRetentionPeriod"]),
                    "sse": given["SqsManagedSseEnabled"] == "true",
                    "policy": json.loads(given["Policy"]),
                }
            case "events", "put-rule":
                pattern = json.loads(options["event-pattern"])
                found["rule", options["name"]] = {"pattern": pattern, "targets": {}}
            case "events", "put-targets":
                target = dict(part.split("=", 1) for part in options["targets"].split(","))
                found["rule", options["rule"]]["targets"][target["Id"]] = target["Arn"]
            case "eks", "create-access-entry":
                found["entry", options["cluster-name"], options["principal-arn"]] = options["type"]
            case "eks", "create-addon":
                found["add-on", options["cluster-name"], options["addon-name"]] = {}
            case "eks", "create-pod-identity-association":
                key = (options["cluster-name"], options["namespace"], options["service-account"])
                found["association", *key] = options["role-arn"]
            case "ec2", "create-tags":
                ids = words[words.index("--resources") + 1 : words.index("--tags")]
                tag = dict(part.split("=", 1) for part in options["tags"].split(","))
                found |= {("tag", one, tag["Key"]): tag["Value"] for one in ids}
            case "create", "iamidentitymapping":  # of eksctl
                groups = [after for word, after in itertools.pairwise(words) if word == "--group"]
                found["aws-auth", options["arn"]] = {"username": options["username"], "groups": groups}
    return found


def _commands(text: str) -> Iterator[tuple[str, str, dict[str, str], list[str]]]:
    """Yield the commands that change something, of aws and eksctl, with the first word after each option."""
    text = re.sub(r"<<'EOF'.*?\nEOF\n", "\n", text.replace("\\\n", " "), flags=re.DOTALL)
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        while words:
            end = words.index("||") if "||" in words else len(words)
            command, words = words[:end], words[end + 1 :]
            if command[:1] in (["aws"], ["eksctl"]) and not command[2].startswith(
                ("get-", "describe-", "list-")
            ):
                pairs = itertools.pairwise(command)
                options = {key[2:]: value for key, value in pairs if key.startswith("--")}
                yield command[1], command[2], options, command


class _Names:
    """ARNs by the name and the sort of a resource, in the account of a plan."""

    def __init__(self, plan: InstallationPlan) -> None:
        facts = plan.facts
        self._iam = f"arn:{facts.partition}:iam::{facts.account}:"
        self._sqs = f"arn:{facts.partition}:sqs:{facts.region}:{facts.account}:"

    def role(self, name: str) -> str:
        return f"{self._iam}role/{name}"

    def policy(self, name: str) -> str:
        return f"{self._iam}policy/{name}"

    def provider(self, url: str) -> str:
        return f"{self._iam}oidc-provider/{url.removeprefix('https://')}"

    def queue(self, name: str) -> str:
        return f"{self._sqs}{name}"


def of_templates(text: str, plan: InstallationPlan) -> Face:
    """Return what printed CloudFormation templates make, together."""
    found: Face = {}
    for template in yaml.load_all(text, yaml.CSafeLoader):
        found |= of_template(template, plan) if template else {}
    return found


def of_template(template: Mapping[str, Any], plan: InstallationPlan) -> Face:
    """Return what one CloudFormation template makes; resources of other services are passed over."""
    resources, arns = template["Resources"], _Names(plan)

    def attribute(name: str) -> str:
        kind, given = resources[name]["Type"], resources[name]["Properties"]
        match kind:
            case "AWS::IAM::Role":
                return arns.role(given["RoleName"])
            case "AWS::SQS::Queue":
                return arns.queue(given["QueueName"])
            case "AWS::IAM::ManagedPolicy":
                return arns.policy(given["ManagedPolicyName"])
        raise AssertionError(kind)

    def resolved(value: Any) -> Any:
        match value:
            case {"Fn::GetAtt": [name, "Arn"]}:
                return attribute(name)
            case {"Ref": name} if resources[name]["Type"] == "AWS::IAM::ManagedPolicy":
                return attribute(name)
            case {"Ref": name} if resources[name]["Type"] == "AWS::IAM::Role":
                return resources[name]["Properties"]["RoleName"]
            case {"Ref": name}:
                return name
            case dict():
                return {key: resolved(each) for key, each in value.items()}
            case list():
                return [resolved(each) for each in value]
        return value

    found: Face = {}
    queues: dict[str, str] = {}
    for name, each in resources.items():
        given = resolved(each["Properties"])
        queues[name] = given.get("QueueName", "")
        found |= _of_resource(each["Type"], given, queues, found)
    return found


def _of_resource(  # noqa: PLR0911  one for each type
    kind: str, given: Any, queues: dict[str, str], found: Face
) -> Face:
    match kind:
        case "AWS::IAM::Role":
            inline = {each["PolicyName"]: each["PolicyDocument"] for each in given.get("Policies", [])}
            attached = {*given.get("ManagedPolicyArns", [])}
            trust = given["AssumeRolePolicyDocument"]
            return {("role", given["RoleName"]): {"trust": trust, "attached": attached, "inline": inline}}
        case "AWS::IAM::ManagedPolicy":
            return {("policy", given["ManagedPolicyName"]): given["PolicyDocument"]}
        case "AWS::IAM::InstanceProfile":
            return {("profile", given["InstanceProfileName"]): {*given["Roles"]}}
        case "AWS::IAM::ServiceLinkedRole":
            return {("linked role", given["AWSServiceName"]): {}}
        case "AWS::IAM::OIDCProvider":
            return {("oidc", given["Url"]): {*given["ClientIdList"]}}
        case "AWS::SQS::Queue":
            said = {"retention": given["MessageRetentionPeriod"], "sse": given["SqsManagedSseEnabled"]}
            return {("queue", given["QueueName"]): said}
        case "AWS::SQS::QueuePolicy":
            name = queues[given["Queues"][0]]
            return {("queue", name): {**found["queue", name], "policy": given["PolicyDocument"]}}
        case "AWS::Events::Rule":
            targets = {each["Id"]: each["Arn"] for each in given["Targets"]}
            return {("rule", given["Name"]): {"pattern": given["EventPattern"], "targets": targets}}
        case "AWS::EKS::AccessEntry":
            return {("entry", given["ClusterName"], given["PrincipalArn"]): given["Type"]}
        case "AWS::EKS::Addon":
            return {("add-on", given["ClusterName"], given["AddonName"]): {}}
        case "AWS::EKS::PodIdentityAssociation":
            key = (given["ClusterName"], given["Namespace"], given["ServiceAccount"])
            return {("association", *key): given["RoleArn"]}
    return {}


def of_cdk(template: Mapping[str, Any], plan: InstallationPlan) -> Face:
    """Return what the add-on of a synthesised stack makes, with what it needs of the cluster."""
    parsed, arns, facts = parse(json.dumps(template)), _Names(plan), plan.facts
    named = {"AWS::IAM::Role": "RoleName", "AWS::IAM::InstanceProfile": "InstanceProfileName"}

    def given(logical: str) -> tuple[str, Mapping[str, Any]]:
        return parsed.resources[logical]["Type"], parsed.resources[logical].get("Properties", {})

    def physical(logical: str) -> str:
        kind, said = given(logical)
        match kind:
            case "AWS::IAM::ManagedPolicy":
                return arns.policy(said["ManagedPolicyName"])
            case "AWS::IAM::OIDCProvider":
                return arns.provider(facts.issuer)
            case "AWS::EKS::Cluster" | "Custom::AWSCDK-EKS-Cluster":
                return facts.cluster
        return str(said.get(named.get(kind, ""), logical))

    def attribute(logical: str, name: str) -> str:
        kind, said = given(logical)
        if kind == "AWS::IAM::Role" and "RoleName" in said:
            return arns.role(said["RoleName"])
        if kind == "AWS::SQS::Queue":
            return arns.queue(said["QueueName"])
        return facts.issuer if "IssuerUrl" in name else f"<{logical}.{name}>"

    known = {
        "AWS::AccountId": facts.account,
        "AWS::Region": facts.region,
        "AWS::Partition": facts.partition,
        "AWS::URLSuffix": "amazonaws.com.cn" if facts.partition == "aws-cn" else "amazonaws.com",
    }
    scope = TemplateScope(template=parsed, values=known, physical=physical, attribute=attribute)
    resources = {
        logical: {"Type": each["Type"], "Properties": _read_texts(resolve(scope, each.get("Properties", {})))}
        for logical, each in parsed.resources.items()
        if logical.startswith("Karpenter") or each["Type"] in _OF_CLUSTER
    }
    found = of_template({"Resources": resources}, plan)
    for each in resources.values():
        if each["Type"] == "Custom::AWSCDK-EKS-KubernetesResource":
            found |= _mapped(each["Properties"]["Manifest"], arns.role(plan.names.node_role))
    return found


_OF_CLUSTER = {"AWS::IAM::OIDCProvider", "AWS::EKS::Addon", "Custom::AWSCDK-EKS-KubernetesResource"}
"""What an add-on of CDK uses of its cluster."""


def _read_texts(properties: Any) -> Any:
    if isinstance(properties, dict):
        return {key: _read_texts(value) for key, value in properties.items()}
    if isinstance(properties, list):
        return [_read_texts(each) for each in properties]
    if isinstance(properties, str) and properties[:1] in {"{", "["}:
        return _read_texts(json.loads(properties))
    return properties


def _mapped(objects: Any, role: str) -> Face:
    """Return how the ConfigMap aws-auth lets a role in, if it is among these objects."""
    maps = [each for each in objects if each["metadata"]["name"] == "aws-auth"]
    entries = [entry for each in maps for entry in each["data"]["mapRoles"] if entry["rolearn"] == role]
    return {
        ("aws-auth", each["rolearn"]): {key: each[key] for key in ("username", "groups")} for each in entries
    }


def of_terraform(
    files: Mapping[str, str], plan: InstallationPlan, scope: Mapping[str, Any] | None = None
) -> Face:
    """Return what Terraform makes; `scope` has the values of expressions that it does not define itself."""
    return _TerraformFace(
        [files[name] for name in ("policies.tf", "main.tf") if name in files], plan, scope or {}
    ).face()


@cache
def hcl(text: str) -> dict[str, Any]:
    """Return what python-hcl2 reads; it takes its time, and many texts are alike."""
    found: dict[str, Any] = hcl2.loads(text)
    return found


_CALL = re.compile(r"\$\{(jsonencode|toset)\((.*)\)\}", re.DOTALL)
_EXPRESSION = re.compile(r"\$\{([^{}]*)\}")
_CHOICE = re.compile(r"(local\.\w+)\[(var\.\w+)\]")
_REFERENCE = re.compile(r"(\w+)\.(\w+)(?:\[(.+?)\])?\.(arn|name|url)")


class _TerraformFace:
    """Evaluates what the files of the plan use of the language, and nothing else."""

    def __init__(self, texts: list[str], plan: InstallationPlan, scope: Mapping[str, Any]) -> None:
        self._arns = _Names(plan)
        self._scope = dict(scope)
        self._bodies: dict[str, Any] = {}
        for plain in map(hcl, texts):
            for block in plain["resource"]:
                ((kind, named),) = block.items()
                ((name, body),) = named.items()
                self._bodies[f"{kind[1:-1]}.{name[1:-1]}"] = body
            for block in plain.get("locals", []):
                self._scope |= {f"local.{key}": value for key, value in block.items() if key[:2] != "__"}

    def face(self) -> Face:
        found: Face = {}
        for address, body in self._bodies.items():
            for each in self._instances(body):
                given = {
                    key: self._value(value, each)
                    for key, value in body.items()
                    if not key.startswith("__") and key not in {"for_each", "count", "depends_on"}
                }
                _terraform_resource(address.partition(".")[0], given, found)
        return found

    def _instances(self, body: Any) -> list[dict[str, Any]]:
        if "count" in body:
            return [{}] * self._value(body["count"], {})
        if "for_each" not in body:
            return [{}]
        over = self._value(body["for_each"], {})
        pairs = over.items() if isinstance(over, dict) else [(one, one) for one in over]
        return [{"key": key, "value": value} for key, value in pairs]

    def _value(self, value: Any, each: dict[str, Any]) -> Any:
        match value:
            case dict():
                items = ((k, v) for k, v in value.items() if not str(k).startswith("__"))
                return {self._value(_key(k), each): self._value(v, each) for k, v in items}
            case list():
                return [self._value(one, each) for one in value]
            case str() if value[:1] == '"' == value[-1:]:
                text = value[1:-1]
                return _EXPRESSION.sub(lambda match: str(self._expression(match[1], each)), text)
            case str() if call := _CALL.fullmatch(value):
                inner = hcl(f"x = {call[2]}\n")["x"]
                return self._value(inner, each)
            case str() if value.startswith("${"):
                return self._expression(value[2:-1].strip(), each)
        return value

    def _expression(self, text: str, each: dict[str, Any]) -> Any:
        if text in self._scope:
            return self._value(self._scope[text], each)
        if text == "each.key":
            return each["key"]
        if chosen := _CHOICE.fullmatch(text):
            return self._value(self._scope[chosen[1]][self._scope[chosen[2]]], each)
        if text.startswith("each.value"):
            found = each["value"]
            for step in text.split(".")[2:]:
                found = found[step]
            return found
        reference = _REFERENCE.fullmatch(text)
        assert reference is not None, text
        kind, name, index, attribute = reference.groups()
        body = self._bodies[f"{kind}.{name}"]
        if index == "each.key":
            over = self._value(body["for_each"], {})
            each = {"key": each["key"], "value": over[each["key"]]}
        return self._attribute(kind, body, attribute, each)

    def _attribute(self, kind: str, body: Any, attribute: str, each: dict[str, Any]) -> str:
        name = self._value(body.get("name", body.get("url")), each)
        if attribute != "arn":
            return str(name)
        makers = {
            "aws_iam_role": self._arns.role,
            "aws_iam_policy": self._arns.policy,
            "aws_iam_openid_connect_provider": self._arns.provider,
            "aws_sqs_queue": self._arns.queue,
        }
        return makers[kind](name)


def _key(key: str) -> str:
    return key if key[:1] == '"' else f'"{key}"'


def _terraform_resource(kind: str, given: Any, found: Face) -> None:  # noqa: C901  likewise
    match kind:
        case "aws_iam_role":
            role = {"trust": given["assume_role_policy"], "attached": set(), "inline": {}}
            found["role", given["name"]] = role
        case "aws_iam_role_policy_attachment":
            found["role", given["role"]]["attached"].add(given["policy_arn"])
        case "aws_iam_role_policy":
            found["role", given["role"]]["inline"][given["name"]] = given["policy"]
        case "aws_iam_policy":
            found["policy", given["name"]] = given["policy"]
        case "aws_iam_instance_profile":
            found["profile", given["name"]] = {given["role"]}
        case "aws_iam_service_linked_role":
            found["linked role", given["aws_service_name"]] = {}
        case "aws_iam_openid_connect_provider":
            found["oidc", given["url"]] = {*given["client_id_list"]}
        case "aws_sqs_queue":
            said = {"retention": given["message_retention_seconds"], "sse": given["sqs_managed_sse_enabled"]}
            found["queue", given["name"]] = said
        case "aws_sqs_queue_policy":
            found["queue", given["queue_url"]]["policy"] = given["policy"]
        case "aws_cloudwatch_event_rule":
            found["rule", given["name"]] = {"pattern": given["event_pattern"], "targets": {}}
        case "aws_cloudwatch_event_target":
            found["rule", given["rule"]]["targets"][given["target_id"]] = given["arn"]
        case "aws_eks_access_entry":
            found["entry", given["cluster_name"], given["principal_arn"]] = given["type"]
        case "aws_eks_addon":
            found["add-on", given["cluster_name"], given["addon_name"]] = {}
        case "aws_eks_pod_identity_association":
            key = (given["cluster_name"], given["namespace"], given["service_account"])
            found["association", *key] = given["role_arn"]
        case "aws_ec2_tag":
            found["tag", given["resource_id"], given["key"]] = given["value"]
