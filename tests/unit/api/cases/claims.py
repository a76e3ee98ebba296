"""NodeClaims: like the template of a pool, and never changed."""

from typing import Any

from tests.unit.api.cases.case import ABSENT, Case, changed
from tests.unit.api.cases.templates import requirement

CLAIM: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodeClaim",
    "metadata": {"name": "default-abcde"},
    "spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi", "pods": 3}},
    },
}


def good(what: str, changes: dict[str, Any], **more: Any) -> Case:
    return Case(what=what, plain=changed(CLAIM, changes), **more)


def bad(what: str, field: str, changes: dict[str, Any], **more: Any) -> Case:
    return Case(what=what, plain=changed(CLAIM, changes), field=field, **more)


def _require(*requirements: dict[str, Any]) -> dict[str, Any]:
    return {"spec.requirements": list(requirements)}


CLAIM_CASES = [
    good("the smallest claim", {"spec.resources": ABSENT, "spec.requirements": []}),
    good("a claim may name its pool", _require(requirement("karpenter.sh/nodepool", "In", "default"))),
    good("a claim with a grace period", {"spec.terminationGracePeriod": "30s"}),
    good("a claim that never expires", {"spec.expireAfter": "Never"}),
    good("a claim with taints", {"spec.taints": [{"key": "a", "value": "b", "effect": "NoExecute"}]}),
    bad("a claim needs a class", "spec.nodeClassRef", {"spec.nodeClassRef": ABSENT}),
    bad("a claim needs requirements", "spec.requirements", {"spec.requirements": ABSENT}),
    bad("a claim needs a spec", "spec", {"spec": ABSENT}),
    bad("a claim's group has no slash", "spec.nodeClassRef.group", {"spec.nodeClassRef.group": "a/b"}),
    bad("a claim's taint needs an effect", "spec.taints[0].effect", {"spec.taints": [{"key": "a"}]}),
    bad("a grace period ends", "spec.terminationGracePeriod", {"spec.terminationGracePeriod": "Never"}),
    bad("a claim's life is a duration", "spec.expireAfter", {"spec.expireAfter": "1 year"}),
    bad("requests are quantities", "spec.resources.requests.cpu", {"spec.resources.requests.cpu": "x"}),
    bad("a claim's In needs values", "spec.requirements", _require(requirement("a", "In"))),
    bad("a claim's Gt needs a number", "spec.requirements", _require(requirement("a", "Gt", "x"))),
    bad("a claim's minValues are 50 at most", "spec.requirements[0].minValues",
        _require(requirement("a", "Exists", minValues=51))),
    bad("a claim may not name a host", "spec.requirements[0].key",
        _require(requirement("kubernetes.io/hostname", "Exists"))),
    bad("a claim may not make up our labels", "spec.requirements[0].key",
        _require(requirement("karpenter.sh/custom", "Exists"))),
    bad("101 requirements of a claim", "spec.requirements", _require(*[requirement("a", "Exists")] * 101)),
    good("an unchanged claim", {}, old=CLAIM),
    good("a claim's labels may change", {"metadata.labels": {"a": "b"}}, old=CLAIM),
    good("writing a default out is no change", {"spec.expireAfter": "720h"}, old=CLAIM),
    bad("a claim's requirements may not change", "spec", _require(), old=CLAIM),
    bad("a claim's class may not change", "spec", {"spec.nodeClassRef.name": "other"}, old=CLAIM),
    bad("a claim's requests may not change", "spec", {"spec.resources.requests.cpu": "2"}, old=CLAIM),
    bad("a claim's life may not change", "spec", {"spec.expireAfter": "1h"}, old=CLAIM),
    bad("a claim's taints may not change", "spec",
        {"spec.taints": [{"key": "a", "effect": "NoSchedule"}]}, old=CLAIM),
]  # fmt: skip
