"""
The RBAC permissions of the operator: exactly the calls that it makes.

A test records every call of the operator, with every feature gate on and with all off, and fails on a missing
permission and on an unused one. A permission that only a feature needs is granted only with that feature.

RBAC grants verbs on whole objects: ``nominate-pods`` needs to patch the status of pods for one field,
``steer-scale-down`` to patch pods for two annotations, and ``surge-before-evict`` to patch Deployments for
one. An operator that was taken over could change the image of any pod with that, or report any pod as failed.
ValidatingAdmissionPolicies leave it the fields that it writes: any other change from its account is
refused by the API server. They come with the setting, where the cluster serves the API: Kubernetes 1.30 and
newer. Who else may change pods and Deployments is not decided here.
https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from karpenter.api.labels import DELETION_COST_SET, POD_DELETION_COST
from karpenter.chart.tree import (
    APIServed,
    Concatenation,
    Condition,
    Equals,
    Given,
    IsFalse,
    IsNotFalse,
    ReleaseFact,
    Tree,
    When,
)
from karpenter.core.disruption.surge import RESTARTED


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """Some verbs on some resources of one API group."""

    group: str = ""
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str | ReleaseFact, ...] = ()
    """The only objects that it is about; all, if none is named."""

    when: Condition | None = None

    def rule(self) -> Tree:
        """Return the rule of a role that grants it."""
        rule: dict[str, Any] = {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            "verbs": list(self.verbs),
        }
        if self.names:
            rule["resourceNames"] = list(self.names)
        return rule if self.when is None else When(self.when, rule)


FOLLOW: Final = ("list", "watch")
_KWOK: Final = Equals("settings.cloudProvider", "kwok", default="aws")
LEADS: Final = Equals("mode", "operator", default="operator")
IS_SHADOW: Final = Equals("mode", "shadow", default="operator")
ON_AWS: Final = Equals("settings.cloudProvider", "aws", default="aws")
_OVERLAYS: Final = Given(("settings.featureGates.nodeOverlay",))
_BUFFERS: Final = Given(("settings.featureGates.capacityBuffer",))
_SPREADS: Final = Given(("settings.schedulerConfig",))
_DEVICES: Final = IsFalse("settings.ignoreDRARequests")
_SURGE: Final = Given(("settings.surgeBeforeEvict",))
_NOMINATES: Final = IsNotFalse("settings.nominatePods")
_STEERING: Final = Given(("settings.steerScaleDown",))
_OWNERS: Final = Given((*_SPREADS.paths, *_BUFFERS.paths))
_REPLICAS: Final = Given((*_OWNERS.paths, *_SURGE.paths))
_ROLLOUTS: Final = Given((*_BUFFERS.paths, *_SURGE.paths))

CLUSTER: Final = (
    Permission(resources=("pods", "nodes", "namespaces"), verbs=FOLLOW),
    Permission(resources=("persistentvolumes", "persistentvolumeclaims"), verbs=FOLLOW),
    Permission(
        group="storage.k8s.io", resources=("storageclasses", "csinodes", "volumeattachments"), verbs=FOLLOW
    ),
    Permission(group="policy", resources=("poddisruptionbudgets",), verbs=FOLLOW),
    Permission(group="apps", resources=("daemonsets",), verbs=FOLLOW),
    Permission(group="apps", resources=("replicasets",), verbs=FOLLOW, when=_REPLICAS),
    Permission(group="apps", resources=("statefulsets",), verbs=FOLLOW, when=_OWNERS),
    Permission(group="apps", resources=("deployments",), verbs=FOLLOW, when=_ROLLOUTS),
    # Surge: a rollout restart of the Deployment starts the replacement pods.
    Permission(group="apps", resources=("deployments",), verbs=("patch",), when=_SURGE),
    Permission(resources=("podtemplates",), verbs=FOLLOW, when=_BUFFERS),
    Permission(resources=("services", "replicationcontrollers"), verbs=FOLLOW, when=_SPREADS),
    Permission(
        group="resource.k8s.io",
        resources=("resourceslices", "resourceclaims", "resourceclaimtemplates", "deviceclasses"),
        verbs=FOLLOW,
        when=_DEVICES,
    ),
    Permission(group="karpenter.sh", resources=("nodepools", "nodeclaims"), verbs=FOLLOW),
    Permission(group="karpenter.sh", resources=("nodeoverlays",), verbs=FOLLOW, when=_OVERLAYS),
    Permission(group="autoscaling.x-k8s.io", resources=("capacitybuffers",), verbs=FOLLOW, when=_BUFFERS),
    Permission(group="karpenter.sh", resources=("nodeclaims",), verbs=("create", "delete", "patch")),
    Permission(group="karpenter.sh", resources=("nodeclaims/status", "nodepools/status"), verbs=("patch",)),
    Permission(group="karpenter.sh", resources=("nodepools",), verbs=("patch",)),
    Permission(group="karpenter.sh", resources=("nodeoverlays/status",), verbs=("patch",), when=_OVERLAYS),
    Permission(
        group="autoscaling.x-k8s.io", resources=("capacitybuffers/status",), verbs=("patch",), when=_BUFFERS
    ),
    # ownerReferences with blockOwnerDeletion need permission on the owner's finalizers where the admission
    # plugin OwnerReferencesPermissionEnforcement is on:
    # https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/
    Permission(
        group="karpenter.sh", resources=("nodepools/finalizers", "nodeclaims/finalizers"), verbs=("update",)
    ),
    Permission(resources=("events",), verbs=("create", "patch")),
    Permission(resources=("nodes",), verbs=("patch", "delete")),
    Permission(resources=("nodes",), verbs=("create",), when=_KWOK),
    Permission(resources=("pods/eviction",), verbs=("create",)),
    Permission(resources=("pods",), verbs=("delete",)),
    # The annotation controller.kubernetes.io/pod-deletion-cost of pods is written.
    Permission(resources=("pods",), verbs=("patch",), when=_STEERING),
    # status.nominatedNodeName of pods is written.
    Permission(resources=("pods/status",), verbs=("patch",), when=_NOMINATES),
    Permission(group="karpenter.kwok.sh", resources=("kwoknodeclasses",), verbs=("get", *FOLLOW), when=_KWOK),
    Permission(
        group="karpenter.k8s.aws", resources=("ec2nodeclasses",), verbs=("get", *FOLLOW, "patch"), when=ON_AWS
    ),
    Permission(
        group="karpenter.k8s.aws", resources=("ec2nodeclasses/status",), verbs=("patch",), when=ON_AWS
    ),
)
"""What is granted in the whole cluster."""

SHADOW: Final = tuple(
    msgspec.structs.replace(each, verbs=verbs)
    for each in CLUSTER
    if (verbs := tuple(verb for verb in each.verbs if verb in {"get", *FOLLOW}))
)
"""What a shadow is granted in the whole cluster: what an operator reads, and nothing that it writes."""

LEASE_NAMESPACE: Final = (
    Permission(group="coordination.k8s.io", resources=("leases",), verbs=("create",)),
    Permission(
        group="coordination.k8s.io",
        resources=("leases",),
        verbs=("get", "patch"),
        names=(ReleaseFact("lease"),),
    ),
)
"""What is granted only where the lease is: where the operator runs, unless its environment says otherwise."""

SYSTEM_NAMESPACE: Final = "kube-system"
SYSTEM: Final = (Permission(resources=("services",), verbs=("get",), names=("kube-dns",)),)
"""What is granted in the namespace of the system, on AWS: nodes are told the address of the DNS."""

ADMINISTRATION: Final = (
    Permission(
        group="karpenter.sh",
        resources=("nodepools", "nodepools/status", "nodeclaims", "nodeclaims/status", "nodeoverlays"),
        verbs=("get", *FOLLOW, "create", "delete", "patch", "update"),
    ),
    Permission(
        group="karpenter.k8s.aws",
        resources=("ec2nodeclasses",),
        verbs=("get", *FOLLOW, "create", "delete", "patch", "update"),
    ),
)
"""What administrators of the cluster are granted beside what they have."""


_GROUP: Final = "admissionregistration.k8s.io"
SERVED_SINCE: Final = 30
"""The minor version of Kubernetes 1 that serves the API first, as the page above says."""

_SERVED: Final = f"{_GROUP}/v1/ValidatingAdmissionPolicy"
_META: Final = ("labels", "finalizers", "ownerReferences")
_DEPLOYMENT: Final = (
    "replicas",
    "selector",
    "strategy",
    "minReadySeconds",
    "revisionHistoryLimit",
    "paused",
    "progressDeadlineSeconds",
)
"""The fields of a Deployment's spec beside its template."""

_POD_STATUS: Final = (
    "allocatedResources",
    "conditions",
    "containerStatuses",
    "ephemeralContainerStatuses",
    "extendedResourceClaimStatus",
    "hostIP",
    "hostIPs",
    "initContainerStatuses",
    "message",
    "nodeAllocatableResourceClaimStatuses",
    "observedGeneration",
    "phase",
    "podIP",
    "podIPs",
    "qosClass",
    "reason",
    "resize",
    "resourceClaimStatuses",
    "resources",
    "startTime",
)
"""
The fields of a pod's status beside the one that is written, in Kubernetes 1.36:
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#PodStatus
"""


def admission_policies(metadata: dict[str, dict[str, Any]]) -> list[Tree]:
    """Return the policies and their bindings; `metadata` is that of each, by the resource it is about."""
    pods = [
        _same("spec"),
        *(_same("metadata", each) for each in _META),
        *_annotations("metadata", (POD_DELETION_COST, DELETION_COST_SET)),
    ]
    statuses = [
        *(_same("status", each) for each in _POD_STATUS),
        *(_same("metadata", each) for each in (*_META, "annotations")),
    ]
    deployments = [
        *(_same("spec", each) for each in _DEPLOYMENT),
        _same("spec.template", "spec"),
        *(_same("spec.template.metadata", each) for each in _META),
        *_annotations("spec.template.metadata", (RESTARTED,)),
        *(_same("metadata", each) for each in (*_META, "annotations")),
    ]
    nominates = APIServed(_NOMINATES.path, _SERVED, SERVED_SINCE, not_false=True)
    steers = APIServed("settings.steerScaleDown", _SERVED, SERVED_SINCE)
    surges = APIServed("settings.surgeBeforeEvict", _SERVED, SERVED_SINCE)
    return [
        *_policy(nominates, metadata["pods/status"], "", "pods/status", statuses),
        *_policy(steers, metadata["pods"], "", "pods", pods),
        *_policy(surges, metadata["deployments"], "apps", "deployments", deployments),
    ]


def _policy(
    served: APIServed, metadata: dict[str, Any], group: str, resource: str, validations: list[dict[str, Any]]
) -> list[Tree]:
    # PATCH and PUT are both the operation UPDATE; subresources are resources of their own.
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": [resource]}
    account = Concatenation(
        (
            "request.userInfo.username == 'system:serviceaccount:",
            ReleaseFact("namespace"),
            ":",
            ReleaseFact("account"),
            "'",
        )
    )
    policy = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata,
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [{"name": "operator", "expression": account}],
            "validations": validations,
        },
    }
    binding = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": metadata,
        "spec": {"policyName": metadata["name"], "validationActions": ["Deny"]},
    }
    return [When(served, policy), When(served, binding)]


def _same(parent: str, field: str = "") -> dict[str, Any]:
    """Return the demand that a field stays as it is, whether it is there or not."""
    if not field:
        return _demand(f"object.{parent} == oldObject.{parent}", parent)
    path = f"{parent}.{field}"
    # Without optional syntax, which the embedded API server does not read.
    same = f"has(object.{path}) ? has(oldObject.{path}) && object.{path} == oldObject.{path}"
    return _demand(f"{same} : !has(oldObject.{path})", path)


def _annotations(parent: str, ours: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the demand that no annotation changes but ours."""
    new, old = (f"{each}.{parent}.?annotations.orValue({{}})" for each in ("object", "oldObject"))
    known = f"[{', '.join(repr(each) for each in ours)}]"
    field = f"{parent}.annotations"
    return [
        _demand(f"{new}.all(key, key in {known} || (key in {old} && {new}[key] == {old}[key]))", field),
        _demand(f"{old}.all(key, key in {known} || key in {new})", field),
    ]


def _demand(expression: str, field: str) -> dict[str, Any]:
    message = f"the operator may not change {field}"
    return {"expression": expression, "message": message, "reason": "Forbidden"}
