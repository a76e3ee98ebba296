"""
The plan as Terraform: plain ``aws_*`` resources and releases of charts, for Terraform 1.5 and OpenTofu.

Pure. :func:`terraform_files` writes the plan of one cluster, with its names and ids. :func:`module_files`
writes the module of ``deploy/terraform/karpenter``: the same plan, made for a cluster whose name, account and
issuer are expressions. Nothing needs kubectl: the default NodePool is a release of a chart that holds it.

A service-linked role, which may exist already, is made where a variable asks for it. What the files do not
make is said in them: an entry of the ConfigMap aws-auth. One key of it holds the entries of all roles, which
Terraform would have to own whole, and would take away from other nodes when it is destroyed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.chart.chart import CHARTS as CHART_FILES
from karpenter.install.hcl import HclBlock, HclCall, HclExpression, HclWriter
from karpenter.install.options import (
    NAMESPACES_OF_KUBERNETES,
    Identity,
    InstallationFacts,
    InstallationOptions,
)
from karpenter.install.plan import InstallationPlan, make_plan, set_values
from karpenter.install.resources import (
    MARKER,
    AwsAuthMapping,
    Ec2Tags,
    EksAccessEntry,
    EksAddon,
    EksPodIdentityAssociation,
    EventBridgeRule,
    HelmRelease,
    IamInstanceProfile,
    IamPolicy,
    IamRole,
    KubernetesObject,
    OpenIDConnectProvider,
    ServiceLinkedRole,
    SqsQueue,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


POLICIES, MAIN, CHART = "policies.tf", "main.tf", "chart.tf"
POOLS_CHART: Final = "nodepools"
_LINKED_ROLE: Final = "create_spot_service_linked_role"
_HERE: Final = "\ue000"
"""Stands for the folder of the files."""

_BEFORE_CHART: Final = (
    "aws_iam_role_policy_attachment.controller",
    "aws_iam_role_policy.controller",
    "aws_eks_pod_identity_association.controller",
)
"""What the operator needs when it starts."""

_WRITTEN: Final = "# Written by `make terraform` from the plan of `karpenter install`."
_DESTROY_SECONDS: Final = 900
"""How long NodePools have to go when their release is uninstalled: nodes are drained meanwhile."""

# aws: access entries and pod identity are in 5.33, and an OIDC provider needs no thumbprint from 5.81 on.
# https://github.com/hashicorp/terraform-provider-aws/blob/main/CHANGELOG.md
# helm: destroying a release waits until its objects are gone, on which the order of destruction rests.
# https://github.com/hashicorp/terraform-provider-helm/blob/main/helm/resource_helm_release.go
VERSIONS: Final = """\
terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.81"
    }
    helm = {
      source  = "hashicorp/helm"
      version = ">= 3.0"
    }
  }
}
"""
# A chart that holds whatever objects its values list: a resource of Kubernetes that Terraform itself would
# own has to be known to the cluster while Terraform plans, and NodePools are not before the first apply.
_POOLS: Final = {
    "Chart.yaml": "apiVersion: v2\nname: karpenter-nodepools\n"
    "description: NodePools and node classes, as the values list them.\nversion: 0.1.0\n",
    "values.yaml": "objects: []\n",
    "templates/objects.yaml": "{{- range .Values.objects }}\n---\n{{ toYaml . }}\n{{- end }}\n",
}


def terraform_files(plan: InstallationPlan) -> dict[str, str]:
    """Return the Terraform of one cluster by the names of its files."""
    asked = HclBlock(
        head=("variable", _LINKED_ROLE),
        body={
            "description": "Whether to make the account's role for EC2 Spot; fails where it exists.",
            "type": HclExpression("bool"),
            "default": False,
        },
    )
    found = _files([asked, *_blocks(plan)], HclWriter({_HERE: "path.module", **_references(plan)}))
    about = [f"# What Karpenter needs for the cluster {plan.facts.cluster}."]
    if outside := [each.title for each in plan.resources if isinstance(each, AwsAuthMapping)]:
        about += ["#", "# Not in these files:", *(f"#   {each}" for each in outside)]
        about.append("# `karpenter install` makes that, and leaves what is there.")
    return {"versions.tf": "\n".join(about) + "\n\n" + VERSIONS, **found}


def render_terraform(plan: InstallationPlan) -> str:
    """Return the Terraform of one cluster as one text."""
    return "\n".join(terraform_files(plan).values())


def charts() -> dict[str, str]:
    """Return the files of the charts that the Terraform of one cluster installs, below its folder."""
    found = {
        f"charts/{chart}/{name}": text for chart, make in CHART_FILES.items() for name, text in make().items()
    }
    return found | pools_chart()


def pools_chart() -> dict[str, str]:
    """Return the files of the chart that holds the default NodePool."""
    return {f"{POOLS_CHART}/{name}": text for name, text in _POOLS.items()}


def _files(blocks: Iterable[HclBlock], writer: HclWriter) -> dict[str, str]:
    files: dict[str, list[str]] = {POLICIES: [], MAIN: [], CHART: []}
    for each in blocks:
        name = MAIN
        if each.head[1:2] == ("aws_iam_policy",):
            name = POLICIES
        elif each.head[1:2] == ("helm_release",) or "chart_values" in each.body:
            name = CHART
        files[name].append(writer.block(each))
    return {name: "\n\n".join(texts) + "\n" for name, texts in files.items() if texts}


def _references(plan: InstallationPlan) -> dict[str, str]:
    """Return what is known by an expression: the ARNs of what the same files make."""
    found: dict[str, str] = {}
    for each in plan.resources:
        match each:
            case IamRole() | IamPolicy():
                found[each.arn] = f"{_address(plan, each)}.arn"
            case OpenIDConnectProvider():
                found[each.arn] = f"{_address(plan, each)}.arn"
            case SqsQueue():
                found[each.arn] = f"{_address(plan, each)}.arn"
    return found


def _address(plan: InstallationPlan, resource: IamRole | IamPolicy | OpenIDConnectProvider | SqsQueue) -> str:
    match resource:
        case IamRole():
            return f"aws_iam_role.{_role_label(plan, resource)}"
        case IamPolicy():
            return f"aws_iam_policy.{_policy_label(plan, resource)}"
        case OpenIDConnectProvider():
            return "aws_iam_openid_connect_provider.cluster"
        case SqsQueue():
            return "aws_sqs_queue.interruption"


def _role_label(plan: InstallationPlan, role: IamRole) -> str:
    return "controller" if role.name == plan.names.controller_role else "node"


def _policy_label(plan: InstallationPlan, policy: IamPolicy) -> str:
    """Return the part of a policy's name that tells it apart, in small letters."""
    part = policy.name.removesuffix(f"-{plan.facts.cluster}").removeprefix("KarpenterController")
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", part.removesuffix("Policy")).lower()


def _resource(kind: str, name: str, body: Mapping[str, Any], comment: str = "") -> HclBlock:
    return HclBlock(head=("resource", kind, name), body=body, comment=comment)


def _blocks(plan: InstallationPlan) -> Iterator[HclBlock]:
    rules = [each for each in plan.resources if isinstance(each, EventBridgeRule)]
    made: list[HclBlock] = []
    for each in plan.resources:
        match each:
            case IamRole():
                made += _role(plan, each)
            case EventBridgeRule():
                made += _rules(plan, rules) if each is rules[0] else ()
            case HelmRelease():
                addresses = {block.address for block in made}
                made += _release(each, [name for name in _BEFORE_CHART if name in addresses])
            case _:
                made += _single(plan, each)
    yield from made
    pools = [each.body for each in plan.resources if isinstance(each, KubernetesObject) and each.once]
    yield _pools(plan, pools)


def _single(plan: InstallationPlan, resource: Any) -> Iterator[HclBlock]:
    tags = {MARKER: plan.facts.cluster}
    body: dict[str, Any]
    match resource:
        case ServiceLinkedRole():
            body = {
                "count": HclExpression(f"var.{_LINKED_ROLE} ? 1 : 0"),
                "aws_service_name": resource.service,
            }
            about = "The account has one such role, which may exist already; EC2 sells no spot without it."
            yield _resource("aws_iam_service_linked_role", "spot", body, about)
        case OpenIDConnectProvider():
            body = {"url": resource.url, "client_id_list": [resource.audience], "tags": tags}
            yield _resource("aws_iam_openid_connect_provider", "cluster", body)
        case IamPolicy():
            policy = HclCall("jsonencode", resource.document)
            label = _policy_label(plan, resource)
            yield _resource("aws_iam_policy", label, {"name": resource.name, "policy": policy, "tags": tags})
        case IamInstanceProfile():
            role = HclExpression("aws_iam_role.node.name")
            yield _resource(
                "aws_iam_instance_profile", "node", {"name": resource.name, "role": role, "tags": tags}
            )
        case SqsQueue():
            yield _resource(
                "aws_sqs_queue",
                "interruption",
                {
                    "name": resource.name,
                    "message_retention_seconds": resource.retention,
                    "sqs_managed_sse_enabled": True,
                    "tags": tags,
                },
            )
            url = HclExpression("aws_sqs_queue.interruption.url")
            body = {"queue_url": url, "policy": HclCall("jsonencode", resource.policy)}
            yield _resource("aws_sqs_queue_policy", "interruption", body)
        case Ec2Tags():
            yield from _tags(resource)
        case EksAccessEntry() | EksAddon() | EksPodIdentityAssociation():
            yield _of_cluster(resource, tags)


def _of_cluster(
    resource: EksAccessEntry | EksAddon | EksPodIdentityAssociation, tags: dict[str, str]
) -> HclBlock:
    body: dict[str, Any] = {"cluster_name": resource.cluster}
    match resource:
        case EksAccessEntry():
            body |= {"principal_arn": resource.principal, "type": resource.type, "tags": tags}
            return _resource("aws_eks_access_entry", "node", body)
        case EksAddon():
            body |= {"addon_name": resource.name, "tags": tags}
            return _resource("aws_eks_addon", "pod_identity_agent", body)
        case EksPodIdentityAssociation():
            body |= {
                "namespace": resource.namespace,
                "service_account": resource.service_account,
                "role_arn": resource.role,
                "tags": tags,
            }
            return _resource("aws_eks_pod_identity_association", "controller", body)


def _role(plan: InstallationPlan, role: IamRole) -> Iterator[HclBlock]:
    label = _role_label(plan, role)
    tags = {MARKER: plan.facts.cluster}
    trust = HclCall("jsonencode", role.trust)
    yield _resource("aws_iam_role", label, {"name": role.name, "assume_role_policy": trust, "tags": tags})
    if role.attached:
        names = [
            (arn.rpartition("/")[2].removesuffix(f"-{plan.facts.cluster}"), arn) for arn in role.attached
        ]
        body = {
            "for_each": dict(names),
            "role": HclExpression(f"aws_iam_role.{label}.name"),
            "policy_arn": HclExpression("each.value"),
        }
        yield _resource("aws_iam_role_policy_attachment", label, body)
    for name, document in role.inline.items():
        body = {
            "name": name,
            "role": HclExpression(f"aws_iam_role.{label}.name"),
            "policy": HclCall("jsonencode", document),
        }
        yield _resource("aws_iam_role_policy", label, body)


def _rules(plan: InstallationPlan, rules: list[EventBridgeRule]) -> Iterator[HclBlock]:
    events = {each.resource.removesuffix("Rule"): {"name": each.name, **each.pattern} for each in rules}
    yield HclBlock(head=("locals",), body={"events": events}, comment="The events that the operator reads.")
    pattern = {
        "source": HclExpression("each.value.source"),
        "detail-type": HclExpression("each.value.detail-type"),
    }
    yield _resource(
        "aws_cloudwatch_event_rule",
        "interruption",
        {
            "for_each": HclExpression("local.events"),
            "name": HclExpression("each.value.name"),
            "event_pattern": HclCall("jsonencode", pattern),
            "tags": {MARKER: plan.facts.cluster},
        },
    )
    yield _resource(
        "aws_cloudwatch_event_target",
        "interruption",
        {
            "for_each": HclExpression("local.events"),
            "rule": HclExpression("aws_cloudwatch_event_rule.interruption[each.key].name"),
            "target_id": rules[0].target_id,
            "arn": rules[0].target,
        },
    )


def _tags(tags: Ec2Tags) -> Iterator[HclBlock]:
    if tags.resources:
        yield _resource(
            "aws_ec2_tag",
            "discovery",
            {
                "for_each": HclCall("toset", list(tags.resources)),
                "resource_id": HclExpression("each.value"),
                "key": tags.key,
                "value": tags.value,
            },
        )


def _release(release: HelmRelease, needed: Iterable[str]) -> Iterator[HclBlock]:
    place: dict[str, Any] = {"namespace": release.namespace}
    if release.namespace not in NAMESPACES_OF_KUBERNETES:
        place["create_namespace"] = True
    yield _resource(
        "helm_release",
        "crds",
        {"name": f"{release.name}-crd", "chart": f"{_HERE}/charts/karpenter-crd", **place},
        "Helm never upgrades what a chart has in its folder crds: the definitions are a chart of their own.",
    )
    yield _resource(
        "helm_release",
        "karpenter",
        {
            "name": release.name,
            "chart": f"{_HERE}/charts/{release.chart}",
            **place,
            "skip_crds": True,
            # While CoreDNS waits for a node, waiting for the operator would wait for ever.
            "wait": False,
            "values": [HclCall("yamlencode", set_values(release))],
            "depends_on": [HclExpression(each) for each in ("helm_release.crds", *needed)],
        },
    )


def _pools(plan: InstallationPlan, pools: list[Any]) -> HclBlock:
    return _resource(
        "helm_release",
        "nodepools",
        {
            "name": f"{plan.release.name}-nodepools",
            "chart": f"{_HERE}/{POOLS_CHART}",
            "namespace": plan.release.namespace,
            "timeout": _DESTROY_SECONDS,
            "values": [HclCall("yamlencode", {"objects": pools})],
            "depends_on": [HclExpression("helm_release.karpenter")],
        },
        "Goes before the operator does: its NodePools wait until their nodes are drained.",
    )


# The module: the plan of a cluster whose name and place are these characters, each of which is written as an
# expression. They are single ones so that no name is cut.
_CLUSTER, _ACCOUNT, _REGION, _PARTITION, _ISSUER, _NAMESPACE, _SERVICE_ACCOUNT, _SUFFIX = (
    chr(ord(_HERE) + number) for number in range(1, 9)
)
_MODULE_KNOWN: Final = {
    _HERE: "path.module",
    f"{_HERE}/charts": "local.charts",
    _CLUSTER: "var.cluster_name",
    _ACCOUNT: "data.aws_caller_identity.current.account_id",
    _REGION: "data.aws_region.current.id",
    _PARTITION: "data.aws_partition.current.partition",
    _ISSUER: "local.issuer",
    _NAMESPACE: "var.namespace",
    _SERVICE_ACCOUNT: "var.service_account",
    _SUFFIX: "data.aws_partition.current.dns_suffix",
    "AL2023": "var.ami_family",
    "al2023@latest": "local.ami_alias",
}
_CUT_NAME: Final = (
    'length(each.value.name) <= 64 ? each.value.name : join("-", '
    "[substr(each.value.name, 0, 55), substr(sha256(each.value.name), 0, 8)])"
)
_MODULE_FIELDS: Final[dict[str, dict[str, str]]] = {
    "aws_iam_openid_connect_provider.cluster": {
        "count": 'var.identity == "irsa" && var.oidc_provider_arn == "" ? 1 : 0'
    },
    "aws_eks_addon.pod_identity_agent": {
        "count": 'var.identity == "pod-identity" && var.create_pod_identity_agent ? 1 : 0'
    },
    "aws_eks_pod_identity_association.controller": {"count": 'var.identity == "pod-identity" ? 1 : 0'},
    "aws_eks_access_entry.node": {"count": "var.create_access_entry ? 1 : 0"},
    "aws_ec2_tag.discovery": {"for_each": "toset(concat(var.subnet_ids, var.security_group_ids))"},
    "aws_cloudwatch_event_rule.interruption": {"name": _CUT_NAME},
    "aws_iam_role.controller": {"assume_role_policy": "local.controller_trust[var.identity]"},
    "helm_release.karpenter": {
        "create_namespace": "true",
        "wait": "var.wait",
        "values": "concat([local.chart_values[var.identity]], var.values)",
        "depends_on": f"[\n    helm_release.crds,\n    {_BEFORE_CHART[0]},\n    {_BEFORE_CHART[2]},\n  ]",
    },
    "helm_release.crds": {"create_namespace": "true"},
    "helm_release.nodepools": {"count": "var.create_nodepool ? 1 : 0"},
}
"""What of the module is decided by its variables."""


def module_files() -> dict[str, str]:
    """Return the files of the module that are written from the plan, by their names."""
    irsa, pods = _module_blocks("irsa"), _module_blocks("pod-identity")
    merged = [irsa.get(key, pods.get(key)) for key in dict.fromkeys([*irsa, *pods])]
    role, release = "aws_iam_role.controller", "helm_release.karpenter"
    choices = {
        "controller_trust": (irsa[role].body["assume_role_policy"], pods[role].body["assume_role_policy"]),
        "chart_values": (irsa[release].body["values"][0], pods[release].body["values"][0]),
    }
    blocks = [
        HclBlock(head=("locals",), body={name: {"irsa": one, "pod-identity": other}})
        for name, (one, other) in choices.items()
    ]
    blocks += [_as_module(each) for each in merged if each is not None]
    plan = _module_plan("irsa")
    known = {**_references(plan), **_MODULE_KNOWN}
    known[plan.names.node_role], known[plan.names.controller_role] = (
        "local.node_role",
        "local.controller_role",
    )
    provider = next(each for each in plan.resources if isinstance(each, OpenIDConnectProvider))
    known[provider.arn] = "local.oidc_provider_arn"
    found = _files(blocks, HclWriter(known))
    found["versions.tf"] = VERSIONS
    return {name: f"{_WRITTEN}\n\n{text}" for name, text in found.items()} | pools_chart()


def _module_plan(identity: Identity) -> InstallationPlan:
    options = InstallationOptions(
        cluster=_CLUSTER, namespace=_NAMESPACE, service_account=_SERVICE_ACCOUNT, identity=identity
    )
    facts = InstallationFacts(
        cluster=_CLUSTER,
        account=_ACCOUNT,
        region=_REGION,
        partition=_PARTITION,
        issuer=f"https://{_ISSUER}",
        subnets=("subnet",),
        security_groups=("group",),
    )
    return make_plan(options, facts)


def _module_blocks(identity: Identity) -> dict[str, HclBlock]:
    return {each.address: each for each in _blocks(_module_plan(identity))}


def _as_module(block: HclBlock) -> HclBlock:
    fields = {name: HclExpression(text) for name, text in _MODULE_FIELDS.get(block.address, {}).items()}
    if block.address == "aws_iam_role.node":
        return msgspec.structs.replace(block, body=_with_suffix(block.body))
    count = {name: fields.pop(name) for name in ("count",) if name in fields}
    return msgspec.structs.replace(block, body={**count, **block.body, **fields})


def _with_suffix(plain: Any) -> Any:
    """Return the trust of nodes with the name that EC2 has in the partition."""
    match plain:
        case HclCall():
            return HclCall(plain.function, _with_suffix(plain.value))
        case dict():
            return {key: _with_suffix(value) for key, value in plain.items()}
        case list():
            return [_with_suffix(value) for value in plain]
        case "ec2.amazonaws.com":
            return f"ec2.{_SUFFIX}"
        case _:
            return plain


if __name__ == "__main__":
    for name, text in module_files().items():
        path = Path(sys.argv[1]) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
