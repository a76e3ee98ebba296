"""The chart: up to date, the same as without Helm, and with what a careful administrator looks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from karpenter.chart.chart import files, manifests
from karpenter.chart.objects import variables
from karpenter.chart.tree import Items, MissingValue, Release, When
from karpenter.chart.values import VALUES, default_values, values_of
from karpenter.operator.options import GATES, SETTINGS, parse_settings
from tests.unit.chart.gotemplate import Reader

CHART = Path(__file__).parents[3] / "charts" / "karpenter"
NAME = "settings.clusterName=blue"

CASES = {
    "as it comes": [],
    "with the cloud in memory": ["settings.cloudProvider=kwok,replicas=1"],
    "with IRSA and resources, as tutorials do": [
        r"serviceAccount.annotations.eks\.amazonaws\.com/role-arn=arn:aws:iam::1:role/x",
        "controller.resources.requests.cpu=1,controller.resources.requests.memory=1Gi",
    ],
    "with gates open and a monitor": [
        "settings.featureGates.nodeOverlay=true,settings.featureGates.capacityBuffer=true",
        "serviceMonitor.enabled=true,serviceMonitor.additionalLabels.team=x",
        "serviceMonitor.endpointConfig.interval=30s",
    ],
    "with labels, annotations, variables and DNS": [
        "additionalLabels.a=b,additionalAnnotations.c=d,podLabels.e=f,podAnnotations.g=h,service.annotations.i=j",
        "imagePullSecrets[0].name=pull,controller.env[0].name=A,controller.env[0].value=B",
        "controller.envFrom[0].secretRef.name=s,hostNetwork=true,dnsConfig.nameservers={1.1.1.1,8.8.8.8}",
    ],
    "with an account of somebody else": [
        "serviceAccount.create=false,serviceAccount.name=mine,nameOverride=k"
    ],
    "with another image": ["fullnameOverride=x,controller.image.digest=sha256:abc,controller.image.tag=v9"],
    "with placement of one's own": [
        "affinity.nodeAffinity.x=y,topologySpreadConstraints[0].maxSkew=2,tolerations=null,priorityClassName=",
        "logOutputPaths={stdout,/var/log/k},extraVolumes[0].name=v,controller.extraVolumeMounts[0].name=v",
        "controller.sidecarContainer[0].name=side,initContainers[0].name=init",
    ],
    "with settings": [
        "settings.ignoreDRARequests=false,settings.interruptionQueue=q,settings.schedulerConfig=a: b",
        "additionalClusterRoleRules[0].verbs={get}",
    ],
}


def release(*sets: str, name: str = "karpenter") -> Release:
    """Return a release with some values set."""
    return Release(name=name, values=values_of([], [NAME, *sets]))


def found(kind: str, *sets: str) -> dict[str, Any]:
    """Return the object of a kind."""
    return next(each for each in manifests(release(*sets)) if each["kind"] == kind)


def test_the_chart_is_up_to_date() -> None:
    """Every file of the chart is what the objects say today; hint: make chart."""
    on_disk = {
        str(path.relative_to(CHART)): path.read_text(encoding="utf-8")
        for path in sorted(CHART.rglob("*"))
        if path.is_file()
    }

    assert on_disk == files()


@pytest.mark.parametrize("sets", CASES.values(), ids=CASES)
@pytest.mark.parametrize("name", ["karpenter", "my"])
def test_helm_and_we_say_the_same(sets: list[str], name: str) -> None:
    """The templates, rendered as Helm does, are the objects that we print."""
    installed = release(*sets, name=name)
    rendered: list[Any] = []
    for file, text in files().items():
        if file.startswith("templates/") and file.endswith(".yaml"):
            read = Reader(text, dict(installed.values), installed.fact).render()
            rendered += [each for each in yaml.safe_load_all(read) if each]

    assert rendered == manifests(installed, definitions=False)


def test_values_are_those_of_the_file() -> None:
    """The file of values is valid YAML, holds the defaults, and explains each."""
    assert yaml.safe_load(files()["values.yaml"]) == default_values()
    assert all(knob.about.endswith((".", "…")) for knob in VALUES)


def test_two_careful_replicas() -> None:
    """By default two replicas run as nobody, hold no capability, and keep off the nodes they manage."""
    spec = found("Deployment")["spec"]
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    guarded = container["securityContext"]

    assert spec["replicas"] == 2
    assert guarded["runAsNonRoot"]
    assert guarded["runAsUser"] == 65532
    assert guarded["readOnlyRootFilesystem"]
    assert not guarded["allowPrivilegeEscalation"]
    assert guarded["capabilities"] == {"drop": ["ALL"]}
    assert pod["priorityClassName"] == "system-cluster-critical"
    [term] = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchExpressions"] == [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]
    assert pod["topologySpreadConstraints"][0]["topologyKey"] == "topology.kubernetes.io/zone"
    assert {"livenessProbe", "readinessProbe", "resources"} <= container.keys()


def test_the_name_of_the_cluster_is_required() -> None:
    """Without the name of the cluster there is no installation."""
    with pytest.raises(MissingValue, match=r"settings\.clusterName is required"):
        manifests(Release(values=default_values()))


def environment(*sets: str) -> dict[str, str]:
    """Return the variables that the chart states as text."""
    [container] = found("Deployment", *sets)["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each["value"] for each in container["env"] if "value" in each}


def test_the_operator_can_read_its_environment() -> None:
    """What the chart states is what the operator has as default, unless a value says otherwise."""
    stated, plain = parse_settings({}, environment()), parse_settings({})
    differing = {each.name for each in SETTINGS if getattr(stated, each.field) != getattr(plain, each.field)}

    assert differing == {"karpenter-service"}
    assert not parse_settings({}, environment("settings.ignoreDRARequests=false")).ignore_dra_requests


def test_every_gate_can_be_opened() -> None:
    """Each feature gate of the operator has a value in the chart."""
    for gate in GATES:
        value = gate[0].lower() + gate[1:]
        assert parse_settings({}, environment(f"settings.featureGates.{value}=true")).gate(gate)


def test_every_setting_can_be_made() -> None:
    """Each setting of the operator is a value of the chart, but for those of the lease, which roles name."""
    named: set[str] = set()
    for each in variables():
        assert not isinstance(each, str)
        parts = each.then if isinstance(each, When) else each
        for part in parts if isinstance(parts, list) else [parts]:
            inner = part.then if isinstance(part, When) else part
            named |= set() if isinstance(inner, Items) else {inner["name"]}
    left = {each.name for each in SETTINGS if each.variable not in named}

    assert left == {"disable-leader-election", "leader-election-name", "leader-election-namespace"}
