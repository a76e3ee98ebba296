"""The chart: up to date, the same as without Helm, and with what a careful administrator looks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from karpenter.chart.chart import CHARTS, files, manifests
from karpenter.chart.known_values import VALUES
from karpenter.chart.objects import variables
from karpenter.chart.tree import ListItems, MissingValue, Release, When
from karpenter.chart.values import BadValue, default_values, values_of
from karpenter.operator.options import GATES, SETTINGS, parse_settings

CHARTS_FOLDER = Path(__file__).parents[3] / "charts"
NAME = "settings.clusterName=blue"


def release(*sets: str, name: str = "karpenter") -> Release:
    """Return a release with some values set."""
    return Release(name=name, values=values_of([], [NAME, *sets]))


def found(kind: str, *sets: str) -> dict[str, Any]:
    return next(each for each in manifests(release(*sets)) if each["kind"] == kind)


@pytest.mark.parametrize("name", CHARTS)
def test_the_chart_is_up_to_date(name: str) -> None:
    """Every file of the chart is what the objects say today; hint: make chart."""
    folder = CHARTS_FOLDER / name
    on_disk = {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }

    assert on_disk == CHARTS[name]()


def test_values_are_those_of_the_file() -> None:
    """The file of values is valid YAML, holds the defaults, and explains each."""
    assert yaml.safe_load(files()["values.yaml"]) == default_values()
    assert all(chart_value.about.endswith((".", "…")) for chart_value in VALUES)


def test_two_careful_replicas() -> None:
    """By default two replicas run without privileges, and not on the nodes that they manage."""
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


@pytest.mark.parametrize(
    ("sets", "lease"),
    [
        pytest.param((), ("kube-system", "karpenter-leader-election"), id="as it comes"),
        pytest.param(
            (
                "controller.env[0].name=LEADER_ELECTION_NAME,controller.env[0].value=mine",
                "controller.env[1].name=LEADER_ELECTION_NAMESPACE,controller.env[1].value=leases",
            ),
            ("leases", "mine"),
            id="as the environment says",
        ),
    ],
)
def test_the_role_is_about_the_lease_that_the_operator_takes(
    sets: tuple[str, ...], lease: tuple[str, str]
) -> None:
    """The operator may write one lease: the one that its environment names, where its environment says."""
    role, binding = found("Role", *sets), found("RoleBinding", *sets)
    [name] = [name for rule in role["rules"] for name in rule.get("resourceNames", [])]

    assert (role["metadata"]["namespace"], name) == lease
    assert binding["metadata"]["namespace"] == lease[0]
    assert binding["subjects"][0]["namespace"] == "kube-system"


def test_a_network_policy_where_asked() -> None:
    """Metrics are for those who are named, probes for the node; egress is limited where rules are given."""
    peers = "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.team=monitoring"
    spec = found("NetworkPolicy", "networkPolicy.enabled=true", peers)["spec"]
    metrics, probes = spec["ingress"]

    assert "NetworkPolicy" not in {each["kind"] for each in manifests(release())}
    assert spec["policyTypes"] == ["Ingress"]
    assert metrics["ports"] == [{"port": 8080, "protocol": "TCP"}]
    assert metrics["from"] == [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}]
    assert probes == {"ports": [{"port": 8081, "protocol": "TCP"}]}
    egress = "networkPolicy.egress[0].ports[0].port=443"
    limited = found("NetworkPolicy", "networkPolicy.enabled=true", egress)["spec"]
    assert limited["policyTypes"] == ["Ingress", "Egress"]
    assert limited["egress"] == [{"ports": [{"port": 443}]}]


@pytest.mark.parametrize(
    ("setting", "resource"),
    [
        pytest.param("nominatePods", "pods/status", id="nominate-pods"),
        pytest.param("steerScaleDown", "pods", id="steer-scale-down"),
        pytest.param("surgeBeforeEvict", "deployments", id="surge-before-evict"),
    ],
)
def test_a_right_to_patch_comes_with_the_policy_that_narrows_it(setting: str, resource: str) -> None:
    """The setting grants the patch, and binds the operator's account to the fields that it writes."""
    off = "settings.nominatePods=false"
    given = (off, f"settings.{setting}=true", "serviceAccount.name=mine")
    made = manifests(release(*given), definitions=False)
    by_kind = {each["kind"]: each for each in made}
    policy = by_kind["ValidatingAdmissionPolicy"]["spec"]
    kinds = [each["kind"] for each in made]

    assert policy["matchConstraints"]["resourceRules"][0]["resources"] == [resource]
    assert "'system:serviceaccount:kube-system:mine'" in policy["matchConditions"][0]["expression"]
    assert by_kind["ValidatingAdmissionPolicyBinding"]["spec"] == {
        "policyName": f"karpenter-{resource.replace('/', '-')}",
        "validationActions": ["Deny"],
    }
    assert kinds.index("ValidatingAdmissionPolicyBinding") < kinds.index("ClusterRoleBinding")
    assert not any(each["kind"].startswith("Validating") for each in manifests(release(off)))


@pytest.mark.parametrize(
    "repository",
    [
        "public.ecr.aws/karpenter/controller",
        "111122223333.dkr.ecr.us-west-2.amazonaws.com/ecr-public/karpenter/controller",
    ],
)
def test_the_image_of_another_operator_is_refused(repository: str) -> None:
    """Values of Karpenter's release name an image that our arguments and settings mean nothing to."""
    with pytest.raises(BadValue, match="the image of another operator"):
        manifests(release(f"controller.image.repository={repository}"))


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
            named |= set() if isinstance(inner, ListItems) else {inner["name"]}
    left = {each.name for each in SETTINGS if each.variable not in named}

    assert left == {"disable-leader-election", "leader-election-name", "leader-election-namespace"}
