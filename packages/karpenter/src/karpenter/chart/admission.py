"""
ValidatingAdmissionPolicies that narrow what two settings grant.

RBAC grants verbs on whole objects: ``steer-scale-down`` needs to patch pods for two annotations, and
``surge-before-evict`` to patch Deployments for one. An operator that was taken over could change the image of
any pod with that. The policies leave it the fields that it writes: any other change that comes from its
account is refused by the API server.
https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/

They come with the setting, where the cluster serves the API: Kubernetes 1.30 and newer. Who else may change
pods and Deployments is not decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karpenter.api.labels import DELETION_COST_SET, POD_DELETION_COST
from karpenter.chart.tree import APIServed, Concatenation, ReleaseFact, When
from karpenter.core.disruption.surge import RESTARTED

if TYPE_CHECKING:
    from karpenter.chart.tree import Tree

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


def admission_policies(metadata: dict[str, dict[str, Any]]) -> list[Tree]:
    """Return the policies and their bindings; `metadata` is that of each, by the resource it is about."""
    pods = [
        _same("spec"),
        *(_same("metadata", each) for each in _META),
        *_annotations("metadata", (POD_DELETION_COST, DELETION_COST_SET)),
    ]
    deployments = [
        *(_same("spec", each) for each in _DEPLOYMENT),
        _same("spec.template", "spec"),
        *(_same("spec.template.metadata", each) for each in _META),
        *_annotations("spec.template.metadata", (RESTARTED,)),
        *(_same("metadata", each) for each in (*_META, "annotations")),
    ]
    return [
        *_policy("settings.steerScaleDown", metadata["pods"], "", "pods", pods),
        *_policy("settings.surgeBeforeEvict", metadata["deployments"], "apps", "deployments", deployments),
    ]


def _policy(
    setting: str, metadata: dict[str, Any], group: str, resource: str, validations: list[dict[str, Any]]
) -> list[Tree]:
    served = APIServed(setting, _SERVED, SERVED_SINCE)
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
    path = f"{parent}.?{field}" if field else parent
    named = f"{parent}.{field}" if field else parent
    return _demand(f"object.{path} == oldObject.{path}", named)


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
