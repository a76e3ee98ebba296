"""The template of a NodePool: labels, taints, requirements and the reference to its class."""

from typing import Any

from tests.unit.api.cases.case import ABSENT, Case
from tests.unit.api.cases.pools import bad, good

LABELS = "spec.template.metadata.labels"
TAINTS = "spec.template.spec.taints"
STARTUP = "spec.template.spec.startupTaints"
REQUIREMENTS = "spec.template.spec.requirements"
REFERENCE = "spec.template.spec.nodeClassRef"

LABEL_CASES = [
    *(
        good(f"a template with the label {key}", {LABELS: {key: "x"}})
        for key in (
            "app",
            "example.com/team",
            "karpenter.sh/capacity-type",
            "kubernetes.io/custom",
            "k8s.io/custom",
            "node-restriction.kubernetes.io/custom",
            "node.kubernetes.io/instance-type",
            "topology.kubernetes.io/zone",
            "karpenter.kwok.sh/instance-family",
            "karpenter.k8s.aws/instance-cpu",
        )
    ),
    *(
        bad(f"the label {key} is not for templates", LABELS, {LABELS: {key: "x"}})
        for key in (
            "karpenter.sh/nodepool",
            "karpenter.sh/custom",
            "karpenter.sh/registered",
            "sub.karpenter.sh/custom",
            "notkarpenter.sh/custom",
            "kubernetes.io/hostname",
            "karpenter.k8s.aws/custom",
            "karpenter.k8s.aws/nitro-sandbox",
        )
    ),
    bad(
        "a label in the domain of the provider is not for templates",
        f"{LABELS}[karpenter.kwok.sh/custom]",
        {LABELS: {"karpenter.kwok.sh/custom": "x"}},
        server_accepts=True,
    ),
    *(
        bad(f"{key!r} is no label key", f"{LABELS}[{key}]", {LABELS: {key: "x"}}, server_accepts=True)
        for key in ("a b", "/x", "Example.com/x", "a" * 64, "a/b/c", "-a", "x/")
    ),
    good("a label value may be empty", {LABELS: {"app": ""}}),
    good("a label value of 63 characters", {LABELS: {"app": "a" * 63}}),
    *(
        bad(f"a label value of {value!r}", f"{LABELS}.app", {LABELS: {"app": value}})
        for value in ("a" * 64, "a b", "-a", "a-", "\u00e4", 5, True)
    ),
    good("100 labels are the most", {LABELS: {f"l{i}": "x" for i in range(100)}}),
    bad("101 labels are too many", LABELS, {LABELS: {f"l{i}": "x" for i in range(101)}}),
    good("any annotation", {"spec.template.metadata.annotations": {"karpenter.sh/custom": "any thing"}}),
]


def _taint(**members: Any) -> dict[str, Any]:
    return {"key": "example.com/team", "effect": "NoSchedule", **members}


TAINT_CASES = [
    *(
        good(f"a taint with {effect}", {TAINTS: [_taint(effect=effect)]})
        for effect in ("NoSchedule", "PreferNoSchedule", "NoExecute")
    ),
    good("a taint with a value", {TAINTS: [_taint(value="red")]}),
    good("a startup taint", {STARTUP: [_taint()]}),
    good("one key with two effects", {TAINTS: [_taint(), _taint(effect="NoExecute")]}),
    good("no taints", {TAINTS: []}),
    bad("a taint needs a key", f"{TAINTS}[0].key", {TAINTS: [{"effect": "NoSchedule"}]}),
    bad("a taint's key may not be empty", f"{TAINTS}[0].key", {TAINTS: [_taint(key="")]}),
    bad("a taint's key is a label key", f"{TAINTS}[0].key", {TAINTS: [_taint(key="a b")]}),
    bad("a taint's value is a name", f"{TAINTS}[0].value", {TAINTS: [_taint(value="a b")]}),
    bad("a taint needs an effect", f"{TAINTS}[0].effect", {TAINTS: [{"key": "a"}]}),
    *(
        bad(f"{effect!r} is no effect", f"{TAINTS}[0].effect", {TAINTS: [_taint(effect=effect)]})
        for effect in ("", "noSchedule", "Always")
    ),
    bad("a startup taint needs an effect", f"{STARTUP}[0].effect", {STARTUP: [{"key": "a"}]}),
    bad("a taint twice", f"{TAINTS}[1]", {TAINTS: [_taint(), _taint(value="b")]}, server_accepts=True),
    bad(
        "a taint that is also a startup taint",
        f"{STARTUP}[0]",
        {TAINTS: [_taint()], STARTUP: [_taint()]},
        server_accepts=True,
    ),
    bad("a taint is an object", f"{TAINTS}[0]", {TAINTS: ["a=b:NoSchedule"]}),
]


def requirement(key: Any, operator: Any, *values: Any, **members: Any) -> dict[str, Any]:
    """Return one requirement; without values it has none, not even an empty list."""
    listed = {"values": list(values)} if values else {}
    return {"key": key, "operator": operator, **listed, **members}


def require(*requirements: dict[str, Any]) -> dict[str, Any]:
    """Return the change that puts requirements into a pool."""
    return {REQUIREMENTS: list(requirements)}


OPERATOR_CASES = [
    good("In with a value", require(requirement("a", "In", "x"))),
    good("In with several values", require(requirement("a", "In", "x", "y", "z"))),
    good("NotIn with a value", require(requirement("a", "NotIn", "x"))),
    good("NotIn without values", require(requirement("a", "NotIn"))),
    good("Exists", require(requirement("a", "Exists"))),
    good("DoesNotExist", require(requirement("a", "DoesNotExist"))),
    *(
        good(f"{bound} with a number", require(requirement("a", bound, "5")))
        for bound in ("Gt", "Lt", "Gte", "Lte")
    ),
    good("a bound of zero", require(requirement("a", "Gte", "0"))),
    good("the largest bound", require(requirement("a", "Lte", "9223372036854775807"))),
    bad("In without values", REQUIREMENTS, require(requirement("a", "In"))),
    bad("In with an empty list", REQUIREMENTS, require(requirement("a", "In", values=[]))),
    *(
        bad(f"{bound} without a value", REQUIREMENTS, require(requirement("a", bound)))
        for bound in ("Gt", "Lt", "Gte", "Lte")
    ),
    *(
        bad(f"{bound} with two values", REQUIREMENTS, require(requirement("a", bound, "1", "2")))
        for bound in ("Gt", "Lt", "Gte", "Lte")
    ),
    *(
        bad(f"{bound} with a word", REQUIREMENTS, require(requirement("a", bound, "x")))
        for bound in ("Gt", "Lt", "Gte", "Lte")
    ),
    bad("a bound with a fraction", REQUIREMENTS, require(requirement("a", "Gt", "1.5"))),
    bad("a bound beyond 64 bits", REQUIREMENTS, require(requirement("a", "Gt", "9223372036854775808"))),
    bad("a bound below zero", REQUIREMENTS, require(requirement("a", "Gt", "-1"))),
    *(
        bad(
            f"{operator!r} is no operator",
            f"{REQUIREMENTS}[0].operator",
            require(requirement("a", operator, "x")),
        )
        for operator in ("", "in", "Equals", "=", "Greater", "NotExists", "GTE")
    ),
    bad("a requirement needs an operator", f"{REQUIREMENTS}[0].operator", require({"key": "a"})),
    bad("a requirement needs a key", f"{REQUIREMENTS}[0].key", require({"operator": "Exists"})),
]

KEY_CASES = [
    *(
        good(f"a requirement on {key}", require(requirement(key, "Exists")))
        for key in (
            "app",
            "example.com/team",
            "karpenter.sh/capacity-type",
            "topology.kubernetes.io/zone",
            "node.kubernetes.io/windows-build",
            "failure-domain.beta.kubernetes.io/zone",
            "beta.kubernetes.io/arch",
            "kubernetes.io/custom",
            "node-restriction.kubernetes.io/custom",
            "k8s.io/custom",
            "karpenter.kwok.sh/instance-size",
            "karpenter.k8s.aws/instance-generation",
            "karpenter.k8s.aws/capacity-reservation-id",
        )
    ),
    *(
        bad(f"a pool may not ask for {key}", f"{REQUIREMENTS}[0].key", require(requirement(key, "In", "x")))
        for key in (
            "karpenter.sh/nodepool",
            "karpenter.sh/initialized",
            "karpenter.sh/custom",
            "sub.karpenter.sh/custom",
            "kubernetes.io/hostname",
            "karpenter.k8s.aws/instance-pods",
            "karpenter.k8s.aws/nitro-sandbox",
        )
    ),
    bad(
        "a pool may not ask for a label in the domain of its provider",
        f"{REQUIREMENTS}[0].key",
        require(requirement("karpenter.kwok.sh/custom", "In", "x")),
        server_accepts=True,
    ),
    *(
        bad(f"{key!r} is no label", f"{REQUIREMENTS}[0].key", require(requirement(key, "Exists")))
        for key in ("", "a b", "-a", "A.com/x", "a/b/c", "/a", 5, f"{'a' * 253}/{'b' * 63}")
    ),
    bad(
        "a key whose name has 64 characters",
        f"{REQUIREMENTS}[0].key",
        require(requirement("a" * 64, "Exists")),
        server_accepts=True,
    ),
    *(
        bad(
            f"a value of {value!r}",
            f"{REQUIREMENTS}[0].values[0]",
            require(requirement("a", "In", value)),
            server_accepts=isinstance(
                value, str
            ),  # as 1.14.1's definition, which leaves values to the operator
        )
        for value in ("a" * 64, "a b", "a/b", "_a", 5)
    ),
    good("an empty value", require(requirement("a", "In", ""))),
    good("no requirements", {REQUIREMENTS: []}),
    bad("requirements must be there", REQUIREMENTS, {REQUIREMENTS: ABSENT}),
    good("100 requirements are the most", require(*[requirement(f"k{i}", "Exists") for i in range(100)])),
    bad("101 requirements are too many", REQUIREMENTS, require(*[requirement("a", "Exists")] * 101)),
]

_TYPE = "karpenter.sh/capacity-type"

VALUE_CASES = [
    good("minValues of 1", require(requirement("a", "In", "x", minValues=1))),
    good("as many values as minValues", require(requirement("a", "In", "x", "y", minValues=2))),
    good("minValues of 50 with Exists", require(requirement("a", "Exists", minValues=50))),
    *(
        bad(
            f"minValues of {least!r}",
            f"{REQUIREMENTS}[0].minValues",
            require(requirement("a", "Exists", minValues=least)),
        )
        for least in (0, -1, 51, "2", 1.5)
    ),
    bad("fewer values than minValues", REQUIREMENTS, require(requirement("a", "In", "x", minValues=2))),
    good("spot alone", require(requirement(_TYPE, "In", "spot"))),
    good("every capacity type", require(requirement(_TYPE, "In", "spot", "on-demand", "reserved"))),
    good(
        "one capacity type that exists and one that does not", require(requirement(_TYPE, "In", "spot", "x"))
    ),
    good("not a capacity type that does not exist", require(requirement(_TYPE, "NotIn", "x"))),
    bad(
        "only capacity types that do not exist",
        f"{REQUIREMENTS}[0].values",
        require(requirement(_TYPE, "In", "Spot", "ondemand")),
        server_accepts=True,
    ),
    bad(
        "fewer capacity types that exist than minValues",
        f"{REQUIREMENTS}[0].values",
        require(requirement(_TYPE, "In", "spot", "x", minValues=2)),
        server_accepts=True,
    ),
]

REFERENCE_CASES = [
    good("a reference to a class of AWS", {f"{REFERENCE}.group": "karpenter.k8s.aws"}),
    bad("a pool needs a class", REFERENCE, {REFERENCE: ABSENT}),
    *(
        bad(f"a reference needs a {member}", f"{REFERENCE}.{member}", {f"{REFERENCE}.{member}": ABSENT})
        for member in ("group", "kind", "name")
    ),
    *(
        bad(f"the {member} may not be empty", f"{REFERENCE}.{member}", {f"{REFERENCE}.{member}": ""})
        for member in ("group", "kind", "name")
    ),
    bad("a group has no version", f"{REFERENCE}.group", {f"{REFERENCE}.group": "karpenter.k8s.aws/v1"}),
    bad("a reference has no apiVersion", f"{REFERENCE}.apiVersion", {f"{REFERENCE}.apiVersion": "v1"}),
]

TEMPLATE_CASES: list[Case] = [
    *LABEL_CASES,
    *TAINT_CASES,
    *OPERATOR_CASES,
    *KEY_CASES,
    *VALUE_CASES,
    *REFERENCE_CASES,
]
