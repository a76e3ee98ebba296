"""NodeOverlays: corrections to prices and capacity."""

from typing import Any

from tests.unit.api.cases.case import ABSENT, Case, changed
from tests.unit.api.cases.templates import requirement

OVERLAY: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1alpha1",
    "kind": "NodeOverlay",
    "metadata": {"name": "discount"},
    "spec": {"requirements": []},
}


def good(what: str, changes: dict[str, Any]) -> Case:
    return Case(what=what, plain=changed(OVERLAY, changes))


def bad(what: str, field: str, changes: dict[str, Any], **more: Any) -> Case:
    return Case(what=what, plain=changed(OVERLAY, changes), field=field, **more)


def _require(*requirements: dict[str, Any]) -> dict[str, Any]:
    return {"spec.requirements": list(requirements)}


OVERLAY_CASES = [
    good("the smallest overlay", {}),
    bad("an overlay needs requirements", "spec.requirements", {"spec.requirements": ABSENT}),
    bad("an overlay needs a spec", "spec", {"spec": ABSENT}),
    *(
        good(f"an overlay with {each['operator']}", _require(each))
        for each in (
            requirement("a", "In", "x"),
            requirement("a", "NotIn", "x"),
            requirement("a", "Exists"),
            requirement("a", "DoesNotExist"),
            requirement("a", "Gt", "1"),
            requirement("a", "Lte", "1"),
        )
    ),
    *(
        good(f"an overlay may name {key}", _require(requirement(key, "In", "x")))
        for key in (
            "karpenter.sh/nodepool",
            "node.kubernetes.io/instance-type",
            "karpenter.k8s.aws/instance-family",
            "karpenter.kwok.sh/instance-cpu",
        )
    ),
    *(
        bad(
            f"an overlay may not name {key}",
            "spec.requirements[0].key",
            _require(requirement(key, "In", "x")),
            server_accepts=key.startswith("karpenter.kwok.sh"),  # the definition knows no domain of kwok
        )
        for key in (
            "karpenter.sh/custom",
            "kubernetes.io/hostname",
            "karpenter.k8s.aws/instance-tenancy",
            "karpenter.k8s.aws/capacity-reservation-id",
            "karpenter.k8s.aws/placement-group-id",
            "karpenter.kwok.sh/custom",
        )
    ),
    bad("an overlay's In needs values", "spec.requirements", _require(requirement("a", "In"))),
    bad("an overlay's NotIn needs values", "spec.requirements", _require(requirement("a", "NotIn"))),
    bad("an overlay's Gt needs a number", "spec.requirements", _require(requirement("a", "Gt", "x"))),
    bad("an overlay's operator", "spec.requirements[0].operator", _require(requirement("a", "Like", "x"))),
    bad(
        "an overlay has no minValues",
        "spec.requirements[0].minValues",
        _require(requirement("a", "Exists", minValues=1)),
    ),
    bad("101 requirements of an overlay", "spec.requirements", _require(*[requirement("a", "Exists")] * 101)),
    *(good(f"a price of {price}", {"spec.price": price}) for price in ("0", "1", "0.5", "10.25", "007")),
    *(
        bad(f"a price of {price!r}", "spec.price", {"spec.price": price})
        for price in (
            "",
            "-1",
            "+1",
            "1.",
            ".5",
            "abc",
            "1e3",
            "$1",
            "1,5",
            "1.2.3",
            " 1",
            "1%",
            "Inf",
            1,
            0.5,
        )
    ),
    *(
        good(f"an adjustment of {change}", {"spec.priceAdjustment": change})
        for change in (
            "+0.5",
            "-0.5",
            "+1",
            "-1",
            "+.5",
            "-0",
            "+10%",
            "+150%",
            "-10%",
            "-99.9%",
            "-100%",
            "+0.5%",
        )
    ),
    *(
        bad(f"an adjustment of {change!r}", "spec.priceAdjustment", {"spec.priceAdjustment": change})
        for change in (
            "",
            "0.5",
            "10%",
            "--1",
            "-101%",
            "-150%",
            "+",
            "-",
            "%",
            "+abc",
            "10",
            "+1%%",
            "5%-",
            "+1.2.3",
            "-100.5%",
            "+-1",
            " +1",
            -0.5,
        )
    ),
    bad("a price and an adjustment", "spec", {"spec.price": "1", "spec.priceAdjustment": "+1"}),
    *(
        good(f"capacity of {name}", {"spec.capacity": {name: 4}})
        for name in ("example.com/gpu", "smarter-devices/fuse", "hugepages-2Mi", "nvidia.com/gpu")
    ),
    *(
        bad(f"capacity of {name}", "spec.capacity", {"spec.capacity": {name: 4}})
        for name in ("cpu", "memory", "ephemeral-storage", "pods")
    ),
    bad("capacity is in quantities", "spec.capacity.a", {"spec.capacity": {"a": "many"}}),
    *(good(f"an overlay of weight {weight}", {"spec.weight": weight}) for weight in (1, 10000)),
    *(
        bad(f"an overlay of weight {weight}", "spec.weight", {"spec.weight": weight})
        for weight in (0, -1, 10001)
    ),
]
