"""CapacityBuffers and KWOKNodeClasses."""

from typing import Any

from tests.unit.api.cases.case import ABSENT, Case, changed

BUFFER: dict[str, Any] = {
    "apiVersion": "autoscaling.x-k8s.io/v1beta1",
    "kind": "CapacityBuffer",
    "metadata": {"name": "headroom", "namespace": "default"},
    "spec": {"podTemplateRef": {"name": "web"}, "replicas": 3},
}

NODE_CLASS: dict[str, Any] = {
    "apiVersion": "karpenter.kwok.sh/v1alpha1",
    "kind": "KWOKNodeClass",
    "metadata": {"name": "default"},
    "spec": {},
}

SCALABLE = {"apiGroup": "apps", "kind": "Deployment", "name": "web"}


def good(what: str, changes: dict[str, Any], base: dict[str, Any] = BUFFER) -> Case:
    return Case(what=what, plain=changed(base, changes))


def bad(what: str, field: str, changes: dict[str, Any], base: dict[str, Any] = BUFFER, **more: Any) -> Case:
    return Case(what=what, plain=changed(base, changes), field=field, **more)


BUFFER_CASES = [
    good("a buffer for a template and a count", {}),
    good("a buffer for a template and limits", {"spec.replicas": ABSENT, "spec.limits": {"cpu": "10"}}),
    good("a buffer of no pods", {"spec.replicas": 0}),
    good("a buffer for a share of a workload", {"spec": {"scalableRef": SCALABLE, "percentage": 20}}),
    good("a buffer for a workload alone", {"spec": {"scalableRef": SCALABLE}}),
    good("a buffer of the core group", {"spec": {"scalableRef": {"kind": "ReplicaSet", "name": "web"}}}),
    good("a buffer of more than the workload", {"spec": {"scalableRef": SCALABLE, "percentage": 250}}),
    good("a buffer with any strategy", {"spec.provisioningStrategy": "example.com/other"}),
    good("an empty buffer", {"spec": {}}),
    bad("a buffer needs a spec", "spec", {"spec": ABSENT}),
    bad("a buffer for a template needs a count", "spec", {"spec.replicas": ABSENT}),
    bad("a share is no count", "spec", {"spec.replicas": ABSENT, "spec.percentage": 10}),
    bad("a buffer for a template and a workload", "spec", {"spec.scalableRef": SCALABLE}),
    bad("a template has a name", "spec.podTemplateRef.name", {"spec.podTemplateRef": {}}),
    bad("a template's name is not empty", "spec.podTemplateRef.name", {"spec.podTemplateRef.name": ""}),
    bad("a workload has a kind", "spec.scalableRef.kind", {"spec": {"scalableRef": {"name": "web"}}}),
    bad("a workload's kind is not empty", "spec.scalableRef.kind",
        {"spec": {"scalableRef": {"kind": "", "name": "web"}}}),
    bad("a workload has a name", "spec.scalableRef.name", {"spec": {"scalableRef": {"kind": "Deployment"}}}),
    bad("a workload's name is not empty", "spec.scalableRef.name",
        {"spec": {"scalableRef": {"kind": "Deployment", "name": ""}}}),
    bad("less than no pods", "spec.replicas", {"spec.replicas": -1}),
    bad("pods are counted in numbers", "spec.replicas", {"spec.replicas": "3"}),
    bad("less than no share", "spec.percentage", {"spec.percentage": -1}),
    bad("limits are quantities", "spec.limits.cpu", {"spec.limits": {"cpu": "lots"}}),
    bad("a buffer has no weight", "spec.weight", {"spec.weight": 1}),
]  # fmt: skip

NODE_CLASS_CASES = [
    good("the smallest class", {}, NODE_CLASS),
    good("a class without a spec", {"spec": ABSENT}, NODE_CLASS),
    good("a class whose nodes take their time", {"spec.nodeRegistrationDelay": "1m30s"}, NODE_CLASS),
    *(
        bad(
            f"a delay of {delay!r}",
            "spec.nodeRegistrationDelay",
            {"spec.nodeRegistrationDelay": delay},
            NODE_CLASS,
        )
        for delay in ("", "soon", "-1s", "Never", 30)
    ),
]
