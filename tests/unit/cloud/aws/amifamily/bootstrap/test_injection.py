"""Values from pods and node classes stay values: none becomes a command, a flag or another label."""

from __future__ import annotations

import re
import shlex
import tomllib
from typing import Any

import msgspec
import pytest
import yaml

from karpenter.api.node import Taint
from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import BadUserData, Bootstrap
from karpenter.cloud.aws.amifamily.bootstrap.userdata import render_user_data
from karpenter.cloud.aws.amifamily.family import family_of
from karpenter.cloud.aws.kubelet.expressions import KubeletSubset
from karpenter.cloud.aws.labels import specification, wrong_tags

FAMILIES = ("AL2", "AL2023", "Bottlerocket", "Windows2022")
PLAIN = Bootstrap(
    cluster="blue",
    endpoint="https://blue.example.com",
    ca_bundle="Y2E=",
    labels={"example.com/team": "a_b.c-1"},
    taints=(Taint(key="example.com/only", value="x", effect="NoSchedule"),),
)
HOSTILE = {
    "the end of a quote": "a'; reboot; '",
    "the end of the other quote": 'a" --anonymous-auth=true "',
    "a command in a text": "$(reboot)",
    "a command in backticks": "`reboot`",
    "another line": "a\nreboot",
    "another label": "a,node-role.kubernetes.io/control-plane=true",
    "another flag": "a --anonymous-auth",
    "an escape": "a\\",
    "the end of a script": "</powershell>",
    "another part": "a\n--//\nContent-Type: text/x-shellscript\n\nreboot",
}


def with_value(place: str, value: str) -> Bootstrap:
    """Return a bootstrap with a hostile value somewhere."""
    kubelets: dict[str, dict[str, Any]] = {
        "clusterDNS": {"cluster_dns": (value,)},
        "systemReserved": {"system_reserved": {"cpu": value}},
        "kubeReserved": {"kube_reserved": {value: "1"}},
        "evictionHard": {"eviction_hard": {"memory.available": value}},
        "evictionSoft": {"eviction_soft": {"memory.available": value}},
        "evictionSoftGracePeriod": {"eviction_soft_grace_period": {"memory.available": value}},
    }
    changes: dict[str, Any] = {
        "label value": {"labels": {"a": value}},
        "label key": {"labels": {value: "a"}},
        "taint key": {"taints": (Taint(key=value, effect="NoSchedule"),)},
        "taint value": {"taints": (Taint(key="a", value=value, effect="NoSchedule"),)},
        "taint effect": {"taints": (Taint(key="a", effect=value),)},
        "cluster": {"cluster": value},
        "endpoint": {"endpoint": value},
        "CA bundle": {"ca_bundle": value},
        **{name: {"kubelet": KubeletSubset(**each)} for name, each in kubelets.items()},
    }
    return msgspec.structs.replace(PLAIN, **changes[place])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "place",
    [
        "label value",
        "label key",
        "taint key",
        "taint value",
        "taint effect",
        "cluster",
        "endpoint",
        "CA bundle",
        "clusterDNS",
        "systemReserved",
        "kubeReserved",
        "evictionHard",
        "evictionSoft",
        "evictionSoftGracePeriod",
    ],
)
def test_what_is_no_value_is_refused(family: str, place: str) -> None:
    """A node gets no user data with it; the class, or the claim, says why."""
    for name, value in HOSTILE.items():
        if name == "another label" and place not in {"label value", "label key", "taint value"}:
            continue  # a comma is nothing there
        with pytest.raises(BadUserData):
            render_user_data(family_of(family), with_value(place, value))


def test_what_is_a_value_reaches_bootstrap_sh_as_one_word() -> None:
    """A shell reads the arguments of AL2 as they were meant."""
    script = render_user_data(family_of("AL2"), PLAIN)
    line = re.sub(r" \\\n", " ", script)
    call = shlex.split(next(each for each in line.splitlines() if each.startswith("/etc/eks/bootstrap.sh")))

    assert call[1] == "blue"
    assert shlex.split(call[call.index("--kubelet-extra-args") + 1]) == [
        "--node-labels=example.com/team=a_b.c-1",
        "--register-with-taints=example.com/only=x:NoSchedule",
    ]


def test_what_is_a_value_is_one_in_yaml_and_toml() -> None:
    """NodeConfig and the settings of Bottlerocket are written by libraries, and read back the same."""
    archive = render_user_data(family_of("AL2023"), PLAIN)
    config = yaml.safe_load(archive[archive.index("apiVersion:") : archive.rindex("--//")])
    settings = tomllib.loads(render_user_data(family_of("Bottlerocket"), PLAIN))["settings"]["kubernetes"]

    assert config["spec"]["kubelet"]["flags"] == ['--node-labels="example.com/team=a_b.c-1"']
    assert settings["node-labels"] == {"example.com/team": "a_b.c-1"}
    assert settings["node-taints"] == {"example.com/only": ["x:NoSchedule"]}


def test_tags_are_data_of_a_request() -> None:
    """Tags of a class go to EC2 as parameters of the SDK, whatever they hold; reserved ones are refused."""
    hostile = {f"{name} {value}": value for name, value in HOSTILE.items()}
    sent = specification("instance", hostile)["Tags"]

    assert {each["Key"]: each["Value"] for each in sent} == hostile
    assert wrong_tags({"kubernetes.io/cluster/other": "owned", "karpenter.sh/nodepool": "x", "a": "b"}) == (
        "karpenter.sh/nodepool",
        "kubernetes.io/cluster/other",
    )
