"""
Rules about who may do what: the operator's role, the role of nodes, and how nodes get into the cluster.

Looks at IAM and EKS as they were read; documents of policies are judged in :mod:`.policies`.

IAM policies of files and of the operator's role are judged by :mod:`karpenter.cloud.aws.policy.lint`, with
line and column; here its findings get a severity, a fix and a page.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from karpenter.api.labels import CAPACITY_TYPE, SPOT
from karpenter.api.manifests import Document, read_document
from karpenter.api.meta import InvalidObject
from karpenter.cloud.aws.policy.lint import (
    is_controller_policy,
    lint_policy,
    missing_actions,
    repaired_document,
    statements_of,
)
from karpenter.doctor.facts import (
    SPOT_ROLE,
    DoctorFacts,
    OperatorFacts,
    PolicyText,
    RoleFacts,
    at,
    controller_role,
    list_at,
    mapping_at,
    node_roles,
    operator_of,
    queue_name,
    role_name,
    texts_at,
)
from karpenter.doctor.rule import ERROR, INFO, WARNING, DoctorRule, Symptom, listed, on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


AUDIENCE: Final = "sts.amazonaws.com"
POD_IDENTITY: Final = "pods.eks.amazonaws.com"
POD_IDENTITY_AGENT: Final = "eks-pod-identity-agent"
ENTRY_TYPES: Final = frozenset({"EC2_LINUX", "EC2_WINDOWS", "EC2"})
"""Access entries that let a node in. https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html"""

NODE_GROUPS: Final = ("system:bootstrappers", "system:nodes")
NODE_USERNAME: Final = "system:node:{{EC2PrivateDNSName}}"

# What nodes do, and which managed policies allow it. https://karpenter.sh/docs/reference/cloudformation/
NODE_POLICIES: Final = (
    ("join the cluster", ERROR, ("AmazonEKSWorkerNodePolicy", "AmazonEKSWorkerNodeMinimalPolicy")),
    (
        "pull images",
        ERROR,
        (
            "AmazonEC2ContainerRegistryPullOnly",
            "AmazonEC2ContainerRegistryReadOnly",
            "AmazonEC2ContainerRegistryPowerUser",
        ),
    ),
    ("give addresses to pods", WARNING, ("AmazonEKS_CNI_Policy",)),
    ("be reached by Session Manager", INFO, ("AmazonSSMManagedInstanceCore",)),
)


def allows_spot(pool: Document) -> bool:
    """Return whether a pool may buy spot capacity."""
    for each in list_at(pool.plain, "spec.template.spec.requirements"):
        if each.get("key") == CAPACITY_TYPE:
            values = texts_at(each, "values")
            return SPOT in values if each.get("operator") == "In" else SPOT not in values
    return True


def _spot_role(facts: DoctorFacts) -> Iterator[Symptom]:
    roles = facts.aws.roles or {}
    if SPOT_ROLE in roles and roles[SPOT_ROLE] is None:
        for pool in facts.pools():
            if allows_spot(pool):
                message = f"spot is allowed, and the account has no role {SPOT_ROLE}"
                yield on(pool, message, field="spec.template.spec.requirements")
                return


def _oidc_provider(facts: DoctorFacts) -> Iterator[Symptom]:
    operator, eks = operator_of(facts), facts.aws.eks
    if operator is None or eks is None or not operator.role or not eks.issuer:
        return
    if eks.issuer not in (facts.aws.oidc_providers or ()):
        yield Symptom(
            subject=f"cluster/{eks.name}",
            field="identity.oidc.issuer",
            message=f"the account has no OIDC provider for {eks.issuer}, and the service account "
            f"{operator.namespace}/{operator.service_account} names a role",
            fix=f"eksctl utils associate-iam-oidc-provider --cluster {eks.name} --approve",
        )


def _irsa_trust(facts: DoctorFacts) -> Iterator[Symptom]:
    operator, eks = operator_of(facts), facts.aws.eks
    if operator is None or eks is None or not operator.role or not eks.issuer:
        return
    role = facts.aws.role(operator.role)
    if role is None:
        return
    problem = _untrusted(role, operator, eks.issuer)
    if problem:
        yield on(
            role,
            field="AssumeRolePolicyDocument",
            message=problem,
            fix=f"trust {eks.issuer} with aud {AUDIENCE} and sub {_subject(operator)}",
        )


def _subject(operator: OperatorFacts) -> str:
    return f"system:serviceaccount:{operator.namespace}:{operator.service_account}"


def _untrusted(role: RoleFacts, operator: OperatorFacts, issuer: str) -> str:
    """Say why a role does not trust the service account of the operator; empty where it does."""
    problem = f"does not trust the OIDC provider {issuer}"
    for each in statements_of(role.trust):
        federated = str(at({"p": each.principal}, "p.Federated", ""))
        if each.effect != "Allow" or issuer not in federated:
            continue
        wanted = {"aud": AUDIENCE, "sub": _subject(operator)}
        problem = ""
        for operation, keys in each.condition.items():
            for key, values in keys.items():
                want = wanted.get(key.rpartition(":")[2])
                match = fnmatchcase if "Like" in operation else str.__eq__
                if want is not None and not any(match(want, value) for value in values):
                    problem = f"is for {listed(values)}, not for {want}"
        if not problem:
            return ""
    return problem


def _controller_role_missing(facts: DoctorFacts) -> Iterator[Symptom]:
    arn, roles = controller_role(facts), facts.aws.roles or {}
    operator = operator_of(facts)
    if operator is not None and arn and role_name(arn) in roles and roles[role_name(arn)] is None:
        yield on(
            operator,
            field="serviceAccount.annotations",
            message=f"the role {role_name(arn)} does not exist",
        )


def _credentials(facts: DoctorFacts) -> Iterator[Symptom]:
    operator = operator_of(facts)
    if operator is None or controller_role(facts):
        return
    yield Symptom(
        subject=f"ServiceAccount/{operator.namespace}/{operator.service_account}",
        source=operator.source,
        message="has neither a role in its annotations nor a pod identity association",
    )


def _pod_identity_agent(facts: DoctorFacts) -> Iterator[Symptom]:
    operator = operator_of(facts)
    if operator is None or operator.role or not controller_role(facts):
        return
    running = any(
        at(each.plain, "metadata.name") == POD_IDENTITY_AGENT for each in facts.of_kind("DaemonSet")
    )
    if POD_IDENTITY_AGENT not in (facts.aws.addons or ()) and not running:
        yield Symptom(
            subject=f"cluster/{facts.cluster}",
            field="addons",
            message=f"the operator gets its role by pod identity, without the add-on {POD_IDENTITY_AGENT}",
            fix=f"aws eks create-addon --cluster-name {facts.cluster} --addon-name {POD_IDENTITY_AGENT}",
        )


def _pod_identity_trust(facts: DoctorFacts) -> Iterator[Symptom]:
    operator = operator_of(facts)
    if operator is None or operator.role:
        return
    role = facts.aws.role(controller_role(facts))
    if role is None:
        return
    actions: set[str] = set()
    for each in statements_of(role.trust):
        services = at({"p": each.principal}, "p.Service", ())
        if each.effect == "Allow" and POD_IDENTITY in services:
            actions |= set(each.actions)
    missing = {"sts:AssumeRole", "sts:TagSession"} - actions
    if missing and "sts:*" not in actions:
        yield on(
            role,
            field="AssumeRolePolicyDocument",
            message=f"does not allow {listed(missing)} to {POD_IDENTITY}",
            fix=f"allow sts:AssumeRole and sts:TagSession to the service {POD_IDENTITY}",
        )


def _node_role(facts: DoctorFacts) -> Iterator[Symptom]:
    roles = facts.aws.roles or {}
    for name, classes in node_roles(facts).items():
        if name in roles and roles[name] is None:
            for each in classes:
                yield on(each, f"the role {name} does not exist in the account", field="spec.role")


def _instance_profile(facts: DoctorFacts) -> Iterator[Symptom]:
    profiles = facts.aws.instance_profiles or {}
    for each in facts.classes():
        name = at(each.plain, "spec.instanceProfile", "")
        if name in profiles and not profiles[name]:
            message = "does not exist" if profiles[name] is None else "has no role"
            yield on(each, f"the instance profile {name} {message}", field="spec.instanceProfile")


def _nodes_roles(facts: DoctorFacts) -> Iterator[RoleFacts]:
    """Yield the roles of nodes that exist, also those in instance profiles."""
    names = set(node_roles(facts))
    for each in facts.classes():
        names.update(
            (facts.aws.instance_profiles or {}).get(at(each.plain, "spec.instanceProfile", "")) or ()
        )
    for name in sorted(names):
        role = facts.aws.role(name)
        if role is not None:
            yield role


def _node_role_trust(facts: DoctorFacts) -> Iterator[Symptom]:
    for role in _nodes_roles(facts):
        services = [
            service
            for each in statements_of(role.trust)
            if each.effect == "Allow"
            for service in at({"p": each.principal}, "p.Service", ())
        ]
        if not any(service.startswith("ec2.amazonaws.com") for service in services):
            yield on(
                role,
                field="AssumeRolePolicyDocument",
                message="does not trust ec2.amazonaws.com, so no instance can have it",
            )


def _node_role_policies(facts: DoctorFacts) -> Iterator[Symptom]:
    for role in _nodes_roles(facts):
        for purpose, severity, names in NODE_POLICIES:
            if not any(name in role.attached for name in names) and not role.policies:
                yield on(
                    role,
                    message=f"lets nodes not {purpose}: {names[0]} is not attached",
                    fix=f"aws iam attach-role-policy --role-name {role.name} --policy-arn "
                    f"arn:aws:iam::aws:policy/{names[0]}",
                    severity=severity,
                )


def _access_entries(facts: DoctorFacts) -> Iterator[Symptom]:
    entries = {role_name(each.principal): each for each in facts.aws.access_entries or ()}
    for role in _nodes_roles(facts):
        entry = entries.get(role.name)
        if entry is not None and entry.type not in ENTRY_TYPES:
            yield Symptom(
                subject=f"access-entry/{role.name}",
                field="type",
                message=f"is {entry.type}, which lets people in and not nodes",
                fix="delete the entry and create it with --type EC2_LINUX and no access policy",
            )


def _node_access(facts: DoctorFacts) -> Iterator[Symptom]:
    entries = {role_name(each.principal) for each in facts.aws.access_entries or ()}
    eks = facts.aws.eks
    mapped = {role_name(str(each.get("rolearn", ""))) for each in auth_mappings(facts)}
    reads_map = eks is None or eks.auth_mode != "API"
    for role in _nodes_roles(facts):
        if role.name not in entries and not (reads_map and role.name in mapped):
            yield on(
                role,
                message="nodes with this role cannot join: there is neither an access entry nor a mapping in "
                "aws-auth",
                fix=f"aws eks create-access-entry --cluster-name {facts.cluster} --principal-arn {role.arn} "
                "--type EC2_LINUX",
            )


def auth_mappings(facts: DoctorFacts) -> list[dict[str, Any]]:
    """Return the mappings of roles in the ConfigMap aws-auth."""
    for each in facts.of_kind("ConfigMap"):
        if at(each.plain, "metadata.name") == "aws-auth":
            try:
                text = str(mapping_at(each.plain, "data").get("mapRoles", ""))
                found = read_document(text, source="mapRoles")
            except InvalidObject:
                return []
            return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return []


def _aws_auth_groups(facts: DoctorFacts) -> Iterator[Symptom]:
    roles = set(node_roles(facts)) | {role.name for role in _nodes_roles(facts)}
    for number, each in enumerate(auth_mappings(facts)):
        groups = texts_at(each, "groups")
        is_node = any(group.startswith(("system:node", "system:bootstrap")) for group in groups)
        if not is_node and role_name(str(each.get("rolearn", ""))) not in roles:
            continue
        wrong = [group for group in NODE_GROUPS if group not in groups]
        if wrong:
            yield Symptom(
                subject="ConfigMap/kube-system/aws-auth",
                field=f"data.mapRoles[{number}].groups",
                message=f"{each.get('rolearn')} is in {listed(groups)}, not in {listed(wrong)}",
                fix=f"write {' and '.join(NODE_GROUPS)}",
            )
        if "{{EC2PrivateDNSName}}" not in str(each.get("username", "")) and "{{SessionName" not in str(
            each.get("username", "")
        ):
            yield Symptom(
                subject="ConfigMap/kube-system/aws-auth",
                field=f"data.mapRoles[{number}].username",
                message=f"is {each.get('username')!r}, so that all nodes have one name",
                fix=f"write {NODE_USERNAME}",
            )


def _pass_role(facts: DoctorFacts) -> Iterator[Symptom]:
    role = facts.aws.role(controller_role(facts))
    if role is None or not role.policies:
        return
    documents = [repaired_document(each.text) or {} for each in role.policies]
    allowed = [
        resource
        for document in documents
        for each in statements_of(document)
        if each.effect == "Allow"
        and any(fnmatchcase("iam:passrole", action.lower()) for action in each.actions)
        for resource in each.resources
    ]
    for name, classes in node_roles(facts).items():
        node = facts.aws.role(name)
        if node is not None and not any(fnmatchcase(node.arn, pattern) for pattern in allowed):
            for each in classes:
                yield on(
                    each,
                    f"the operator's role {role.name} may not pass {name} to instances"
                    + (f", only {listed(allowed, most=2)}" if allowed else ""),
                    field="spec.role",
                    fix=f"name {node.arn} as the resource of iam:PassRole, or {name} as it is named there",
                )


RULES: Final = (
    DoctorRule(
        id="spot-service-linked-role",
        severity=ERROR,
        title="A NodePool allows spot, and the account has no service-linked role for EC2 Spot.",
        fix="aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
        why="The operator may not create that role, so every spot launch is refused with "
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted.",
        check=_spot_role,
        needs=("objects", "aws.roles"),
        link="https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_create-service-linked-role.html",
    ),
    DoctorRule(
        id="oidc-provider",
        severity=ERROR,
        title="The service account names a role, and the account does not trust the cluster's OIDC issuer.",
        fix="eksctl utils associate-iam-oidc-provider --cluster CLUSTER --approve",
        why="STS refuses the token of the service account: the operator has no credentials.",
        check=_oidc_provider,
        needs=("operator", "aws.eks", "aws.oidc_providers"),
        link="https://docs.aws.amazon.com/eks/latest/userguide/enable-iam-roles-for-service-accounts.html",
    ),
    DoctorRule(
        id="irsa-trust",
        severity=ERROR,
        title="The operator's role does not trust its service account.",
        fix="trust the issuer with aud sts.amazonaws.com and sub system:serviceaccount:NAMESPACE:NAME",
        why="STS answers with AccessDenied to AssumeRoleWithWebIdentity. Usual reasons: another namespace, "
        "another release name, an issuer of a cluster that was deleted.",
        check=_irsa_trust,
        needs=("operator", "aws.eks", "aws.roles"),
        link="https://docs.aws.amazon.com/eks/latest/userguide/associate-service-account-role.html",
    ),
    DoctorRule(
        id="controller-role",
        severity=ERROR,
        title="The operator's role does not exist.",
        fix="create the role, or name the one that exists",
        why="The operator has no credentials.",
        check=_controller_role_missing,
        needs=("operator", "aws.roles"),
    ),
    DoctorRule(
        id="controller-credentials",
        severity=ERROR,
        title="The operator has no role: neither by annotation (IRSA) nor by pod identity.",
        fix="annotate the service account with eks.amazonaws.com/role-arn, or associate a role with it",
        why="It takes the role of the node that it runs on, which may not launch instances, or finds none.",
        check=_credentials,
        needs=("operator", "aws.pod_identities"),
        link="https://docs.aws.amazon.com/eks/latest/userguide/pod-identities.html",
    ),
    DoctorRule(
        id="pod-identity-agent",
        severity=ERROR,
        title="The operator gets its role by pod identity, and the agent is not installed.",
        fix="aws eks create-addon --cluster-name CLUSTER --addon-name eks-pod-identity-agent",
        why="Nothing hands credentials to the pod.",
        check=_pod_identity_agent,
        needs=("operator", "aws.pod_identities", "aws.addons"),
        link="https://docs.aws.amazon.com/eks/latest/userguide/pod-id-agent-setup.html",
    ),
    DoctorRule(
        id="pod-identity-trust",
        severity=ERROR,
        title="The associated role does not trust EKS Pod Identity.",
        fix="allow sts:AssumeRole and sts:TagSession to the service pods.eks.amazonaws.com",
        why="EKS cannot assume the role for the pod.",
        check=_pod_identity_trust,
        needs=("operator", "aws.pod_identities", "aws.roles"),
        link="https://docs.aws.amazon.com/eks/latest/userguide/pod-id-association.html",
    ),
    DoctorRule(
        id="node-role",
        severity=ERROR,
        title="An EC2NodeClass names a role that does not exist.",
        fix="create the role, or set spec.role to the name (not the ARN) of the one that exists",
        why="The class does not become ready, and its pools launch nothing.",
        check=_node_role,
        needs=("objects", "aws.roles"),
    ),
    DoctorRule(
        id="instance-profile",
        severity=ERROR,
        title="An EC2NodeClass names an instance profile that does not exist, or that has no role.",
        fix="aws iam add-role-to-instance-profile, or use spec.role and let the operator make the profile",
        why="EC2 refuses the launch.",
        check=_instance_profile,
        needs=("objects", "aws.instance_profiles"),
    ),
    DoctorRule(
        id="node-role-trust",
        severity=ERROR,
        title="The role of nodes does not trust EC2.",
        fix="allow sts:AssumeRole to the service ec2.amazonaws.com",
        why="Instances start without credentials and cannot join.",
        check=_node_role_trust,
        needs=("objects", "aws.roles"),
    ),
    DoctorRule(
        id="node-role-policies",
        severity=ERROR,
        title="The role of nodes lacks a policy that nodes need.",
        fix="attach the managed policy",
        why="Nodes do not join, pull no images, give pods no addresses, or cannot be debugged. A role with "
        "policies of its own is not judged.",
        check=_node_role_policies,
        needs=("objects", "aws.roles"),
        link="https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html",
    ),
    DoctorRule(
        id="access-entry-type",
        severity=ERROR,
        title="The access entry of the node role is of a type for people.",
        fix="delete the entry and create it with --type EC2_LINUX and no access policy",
        why="STANDARD gives no node its groups, so that nodes register with nothing and stay NotReady or "
        "unknown; there is no access policy for nodes.",
        check=_access_entries,
        needs=("objects", "aws.access_entries", "aws.roles"),
        link="https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html",
    ),
    DoctorRule(
        id="node-access",
        severity=ERROR,
        title="Nothing lets nodes with this role into the cluster.",
        fix="create an access entry of type EC2_LINUX for the role, or map it in aws-auth",
        why="Instances run and cost money, and no node appears; the claim is deleted after 15 minutes.",
        check=_node_access,
        needs=("live", "aws.access_entries", "aws.roles"),
        link="https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html",
    ),
    DoctorRule(
        id="aws-auth-groups",
        severity=ERROR,
        title="The mapping of a node role in aws-auth is wrong.",
        fix=f"groups {' and '.join(NODE_GROUPS)}, username {NODE_USERNAME}",
        why="The kubelet is not allowed to register its node.",
        check=_aws_auth_groups,
        needs=("objects",),
        link="https://docs.aws.amazon.com/eks/latest/userguide/auth-configmap.html",
    ),
    DoctorRule(
        id="pass-role",
        severity=ERROR,
        title="The operator's policy does not let it pass the role that an EC2NodeClass names.",
        fix="name the role of the class as the resource of iam:PassRole",
        why="The instance profile cannot be made, or EC2 refuses the launch with UnauthorizedOperation.",
        check=_pass_role,
        needs=("objects", "operator", "aws.roles"),
        link="https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html",
    ),
)


_SHIFT: Final = "arc-zonal-shift:"
_QUEUE: Final = "sqs:"


def policy_texts(facts: DoctorFacts) -> tuple[PolicyText, ...] | None:
    """Return the policies that are judged: those that were given, and those of the operator's role."""
    role = facts.aws.role(controller_role(facts))
    attached = role.policies if role is not None else ()
    if facts.policies is None and not attached:
        return None
    return (*(facts.policies or ()), *attached)


def _linted(*rules: str) -> Callable[[DoctorFacts], Iterator[Symptom]]:
    """Return the check that passes on what some rules of the linter find."""

    def check(facts: DoctorFacts) -> Iterator[Symptom]:
        for policy in policy_texts(facts) or ():
            for found in lint_policy(policy.text, sort=policy.sort):
                if found.rule in rules:
                    number = f"Statement[{found.statement}]" if found.statement else "policy"
                    yield Symptom(
                        subject=f"{policy.source}:{found.line}:{found.column}",
                        field=number,
                        message=found.message,
                        fix=found.hint,
                        severity=found.severity,
                    )

    return check


def _missing(facts: DoctorFacts) -> Iterator[Symptom]:
    texts = policy_texts(facts) or ()
    documents = [found for each in texts if (found := repaired_document(each.text)) is not None]
    if not documents or not is_controller_policy(documents):
        return
    missing = missing_actions(documents)
    needs_queue = bool(queue_name(facts))
    optional = [
        each for each in missing if each.startswith(_SHIFT) or (each.startswith(_QUEUE) and not needs_queue)
    ]
    required = [each for each in missing if each not in optional]
    subject = listed({each.source for each in texts}, most=2)
    if required:
        yield Symptom(subject=subject, field="Action", message=f"allows no {', '.join(required)}")
    if optional:
        yield Symptom(
            subject=subject,
            field="Action",
            message=f"allows no {', '.join(optional)}, needed for an interruption queue and zonal shift",
            severity=INFO,
        )


_GRAMMAR: Final = "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_grammar.html"
_LEAST: Final = "https://docs.aws.amazon.com/IAM/latest/UserGuide/best-practices.html"

POLICY_RULES: Final = (
    DoctorRule(
        id="policy-json",
        severity=ERROR,
        title="A policy is not JSON.",
        fix="correct the text; IAM refuses it as it is",
        why="IAM refuses it with MalformedPolicyDocument and does not say where.",
        check=_linted("invalid-json"),
        needs=("policies",),
        link=_GRAMMAR,
    ),
    DoctorRule(
        id="policy-grammar",
        severity=ERROR,
        title="A policy breaks the grammar of IAM.",
        fix="correct the element",
        why="IAM refuses it, or the statement says something else than meant.",
        check=_linted(
            "no-statement", "version", "unknown-key", "effect", "duplicate-sid", "bad-action", "not-resource"
        ),
        needs=("policies",),
        link=_GRAMMAR,
    ),
    DoctorRule(
        id="policy-wildcard-action",
        severity=ERROR,
        title="A policy allows every action of a service.",
        fix="list the actions; karpenter manifests --iam REGION/ACCOUNT prints the policies that are needed",
        why="With ec2:* and iam:* a pod of the cluster can make itself administrator of the account.",
        check=_linted("wildcard-action", "not-action"),
        needs=("policies",),
        link=_LEAST,
    ),
    DoctorRule(
        id="policy-condition",
        severity=WARNING,
        title="A policy allows changes of every resource, without a condition.",
        fix="narrow it by the tags kubernetes.io/cluster/CLUSTER and karpenter.sh/nodepool",
        why="The operator of one cluster may terminate the instances of another.",
        check=_linted("unconditional-change"),
        needs=("policies",),
        link="https://karpenter.sh/docs/reference/cloudformation/",
    ),
    DoctorRule(
        id="policy-pass-role",
        severity=ERROR,
        title="A policy allows passing every role.",
        fix="name the role of the nodes as the resource of iam:PassRole",
        why="An instance with an administrator's role can be launched.",
        check=_linted("pass-any-role"),
        needs=("policies",),
        link="https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html",
    ),
    DoctorRule(
        id="policy-misspelt-action",
        severity=ERROR,
        title="A policy names an action that is nearly one that the operator calls.",
        fix="correct the spelling",
        why="IAM accepts actions that do not exist, and allows nothing by them.",
        check=_linted("misspelt-action"),
        needs=("policies",),
    ),
    DoctorRule(
        id="policy-size",
        severity=ERROR,
        title="A policy is longer than IAM takes.",
        fix="split it into several managed policies, as karpenter manifests --iam does",
        why="IAM refuses it with LimitExceeded.",
        check=_linted("too-long"),
        needs=("policies",),
        link="https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html",
    ),
    DoctorRule(
        id="policy-missing-action",
        severity=ERROR,
        title="The policies of the operator lack actions that it calls.",
        fix="add the statements of karpenter manifests --iam REGION/ACCOUNT",
        why="Calls are refused with UnauthorizedOperation. All policies that are given are taken together; "
        "they are taken for those of the operator where they allow ec2:CreateFleet.",
        check=_missing,
        needs=("policies",),
    ),
)
