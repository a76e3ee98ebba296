"""Workloads: a broken and a sound example for every rule."""

from __future__ import annotations

import pytest

from tests.unit.doctor.world import POOL, WORKLOAD, Case, changed, facts, judge, judged

ONE = changed(WORKLOAD, ("replicas: 4", "replicas: 1"))
NODES = """
apiVersion: v1
kind: Node
metadata: {name: c, labels: {topology.kubernetes.io/zone: us-west-2c}}
spec: {taints: [{key: karpenter.sh/controller, effect: NoSchedule}]}
"""
SPREAD = "      topologySpreadConstraints:\n"
SELECTOR = "      nodeSelector: {{{}}}\n" + SPREAD


def budget(text: str, *, name: str = "web") -> str:
    return f"""
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: {name}, namespace: shop}}
spec: {{selector: {{matchLabels: {{app: web}}}}, {text}}}
"""


def selecting(text: str) -> str:
    """Return the workload with a node selector."""
    return changed(WORKLOAD, (SPREAD, SELECTOR.format(text)))


def annotated(text: str) -> str:
    """Return the workload with an annotation on its pods."""
    return changed(WORKLOAD, ("labels: {app: web}}", f"labels: {{app: web}}, annotations: {{{text}}}}}"))


def without_spread(text: str) -> str:
    begin, end = text.index(SPREAD), text.index("      containers:")
    return text[:begin] + text[end:]


REQUESTS = "{requests: {cpu: 1, memory: 1Gi}}"
CASES = [
    Case(
        "workload-requests",
        facts(changed(WORKLOAD, (REQUESTS, "{}"))),
        facts(WORKLOAD),
        "container web requests no cpu and no memory",
        "warning",
    ),
    Case(
        "pdb-blocks",
        facts(WORKLOAD, budget("minAvailable: 4")),
        facts(WORKLOAD, budget("minAvailable: 3")),
        "is 4 of 4 replicas, so that no pod may ever be evicted",
    ),
    Case(
        "pdb-overlap",
        facts(WORKLOAD, budget("maxUnavailable: 1"), budget("maxUnavailable: 1", name="web2")),
        facts(WORKLOAD, budget("maxUnavailable: 1")),
        "web, web2 all cover the pods of Deployment/shop/web",
    ),
    Case(
        "spread-skew",
        facts(POOL, changed(WORKLOAD, ("maxSkew: 1", "maxSkew: 1\n          minDomains: 3"))),
        facts(POOL, WORKLOAD),
        "wants 3 zones, and pools launch in 2 (us-west-2a, us-west-2b): all but 2 pods stay pending",
    ),
    Case(
        "spread-missing",
        facts(without_spread(WORKLOAD)),
        facts(WORKLOAD),
        "4 replicas may all be on one node",
        "info",
    ),
    Case(
        "selector-value",
        facts(selecting("kubernetes.io/arch: x86_64")),
        facts(selecting("kubernetes.io/arch: amd64")),
        "is never 'x86_64', so that nothing matches; did you mean 'amd64'?",
    ),
    Case(
        "selector-zone",
        facts(selecting("topology.kubernetes.io/zone: us-west-2x")),
        facts(selecting("topology.kubernetes.io/zone: us-west-2a")),
        "there is no zone us-west-2x",
    ),
    Case(
        "old-label",
        facts(selecting("karpenter.sh/provisioner-name: default")),
        facts(selecting("karpenter.sh/nodepool: default")),
        "karpenter.sh/provisioner-name is called karpenter.sh/nodepool now",
    ),
    Case(
        "do-not-disrupt",
        facts(annotated('karpenter.sh/do-not-disrupt: "true"')),
        facts(annotated("karpenter.sh/do-not-disrupt: 1h")),
        "are not consolidated",
        "info",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.rule for case in CASES])
def test_rule(case: Case) -> None:
    """A rule finds what is broken, and nothing where all is sound."""
    judge(case)


@pytest.mark.parametrize(
    ("workload", "text", "is_sound"),
    [
        pytest.param(WORKLOAD, "maxUnavailable: 0", False, id="none"),
        pytest.param(WORKLOAD, "maxUnavailable: 0%", False, id="no share"),
        pytest.param(WORKLOAD, "minAvailable: 100%", False, id="all of them"),
        pytest.param(WORKLOAD, "minAvailable: 50%", True, id="half of four"),
        pytest.param(ONE, "minAvailable: 50%", False, id="half of one is one"),
        pytest.param(ONE, "minAvailable: 1", False, id="the only one"),
        pytest.param(ONE, "maxUnavailable: 10%", True, id="a tenth of one is one"),
        pytest.param(ONE, "maxUnavailable: 1", True, id="the only one may go"),
    ],
)
def test_budgets(workload: str, text: str, is_sound: bool) -> None:
    """A budget blocks for ever where no number of healthy pods allows an eviction; shares round up."""
    assert (judged("pdb-blocks", facts(workload, budget(text)))[0] == ()) is is_sound


def test_budgets_of_other_namespaces() -> None:
    """A budget covers pods of its own namespace only."""
    other = changed(budget("minAvailable: 4"), ("namespace: shop", "namespace: other"))

    assert judged("pdb-blocks", facts(WORKLOAD, other))[0] == ()


def test_a_zone_that_is_counted_and_closed() -> None:
    """Nodes that no pod tolerates count as a zone with no pods, so that the others fill up at once."""
    [finding] = judged("spread-skew", facts(POOL, WORKLOAD, NODES))[0]

    assert "counts us-west-2c, where it cannot run: all but 2 pods stay pending" in finding.message


def test_a_spread_that_counts_other_pods() -> None:
    """A constraint whose selector misses the workload's own pods spreads nothing."""
    text = changed(WORKLOAD, ("matchLabels: {app: web}", "matchLabels: {app: shop}"))

    assert "does not count the workload's own pods" in str(judged("spread-skew", facts(POOL, text))[0])


def test_one_request_of_two() -> None:
    """A container that requests cpu and no memory is worth a note."""
    text = changed(WORKLOAD, (REQUESTS, "{requests: {cpu: 1}}"))

    assert [each.severity for each in judged("workload-requests", facts(text))[0]] == ["info"]


def test_the_cluster_s_own_workloads_are_left_alone() -> None:
    """Workloads in kube-system are not the users'."""
    text = changed(WORKLOAD, (REQUESTS, "{}"), ("namespace: shop", "namespace: kube-system"))

    assert judged("workload-requests", facts(text))[0] == ()


def test_old_annotations() -> None:
    """Annotations of before version 1 protect nothing."""
    found = judged("old-label", facts(annotated('karpenter.sh/do-not-evict: "true"')))[0]

    assert 'fix: write karpenter.sh/do-not-disrupt: "true"' in str(found[0])
