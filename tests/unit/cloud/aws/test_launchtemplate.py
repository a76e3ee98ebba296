"""What templates are called, and what kubelets are told through them."""

import base64
from typing import Any

import pytest
import yaml

from karpenter.api.node import Taint
from karpenter.cloud.aws.amifamily.bootstrap.mime import parse_archive
from karpenter.cloud.aws.amifamily.resolver import node_labels, node_taints
from karpenter.cloud.aws.labels import tags_of
from karpenter.cloud.errors import NodeClassNotReady
from tests.unit.cloud.aws.amifamily.test_resolver import cooked, data
from tests.unit.cloud.aws.world import claim, node_class


class TestNames:
    """What templates are called."""

    def test_the_same_recipe_has_the_same_name(self) -> None:
        """It is found again, also after a restart."""
        first, second = cooked()[0].template.name, cooked()[0].template.name

        assert first == second
        assert first.startswith("karpenter.k8s.aws/")

    @pytest.mark.parametrize(
        "spec",
        [
            {"tags": {"a": "b"}},
            {"userData": "#!/bin/sh"},
            {"detailedMonitoring": True},
            {"kubelet": {"maxPods": 10}},
            {"associatePublicIPAddress": True},
            {"ipPrefixCount": 1},
            {"metadataOptions": {"httpTokens": "optional"}},
            {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "30Gi"}}]},
            {"instanceStorePolicy": "RAID0"},
            {"connectionTracking": {"udpTimeout": 30}},
        ],
        ids=lambda spec: next(iter(spec)),
    )
    def test_another_recipe_has_another_name(self, spec: dict[str, Any]) -> None:
        """Nothing that reaches the template is left out of the name."""
        assert cooked(**spec)[0].template.name != cooked()[0].template.name

    def test_types_and_zones_do_not_matter(self) -> None:
        """They are said with each request."""
        assert cooked("m5.large")[0].template.name == cooked("c5.large")[0].template.name


@pytest.mark.parametrize(
    ("key", "kept"),
    [
        ("team", True),
        ("example.com/team", True),
        ("karpenter.sh/nodepool", True),
        ("kubernetes.io/role", False),
        ("node-role.kubernetes.io/worker", False),
        ("topology.kubernetes.io/zone", False),
        ("x.k8s.io/y", False),
        ("node-restriction.kubernetes.io/a", False),
    ],
)
def test_labels_that_a_kubelet_may_set(key: str, kept: bool) -> None:
    """The API server refuses the others; they are put on the node when it has registered."""
    labels = node_labels(claim(labels={key: "x"}), "spot", marks_taints=True)

    assert (key in labels) is kept


@pytest.mark.parametrize("marks", [True, False])
def test_images_that_register_with_all_taints_say_so(marks: bool) -> None:
    """So that they are not synced a second time."""
    labels = node_labels(claim(), "spot", marks_taints=marks)

    assert labels.get("karpenter.sh/do-not-sync-taints") == ("true" if marks else None)
    assert labels["karpenter.sh/capacity-type"] == "spot"


def test_taints() -> None:
    """Those of the claim, those of the start, and ours, which keeps pods off until the node is known."""
    own, start = Taint(key="a", effect="NoSchedule"), Taint(key="b", effect="NoExecute")
    ours = Taint(key="karpenter.sh/unregistered", effect="NoExecute")

    assert node_taints(claim(taints=(own,), startup_taints=(start,))) == (own, start, ours)
    assert node_taints(claim(startup_taints=(ours,))) == (ours,)


def test_the_kubelet_is_told_what_was_worked_out() -> None:
    """Pods and reservations of the type, and the address of the DNS."""
    text = base64.b64decode(data(kubelet={"kubeReserved": {"cpu": "100m"}})["UserData"]).decode()
    (part,) = parse_archive(text)
    config = yaml.safe_load(part.text)["spec"]["kubelet"]["config"]

    assert (config["maxPods"], config["clusterDNS"], config["kubeReserved"]) == (
        29,
        ["10.100.0.10"],
        {"cpu": "100m"},
    )


@pytest.mark.parametrize("key", ["karpenter.sh/nodeclaim", "kubernetes.io/cluster/x", "eks:eks-cluster-name"])
def test_tags_that_are_ours_are_refused(key: str) -> None:
    """An instance that is found by them must be the right one."""
    with pytest.raises(NodeClassNotReady, match="may not be set"):
        tags_of(node_class(tags={key: "x"}), cluster="ours", pool="default")
