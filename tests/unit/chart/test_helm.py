"""The charts, rendered by the real helm: as our own manifests are, and refused as they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api.crd.definitions import DEFINITIONS
from karpenter.api.crd.definitions import render as render_definition
from karpenter.chart.chart import manifests
from karpenter.chart.tree import Release
from karpenter.chart.values import BadValue, values_of
from tests.helm import ROOT, Helm
from tests.unit.chart.corpus import CASES, CHART, DATA, ValuesCase, objects, rendered

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.helm

NAMED = ("--set", "settings.clusterName=blue")
KWOK = "settings.cloudProvider=kwok"
OWN = {
    "the cloud in memory": [KWOK, "replicas=1"],
    "everything that rules depend on": [
        "settings.schedulerConfig=podTopologySpread: {}",
        "settings.surgeBeforeEvict=true,settings.steerScaleDown=true",
        "settings.ignoreDRARequests=false,settings.awsFeatureGates.nodeClassCEL=true",
        "settings.featureGates.nodeOverlay=true,settings.featureGates.capacityBuffer=true",
    ],
    "our own settings": [
        "settings.packingPolicy=greedy,settings.consolidationStrategy=classic,settings.consolidationPayback=0s",
        "settings.disableControllerWarmup=false,settings.flightRecord=/r,settings.flightRecordSize=1000000000",
        "settings.kubeClientQPS=50,settings.enableProfiling=true,settings.evictionPrice=0.01",
    ],
    "a network policy": [
        "networkPolicy.enabled=true,networkPolicy.metricsFrom[0].podSelector.matchLabels.a=b",
        "networkPolicy.egress[0].ports[0].port=443,networkPolicy.ingress[0].ports[0].port=9",
    ],
    "dashboards and alerts": [
        "prometheusRule.enabled=true,prometheusRule.additionalLabels.release=kube-prometheus",
        "prometheusRule.runbookURL=https://wiki.example/karpenter",
        "grafanaDashboards.enabled=true,grafanaDashboards.annotations.grafana_folder=Karpenter",
    ],
}
"""What only our chart has."""

REFUSED = {
    "a name that is not known": "replica=1",
    "a setting that is not known": "settings.clustername=x",
    "a gate that is not known": "settings.featureGates.magic=true",
    "a mapping for a number": "replicas.a=1",
    "a text for a list": "tolerations=x",
    "a policy that is not known": "settings.preferencePolicy=Sometimes",
    "a pull policy that is not known": "imagePullPolicy=Often",
    "a word for a number": "replicas=two",
    "a negative number": "replicas=-1",
    "a word for a truth value": "settings.featureGates.spotToSpotConsolidation=maybe",
    "a word for a duration": "settings.batchMaxDuration=tenseconds",
    "an amount with a word": "controller.resources.requests.cpu=1core",
    "a log level that is not known": "logLevel=trace",
    "a field of the security context that is fixed": "controller.securityContext.runAsUser=0",
}


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    """A helm without a cluster."""
    return Helm(tmp_path)


def in_order(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return objects in an order of their own: helm sorts them by kind."""
    return sorted(found, key=lambda each: (each["kind"], each["metadata"]["name"]))


def ours(case: ValuesCase, sets: list[str]) -> list[dict[str, Any]]:
    """Return the objects that ``karpenter manifests`` prints."""
    release = Release(name=case.release, namespace=case.namespace, values=values_of(case.files, sets))
    return in_order(manifests(release, definitions=False))


@pytest.mark.parametrize("name", CASES)
def test_helm_and_we_say_the_same(helm: Helm, name: str) -> None:
    """The chart, rendered by helm, gives the objects that we print."""
    done = rendered(helm, CHART, CASES[name])

    assert done.returncode == 0, done.stderr
    assert in_order(objects(done.stdout)) == ours(CASES[name], CASES[name].sets)


@pytest.mark.parametrize("sets", OWN.values(), ids=OWN)
def test_helm_and_we_say_the_same_of_what_is_ours(helm: Helm, sets: list[str]) -> None:
    """The same holds for values that only our chart has."""
    words = [word for each in sets for word in ("--set", each)]
    kinds = ("monitoring.coreos.com/v1", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy")
    served = [word for kind in kinds for word in ("--api-versions", kind)]
    said = helm.ok("template", "karpenter", CHART, "--namespace", "kube-system", *served, *NAMED, *words)

    assert in_order(objects(said)) == ours(CASES["nothing-but-the-name.yaml"], [NAMED[1], *sets])


@pytest.mark.parametrize("stated", REFUSED.values(), ids=REFUSED)
def test_both_refuse(helm: Helm, stated: str) -> None:
    """Helm refuses by the schema what ``karpenter manifests`` refuses, before anything is rendered."""
    done = helm("template", "karpenter", CHART, *NAMED, "--set", stated)

    assert done.returncode == 1
    assert "values don't meet the specifications of the schema" in done.stderr
    with pytest.raises(BadValue):
        values_of([], [NAMED[1], stated])


def test_the_name_of_the_cluster_is_required(helm: Helm, tmp_path: Path) -> None:
    """Without the name of the cluster, and where its template gives none, there is no installation."""
    for values in (
        "replicas: 1",
        "settings: {clusterName: null}",
        "settings: {clusterName: '{{ .Values.x }}'}",
    ):
        (tmp_path / "values.yaml").write_text(values)
        done = helm("template", "karpenter", CHART, "--values", tmp_path / "values.yaml")
        assert "settings.clusterName is required" in done.stderr


def test_values_of_karpenters_release_name_karpenters_image(helm: Helm) -> None:
    """With the values of Karpenter's chart, as --reuse-values hands them over, a sentence says what to do."""
    upstream = DATA / "upstream-values.json"
    done = helm("template", "karpenter", CHART, "--values", upstream, *NAMED)

    assert done.returncode == 1
    assert "the image of another operator, which cannot run here; hint: helm upgrade --reset" in done.stderr
    values = values_of([json.loads(upstream.read_text())], [NAMED[1]])
    with pytest.raises(BadValue, match="the image of another operator"):
        manifests(Release(values=values))


def test_helm_finds_no_fault(helm: Helm) -> None:
    """Helm's own lint has nothing to say against either chart."""
    for chart in (CHART, ROOT / "charts" / "karpenter-crd"):
        assert "0 chart(s) failed" in helm.ok("lint", "--strict", chart, *(NAMED if chart == CHART else ()))


def test_definitions_have_a_chart_of_their_own(helm: Helm) -> None:
    """The chart of definitions holds exactly ours, annotated where asked, kept unless told otherwise."""
    chart = ROOT / "charts" / "karpenter-crd"
    said = objects(helm.ok("template", "karpenter-crd", chart, "--set", "additionalAnnotations.a=b"))
    bare = objects(helm.ok("template", "karpenter-crd", chart, "--set", "keep=false"))

    assert {json.dumps(each["metadata"]["annotations"]) for each in said} == {
        '{"helm.sh/resource-policy": "keep", "a": "b"}'
    }
    assert in_order(bare) == in_order([render_definition(each) for each in DEFINITIONS])
    assert helm("template", "karpenter-crd", chart, "--set", "x=y").returncode == 1
