"""NodePools and node classes: a broken and a sound example for every rule."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from karpenter.doctor.facts import UnreadableText
from karpenter.doctor.labels import known_values, value_problem
from tests.unit.doctor.world import CLASS, POOL, Case, account, changed, facts, judge, judged, replace

REQUIREMENT = "        - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}\n"
CATEGORY = "karpenter.k8s.aws/instance-category"


def pool(*requirements: str) -> str:
    """Return a pool with these requirements in place of the capacity type."""
    lines = "".join(f"        - {{{each}}}\n" for each in requirements)
    return changed(POOL, (REQUIREMENT, lines))


def zones(*names: str) -> str:
    """Return a pool that names these zones."""
    return changed(POOL, ("[us-west-2a, us-west-2b]", f"[{', '.join(names)}]"))


READY = "status: {{conditions: [{{type: Ready, status: '{}', reason: R, message: no subnets}}]}}\n"
CASES = [
    Case(
        "invalid-object",
        facts(changed(POOL, ("operator: In, values: [spot, on-demand]", "operator: Near, values: [spot]"))),
        facts(POOL),
        "spec.template.spec.requirements[0].operator",
    ),
    Case(
        "unreadable-manifest",
        replace(
            facts(POOL), unreadable=(UnreadableText(source="a.yaml", problem="line 3: not YAML: a tab"),)
        ),
        facts(POOL),
        "a.yaml: line 3: not YAML: a tab",
    ),
    Case(
        "placeholder",
        facts(changed(CLASS, ("role: KarpenterNodeRole-blue", "role: KarpenterNodeRole-${CLUSTER_NAME}"))),
        facts(CLASS),
        "has a placeholder that was not filled in",
    ),
    Case(
        "nodepool-limits",
        facts(changed(POOL, ('  limits: {cpu: "1000"}\n', ""))),
        facts(POOL),
        "spec.limits: nothing bounds what this pool may buy",
        "warning",
    ),
    Case(
        "label-value",
        facts(pool(f"key: {CATEGORY}, operator: In, values: [C]")),
        facts(pool(f"key: {CATEGORY}, operator: In, values: [c]")),
        "instance-category is never 'C', so that nothing matches; did you mean 'c'?; fix: write c",
    ),
    Case(
        "zone-unknown",
        facts(zones("us-west-2e", "us-west-2f"), region=""),
        facts(zones("us-west-2c", "us-west-2d"), region=""),
        "us-west-2 has no zone us-west-2e, us-west-2f; it has us-west-2a, us-west-2b",
    ),
    Case(
        "nodepool-empty",
        facts(
            pool(
                "key: karpenter.k8s.aws/instance-family, operator: In, values: [c5]",
                "key: kubernetes.io/arch, operator: In, values: [arm64]",
            )
        ),
        facts(pool("key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ['4']")),
        "no instance type of EC2 meets all of them",
    ),
    Case(
        "nodeclass-missing",
        facts(POOL, live=True),
        facts(POOL, CLASS, live=True),
        "EC2NodeClass default is not there",
    ),
    Case(
        "al2-image",
        facts(changed(CLASS, ("al2023@latest", "al2@latest")), kubernetes="1.33"),
        facts(changed(CLASS, ("al2023@latest", "al2@latest")), kubernetes="1.32"),
        "there is no Amazon Linux 2 for Kubernetes 1.33",
    ),
    Case(
        "pinned-ami",
        facts(changed(CLASS, ("alias: al2023@latest", "id: ami-09f1941e8730d7702"))),
        facts(CLASS),
        "ami-09f1941e8730d7702: an id is of one region",
        "info",
    ),
    Case(
        "user-data",
        facts(changed(CLASS, ("al2023", "bottlerocket"), ("spec:", "spec:\n  userData: a = = 3"))),
        facts(changed(CLASS, ("spec:", "spec:\n  userData: a = = 3"))),
        "spec.userData: the user data is not TOML: Invalid value (at line 1, column 5)",
    ),
    Case(
        "user-data-script",
        facts(changed(CLASS, ("spec:", "spec:\n  userData: 'kind: NodeConfig: a'"))),
        facts(changed(CLASS, ("spec:", "spec:\n  userData: 'kind: NodeConfig'"))),
        "spec.userData: no NodeConfig: the user data: line 1: not YAML: mapping values are not allowed",
        "warning",
    ),
    Case(
        "budget-zero",
        facts(changed(POOL, ("  limits:", '  disruption: {budgets: [{nodes: "0"}]}\n  limits:'))),
        facts(
            changed(
                POOL,
                (
                    "  limits:",
                    '  disruption: {budgets: [{nodes: "0", schedule: "0 9 * * *", duration: 8h}]}\n  limits:',
                ),
            )
        ),
        "is 0 at all times",
        "warning",
    ),
    Case(
        "not-ready",
        facts(CLASS + READY.format("False"), live=True),
        facts(CLASS + READY.format("True"), live=True),
        "status.conditions[Ready]: R: no subnets",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.rule for case in CASES])
def test_rule(case: Case) -> None:
    """A rule finds what is broken, and nothing where all is sound."""
    judge(case)


@pytest.mark.parametrize(
    ("key", "value", "meant", "certain"),
    [
        pytest.param(CATEGORY, "C", "c", True, id="upper case"),
        pytest.param("kubernetes.io/arch", "x86_64", "amd64", True, id="what others call amd64"),
        pytest.param("kubernetes.io/arch", "aarch64", "arm64", True, id="what others call arm64"),
        pytest.param("karpenter.sh/capacity-type", "OnDemand", "on-demand", True, id="without a hyphen"),
        pytest.param("karpenter.sh/capacity-type", "on_demand", "on-demand", True, id="an underscore"),
        pytest.param(
            "node.kubernetes.io/instance-type", "M5.Large", "m5.large", True, id="a type in capitals"
        ),
        pytest.param("node.kubernetes.io/instance-type", "m5.larg", "m5.large", False, id="a letter missing"),
        pytest.param("kubernetes.io/os", "Linux", "linux", True, id="an operating system"),
        pytest.param(
            "karpenter.k8s.aws/instance-hypervisor", "nitros", "nitro", True, id="a letter too many"
        ),
    ],
)
def test_which_value_was_meant(key: str, value: str, meant: str, certain: bool) -> None:
    """The value that was probably meant is offered; new instance types leave room for doubt."""
    found = value_problem(key, value)

    assert found is not None
    assert (found.meant, found.certain) == (meant, certain)


def test_values_that_nodes_have() -> None:
    """Every value of the catalogue passes, and labels of users are not judged."""
    assert [v for key, values in known_values().items() for v in values if value_problem(key, v)] == []
    assert value_problem("team", "Payments") is None


@pytest.mark.parametrize(
    ("requirement", "severity"),
    [
        pytest.param(f"key: {CATEGORY}, operator: In, values: [C, m]", "warning", id="one of two"),
        pytest.param(f"key: {CATEGORY}, operator: NotIn, values: [C]", "warning", id="excludes nothing"),
        pytest.param(
            "key: node.kubernetes.io/instance-type, operator: In, values: [m99.large]",
            "warning",
            id="a type of the future",
        ),
    ],
)
def test_doubt_is_no_error(requirement: str, severity: str) -> None:
    """What still matches something, or may be newer than the catalogue, is a warning."""
    [finding] = judged("label-value", facts(pool(requirement)))[0]

    assert finding.severity == severity


@pytest.mark.parametrize(
    ("names", "fields", "says"),
    [
        pytest.param(
            ("us-west-2a", "eu-west-1a"), {"region": ""}, "zones of eu-west-1, us-west-2", id="two regions"
        ),
        pytest.param(("us-east-1a",), {}, "us-west-2 has no zone us-east-1a", id="another region"),
        pytest.param(
            ("us-west-2d",),
            {"aws": account(zones=("us-west-2a",))},
            "has no zone us-west-2d",
            id="the account's own",
        ),
        pytest.param(("us-west-2-lax-1a",), {}, "", id="a local zone is not known offline"),
        pytest.param(("us-west-2a", "us-west-2x"), {}, "has no zone us-west-2x", id="one of two"),
    ],
)
def test_zones(names: tuple[str, ...], fields: dict[str, Any], says: str) -> None:
    """Zones are compared with those of the account, or of the region as it ships with the product."""
    found = judged("zone-unknown", facts(zones(*names), **fields))[0]

    assert says in str(found)
    assert bool(found) is bool(says)


def test_other_clouds_have_other_labels() -> None:
    """A pool that does not buy from EC2 is not judged by what EC2 sells."""
    text = changed(
        pool("key: node.kubernetes.io/instance-type, operator: In, values: [s-4x-amd64-linux]"),
        ("group: karpenter.k8s.aws, kind: EC2NodeClass", "group: karpenter.kwok.sh, kind: KWOKNodeClass"),
    )

    assert judged("label-value", facts(text))[0] == ()


NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def conditions(*given: tuple[str, str, str], ago: int) -> str:
    """Return a status with conditions of a type, a status and a reason, which are so many seconds old."""
    since = (NOW - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    listed = [
        {"type": kind, "status": status, "reason": reason, "message": "m", "lastTransitionTime": since}
        for kind, status, reason in given
    ]
    return f"status: {json.dumps({'conditions': listed})}\n"


UNKNOWN_CLASS = ("NodeClassReady", "False", "NodeClassReadinessUnknown")
FOLLOWS = ("Ready", "False", "UnhealthyDependents")


@pytest.mark.parametrize(
    ("given", "ago", "severities"),
    [
        pytest.param((UNKNOWN_CLASS, FOLLOWS), 10, {"info"}, id="a pool that was just made"),
        pytest.param((UNKNOWN_CLASS, FOLLOWS), 61, {"error"}, id="one that was made a minute ago"),
        pytest.param((("AMIsReady", "Unknown", "Awaiting"),), 10, {"info"}, id="unknown for ten seconds"),
        pytest.param((("AMIsReady", "Unknown", "Awaiting"),), 90, {"error"}, id="unknown for long"),
        pytest.param((("SubnetsReady", "False", "SubnetsNotFound"),), 1, {"error"}, id="known to be wrong"),
        pytest.param(
            (("SubnetsReady", "False", "SubnetsNotFound"), ("AMIsReady", "Unknown", "Awaiting"), FOLLOWS),
            1,
            {"error", "info"},
            id="one part known to be wrong, another not known",
        ),
        pytest.param((("NodeRegistrationHealthy", "Unknown", "Awaiting"),), 90, set(), id="no machine yet"),
    ],
)
def test_what_is_not_known_yet_is_a_note(
    given: tuple[tuple[str, str, str], ...], ago: int, severities: set[str]
) -> None:
    """The operator takes some seconds to look at what has just been written."""
    found = facts(POOL + conditions(*given, ago=ago), live=True, now=NOW)

    assert {each.severity for each in judged("not-ready", found)[0]} == severities
