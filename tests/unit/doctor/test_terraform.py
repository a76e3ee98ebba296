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
