"""Facts from files and from a cluster's secrets."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from karpenter.doctor.gather import read_manifests, release_of
from tests.unit.doctor.world import POOL

FLUX = """
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {name: karpenter}
spec: {url: oci://public.ecr.aws/karpenter, type: oci}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: karpenter, namespace: kube-system}
spec:
  chart: {spec: {chart: karpenter, version: v1.5.0, sourceRef: {kind: HelmRepository, name: karpenter}}}
  values: {settings: {clusterName: blue}}
"""
ARGO = """
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: autoscaler}
spec:
  destination: {namespace: kube-system}
  source:
    chart: karpenter
    repoURL: public.ecr.aws/karpenter
    targetRevision: 1.5.0
    helm: {releaseName: karpenter, values: "settings: {clusterName: blue}"}
"""
KUSTOMIZE = """
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
helmCharts:
  - name: karpenter
    repo: oci://public.ecr.aws/karpenter
    version: 1.5.0
    releaseName: karpenter
    namespace: kube-system
    valuesInline: {settings: {clusterName: blue}}
"""


@pytest.mark.parametrize(
    ("text", "repository", "version"),
    [
        pytest.param(FLUX, "oci://public.ecr.aws/karpenter", "v1.5.0", id="Flux"),
        pytest.param(ARGO, "public.ecr.aws/karpenter", "1.5.0", id="Argo CD"),
        pytest.param(KUSTOMIZE, "oci://public.ecr.aws/karpenter", "1.5.0", id="Kustomize"),
    ],
)
def test_charts_of_gitops(text: str, repository: str, version: str) -> None:
    """The chart is found however a repository states it."""
    [chart] = read_manifests([("app.yaml", text)]).charts

    assert (chart.release, chart.namespace) == ("karpenter", "kube-system")
    assert (chart.repository, chart.version) == (repository, version)
    assert chart.values == {"settings": {"clusterName": "blue"}}


def test_a_file_of_values() -> None:
    """Values of the chart are known by their names, and are no unreadable manifest."""
    found = read_manifests([("values.yaml", "settings: {clusterName: blue}\nserviceAccount: {name: k}\n")])

    assert [chart.values["settings"] for chart in found.charts] == [{"clusterName": "blue"}]
    assert found.unreadable == ()


def test_a_policy_among_manifests() -> None:
    """A policy is taken for one also where its JSON is broken."""
    text = '{"Version": "2012-10-17" "Statement": [{"Effect": "Allow"}]}'

    assert [each.text for each in read_manifests([("p.json", text)]).policies] == [text]


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        pytest.param("a: [1\n", True, id="not YAML"),
        pytest.param("name: {{ .Values.name }}\nkind: {{ x\n", False, id="a template of a chart"),
        pytest.param("node_pools: {}\n", False, id="settings of another tool"),
    ],
)
def test_what_is_no_manifest(text: str, broken: bool) -> None:
    """A broken manifest is told from a file that is something else, and the others are read."""
    found = read_manifests([("a.yaml", text), ("b.yaml", POOL)])

    assert [each.broken for each in found.unreadable] == [broken]
    assert [each.subject for each in found.objects] == ["NodePool/default"]


def secret(**fields: Any) -> dict[str, Any]:
    """Return a secret as Helm stores a release."""
    release = {
        "name": "karpenter",
        "namespace": "kube-system",
        "info": {"status": "deployed"},
        "chart": {"metadata": {"name": "karpenter", "version": "1.5.0"}},
        "config": {"replicas": 1},
        **fields,
    }
    packed = base64.b64encode(gzip.compress(json.dumps(release).encode()))
    return {"data": {"release": base64.b64encode(packed).decode()}}


def test_a_release_in_a_cluster() -> None:
    """Helm's own record says the version and the values; superseded ones are not looked at."""
    found = release_of(secret())

    assert found is not None
    assert (found.release, found.version, found.values) == ("karpenter", "1.5.0", {"replicas": 1})
    assert release_of(secret(info={"status": "superseded"})) is None
    assert release_of({"data": {"release": "bm90IGEgcmVsZWFzZQ=="}}) is None
