"""Who may do what: a broken and a sound example for every rule."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from karpenter.doctor.facts import AccessEntryFacts, PodIdentityFacts, PolicyText, RoleFacts
from tests.unit.doctor.world import (
    CLASS,
    CONTROLLER,
    EC2_TRUST,
    EKS,
    ISSUER,
    NODE_ROLE,
    NODES,
    OPERATOR,
    POOL,
    Case,
    account,
    changed,
    facts,
    judge,
    judged,
)

ACCOUNT = f"""
apiVersion: v1
kind: ServiceAccount
metadata:
  name: karpenter
  namespace: kube-system
  annotations: {{eks.amazonaws.com/role-arn: {CONTROLLER}}}
"""
PLAIN_ACCOUNT = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: karpenter, namespace: kube-system}
"""
PROFILE = changed(CLASS, (f"role: {NODES}", "instanceProfile: nodes"))
AWS_AUTH = """
apiVersion: v1
kind: ConfigMap
metadata: {name: aws-auth, namespace: kube-system}
data:
  mapRoles: |
    - rolearn: arn:aws:iam::111122223333:role/KarpenterNodeRole-blue
      username: system:node:{{EC2PrivateDNSName}}
      groups: [system:bootstrappers, system:nodes]
"""
ASSOCIATION = PodIdentityFacts(namespace="kube-system", service_account="karpenter", role=CONTROLLER)
ENTRY = AccessEntryFacts(principal=NODE_ROLE.arn, type="EC2_LINUX")
NAME = "KarpenterControllerRole-blue"


def web_identity(subject: str = "system:serviceaccount:kube-system:karpenter", issuer: str = ISSUER) -> Any:
    """Return a trust policy for a service account."""
    condition = {"StringEquals": {f"{issuer}:aud": "sts.amazonaws.com", f"{issuer}:sub": subject}}
    return {
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Federated": f"arn:aws:iam::111122223333:oidc-provider/{issuer}"},
                "Action": "sts:AssumeRoleWithWebIdentity",
                "Condition": condition,
            }
        ]
    }


def pod_identity(*actions: str) -> Any:
    """Return a trust policy for pod identity."""
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "pods.eks.amazonaws.com"},
        "Action": list(actions),
    }
    return {"Statement": [statement]}


def controller(trust: Any = None, resource: str = NODE_ROLE.arn) -> RoleFacts:
    statement = {"Effect": "Allow", "Action": "iam:PassRole", "Resource": resource}
    policy = PolicyText(source="policy", text=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    return RoleFacts(name=NAME, arn=CONTROLLER, trust=trust or web_identity(), policies=(policy,))


def node(**fields: Any) -> RoleFacts:
    """Return the role of nodes, sound but for some fields."""
    return msgspec.structs.replace(NODE_ROLE, **fields)


BOTH = {NAME: controller(), NODES: NODE_ROLE}
CASES = [
    Case(
        "spot-service-linked-role",
        facts(POOL, aws=account(roles={"AWSServiceRoleForEC2Spot": None})),
        facts(
            changed(POOL, ("[spot, on-demand]", "[on-demand]")),
            aws=account(roles={"AWSServiceRoleForEC2Spot": None}),
        ),
        "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
    ),
    Case(
        "oidc-provider",
        facts(OPERATOR, ACCOUNT, aws=account(eks=EKS, oidc_providers=("other",))),
        facts(OPERATOR, ACCOUNT, aws=account(eks=EKS, oidc_providers=(ISSUER,))),
        f"the account has no OIDC provider for {ISSUER}",
    ),
    Case(
        "irsa-trust",
        facts(
            OPERATOR,
            ACCOUNT,
            aws=account(
                eks=EKS, roles={NAME: controller(web_identity("system:serviceaccount:karpenter:karpenter"))}
            ),
        ),
        facts(OPERATOR, ACCOUNT, aws=account(eks=EKS, roles={NAME: controller()})),
        "is for system:serviceaccount:karpenter:karpenter, not for system:serviceaccount:kube-system",
    ),
    Case(
        "controller-role",
        facts(OPERATOR, ACCOUNT, aws=account(roles={NAME: None})),
        facts(OPERATOR, ACCOUNT, aws=account(roles={NAME: controller()})),
        f"the role {NAME} does not exist",
    ),
    Case(
        "controller-credentials",
        facts(OPERATOR, PLAIN_ACCOUNT, aws=account(pod_identities=())),
        facts(OPERATOR, PLAIN_ACCOUNT, aws=account(pod_identities=(ASSOCIATION,))),
        "ServiceAccount/kube-system/karpenter: has neither a role",
    ),
    Case(
        "pod-identity-agent",
        facts(OPERATOR, aws=account(pod_identities=(ASSOCIATION,), addons=("vpc-cni",))),
        facts(OPERATOR, aws=account(pod_identities=(ASSOCIATION,), addons=("eks-pod-identity-agent",))),
        "aws eks create-addon --cluster-name blue --addon-name eks-pod-identity-agent",
    ),
    Case(
        "pod-identity-trust",
        facts(
            OPERATOR,
            aws=account(
                pod_identities=(ASSOCIATION,), roles={NAME: controller(pod_identity("sts:AssumeRole"))}
            ),
        ),
        facts(
            OPERATOR,
            aws=account(
                pod_identities=(ASSOCIATION,),
                roles={NAME: controller(pod_identity("sts:AssumeRole", "sts:TagSession"))},
            ),
        ),
        "does not allow sts:TagSession to pods.eks.amazonaws.com",
    ),
    Case(
        "node-role",
        facts(CLASS, aws=account(roles={NODES: None})),
        facts(CLASS, aws=account(roles={NODES: NODE_ROLE})),
        f"spec.role: the role {NODES} does not exist",
    ),
    Case(
        "instance-profile",
        facts(PROFILE, aws=account(instance_profiles={"nodes": ()})),
        facts(PROFILE, aws=account(instance_profiles={"nodes": (NODES,)})),
        "the instance profile nodes has no role",
    ),
    Case(
        "node-role-trust",
        facts(CLASS, aws=account(roles={NODES: node(trust=pod_identity("sts:AssumeRole"))})),
        facts(CLASS, aws=account(roles={NODES: NODE_ROLE})),
        "does not trust ec2.amazonaws.com",
    ),
    Case(
        "node-role-policies",
        facts(CLASS, aws=account(roles={NODES: node(attached=("AmazonEKS_CNI_Policy",))})),
        facts(CLASS, aws=account(roles={NODES: NODE_ROLE})),
        "AmazonEKSWorkerNodePolicy is not attached",
    ),
    Case(
        "access-entry-type",
        facts(
            CLASS,
            aws=account(
                roles={NODES: NODE_ROLE},
                access_entries=(AccessEntryFacts(principal=NODE_ROLE.arn, type="STANDARD"),),
            ),
        ),
        facts(CLASS, aws=account(roles={NODES: NODE_ROLE}, access_entries=(ENTRY,))),
        "is STANDARD, which lets people in and not nodes",
    ),
    Case(
        "node-access",
        facts(CLASS, live=True, aws=account(roles={NODES: NODE_ROLE}, access_entries=())),
        facts(CLASS, live=True, aws=account(roles={NODES: NODE_ROLE}, access_entries=(ENTRY,))),
        f"--principal-arn {NODE_ROLE.arn} --type EC2_LINUX",
    ),
    Case(
        "aws-auth-groups",
        facts(changed(AWS_AUTH, ("system:bootstrappers", "system:bootstrapper"))),
        facts(AWS_AUTH),
        "not in system:bootstrappers",
    ),
    Case(
        "pass-role",
        facts(
            CLASS,
            OPERATOR,
            ACCOUNT,
            aws=account(roles={NAME: controller(resource="arn:aws:iam::1:role/other"), NODES: NODE_ROLE}),
        ),
        facts(CLASS, OPERATOR, ACCOUNT, aws=account(roles=BOTH)),
        f"may not pass {NODES} to instances, only arn:aws:iam::1:role/other",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.rule for case in CASES])
def test_rule(case: Case) -> None:
    """A rule finds what is broken, and nothing where all is sound."""
    judge(case)


def test_a_pool_without_a_capacity_type_may_buy_spot() -> None:
    """Without a requirement on the capacity type, spot is allowed, so that the role is needed."""
    line = "        - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}\n"
    known = facts(changed(POOL, (line, "")), aws=account(roles={"AWSServiceRoleForEC2Spot": None}))

    assert judged("spot-service-linked-role", known)[0] != ()


@pytest.mark.parametrize(
    ("mode", "is_sound"),
    [
        pytest.param("CONFIG_MAP", True, id="the map alone"),
        pytest.param("API_AND_CONFIG_MAP", True, id="both"),
        pytest.param("API", False, id="entries alone: the map is not read"),
    ],
)
def test_a_mapping_lets_nodes_in(mode: str, is_sound: bool) -> None:
    """A mapping in aws-auth is as good as an access entry, where the cluster reads it."""
    eks = msgspec.structs.replace(EKS, auth_mode=mode)
    known = facts(
        CLASS, AWS_AUTH, live=True, aws=account(eks=eks, roles={NODES: NODE_ROLE}, access_entries=())
    )

    assert (judged("node-access", known)[0] == ()) is is_sound


@pytest.mark.parametrize(
    ("trust", "is_sound"),
    [
        pytest.param(EC2_TRUST, False, id="trusts another principal"),
        pytest.param(web_identity(issuer="oidc.eks/id/OLD"), False, id="trusts a deleted cluster"),
        pytest.param(
            web_identity("system:serviceaccount:kube-system:blueprints"), False, id="another account"
        ),
        pytest.param(web_identity(), True, id="trusts it"),
    ],
)
def test_whom_the_role_trusts(trust: Any, is_sound: bool) -> None:
    """The role must trust the issuer of this cluster for this service account."""
    known = facts(OPERATOR, ACCOUNT, aws=account(eks=EKS, roles={NAME: controller(trust)}))

    assert (judged("irsa-trust", known)[0] == ()) is is_sound


def test_a_username_that_all_nodes_share() -> None:
    """Every node needs a name of its own."""
    known = facts(changed(AWS_AUTH, ("system:node:{{EC2PrivateDNSName}}", "nodes")))

    assert "all nodes have one name" in str(judged("aws-auth-groups", known)[0])


def test_a_role_in_an_instance_profile_is_judged_too() -> None:
    """A class with an instance profile has the role that is in it."""
    roles = {NODES: node(attached=())}
    known = facts(PROFILE, aws=account(instance_profiles={"nodes": (NODES,)}, roles=roles))

    assert len(judged("node-role-policies", known)[0]) == 4
