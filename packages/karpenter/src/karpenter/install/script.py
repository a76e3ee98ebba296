"""
The plan as a script: the commands of the AWS CLI and of kubectl that make the same installation.

Every command looks before it makes, so that the script can be run again. Documents stand in the script as
they are in the plan. Objects of the operator come from `karpenter crds` and `karpenter manifests`.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, Final

from karpenter.api.manifests import render_documents
from karpenter.install.observe import ENCRYPTED, RETENTION, compact
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
    InstallationResource,
    Json,
    KubernetesObject,
    OpenIDConnectProvider,
    ServiceLinkedRole,
    SqsQueue,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.install.plan import InstallationPlan

_QUIET: Final = ">/dev/null"
_UNLESS: Final = f"{_QUIET} 2>&1 ||"


def render_script(plan: InstallationPlan) -> str:
    facts = plan.facts
    lines = [
        "#!/usr/bin/env bash",
        f"# Installs karpenter for the cluster {facts.cluster}. It may be run again.",
        "set -euo pipefail",
        f"export AWS_REGION={shlex.quote(facts.region)}",
    ]
    for number, step in enumerate(plan.steps, start=1):
        lines += ["", f"# {number}. {step.title} ({step.cost})"]
        if step.name == "crds":
            lines.append("karpenter crds | kubectl apply --server-side -f -")
            continue
        for resource in step.resources:
            lines += _commands(plan, resource)
    return "\n".join(lines) + "\n"


def _commands(plan: InstallationPlan, resource: InstallationResource) -> Iterator[str]:
    match resource:
        case HelmRelease():
            yield from _release(resource)
        case KubernetesObject():
            yield "kubectl apply --server-side -f - <<'EOF'"
            yield render_documents([dict(resource.body)]).rstrip("\n")
            yield "EOF"
        case EksAccessEntry() | AwsAuthMapping() | EksAddon() | EksPodIdentityAssociation():
            yield from _of_cluster(plan, resource)
        case _:
            yield from _of_account(plan, resource)


def _of_account(plan: InstallationPlan, resource: InstallationResource) -> Iterator[str]:
    owner = plan.facts.cluster
    tag = shlex.quote(f"Key={MARKER},Value={owner}")
    match resource:
        case ServiceLinkedRole():
            yield f"aws iam get-role --role-name {resource.name} {_UNLESS} \\"
            yield f"  aws iam create-service-linked-role --aws-service-name {resource.service} {_QUIET}"
        case OpenIDConnectProvider():
            arn = resource.arn
            yield f"aws iam get-open-id-connect-provider --open-id-connect-provider-arn {arn} {_UNLESS} \\"
            yield (
                f"  aws iam create-open-id-connect-provider --url {resource.url} --client-id-list"
                f" {resource.audience} --tags {tag} {_QUIET}"
            )
        case IamPolicy():
            yield f"aws iam get-policy --policy-arn {resource.arn} {_UNLESS} \\"
            yield (
                f"  aws iam create-policy --policy-name {resource.name} --tags {tag}"
                f" --policy-document {_document(resource.document)} {_QUIET}"
            )
        case IamRole():
            yield from _role(resource, tag)
        case IamInstanceProfile():
            name = f"--instance-profile-name {resource.name}"
            yield f"aws iam get-instance-profile {name} {_UNLESS} \\"
            yield f"  aws iam create-instance-profile {name} --tags {tag} {_QUIET}"
            # A profile holds one role: adding it twice is refused.
            yield f'aws iam get-instance-profile {name} | grep -q \'"RoleName": "{resource.role}"\' || \\'
            yield f"  aws iam add-role-to-instance-profile {name} --role-name {resource.role}"
        case SqsQueue():
            attributes = {
                RETENTION: str(resource.retention),
                ENCRYPTED: "true",
                "Policy": json.dumps(resource.policy, separators=(",", ":")),
            }
            yield f"aws sqs get-queue-url --queue-name {resource.name} {_UNLESS} \\"
            yield (
                f"  aws sqs create-queue --queue-name {resource.name} --tags {MARKER}={owner}"
                f" --attributes {_document(attributes)} {_QUIET}"
            )
        case EventBridgeRule():
            pattern = shlex.quote(compact(resource.pattern))
            yield f"aws events describe-rule --name {resource.name} {_UNLESS} \\"
            yield f"  aws events put-rule --name {resource.name} --tags {tag} --event-pattern {pattern} \\"
            yield f"  {_QUIET}"
            yield (
                f"aws events put-targets --rule {resource.name} --targets"
                f" Id={resource.target_id},Arn={resource.target} {_QUIET}"
            )
        case Ec2Tags():
            both = f"{shlex.quote(f'Key={resource.key},Value={resource.value}')} {tag}"
            yield f"aws ec2 create-tags --resources {' '.join(resource.resources)} --tags {both}"


def _of_cluster(plan: InstallationPlan, resource: InstallationResource) -> Iterator[str]:
    owner = plan.facts.cluster
    match resource:
        case EksAccessEntry():
            which = f"--cluster-name {resource.cluster} --principal-arn {resource.principal}"
            yield f"aws eks describe-access-entry {which} {_UNLESS} \\"
            yield (
                f"  aws eks create-access-entry {which} --type {resource.type}"
                f" --tags {MARKER}={owner} {_QUIET}"
            )
        case AwsAuthMapping():
            groups = " ".join(f"--group {each}" for each in resource.groups)
            yield (
                f"eksctl create iamidentitymapping --cluster {owner} --arn {resource.role} {groups}"
                f" --username {shlex.quote(resource.username)} --no-duplicate-arns"
            )
        case EksAddon():
            which = f"--cluster-name {resource.cluster} --addon-name {resource.name}"
            yield f"aws eks describe-addon {which} {_UNLESS} \\"
            yield f"  aws eks create-addon {which} --tags {MARKER}={owner} {_QUIET}"
        case EksPodIdentityAssociation():
            which = (
                f"--cluster-name {resource.cluster} --namespace {resource.namespace}"
                f" --service-account {resource.service_account}"
            )
            yield (
                f'[ -n "$(aws eks list-pod-identity-associations {which}'
                " --query 'associations[].associationId' --output text)\" ] || \\"
            )
            yield (
                f"  aws eks create-pod-identity-association {which} --role-arn {resource.role}"
                f" --tags {MARKER}={owner} {_QUIET}"
            )


def _role(role: IamRole, tag: str) -> Iterator[str]:
    name = f"--role-name {role.name}"
    yield f"aws iam get-role {name} {_UNLESS} \\"
    trust = _document(role.trust)
    yield f"  aws iam create-role {name} --tags {tag} --assume-role-policy-document {trust} {_QUIET}"
    for arn in role.attached:
        yield f"aws iam attach-role-policy {name} --policy-arn {arn}"
    for policy, document in role.inline.items():
        yield (
            f"aws iam put-role-policy {name} --policy-name {policy} --policy-document {_document(document)}"
        )


def _release(release: HelmRelease) -> Iterator[str]:
    sets = "".join(f" --set {shlex.quote(each)}" for each in release.sets)
    yield (
        f"karpenter manifests --name {release.name} -n {release.namespace} --skip-crds{sets} --values -"
        " <<'EOF' | kubectl apply --server-side -f -"
    )
    yield render_documents([dict(release.values)]).rstrip("\n")
    yield "EOF"
    yield (f"kubectl -n {release.namespace} rollout status deployment/{release.name} --timeout=300s")


def _document(document: Json | dict[str, Any]) -> str:
    return shlex.quote(json.dumps(document, separators=(",", ":")))
