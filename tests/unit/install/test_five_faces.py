"""
One plan, five faces: the installer, the script, CloudFormation, Terraform and CDK make the same objects.

CDK needs node: its test has the same table, and is marked ``cdk``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from karpenter.install.cloudformation import render_cloudformation
from karpenter.install.options import InstallationOptions
from karpenter.install.plan import InstallationPlan, make_plan
from karpenter.install.resources import KubernetesObject
from karpenter.install.script import render_script
from karpenter.install.terraform import module_files, terraform_files
from tests.helm import Helm
from tests.unit.cdk.synth import need_cdk, synthesised
from tests.unit.install.faces import (
    COMBINATIONS,
    Face,
    hcl,
    of_cdk,
    of_plan,
    of_script,
    of_templates,
    of_terraform,
)
from tests.unit.install.test_plan import FACTS, ISSUER, plan

MODULE = Path(__file__).parents[3] / "deploy" / "terraform" / "karpenter"
CUT_NAME = (
    "length(each.value.name) <= 64 ? each.value.name : "
    'join("-", [substr(each.value.name, 0, 55), substr(sha256(each.value.name), 0, 8)])'
)
"""How the module cuts names that are too long; this one is not."""

OUTSIDE_ACCOUNT = {"aws-auth"}
"""What is in the cluster, and neither in Terraform nor in CloudFormation."""

OUTSIDE_STACKS = {"oidc", "entry", "add-on", "association", "tag", "linked role"}
"""What eksdemo's three stacks do not hold."""

LINKED_ROLE = {"var.create_spot_service_linked_role ? 1 : 0": 1}
"""The account has no service-linked role yet."""


def planned(name: str) -> InstallationPlan:
    return as_planned(*COMBINATIONS[name])


def as_planned(options: dict[str, Any], facts: dict[str, Any]) -> InstallationPlan:
    """Return the plan of options, for a cluster of which facts are known."""
    cluster = options.get("cluster", "blue")
    asked = InstallationOptions(**{"cluster": cluster, **options})
    return make_plan(asked, msgspec.structs.replace(FACTS, cluster=cluster, **facts))


def without(face: Face, sorts: set[str]) -> Face:
    """Return a face without some sorts of objects."""
    return {key: value for key, value in face.items() if key[0] not in sorts}


@pytest.mark.parametrize("name", COMBINATIONS)
def test_every_face_makes_the_same_objects(name: str) -> None:
    """Roles, trust, policies, queue, rules, targets, access and identity are the same in every form."""
    found = planned(name)
    expected = of_plan(found)
    stacks = {"tag"} if found.options.naming == "karpenter" else OUTSIDE_STACKS
    printed = render_cloudformation(found)

    assert of_script(render_script(found)) == expected
    assert of_terraform(terraform_files(found), found, LINKED_ROLE) == without(expected, OUTSIDE_ACCOUNT)
    assert of_templates(printed, found) == without(expected, OUTSIDE_ACCOUNT | stacks)
    assert {key[0] for key in expected} >= {"role", "queue", "rule", "linked role"}


@pytest.mark.cdk
@pytest.mark.parametrize("name", COMBINATIONS)
def test_cdk_makes_the_same_objects(name: str) -> None:
    """
    A stack of CDK makes the same; in the place of tags on subnets, its EC2NodeClass has their ids.

    CDK has one way of naming: with the options of eksdemo it makes what the plan makes without its names.
    """
    need_cdk()
    options, facts = COMBINATIONS[name]
    found = as_planned({key: value for key, value in options.items() if key != "naming"}, facts)
    face = of_cdk(synthesised(found), found)

    assert face == without(of_plan(found), {"tag"})
    assert {key[0] for key in face} >= {"role", "policy", "queue", "rule", "linked role"}


def test_there_are_twenty_combinations() -> None:
    """No two of them ask for the same."""
    asked = {msgspec.json.encode(each) for each in COMBINATIONS.values()}

    assert len(asked) == len(COMBINATIONS) == 20


@pytest.mark.parametrize("identity", ["irsa", "pod-identity"])
def test_the_module_makes_what_the_plan_says(identity: Any) -> None:
    """The module in deploy/terraform, given the name of a cluster, makes the objects of its plan."""
    found = plan(identity=identity)
    files = {name: (MODULE / name).read_text("utf-8") for name in ("policies.tf", "main.tf")}
    irsa = identity == "irsa"
    scope = {
        CUT_NAME: '"${each.value.name}"',
        "var.identity": identity,
        "var.cluster_name": "blue",
        "var.namespace": "kube-system",
        "var.service_account": "karpenter",
        "local.node_role": "KarpenterNodeRole-blue",
        "local.controller_role": "KarpenterControllerRole-blue",
        "local.issuer": ISSUER,
        "local.oidc_provider_arn": f"arn:aws:iam::{FACTS.account}:oidc-provider/{ISSUER}",
        "data.aws_partition.current.partition": "aws",
        "data.aws_partition.current.dns_suffix": "amazonaws.com",
        "data.aws_region.current.id": FACTS.region,
        "data.aws_caller_identity.current.account_id": FACTS.account,
        **LINKED_ROLE,
        'var.identity == "irsa" && var.oidc_provider_arn == "" ? 1 : 0': int(irsa),
        'var.identity == "pod-identity" && var.create_pod_identity_agent ? 1 : 0': int(not irsa),
        'var.identity == "pod-identity" ? 1 : 0': int(not irsa),
        "var.create_access_entry ? 1 : 0": 1,
        "concat(var.subnet_ids, var.security_group_ids)": [*FACTS.subnets, *FACTS.security_groups],
    }

    assert of_terraform(files, found, scope) == of_plan(found)


def test_the_module_is_that_of_the_plan() -> None:
    """Files that are written from the plan are as `make terraform` writes them."""
    for name, text in module_files().items():
        assert (MODULE / name).read_text("utf-8") == text, f"{name}: run make terraform"


def test_terraform_says_what_it_does_not_make() -> None:
    """The ConfigMap aws-auth has entries of others; where nodes have an access entry, nothing is missing."""
    head = terraform_files(plan(auth="aws-auth"))["versions.tf"]

    assert "# Not in these files:\n#   aws-auth entry for KarpenterNodeRole-blue\n" in head
    assert "Not in these files" not in terraform_files(plan())["versions.tf"]


def test_the_chart_is_told_what_the_plan_tells_it() -> None:
    """The release has the values of the plan, waits for its role, and pools go before it does."""
    text = terraform_files(plan(namespace="karpenter", sets=("replicas=3",)))["chart.tf"]
    blocks = [block['"helm_release"'] for block in hcl(text)["resource"]]
    releases = {name[1:-1]: body for block in blocks for name, body in block.items()}

    assert 'interruptionQueue = "blue"' in releases["karpenter"]["values"][0]
    assert "replicas = 3" in releases["karpenter"]["values"][0]
    assert releases["karpenter"]["create_namespace"] is True
    assert "${aws_iam_role_policy_attachment.controller}" in releases["karpenter"]["depends_on"]
    assert releases["nodepools"]["depends_on"] == ["${helm_release.karpenter}"]
    assert 'kind = "NodePool"' in releases["nodepools"]["values"][0]


@pytest.mark.helm
def test_the_chart_of_nodepools_holds_the_plan(tmp_path: Path) -> None:
    """Helm renders the chart beside the module to the NodePool and the EC2NodeClass of the plan."""
    objects = [each.body for each in plan().resources if isinstance(each, KubernetesObject) and each.once]
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"objects": objects}), encoding="utf-8")
    printed = Helm(tmp_path).ok("template", "karpenter-nodepools", MODULE / "nodepools", "--values", values)
    found = {each["kind"]: each for each in yaml.safe_load_all(printed)}

    assert found == {each["kind"]: each for each in objects}
    assert "0 chart(s) failed" in Helm(tmp_path).ok("lint", MODULE / "nodepools")
