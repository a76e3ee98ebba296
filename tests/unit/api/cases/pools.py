"""NodePools: the pool itself, its disruption, limits and replicas."""

from typing import Any

from tests.unit.api.cases.case import ABSENT, Case, changed

POOL: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
            }
        },
        "disruption": {"consolidateAfter": "0s"},
    },
}

STATIC = changed(POOL, {"spec.replicas": 3})
BUDGETS = "spec.disruption.budgets"


def good(what: str, changes: dict[str, Any], **more: Any) -> Case:
    return Case(what=what, plain=changed(POOL, changes), **more)


def bad(what: str, field: str, changes: dict[str, Any], **more: Any) -> Case:
    return Case(what=what, plain=changed(POOL, changes), field=field, **more)


def _durations(path: str, accepted: list[str], refused: list[Any]) -> list[Case]:
    name = path.rpartition(".")[2]
    return [
        *(good(f"{name} {text} is a duration", {path: text}) for text in accepted),
        *(bad(f"{name} {text!r} is not allowed", path, {path: text}) for text in refused),
    ]


DISRUPTION = [
    *_durations(
        "spec.disruption.consolidateAfter",
        ["0s", "30s", "1m", "1h", "1h30m", "90m30s", "Never"],
        ["", "-1s", "1d", "never", "1.5h", "30", "s", "1h ", "Nevers", 30, "10ms"],
    ),
    *_durations(
        "spec.template.spec.expireAfter",
        ["1s", "720h", "1h1m1s", "Never"],
        ["", "-1s", "never", "1w", "1.5h", 720],
    ),
    *_durations(
        "spec.template.spec.terminationGracePeriod",
        ["30s", "10m", "1h30m"],
        ["", "-1s", "Never", "1d", "1.5h", 30],
    ),
    bad(
        "expireAfter of a million years cannot be counted",
        "spec.template.spec.expireAfter",
        {"spec.template.spec.expireAfter": "9999999999h"},
        server_accepts=True,
    ),
    *(
        good(f"consolidationPolicy {policy}", {"spec.disruption.consolidationPolicy": policy})
        for policy in ("WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced")
    ),
    *(
        bad(
            f"consolidationPolicy {policy!r} does not exist",
            "spec.disruption.consolidationPolicy",
            {"spec.disruption.consolidationPolicy": policy},
        )
        for policy in (
            "",
            " WhenEmpty",
            "Always",
            "Balance",
            "Never",
            "WHENEMPTY",
            "WhenEmptyOrUnderutilised",
            "WhenUnderutilized",
            "When_Empty",
            "balanced",
            "whenempty",
        )
    ),
    good("a disruption of null stands for the default", {"spec.disruption": None}),
    bad("a disruption must be an object", "spec.disruption", {"spec.disruption": "Never"}),
]


def _window(schedule: Any, duration: Any) -> dict[str, Any]:
    entry = {"nodes": "1", "schedule": schedule, "duration": duration}
    return {BUDGETS: [{name: value for name, value in entry.items() if value is not ABSENT}]}


BUDGET_CASES = [
    *(
        good(f"a budget of {nodes}", {BUDGETS: [{"nodes": nodes}]})
        for nodes in ("0", "5", "100", "1000", "0%", "9%", "10%", "99%", "100%")
    ),
    *(
        bad(f"a budget of {nodes!r} means nothing", f"{BUDGETS}[0].nodes", {BUDGETS: [{"nodes": nodes}]})
        for nodes in ("101%", "1000%", "-5", "-5%", "10.5%", "%", "ten", "", "10 %", 10)
    ),
    good("a budget without nodes is 10%", {BUDGETS: [{"reasons": ["Empty"]}]}),
    good("no budgets at all", {BUDGETS: []}),
    good("50 budgets are the most", {BUDGETS: [{"nodes": "1"}] * 50}),
    bad("51 budgets are too many", BUDGETS, {BUDGETS: [{"nodes": "1"}] * 51}),
    *(
        good(f"a window {schedule} of {duration}", _window(schedule, duration))
        for schedule, duration in (
            ("@daily", "1h"),
            ("@midnight", "8h0s"),
            ("@hourly", "30m"),
            ("@weekly", "1h30m"),
            ("@monthly", "24h"),
            ("@yearly", "100h"),
            ("@annually", "1m"),
            ("0 9 * * mon-fri", "8h"),
            ("*/15 * * * *", "10m"),
            ("0 0 1,15 * ?", "1h"),
        )
    ),
    bad("a schedule without a duration", BUDGETS, _window("@daily", ABSENT)),
    bad("a duration without a schedule", BUDGETS, _window(ABSENT, "1h")),
    *(
        bad(f"a window may not last {duration!r}", f"{BUDGETS}[0].duration", _window("@daily", duration))
        for duration in ("30s", "1h30s", "-1h", "1.5h", "", "Never", "1d", 60)
    ),
    *(
        bad(f"{schedule!r} is no schedule", f"{BUDGETS}[0].schedule", _window(schedule, "1h"))
        for schedule in ("", "@never", "@reboot", "*", "* * * *", "daily", 5)
    ),
    *(
        bad(
            f"the schedule {schedule!r} looks like one but cannot be read",
            f"{BUDGETS}[0].schedule",
            _window(schedule, "1h"),
            server_accepts=True,
        )
        for schedule in (
            "a b c d e",
            "60 * * * *",
            "0 0 30 2 *",
            "0 0 * * 7",
            "@daily at noon",
            "* * * * * *",
        )
    ),
    *(
        good(f"a budget for {reason}", {BUDGETS: [{"nodes": "1", "reasons": [reason]}]})
        for reason in ("Underutilized", "Empty", "Drifted")
    ),
    good(
        "a budget for all reasons",
        {BUDGETS: [{"nodes": "1", "reasons": ["Underutilized", "Empty", "Drifted"]}]},
    ),
    *(
        bad(
            f"{reason!r} is no reason",
            f"{BUDGETS}[0].reasons[0]",
            {BUDGETS: [{"nodes": "1", "reasons": [reason]}]},
        )
        for reason in ("Expired", "empty", "Underutilised", "")
    ),
    bad(
        "a reason may occur once",
        f"{BUDGETS}[0].reasons[1]",
        {BUDGETS: [{"nodes": "1", "reasons": ["Empty", "Empty"]}]},
    ),
]

BOUNDS = [
    *(good(f"a weight of {weight}", {"spec.weight": weight}) for weight in (1, 50, 100)),
    *(
        bad(f"a weight of {weight!r} is out of bounds", "spec.weight", {"spec.weight": weight})
        for weight in (0, -1, 101, 1.5, "5", True)
    ),
    *(
        good(f"limits of {limits}", {"spec.limits": limits})
        for limits in (
            {},
            {"cpu": 10},
            {"cpu": "10"},
            {"cpu": "100m"},
            {"cpu": "1e3"},
            {"memory": "1000Gi"},
            {"nvidia.com/gpu": "4"},
            {"nodes": 5},
            {"cpu": "-1"},
        )
    ),
    *(
        bad(f"a limit of {amount!r} is no quantity", "spec.limits.cpu", {"spec.limits": {"cpu": amount}})
        for amount in ("ten", "10Gb", "", "1 Gi", "0x10", 1.5, True, ["1"])
    ),
    bad("limits must be a map", "spec.limits", {"spec.limits": ["cpu"]}),
    bad(
        "a limit that looks like a quantity but cannot be read",
        "spec.limits[cpu]",
        {"spec.limits": {"cpu": "1e1.5"}},
        server_accepts=True,
    ),
    *(good(f"{replicas} replicas", {"spec.replicas": replicas}) for replicas in (0, 1, 1000)),
    *(
        bad(f"{replicas!r} replicas make no sense", "spec.replicas", {"spec.replicas": replicas})
        for replicas in (-1, "3", 0.5)
    ),
    good("replicas with a limit on nodes", {"spec.replicas": 3, "spec.limits": {"nodes": "5"}}),
    good("replicas with empty limits", {"spec.replicas": 3, "spec.limits": {}}),
    bad("replicas with a limit on cpu", "spec", {"spec.replicas": 3, "spec.limits": {"cpu": "5"}}),
    bad(
        "replicas with limits on nodes and cpu",
        "spec",
        {"spec.replicas": 3, "spec.limits": {"nodes": "5", "cpu": "5"}},
    ),
    bad("replicas with a weight", "spec", {"spec.replicas": 3, "spec.weight": 5}),
]

SHAPE = [
    good("the smallest pool", {}),
    bad("a pool needs a spec", "spec", {"spec": ABSENT}),
    bad("a pool needs a template", "spec.template", {"spec.template": ABSENT}),
    bad("a template needs a spec", "spec.template.spec", {"spec.template": {}}),
    bad("a spec must be an object", "spec", {"spec": []}),
    bad("a pool needs a name", "metadata.name", {"metadata": {}}, server_accepts=False),
    bad("a name is lower case", "metadata.name", {"metadata.name": "Default"}),
    bad("labels are text", "metadata.labels[...]", {"metadata.labels": {"a": 1}}),
    bad("a field that does not exist", "spec.weigth", {"spec.weigth": 5}),
    bad(
        "a field that does not exist, deep down",
        "spec.template.spec.requirements[0].value",
        {"spec.template.spec.requirements": [{"key": "a", "operator": "Exists", "value": "b"}]},
    ),
]

_REFERENCE = "spec.template.spec.nodeClassRef"

UPDATES = [
    good("nothing changes", {}, old=POOL),
    good("the weight changes", {"spec.weight": 5}, old=POOL),
    good("requirements change", {"spec.template.spec.requirements": []}, old=POOL),
    good("another class of the same kind", {f"{_REFERENCE}.name": "other"}, old=POOL),
    bad("another group of class", _REFERENCE, {f"{_REFERENCE}.group": "karpenter.k8s.aws"}, old=POOL),
    bad("another kind of class", _REFERENCE, {f"{_REFERENCE}.kind": "EC2NodeClass"}, old=POOL),
    good("a static pool grows", {"spec.replicas": 4}, old=STATIC),
    good("a static pool shrinks to nothing", {"spec.replicas": 0}, old=STATIC),
    good(
        "a static pool gets a limit on nodes", {"spec.replicas": 3, "spec.limits": {"nodes": 9}}, old=STATIC
    ),
    bad("a dynamic pool becomes static", "spec", {"spec.replicas": 3}, old=POOL),
    bad("a static pool becomes dynamic", "spec", {}, old=STATIC),
    bad("a static pool gets a weight", "spec", {"spec.replicas": 3, "spec.weight": 1}, old=STATIC),
    bad(
        "a static pool gets a limit on cpu",
        "spec",
        {"spec.replicas": 3, "spec.limits": {"cpu": 1}},
        old=STATIC,
    ),
    bad("a new mistake on update", "spec.weight", {"spec.weight": 101}, old=POOL),
]

POOL_CASES = [*SHAPE, *DISRUPTION, *BUDGET_CASES, *BOUNDS, *UPDATES]
