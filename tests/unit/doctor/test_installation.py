"""How the operator is installed: a broken and a sound example for every rule."""

from __future__ import annotations

import pytest
import yaml

from karpenter import __version__
from karpenter.api.crd.definitions import DEFINITIONS, render
from karpenter.doctor.facts import DoctorFacts, FargateSelector
from karpenter.doctor.installation import LEAST
from tests.unit.doctor.world import (
    CLASS,
    OPERATOR,
    POOL,
    WORKLOAD,
    Case,
    account,
    changed,
    chart,
    charts,
    facts,
    judge,
    judged,
)

NODE = """
apiVersion: v1
kind: Node
metadata: {name: a, labels: {topology.kubernetes.io/zone: us-west-2a}}
spec: {taints: [{key: karpenter.sh/controller, value: "true", effect: NoSchedule}]}
---
apiVersion: v1
kind: Node
metadata: {name: b, labels: {topology.kubernetes.io/zone: us-west-2b}}
spec: {taints: [{key: karpenter.sh/controller, value: "true", effect: NoSchedule}]}
"""
COREDNS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: coredns, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec: {template: {spec: {tolerations: [], containers: []}}}
"""
TOLERANT = changed(
    COREDNS, ("tolerations: []", "tolerations: [{key: karpenter.sh/controller, operator: Exists}]")
)
AUTOSCALER = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: cluster-autoscaler, namespace: kube-system}
spec:
  replicas: 1
  template: {spec: {containers: [{image: "registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.0"}]}}
"""
HANDLER = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: aws-node-termination-handler, namespace: kube-system}
spec: {template: {spec: {containers: []}}}
"""
WEBHOOK = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: validation.webhook.karpenter.sh}
"""
OTHER_WEBHOOK = changed(WEBHOOK, ("validation.webhook.karpenter.sh", "validate.kyverno.svc"))
BUDGETS = changed(POOL, ("  limits:", "  disruption: {budgets: [{nodes: 10%}]}\n  limits:"))
OLD = """
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: default}
spec: {weight: 20, consolidation: {enabled: true}}
"""
ON_FARGATE = account(fargate=(FargateSelector(namespace="kube-system"),))


def definitions(*, without: str = "") -> str:
    """Return our definitions, of which one lacks a field."""
    plains = [render(each) for each in DEFINITIONS]
    for plain in plains if without else []:
        if plain["spec"]["names"]["kind"] == "NodePool":
            del plain["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][
                without
            ]
    return yaml.safe_dump_all(plains)


CASES = [
    Case(
        "kubernetes-version",
        facts(OPERATOR, kubernetes="1.34"),
        facts(OPERATOR, kubernetes="1.33"),
        "Karpenter 1.5.0 does not support Kubernetes 1.34; fix: upgrade Karpenter to 1.6.0",
    ),
    Case(
        "chart-version-prefix",
        charts(version="v1.5.0"),
        charts(),
        "from 0.35.0 on, chart versions have no v in front; fix: write 1.5.0",
    ),
    Case(
        "chart-repository",
        charts(repository="https://charts.karpenter.sh"),
        charts(),
        "use oci://public.ecr.aws/karpenter/karpenter",
    ),
    Case("release-name", charts(release="autoscaler"), charts(), "called autoscaler", "warning"),
    Case(
        "chart-values",
        charts(values={"webhook": {"enabled": False}}),
        charts(),
        "webhook has no effect",
        "warning",
    ),
    Case(
        "version-feature",
        facts(BUDGETS, charts=(chart(version="0.32.1"),)),
        facts(BUDGETS, charts=(chart(),)),
        "spec.disruption.budgets: came with Karpenter 0.34.0, and 0.32.1 is installed",
    ),
    Case("old-kinds", facts(OLD), facts(POOL), "replaced by NodePool (karpenter.sh/v1)"),
    Case(
        "cluster-name",
        facts(OPERATOR, cluster="green"),
        facts(OPERATOR),
        "is blue, and the cluster is green; fix: set it to green",
    ),
    Case(
        "dns-policy",
        facts(OPERATOR, aws=ON_FARGATE),
        facts(changed(OPERATOR, ("ClusterFirst", "Default")), aws=ON_FARGATE),
        "dnsPolicy: is ClusterFirst in version 1.5.0 on Fargate",
    ),
    Case(
        "coredns-deadlock",
        facts(OPERATOR, COREDNS, NODE, live=True),
        facts(OPERATOR, TOLERANT, NODE, live=True),
        "taint karpenter.sh/controller=true:NoSchedule",
    ),
    Case(
        "controller-placement",
        facts(changed(OPERATOR, ("DoesNotExist", "Exists"))),
        facts(OPERATOR),
        "may run on a node that it manages",
        "warning",
    ),
    Case(
        "controller-replicas",
        facts(changed(OPERATOR, ("replicas: 2", "replicas: 3")), NODE, live=True),
        facts(OPERATOR, NODE, live=True),
        "3 replicas need as many nodes that the operator does not manage; there is 2",
        "warning",
    ),
    Case(
        "crd-version",
        facts(definitions(without="weight"), live=True),
        facts(definitions(), live=True),
        "is of another version: it lacks spec.weight",
        "warning",
    ),
    Case(
        "leftover-webhook",
        facts(WEBHOOK, OPERATOR),
        facts(OTHER_WEBHOOK, OPERATOR),
        "kubectl delete validatingwebhookconfiguration validation.webhook.karpenter.sh",
    ),
    Case(
        "cluster-autoscaler",
        facts(AUTOSCALER, OPERATOR),
        facts(changed(AUTOSCALER, ("replicas: 1", "replicas: 0")), OPERATOR),
        "kubectl -n kube-system scale deployment cluster-autoscaler --replicas 0",
    ),
    Case(
        "node-termination-handler",
        facts(HANDLER, OPERATOR),
        facts(HANDLER, changed(OPERATOR, ("INTERRUPTION_QUEUE", "OTHER"))),
        "reads interruptions itself, from the queue blue",
        "warning",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.rule for case in CASES])
def test_rule(case: Case) -> None:
    """A rule finds what is broken, and nothing where all is sound."""
    judge(case)


@pytest.mark.parametrize(
    ("kubernetes", "karpenter", "is_sound"),
    [
        pytest.param("1.20", "0.21.1", True, id="old ones go together"),
        pytest.param("1.20", "0.22.0", False, id="0.22 does not run before 1.21"),
        pytest.param("1.29", "0.33.9", False, id="1.29 needs 0.34"),
        pytest.param("1.29", "0.34.0", True, id="0.34 is enough for 1.29"),
        pytest.param("1.31", "1.0.0", False, id="1.31 needs 1.0.5"),
        pytest.param("1.31", "1.0.8", True, id="1.0.8 is enough for 1.31"),
        pytest.param("1.36", "1.12.9", False, id="1.36 needs 1.13"),
        pytest.param("1.99", "1.12.9", False, id="a version of the future needs the newest"),
    ],
)
def test_versions_go_together(kubernetes: str, karpenter: str, is_sound: bool) -> None:
    """The matrix of versions is that of the guides, old versions included."""
    known = facts(kubernetes=kubernetes, charts=(chart(version=karpenter),))

    assert (judged("kubernetes-version", known)[0] == ()) is is_sound


def test_the_matrix_has_no_gap() -> None:
    """Every minor version of Kubernetes has a row, and newer ones never need less."""
    minors = [minor for _, minor in LEAST]

    assert minors == list(range(min(minors), max(minors) + 1))
    assert sorted(LEAST.values()) == list(LEAST.values())


def test_our_own_version_is_no_old_karpenter() -> None:
    """The operator of this project is judged by its own chart, whose version begins at 0.1."""
    args = "          args: [run, --log-form, json]\n          env:"
    ours = changed(OPERATOR, ("1.5.0", __version__), ("          env:", args))

    assert judged("kubernetes-version", facts(ours, kubernetes="1.36"))[0] == ()
    assert judged("kubernetes-version", facts(ours, kubernetes="1.24"))[0] != ()


@pytest.mark.parametrize(
    ("version", "repository", "rules"),
    [
        pytest.param("0.16.3", "https://charts.karpenter.sh", [], id="the old place"),
        pytest.param(
            "0.16.3", "oci://public.ecr.aws/karpenter/karpenter", ["chart-repository"], id="too early"
        ),
        pytest.param(
            "v0.17.0", "oci://public.ecr.aws/karpenter/karpenter", [], id="the first in the registry"
        ),
        pytest.param(
            "0.17.0", "oci://public.ecr.aws/karpenter/karpenter", ["chart-version-prefix"], id="no v"
        ),
        pytest.param("v0.34.9", "oci://public.ecr.aws/karpenter/karpenter", [], id="the last with v"),
        pytest.param("v0.35.0", "oci://public.ecr.aws/karpenter/karpenter", ["chart-version-prefix"], id="v"),
        pytest.param("0.35.0", "oci://public.ecr.aws/karpenter/karpenter", [], id="the first without v"),
        pytest.param("1.5.0", "public.ecr.aws/karpenter/karpenter", ["chart-repository"], id="no oci://"),
    ],
)
def test_where_charts_are(version: str, repository: str, rules: list[str]) -> None:
    """The registry has charts from 0.17.0 on, until 0.34 with a v in front of the version."""
    known = charts(version=version, repository=repository)
    both = ("chart-repository", "chart-version-prefix")

    assert [rule for rule in both if judged(rule, known)[0]] == rules


def test_argo_writes_registries_without_oci() -> None:
    """Argo CD takes a registry without oci:// in front, so that this is no mistake there."""
    known = charts(repository="public.ecr.aws/karpenter", tool="argocd")

    assert judged("chart-repository", known)[0] == ()


def test_the_release_of_the_add_on() -> None:
    """A release that the CDK add-on named cannot be upgraded, which is worse than an odd name."""
    [finding] = judged("release-name", charts(release="blueprints-addon-karpenter"))[0]

    assert finding.severity == "error"


@pytest.mark.parametrize(
    ("known", "says"),
    [
        pytest.param(
            facts(OLD, charts=(chart(version="0.14.0"),)), "spec.consolidation: came with", id="0.15"
        ),
        pytest.param(facts(OLD, charts=(chart(version="0.15.0"),)), "spec.weight: came with", id="0.16"),
        pytest.param(
            facts(OLD, charts=(chart(version="0.18.0", values={"settings": {"interruptionQueue": "q"}}),)),
            "came with 0.19.0",
            id="0.19",
        ),
        pytest.param(
            facts(changed(OLD, ("weight: 20", "ttlSecondsAfterEmpty: 30")), charts=(chart(),)),
            "excludes consolidation",
            id="either of two",
        ),
    ],
)
def test_gates_of_versions(known: DoctorFacts, says: str) -> None:
    """Fields that came later than the installed version are named, with the version they came with."""
    assert says in str(judged("version-feature", known)[0][0])


@pytest.mark.parametrize(
    ("version", "is_sound"),
    [("0.13.2", False), ("0.14.0", True), ("0.33.0", True), ("0.34.0", False), ("1.5.0", False)],
)
def test_the_chart_sets_the_dns_policy_for_a_while(version: str, is_sound: bool) -> None:
    """Charts from 0.14 until before 0.34 set dnsPolicy themselves; others need it on Fargate."""
    known = facts(charts=(chart(version=version),), aws=ON_FARGATE)

    assert (judged("dns-policy", known)[0] == ()) is is_sound


def test_definitions_that_are_not_there() -> None:
    """A cluster without the three definitions that the operator needs is told so, once for each."""
    found = judged("crd-version", facts(POOL, live=True))[0]

    assert len(found) == 3
    assert {each.severity for each in found} == {"error"}


def test_webhooks_belong_to_old_versions() -> None:
    """A webhook is no remainder while the version that made it is installed."""
    old = changed(OPERATOR, ("1.5.0", "0.37.0"))

    assert judged("leftover-webhook", facts(WEBHOOK, old))[0] == ()


def test_what_has_no_installation() -> None:
    """Cluster Autoscaler in a cluster without us is none of our business."""
    assert judged("cluster-autoscaler", facts(AUTOSCALER, WORKLOAD))[0] == ()
    assert judged("cluster-autoscaler", facts(AUTOSCALER, POOL, CLASS))[0] != ()
