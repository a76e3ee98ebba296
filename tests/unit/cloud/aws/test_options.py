"""Settings of the provider for AWS."""

from typing import Any

import pytest

from karpenter.cloud.aws.options import BadAwsSetting, check_flags, read_settings


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        pytest.param({}, "cluster", "around", id="the cluster is the one around"),
        pytest.param({"CLUSTER_NAME": "mine"}, "cluster", "mine", id="unless it is named"),
        pytest.param({}, "memory_overhead", 0.075, id="7.5 % of memory are overhead"),
        pytest.param({"VM_MEMORY_OVERHEAD_PERCENT": "0.1"}, "memory_overhead", 0.1, id="or another share"),
        pytest.param({"VM_MEMORY_OVERHEAD_PERCENT": "0"}, "memory_overhead", 0.0, id="or none"),
        pytest.param({}, "reserved_enis", 0, id="no interface is reserved"),
        pytest.param({"RESERVED_ENIS": "1"}, "reserved_enis", 1, id="one interface is reserved"),
        pytest.param({"ISOLATED_VPC": "1"}, "isolated_vpc", True, id="one is true"),
        pytest.param({"ISOLATED_VPC": "true"}, "isolated_vpc", True, id="an isolated VPC"),
        pytest.param({"EKS_CONTROL_PLANE": "True"}, "eks_control_plane", True, id="flags in any case"),
        pytest.param({"DISABLE_DRY_RUN": "false"}, "disable_dry_run", False, id="a flag that is off"),
        pytest.param({"CLUSTER_ENDPOINT": "https://x"}, "cluster_endpoint", "https://x", id="an endpoint"),
        pytest.param({"INTERRUPTION_QUEUE": "q"}, "interruption_queue", "q", id="a queue"),
        pytest.param({"AMI_REFRESH_INTERVAL": "5m"}, "ami_refresh", 300.0, id="images every five minutes"),
        pytest.param({}, "subnet_refresh", 60.0, id="subnets every minute"),
        pytest.param({"KUBERNETES_VERSION": "v1.33.2"}, "kubernetes_version", "1.33", id="a long version"),
        pytest.param({"KUBERNETES_VERSION": "1.33+"}, "kubernetes_version", "1.33", id="a version of EKS"),
        pytest.param({}, "expressions", False, id="expressions are off"),
        pytest.param({"AWS_FEATURE_GATES": "NodeClassCEL=true"}, "expressions", True, id="and can be on"),
        pytest.param({"AWS_FEATURE_GATES": "Other=true"}, "expressions", False, id="other gates are ignored"),
        pytest.param({}, "reserved_capacity", True, id="reserved capacity is on"),
        pytest.param(
            {"FEATURE_GATES": "ReservedCapacity=false,NodeOverlay=true"},
            "reserved_capacity",
            False,
            id="and can be off",
        ),
        pytest.param({"FEATURE_GATES": "NodeOverlay=true"}, "node_overlay", True, id="overlays can be on"),
        pytest.param({"AWS_REGION": "eu-west-1"}, "region", "eu-west-1", id="a region"),
        pytest.param({"CLUSTER_CA_BUNDLE": ""}, "cluster_ca_bundle", "", id="an empty setting is none"),
    ],
)
def test_reading(given: dict[str, str], field: str, value: Any) -> None:
    """A setting is read from the environment variable that users know."""
    assert getattr(read_settings("around", given), field) == value


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        pytest.param("VM_MEMORY_OVERHEAD_PERCENT", "-0.1", "0 or more", id="no negative share"),
        pytest.param("VM_MEMORY_OVERHEAD_PERCENT", "nan", "0 or more", id="no share that is no number"),
        pytest.param("RESERVED_ENIS", "-1", "whole number", id="no negative count"),
        pytest.param("AMI_REFRESH_INTERVAL", "30s", "less than 1m", id="images not more often than a minute"),
        pytest.param("CLUSTER_ENDPOINT", "example.com", "not a URL", id="an endpoint is a URL"),
        pytest.param("CLUSTER_ENDPOINT", "https://", "not a URL", id="a URL has a host"),
        pytest.param("KUBERNETES_VERSION", "latest", "not a version", id="a version has numbers"),
    ],
)
def test_refusing(name: str, text: str, problem: str) -> None:
    """A value that cannot be used is refused with a sentence that names the setting."""
    with pytest.raises(BadAwsSetting, match=f"setting {name}: .*{problem}") as caught:
        read_settings("around", {name: text})

    assert caught.value.name == name


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        pytest.param("ISOLATED_VPC", "yes", "true or false", id="a flag is true or false"),
        pytest.param("VM_MEMORY_OVERHEAD_PERCENT", "much", "not a number", id="a share is a number"),
        pytest.param("RESERVED_ENIS", "1.5", "whole number", id="no half interface"),
        pytest.param("SUBNET_REFRESH_INTERVAL", "soon", "not a duration", id="an interval is a duration"),
    ],
)
def test_what_is_no_value(name: str, text: str, problem: str) -> None:
    """In the environment it counts as not set, as it does for Karpenter; a flag with it is refused."""
    assert read_settings("around", {name: text}) == read_settings("around", {})
    with pytest.raises(BadAwsSetting, match=f"setting {name}: .*{problem}"):
        check_flags({name: text})


def test_a_cluster_is_needed() -> None:
    """Without the name of a cluster nothing begins."""
    with pytest.raises(BadAwsSetting, match="setting CLUSTER_NAME: is required"):
        read_settings("", {})
