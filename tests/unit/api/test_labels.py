"""Which labels mean what, and which users may set."""

import pytest

from karpenter.api import labels
from karpenter.api.kinds import ALL_KINDS, KINDS, kind_of
from karpenter.api.labels import ALL_LABEL_RULES, AWS, DOMAINS
from karpenter.api.nodepool import NodePool


@pytest.mark.parametrize(
    "key",
    [
        "karpenter.sh/custom",
        "karpenter.sh/registered",
        "sub.karpenter.sh/x",
        "a.b.karpenter.sh/x",
        "kubernetes.io/hostname",
    ],
)
def test_restricted(key: str) -> None:
    """Our domain, whatever is below it, and the host name are not for users."""
    assert labels.is_restricted(key)


@pytest.mark.parametrize(
    "key",
    [
        "karpenter.sh/nodepool",
        "karpenter.sh/capacity-type",
        "kubernetes.io/arch",
        "kubernetes.io/custom",
        "k8s.io/custom",
        "node-restriction.kubernetes.io/custom",
        "notkarpenter.sh/custom",
        "karpenter.sh",
        "app",
    ],
)
def test_not_restricted(key: str) -> None:
    """Well-known labels, domains of Kubernetes and anything else are."""
    assert not labels.is_restricted(key)


def test_providers_add_to_the_rules() -> None:
    """With a provider's additions its domain is restricted, apart from the labels it defines."""
    assert ALL_LABEL_RULES.is_restricted("karpenter.k8s.aws/custom")
    assert not ALL_LABEL_RULES.is_restricted("karpenter.k8s.aws/instance-cpu")
    assert not labels.is_restricted("karpenter.k8s.aws/custom")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
        ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
        ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
        ("beta.kubernetes.io/os", "kubernetes.io/os"),
        ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
        ("topology.ebs.csi.aws.com/zone", "topology.kubernetes.io/zone"),
        ("kubernetes.io/arch", "kubernetes.io/arch"),
        ("app", "app"),
    ],
)
def test_normalize(old: str, new: str) -> None:
    """Labels of old are read as those of today."""
    assert labels.CORE_LABEL_RULES.normalize(old) == new


@pytest.mark.parametrize(("key", "domain"), [("a.b/c", "a.b"), ("c", ""), ("a/b/c", "a")])
def test_domain_of(key: str, domain: str) -> None:
    """The domain of a label is what stands before its slash."""
    assert labels.domain_of(key) == domain


def test_node_class_label() -> None:
    """Nodes name their class under its group and kind."""
    assert labels.node_class_label("karpenter.k8s.aws", "EC2NodeClass") == "karpenter.k8s.aws/ec2nodeclass"


def test_domains_hold_their_own_labels_only() -> None:
    """Every label that a domain lists is in it."""
    for domain in DOMAINS:
        assert {labels.domain_of(label) for label in domain.known} == {domain.name}


def test_overlays_know_fewer_labels() -> None:
    """Labels that are decided after overlays were applied are not for overlays."""
    assert "karpenter.k8s.aws/instance-tenancy" not in AWS.defined(overlay=True)
    assert len(AWS.known) - len(AWS.defined(overlay=True)) == 7


def test_every_kind_is_listed_once() -> None:
    """No two structs stand for one kind."""
    assert len(KINDS) == len(ALL_KINDS)


def test_a_kind_knows_where_it_lives() -> None:
    """Group and version are parts of the apiVersion; the core group has no name."""
    assert (kind_of(NodePool).group, kind_of(NodePool).version) == ("karpenter.sh", "v1")
    assert (KINDS["v1", "Pod"].group, KINDS["v1", "Pod"].version) == ("", "v1")
