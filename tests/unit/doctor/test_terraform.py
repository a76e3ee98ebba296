"""A folder of Terraform: a broken and a sound example for every rule, made from the same folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from karpenter.doctor.rules import diagnose
from karpenter.doctor.terraform import TerraformUnreadable, charts_in, read_terraform
from tests.unit.doctor.world import CLASS, NODES, Case, changed, facts, judge

if TYPE_CHECKING:
    from karpenter.doctor.facts import DoctorFacts

pytest.importorskip("hcl2")

FOLDER = Path(__file__).parents[2] / "data" / "doctor" / "terraform"
TEXTS = {path.name: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.tf"))}
MINE = changed(CLASS, (NODES, "ex-mng"), ("discovery: blue", "discovery: ex-mng"))


def folder(*pairs: tuple[str, str], text: str = MINE) -> DoctorFacts:
    """Return facts about the folder, some parts of it replaced."""
    whole = "\n".join(TEXTS.values())
    blocks = read_terraform({"main.tf": changed(whole, *pairs)}, folder="mng")
    return facts(text, terraform=blocks, charts=tuple(charts_in(blocks)), cluster="")


SOUND = folder()
CASES = [
    Case(
        "terraform-placement",
        folder(
            (
                "      - key: karpenter.sh/controller\n        operator: Exists\n",
                "",
            )
        ),
        SOUND,
        "does not tolerate the taint karpenter.sh/controller of node group karpenter",
    ),
    Case(
        "terraform-coredns",
        folder(('{ key = "karpenter.sh/controller", value = "true", effect = "NoSchedule" }', "")),
        SOUND,
        "CoreDNS does not tolerate karpenter.sh/controller",
    ),
    Case(
        "terraform-pod-identity-agent",
        folder(("    eks-pod-identity-agent = {}\n", "")),
        SOUND,
        "without the add-on eks-pod-identity-agent",
    ),
    Case(
        "terraform-identity",
        folder(("  create_pod_identity_association = true\n", "")),
        SOUND,
        "gives the operator no role",
    ),
    Case(
        "terraform-discovery-tags",
        folder(('    "karpenter.sh/discovery"          = local.name\n', "")),
        SOUND,
        "private_subnet_tags: no subnet is tagged karpenter.sh/discovery",
    ),
    Case(
        "terraform-role-name",
        folder(text=changed(MINE, ("role: ex-mng", "role: KarpenterNodeRole-ex-mng"))),
        SOUND,
        "the node role is called ex-mng, and EC2NodeClass/default names KarpenterNodeRole-ex-mng",
    ),
    Case(
        "terraform-access-entry",
        folder(("  enable_v1_permissions", "  create_access_entry = false\n  enable_v1_permissions")),
        SOUND,
        "nothing lets nodes into the cluster",
    ),
    Case(
        "terraform-queue",
        folder(("  enable_v1_permissions", "  enable_spot_termination = false\n  enable_v1_permissions")),
        SOUND,
        "makes no queue, and the operator is told one",
    ),
    Case(
        "terraform-v1-permissions",
        folder(("  enable_v1_permissions           = true\n", "")),
        SOUND,
        "is not set, and the chart is 1.0.2; fix: set enable_v1_permissions = true",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.rule for case in CASES])
def test_rule(case: Case) -> None:
    """A rule finds what is broken, and nothing where all is sound."""
    judge(case)


def test_the_pattern_of_the_guide_is_sound() -> None:
    """The folder as it is has nothing wrong with it."""
    assert [str(each) for each in diagnose(SOUND).findings if each.severity != "info"] == []


def test_the_chart_is_read() -> None:
    """What helm_release states is judged by the rules about charts; expressions stay as they are."""
    [chart] = charts_in(SOUND.terraform or ())

    assert (chart.release, chart.namespace, chart.version) == ("karpenter", "karpenter", "1.0.2")
    assert chart.values["settings"]["clusterName"] == "${module.eks.cluster_name}"


def test_a_name_with_a_suffix() -> None:
    """With a prefix in use the name of the role is not known before it is made."""
    known = folder(("  node_iam_role_use_name_prefix   = false\n", ""))

    assert "gets a suffix" in str(
        [each for each in diagnose(known).findings if each.rule == "terraform-role-name"]
    )


def test_version_21_of_the_module() -> None:
    """It gives a role by default, and does not know enable_v1_permissions."""
    both = ('"~> 20.24"', '"~> 21.0"')
    known = folder(both, ("  create_pod_identity_association = true\n", ""))
    rules = {each.rule for each in diagnose(known).findings if each.severity == "error"}

    assert rules == {"terraform-v1-permissions"}


def test_the_namespace_of_the_role() -> None:
    """An association is for one namespace, which must be the chart's."""
    known = folder(("  namespace                       = local.namespace\n", ""))

    assert "the role is for namespace kube-system, and the chart goes to karpenter" in str(
        diagnose(known).findings
    )


def test_an_entry_for_people() -> None:
    """An access entry of type STANDARD lets no node in."""
    entry = 'resource "aws_eks_access_entry" "n" {\n  principal_arn = module.karpenter.node_iam_role_arn\n}\n'
    blocks = read_terraform({"main.tf": "\n".join([*TEXTS.values(), entry])}, folder="mng")
    found = diagnose(facts(MINE, terraform=blocks)).findings

    assert 'set type = "EC2_LINUX"' in str([each for each in found if each.rule == "terraform-access-entry"])


def test_what_is_not_terraform() -> None:
    """A file that cannot be read is named, with the line."""
    with pytest.raises(TerraformUnreadable, match=r"broken\.tf: line 2: not Terraform"):
        read_terraform({"broken.tf": 'module "eks" {\n  name = = 1\n}\n'}, folder="mng")


PATTERN = Path(__file__).parents[3] / "deploy" / "terraform" / "patterns" / "karpenter-mng"
PATTERN_TEXT = "\n".join(path.read_text("utf-8") for path in sorted(PATTERN.glob("*.tf")))
PATTERN_OBJECTS = (PATTERN / "karpenter.yaml").read_text("utf-8")
PLAIN = """
resource "aws_eks_node_group" "karpenter" {
  labels = { "karpenter.sh/controller" = "true" }
  taint {
    key    = "karpenter.sh/controller"
    effect = "NO_SCHEDULE"
  }
}
resource "aws_eks_addon" "coredns" {
  addon_name           = "coredns"
  configuration_values = jsonencode({ tolerations = [{ key = "karpenter.sh/controller" }] })
}
resource "aws_eks_addon" "agent" {
  addon_name = "eks-pod-identity-agent"
}
resource "aws_eks_pod_identity_association" "karpenter" {
  service_account = "karpenter"
  namespace       = "karpenter"
}
resource "aws_iam_role" "node" {
  name               = "ex-mng"
  assume_role_policy = jsonencode({ Principal = { Service = "ec2.amazonaws.com" } })
}
resource "aws_sqs_queue" "interruption" {
  name = "mng"
}
resource "aws_subnet" "private" {
  tags = { "karpenter.sh/discovery" = "ex-mng" }
}
resource "aws_eks_cluster" "this" {
  name = "mng"
}
resource "aws_security_group" "node" {
  tags = { "karpenter.sh/discovery" = "ex-mng" }
}
resource "helm_release" "karpenter" {
  name      = "karpenter"
  chart     = "./charts/karpenter"
  namespace = "karpenter"
  values = [
    <<-EOT
    nodeSelector:
      karpenter.sh/controller: 'true'
    settings:
      interruptionQueue: mng
    tolerations:
      - key: karpenter.sh/controller
        operator: Exists
    EOT
  ]
}
"""


def findings(text: str, objects: str, *pairs: tuple[str, str], name: str) -> list[tuple[str, str]]:
    """Return what the rules about Terraform find in a text, parts of it replaced."""
    blocks = read_terraform({"main.tf": changed(text, *pairs)}, folder=name)
    known = facts(objects, terraform=blocks, charts=None, cluster="")
    return [(e.rule, e.message) for e in diagnose(known).findings if e.rule.startswith("terraform-")]


@pytest.mark.parametrize(
    ("pair", "rule", "message"),
    [
        pytest.param(("", ""), "", "", id="as it is"),
        pytest.param(
            ("node_role_name = local.name", 'node_role_name = "nodes"'),
            "role-name",
            "the node role is called nodes, and EC2NodeClass/default names ex-karpenter-mng",
            id="another name of the role",
        ),
        pytest.param(
            (', "eks-pod-identity-agent"', ""),
            "pod-identity-agent",
            "the operator uses pod identity, without the add-on eks-pod-identity-agent",
            id="no agent",
        ),
        pytest.param(
            ("  # Nodes are ready", "  create_coredns = false\n  # Nodes are ready"),
            "coredns",
            "every node group has a taint, and CoreDNS does not tolerate karpenter.sh/controller",
            id="no CoreDNS",
        ),
        pytest.param(
            ('    "karpenter.sh/discovery" = local.name\n', ""),
            "discovery-tags",
            "no subnet is tagged karpenter.sh/discovery",
            id="subnets without the tag",
        ),
        pytest.param(
            ('  key         = "karpenter.sh/discovery"\n', '  key         = "other"\n'),
            "discovery-tags",
            "no security group is tagged karpenter.sh/discovery",
            id="a security group without the tag",
        ),
        pytest.param(
            ("  create_nodepool = false", "  create_access_entry = false"),
            "access-entry",
            "nothing lets nodes into the cluster",
            id="no access entry",
        ),
    ],
)
def test_our_own_pattern(pair: tuple[str, str], rule: str, message: str) -> None:
    """The pattern in deploy/terraform is sound, and every part that it needs is missed."""
    pairs = [pair] if pair[0] else []

    assert findings(PATTERN_TEXT, PATTERN_OBJECTS, *pairs, name="karpenter-mng") == (
        [(f"terraform-{rule}", message)] if rule else []
    )


@pytest.mark.parametrize(
    ("pair", "rule", "message"),
    [
        pytest.param(("", ""), "", "", id="as it is"),
        pytest.param(
            ('{ "karpenter.sh/controller" = "true" }', "{}"),
            "placement",
            "selects nodes with karpenter.sh/controller=true, and no node group has that label",
            id="no label",
        ),
        pytest.param(
            ("      - key: karpenter.sh/controller\n", "      - key: other\n"),
            "placement",
            "does not tolerate the taint karpenter.sh/controller of node group karpenter",
            id="no toleration",
        ),
        pytest.param(
            ('[{ key = "karpenter.sh/controller" }]', "[]"),
            "coredns",
            "every node group has a taint, and CoreDNS does not tolerate karpenter.sh/controller",
            id="CoreDNS without a toleration",
        ),
        pytest.param(
            ('"eks-pod-identity-agent"', '"kube-proxy"'),
            "pod-identity-agent",
            "the operator uses pod identity, without the add-on eks-pod-identity-agent",
            id="no agent",
        ),
        pytest.param(
            (
                '  namespace       = "karpenter"\n',
                '  namespace       = "kube-system"\n',
            ),
            "identity",
            "the role is for namespace kube-system, and the chart goes to karpenter",
            id="another namespace",
        ),
        pytest.param(
            ('name               = "ex-mng"', 'name               = "nodes"'),
            "role-name",
            "EC2NodeClass/default names ex-mng, and Terraform makes nodes for nodes",
            id="another role",
        ),
        pytest.param(
            ("      interruptionQueue: mng\n", "      clusterName: mng\n"),
            "queue",
            "aws_sqs_queue.interruption makes a queue, and the operator is not told",
            id="a queue that is not told",
        ),
    ],
)
def test_resources_without_a_module(pair: tuple[str, str], rule: str, message: str) -> None:
    """Plain aws_* resources are judged as those of modules are."""
    pairs = [pair] if pair[0] else []

    assert findings(PLAIN, MINE, *pairs, name="mng") == ([(f"terraform-{rule}", message)] if rule else [])
