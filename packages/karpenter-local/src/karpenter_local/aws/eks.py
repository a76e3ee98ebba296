"""
What EKS knows of a cluster beside its nodes: who may enter it, which add-ons it has, which pods have a role.

moto imitates clusters, node groups and Fargate profiles; access entries, access policies, add-ons and pod
identity associations are answered here. Each function takes an account and what the operation was given, and
returns the answer; :data:`OPERATIONS` names them.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
from moto.eks.models import eks_backends
from moto.iam.models import iam_backends
from moto.moto_api._internal import mock_random

from karpenter_local.aws.account import ADMINISTRATOR, Account
from karpenter_local.aws.wire import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


STANDARD: Final = "STANDARD"
EC2_LINUX: Final = "EC2_LINUX"
NODE_TYPES: Final = frozenset(
    {EC2_LINUX, "EC2_WINDOWS", "EC2", "FARGATE_LINUX", "HYBRID_LINUX", "HYPERPOD_LINUX"}
)
"""Types of access entries that let machines join.

https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html
"""

CONFIG_MAP: Final = "CONFIG_MAP"
MODES: Final = ("API", "API_AND_CONFIG_MAP", CONFIG_MAP)

_NODE_NAME: Final = "system:node:{{EC2PrivateDNSName}}"
_POLICY_PREFIX: Final = "arn:aws:eks::aws:cluster-access-policy/"
_POLICIES: Final = (
    "AmazonEKSAdminPolicy",
    "AmazonEKSAdminViewPolicy",
    "AmazonEKSAutoNodePolicy",
    "AmazonEKSBlockStorageClusterPolicy",
    "AmazonEKSBlockStoragePolicy",
    "AmazonEKSClusterAdminPolicy",
    "AmazonEKSClusterInsightsPolicy",
    "AmazonEKSComputeClusterPolicy",
    "AmazonEKSComputePolicy",
    "AmazonEKSEditPolicy",
    "AmazonEKSHybridPolicy",
    "AmazonEKSLoadBalancingClusterPolicy",
    "AmazonEKSLoadBalancingPolicy",
    "AmazonEKSNetworkingClusterPolicy",
    "AmazonEKSNetworkingPolicy",
    "AmazonEKSViewPolicy",
)
"""https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html"""

_ADD_ONS: Final = {
    "aws-ebs-csi-driver": ("storage", ("v1.48.0-eksbuild.1", "v1.47.0-eksbuild.1")),
    "coredns": ("networking", ("v1.12.3-eksbuild.1", "v1.12.2-eksbuild.4")),
    "eks-node-monitoring-agent": ("observability", ("v1.4.0-eksbuild.2",)),
    "eks-pod-identity-agent": ("security", ("v1.3.8-eksbuild.2", "v1.3.7-eksbuild.2")),
    "kube-proxy": ("networking", ()),
    "metrics-server": ("observability", ("v0.8.0-eksbuild.2",)),
    "vpc-cni": ("networking", ("v1.20.1-eksbuild.3", "v1.19.6-eksbuild.7")),
}
"""Add-ons of AWS: what they are for, and their versions, newest first; kube-proxy has that of Kubernetes."""

_PRINCIPAL: Final = re.compile(r"arn:aws[^:]*:iam::(?P<number>\d{12}):(?P<kind>role|user)/(?P<path>.+)")


class AccessEntry(msgspec.Struct, kw_only=True):
    """A principal of IAM that may enter a cluster."""

    arn: str
    principal: str
    kind: str
    groups: list[str]
    username: str
    tags: dict[str, str]
    made: datetime
    changed: datetime
    policies: dict[str, dict[str, Any]]
    """What is associated, by the ARN of the access policy."""


class EksClusterState(msgspec.Struct):
    """State of one cluster that moto does not hold."""

    entries: dict[str, AccessEntry] = {}
    add_ons: dict[str, dict[str, Any]] = {}
    associations: dict[str, dict[str, Any]] = {}


def cluster_of(account: Account, name: str) -> EksClusterState:
    """
    Return what is known of a cluster.

    Raises:
        AwsError: there is no such cluster.
    """
    if name not in eks_backends[account.number][account.region].clusters:
        raise AwsError("ResourceNotFoundException", f"No cluster found for name: {name}.")
    held: dict[str, EksClusterState] = account.services.setdefault("eks", {})
    return held.setdefault(name, EksClusterState())


def may_join(account: Account, cluster: str, role: str) -> bool:
    """Say whether an access entry lets machines with a role join; any may where EKS has no such cluster."""
    if cluster not in eks_backends[account.number][account.region].clusters:
        return True
    entry = cluster_of(account, cluster).entries.get(role)
    return entry is not None and entry.kind in NODE_TYPES and mode_of(account, cluster) != CONFIG_MAP


def let_nodes_in(account: Account, cluster: str, role: str) -> None:
    """Make the access entry that machines with a role need to join a cluster."""
    _create_access_entry(account, {"clusterName": cluster, "principalArn": role, "type": EC2_LINUX})


def mode_of(account: Account, cluster: str) -> str:
    """Return how principals are let into a cluster: by the API, by a ConfigMap, or by both."""
    found: Any = eks_backends[account.number][account.region].clusters[cluster]
    return str(getattr(found, "access_config", {}).get("authenticationMode", "API_AND_CONFIG_MAP"))


def _update_cluster_config(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    """
    Change how principals are let into a cluster: from the ConfigMap towards the API, and not back.

    https://docs.aws.amazon.com/eks/latest/userguide/setting-up-access-entries.html
    """
    wanted = asked["accessConfig"].get("authenticationMode")
    cluster_of(account, asked["name"])
    before = mode_of(account, asked["name"])
    if wanted not in MODES or MODES.index(wanted) > MODES.index(before):
        raise AwsError(
            "InvalidParameterException", f"Unsupported authentication mode update from {before} to {wanted}"
        )
    found: Any = eks_backends[account.number][account.region].clusters[asked["name"]]
    found.access_config = {"authenticationMode": wanted}
    told = {"type": "AuthenticationMode", "value": wanted}
    return {"update": {**_update(account, "AccessConfigUpdate"), "params": [told]}}


def _update(account: Account, kind: str) -> dict[str, Any]:
    return {
        "id": f"{mock_random.uuid4()}",
        "status": "Successful",
        "type": kind,
        "createdAt": account.now(),
        "params": [],
        "errors": [],
    }


def _create_access_entry(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    name, principal = asked["clusterName"], asked["principalArn"]
    cluster = cluster_of(account, name)
    _accepts_entries(account, name)
    kind = asked.get("type") or STANDARD
    if kind != STANDARD and kind not in NODE_TYPES:
        raise AwsError("InvalidParameterException", f"The specified access entry type {kind} is invalid.")
    _check_principal(account, principal)
    groups = asked.get("kubernetesGroups") or []
    _check_groups(kind, groups)
    if principal in cluster.entries:
        raise AwsError(
            "ResourceInUseException",
            "The specified access entry resource is already in use on this cluster.",
        )
    now = account.now()
    number = f"{mock_random.uuid4()}"
    who = principal.partition("::")[2].replace(":", "/", 1)
    owner, _, what = who.partition("/")
    place, _, rest = what.partition("/")
    entry = AccessEntry(
        arn=f"arn:aws:eks:{account.region}:{account.number}:access-entry/{name}/{place}/{owner}/{rest}/{number}",
        principal=principal,
        kind=kind,
        groups=list(groups) if kind == STANDARD else ["system:nodes"],
        username=asked.get("username") or _username(kind, principal),
        tags=dict(asked.get("tags") or {}),
        made=now,
        changed=now,
        policies={},
    )
    cluster.entries[principal] = entry
    return {"accessEntry": _entry(name, entry)}


def _accepts_entries(account: Account, name: str) -> None:
    if mode_of(account, name) == CONFIG_MAP:
        raise AwsError(
            "InvalidRequestException",
            "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform"
            " this operation.",
        )


def _check_principal(account: Account, principal: str) -> None:
    """Refuse what is no role or user of this account: EKS looks it up."""
    found = _PRINCIPAL.fullmatch(principal)
    if found is None or (found["number"] == account.number and not _exists(account, found)):
        raise AwsError(
            "InvalidParameterException", "The specified principalArn is invalid: invalid principal."
        )


def _exists(account: Account, principal: re.Match[str]) -> bool:
    backend: Any = iam_backends[account.number]["aws"]
    known = backend.roles if principal["kind"] == "role" else backend.users
    name = principal["path"].rpartition("/")[2]
    if principal["kind"] == "user" and name == ADMINISTRATOR:
        return True
    return any(each.name == name for each in known.values())


def _check_groups(kind: str, groups: Iterable[str]) -> None:
    if kind != STANDARD and groups:
        raise AwsError(
            "InvalidParameterException",
            f"The kubernetesGroups of an access entry of type {kind} cannot be specified.",
        )
    for group in groups:
        if group.startswith("system:"):
            raise AwsError(
                "InvalidParameterException",
                f"The kubernetes group name {group} is invalid, it cannot start with system:",
            )


def _username(kind: str, principal: str) -> str:
    if kind != STANDARD:
        return _NODE_NAME
    if ":role/" not in principal:
        return principal
    role = principal.replace(":iam:", ":sts:").replace(":role/", ":assumed-role/")
    return f"{role}/{{{{SessionName}}}}"


def _entry(cluster: str, entry: AccessEntry) -> dict[str, Any]:
    return {
        "clusterName": cluster,
        "principalArn": entry.principal,
        "kubernetesGroups": entry.groups,
        "accessEntryArn": entry.arn,
        "createdAt": entry.made,
        "modifiedAt": entry.changed,
        "tags": entry.tags,
        "username": entry.username,
        "type": entry.kind,
    }


def _found_entry(account: Account, asked: Mapping[str, Any]) -> AccessEntry:
    entry = cluster_of(account, asked["clusterName"]).entries.get(asked["principalArn"])
    if entry is None:
        raise AwsError(
            "ResourceNotFoundException",
            "The specified principalArn could not be found. You can view your available access entries with"
            " 'aws eks list-access-entries'.",
        )
    return entry


def _describe_access_entry(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    return {"accessEntry": _entry(asked["clusterName"], _found_entry(account, asked))}


def _update_access_entry(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    entry = _found_entry(account, asked)
    groups = asked.get("kubernetesGroups")
    if groups is not None:
        _check_groups(entry.kind, groups)
        entry.groups = list(groups)
    entry.username = asked.get("username") or entry.username
    entry.changed = account.now()
    return _describe_access_entry(account, asked)


def _delete_access_entry(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    entry = _found_entry(account, asked)
    del cluster_of(account, asked["clusterName"]).entries[entry.principal]
    return {}


def _list_access_entries(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    entries = cluster_of(account, asked["clusterName"]).entries
    policy = asked.get("associatedPolicyArn")
    return {
        "accessEntries": [name for name, each in entries.items() if not policy or policy in each.policies]
    }


def _associate_access_policy(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    entry, policy = _found_entry(account, asked), asked["policyArn"]
    if policy.removeprefix(_POLICY_PREFIX) not in _POLICIES:
        raise AwsError(
            "InvalidParameterException",
            "The policyArn parameter value is not valid. You can view available policies with"
            " 'aws eks list-access-policies'.",
        )
    if entry.kind != STANDARD:
        raise AwsError(
            "InvalidRequestException",
            "The access entry must be of type STANDARD to associate an access policy with it.",
        )
    scope = asked["accessScope"]
    if scope.get("type") == "namespace" and not scope.get("namespaces"):
        raise AwsError("InvalidParameterException", "An access scope of type namespace names its namespaces.")
    now = account.now()
    since = entry.policies.get(policy, {}).get("associatedAt", now)
    told = {"policyArn": policy, "accessScope": scope, "associatedAt": since, "modifiedAt": now}
    entry.policies[policy] = told
    return {
        "clusterName": asked["clusterName"],
        "principalArn": entry.principal,
        "associatedAccessPolicy": told,
    }


def _disassociate_access_policy(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    entry = _found_entry(account, asked)
    if entry.policies.pop(asked["policyArn"], None) is None:
        raise AwsError("ResourceNotFoundException", "The specified policyArn is not associated.")
    return {}


def _list_associated_access_policies(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    entry = _found_entry(account, asked)
    return {
        "clusterName": asked["clusterName"],
        "principalArn": entry.principal,
        "associatedAccessPolicies": list(entry.policies.values()),
    }


def _list_access_policies(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    del account, asked
    return {"accessPolicies": [{"name": each, "arn": f"{_POLICY_PREFIX}{each}"} for each in _POLICIES]}


def _versions(account: Account, name: str) -> tuple[str, ...]:
    """Return the versions of an add-on, newest first."""
    if name != "kube-proxy":
        return _ADD_ONS[name][1]
    clusters: Any = eks_backends[account.number][account.region].clusters
    return tuple(f"v{each}.0-eksbuild.2" for each in sorted({each.version for each in clusters.values()}))


def _known_add_on(name: str) -> None:
    if name not in _ADD_ONS:
        raise AwsError("InvalidParameterException", "Addon specified is not supported")


def _create_addon(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    cluster, name = cluster_of(account, asked["clusterName"]), asked["addonName"]
    _known_add_on(name)
    if name in cluster.add_ons:
        raise AwsError("ResourceInUseException", "Addon already exists.")
    now = account.now()
    version = asked.get("addonVersion") or _versions(account, name)[0]
    if version not in _versions(account, name):
        raise AwsError("InvalidParameterException", "Addon version specified is not supported")
    cluster.add_ons[name] = {
        "addonName": name,
        "clusterName": asked["clusterName"],
        "status": "ACTIVE",
        "addonVersion": version,
        "health": {"issues": []},
        "addonArn": f"arn:aws:eks:{account.region}:{account.number}:addon/{asked['clusterName']}/{name}"
        f"/{mock_random.uuid4()}",
        "createdAt": now,
        "modifiedAt": now,
        "serviceAccountRoleArn": asked.get("serviceAccountRoleArn"),
        "tags": asked.get("tags") or {},
        "configurationValues": asked.get("configurationValues"),
    }
    return {"addon": {**cluster.add_ons[name], "status": "CREATING"}}


def _found_add_on(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    found = cluster_of(account, asked["clusterName"]).add_ons.get(asked["addonName"])
    if found is None:
        raise AwsError(
            "ResourceNotFoundException",
            f"No addon: {asked['addonName']} found in cluster: {asked['clusterName']}",
        )
    return found


def _describe_addon(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    return {"addon": _found_add_on(account, asked)}


def _update_addon(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    found = _found_add_on(account, asked)
    for key in ("addonVersion", "serviceAccountRoleArn", "configurationValues"):
        found[key] = asked.get(key) or found[key]
    found["modifiedAt"] = account.now()
    return {"update": _update(account, "AddonUpdate")}


def _delete_addon(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    found = _found_add_on(account, asked)
    del cluster_of(account, asked["clusterName"]).add_ons[asked["addonName"]]
    return {"addon": {**found, "status": "DELETING"}}


def _list_addons(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    return {"addons": sorted(cluster_of(account, asked["clusterName"]).add_ons)}


def _describe_addon_versions(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    wanted = asked.get("addonName")
    if wanted:
        _known_add_on(wanted)
    version = asked.get("kubernetesVersion") or ""
    works = (
        [{"clusterVersion": version, "platformVersions": ["*"], "defaultVersion": True}] if version else []
    )
    return {
        "addons": [
            {
                "addonName": name,
                "type": purpose,
                "owner": "aws",
                "publisher": "eks",
                "addonVersions": [
                    {"addonVersion": each, "architecture": ["amd64", "arm64"], "compatibilities": works}
                    for each in _versions(account, name)
                ],
            }
            for name, (purpose, _) in _ADD_ONS.items()
            if wanted in {None, "", name}
        ]
    }


def _create_pod_identity_association(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    cluster = cluster_of(account, asked["clusterName"])
    found = _PRINCIPAL.fullmatch(asked["roleArn"])
    if found is None or found["kind"] != "role" or not _exists(account, found):
        raise AwsError("InvalidParameterException", "Role provided in the request does not exist.")
    whose = asked["namespace"], asked["serviceAccount"]
    for number, each in cluster.associations.items():
        if (each["namespace"], each["serviceAccount"]) == whose:
            raise AwsError("ResourceInUseException", f"Association already exists: {number}")
    number = f"a-{mock_random.uuid4().hex[:17]}"
    now, name = account.now(), asked["clusterName"]
    arn = f"arn:aws:eks:{account.region}:{account.number}:podidentityassociation/{name}/{number}"
    cluster.associations[number] = {
        "clusterName": name,
        "namespace": asked["namespace"],
        "serviceAccount": asked["serviceAccount"],
        "roleArn": asked["roleArn"],
        "associationArn": arn,
        "associationId": number,
        "tags": asked.get("tags") or {},
        "createdAt": now,
        "modifiedAt": now,
        "disableSessionTags": bool(asked.get("disableSessionTags")),
    }
    return {"association": cluster.associations[number]}


def _found_association(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    number = asked["associationId"]
    found = cluster_of(account, asked["clusterName"]).associations.get(number)
    if found is None:
        raise AwsError("ResourceNotFoundException", f"No association found with id: {number}")
    return found


def _describe_pod_identity_association(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    return {"association": _found_association(account, asked)}


def _update_pod_identity_association(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    found = _found_association(account, asked)
    found["roleArn"] = asked.get("roleArn") or found["roleArn"]
    found["modifiedAt"] = account.now()
    return {"association": found}


def _delete_pod_identity_association(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    found = _found_association(account, asked)
    del cluster_of(account, asked["clusterName"]).associations[asked["associationId"]]
    return {"association": found}


def _list_pod_identity_associations(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    named = {key: asked[key] for key in ("namespace", "serviceAccount") if asked.get(key)}
    shown = ("clusterName", "namespace", "serviceAccount", "associationArn", "associationId")
    return {
        "associations": [
            {key: each[key] for key in shown}
            for each in cluster_of(account, asked["clusterName"]).associations.values()
            if all(each[key] == value for key, value in named.items())
        ]
    }


OPERATIONS: Final[dict[str, Callable[[Account, Mapping[str, Any]], dict[str, Any]]]] = {
    "AssociateAccessPolicy": _associate_access_policy,
    "CreateAccessEntry": _create_access_entry,
    "CreateAddon": _create_addon,
    "CreatePodIdentityAssociation": _create_pod_identity_association,
    "DeleteAccessEntry": _delete_access_entry,
    "DeleteAddon": _delete_addon,
    "DeletePodIdentityAssociation": _delete_pod_identity_association,
    "DescribeAccessEntry": _describe_access_entry,
    "DescribeAddon": _describe_addon,
    "DescribeAddonVersions": _describe_addon_versions,
    "DescribePodIdentityAssociation": _describe_pod_identity_association,
    "DisassociateAccessPolicy": _disassociate_access_policy,
    "ListAccessEntries": _list_access_entries,
    "ListAccessPolicies": _list_access_policies,
    "ListAddons": _list_addons,
    "ListAssociatedAccessPolicies": _list_associated_access_policies,
    "ListPodIdentityAssociations": _list_pod_identity_associations,
    "UpdateAccessEntry": _update_access_entry,
    "UpdateAddon": _update_addon,
    "UpdateClusterConfig": _update_cluster_config,
    "UpdatePodIdentityAssociation": _update_pod_identity_association,
}
