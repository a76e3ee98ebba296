"""
Terraform itself, with the AWS provider, on the embedded AWS: the module and what `karpenter render` prints.

Needs the program ``terraform`` (or ``tofu``, named by TERRAFORM) and the provider hashicorp/aws: from
a folder where :mod:`tests.terraform` finds it, or from the registry. Releases of charts would need the
provider hashicorp/helm and a cluster: here they are resources that keep what they are given, to be compared.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from karpenter.install.account import AccountApi, read_facts
from karpenter.install.observe import observe
from karpenter.install.options import InstallationOptions
from karpenter.install.plan import InstallationPlan, make_plan, set_values
from karpenter.install.resources import AwsAuthMapping, HelmRelease, KubernetesObject, ServiceLinkedRole
from karpenter.install.terraform import terraform_files
from karpenter_local.aws.room import ClusterEndpoint
from karpenter_local.aws.site import ClusterAccount
from tests.terraform import mirrors, settings
from tests.unit.cloud.aws.world import embedded

if TYPE_CHECKING:
    from collections.abc import Iterator


pytestmark = pytest.mark.terraform
ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "terraform"
MODULE = FOLDER / "karpenter"
PROGRAM = os.environ.get("TERRAFORM") or shutil.which("terraform") or shutil.which("tofu")
PROVIDER = 'provider "aws" {\n  skip_metadata_api_check = true\n}\n'
UNREACHABLE = re.compile(
    r"[Ff]ailed to (query|resolve|install) (available )?provider|[Cc]ould not (query|connect)"
)
RELEASE = re.compile(r'resource "helm_release" "(?P<name>\w+)" \{\n(?P<body>.*?)\n\}\n', re.DOTALL)
HELM = re.compile(r"    helm = \{.*?\n    \}\n|provider \"helm\" \{.*?\n\}\n", re.DOTALL)


@pytest.fixture
def site() -> Iterator[ClusterAccount]:
    """Return a bare account with a cluster."""
    made = ClusterAccount(
        embedded(), cluster="blue", kubernetes="1.33", types=("m5.large",), bare=True, tagged=False
    )
    made.serve(ClusterEndpoint(cluster="blue", endpoint="https://blue.example", authority="Q0E="))
    yield made
    made.close()


def terraform(folder: Path, *words: str, environment: dict[str, str] | None = None) -> str:
    """Run Terraform and return what it prints."""
    if PROGRAM is None:
        pytest.skip("no terraform and no tofu on the PATH")
    given = {**os.environ, **(environment or {}), "TF_IN_AUTOMATION": "1"}
    found = mirrors(os.environ, "tofu" if "tofu" in Path(PROGRAM).name else "terraform")
    if found and words[0] == "init":
        (folder / "terraform.rc").write_text(settings(found))
        given["TF_CLI_CONFIG_FILE"] = str(folder / "terraform.rc")
    done = subprocess.run(  # noqa: S603  the program that was asked for
        [PROGRAM, *words, "-no-color"], cwd=folder, env=given, capture_output=True, text=True, check=False
    )
    said = done.stdout + done.stderr
    if words[0] == "init" and done.returncode and UNREACHABLE.search(said):
        pytest.skip(f"no provider: the registry does not answer, and only {[*map(str, found)]} has any")
    assert done.returncode == 0, said
    return done.stdout


def without_helm(folder: Path) -> None:
    """Let releases of charts be resources of Terraform itself, which keep what a release is given."""
    for path in folder.rglob("*.tf"):
        text = HELM.sub("", path.read_text("utf-8"))
        path.write_text(
            RELEASE.sub(_kept, text).replace("helm_release.", "terraform_data."), encoding="utf-8"
        )


def _kept(block: re.Match[str]) -> str:
    """Return the resource that keeps a release: all that is no argument of Terraform itself is its input."""
    fields = re.split(r"\n(?=  \w)", block["body"])
    own = [each for each in fields if each.split()[0] in {"count", "depends_on"}]
    given = "\n".join(each for each in fields if each not in own)
    own_text = "\n".join(own)
    return f'resource "terraform_data" "{block["name"]}" {{\n{own_text}\n  input = {{\n{given}\n  }}\n}}\n'


def releases(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what the releases of charts were given, by the names of their resources."""
    state = json.loads(terraform(folder, "show", "-json"))["values"]["root_module"]
    parts = (state, *state.get("child_modules", ()))
    found = [each for part in parts for each in part.get("resources", ())]
    return {each["name"]: each["values"]["input"] for each in found if each["type"] == "terraform_data"}


def compare_releases(given: dict[str, dict[str, Any]], plan: InstallationPlan) -> None:
    """Hold what the releases of charts were given to the plan."""
    objects = [each.body for each in plan.resources if isinstance(each, KubernetesObject) and each.once]
    values = [yaml.safe_load(each) for each in given["karpenter"]["values"]]

    assert values == [set_values(plan.release)]
    assert {each["namespace"] for each in given.values()} == {plan.release.namespace}
    assert [yaml.safe_load(each)["objects"] for each in given["nodepools"]["values"]] == [objects]
    assert (Path(given["karpenter"]["chart"]).name, given["karpenter"]["name"]) == ("karpenter", "karpenter")


def planned(site: ClusterAccount, identity: Any) -> tuple[InstallationPlan, AccountApi]:
    """Return what `karpenter install` would make there."""
    options = InstallationOptions(cluster="blue", identity=identity)
    aws = AccountApi(site.client)
    return make_plan(options, read_facts(aws, options, region=site.account.region)), aws


def differences(site: ClusterAccount, identity: Any) -> list[str]:
    """Return what of the plan is missing in the account, or is otherwise."""
    plan, aws = planned(site, identity)
    elsewhere = (HelmRelease, KubernetesObject, AwsAuthMapping, ServiceLinkedRole)
    found = []
    for each in plan.resources:
        if not isinstance(each, elsewhere):
            state = observe(aws, each)
            found += [f"{each.title}: {state.state} {state.differences}"] if state.state != "exists" else []
    return found


def test_every_file_is_formatted() -> None:
    """`terraform fmt` has nothing to change below deploy/terraform."""
    terraform(FOLDER, "fmt", "-check", "-recursive", "-diff")


def test_the_module_on_the_embedded_aws(site: ClusterAccount, tmp_path: Path) -> None:
    """The module makes all that the plan has; a second plan is empty, and destroy leaves nothing."""
    shutil.copytree(MODULE, tmp_path / "karpenter")
    without_helm(tmp_path)
    plan, _ = planned(site, "pod-identity")
    ids = {"subnet_ids": plan.facts.subnets, "security_group_ids": plan.facts.security_groups}
    lists = "".join(f"  {name} = {list(each)}\n".replace("'", '"') for name, each in ids.items())
    module = f'module "karpenter" {{\n  source       = "./karpenter"\n  cluster_name = "blue"\n{lists}}}\n'
    (tmp_path / "main.tf").write_text(PROVIDER + module, encoding="utf-8")
    terraform(tmp_path, "init")
    terraform(tmp_path, "apply", "-auto-approve", environment=site.environment)

    assert differences(site, "pod-identity") == []
    compare_releases(releases(tmp_path), plan)
    terraform(tmp_path, "plan", "-detailed-exitcode", environment=site.environment)
    terraform(tmp_path, "destroy", "-auto-approve", environment=site.environment)
    assert all(": missing " in each for each in differences(site, "pod-identity"))


def test_what_is_rendered_on_the_embedded_aws(site: ClusterAccount, tmp_path: Path) -> None:
    """The Terraform of one cluster with IRSA makes all that its plan has, and a second plan is empty."""
    plan, _ = planned(site, "irsa")
    for name, text in terraform_files(plan).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    without_helm(tmp_path)
    (tmp_path / "provider.tf").write_text(PROVIDER, encoding="utf-8")
    terraform(tmp_path, "init")
    terraform(tmp_path, "apply", "-auto-approve", environment=site.environment)

    assert differences(site, "irsa") == []
    compare_releases(releases(tmp_path), plan)
    terraform(tmp_path, "plan", "-detailed-exitcode", environment=site.environment)


def test_the_pattern_on_the_embedded_aws(site: ClusterAccount, tmp_path: Path) -> None:
    """The pattern makes a cluster from nothing, in which karpenter.yaml finds all that it names."""
    shutil.copytree(FOLDER, tmp_path / "terraform")
    without_helm(tmp_path)
    folder = tmp_path / "terraform" / "patterns" / "karpenter-mng"
    terraform(folder, "init")
    terraform(folder, "apply", "-auto-approve", environment=site.environment)
    ec2, eks, name = site.client("ec2"), site.client("eks"), "ex-karpenter-mng"
    group = eks.describe_nodegroup(clusterName=name, nodegroupName="karpenter")["nodegroup"]
    by_group = [{"Name": "tag:eks:nodegroup-name", "Values": ["karpenter"]}]
    nodes = [
        each
        for found in ec2.describe_instances(Filters=by_group)["Reservations"]
        for each in found["Instances"]
    ]
    coredns = eks.describe_addon(clusterName=name, addonName="coredns")["addon"]["configurationValues"]
    (node_class, _) = yaml.safe_load_all((folder / "karpenter.yaml").read_text("utf-8"))
    ((key, value),) = node_class["spec"]["subnetSelectorTerms"][0]["tags"].items()
    selected = [{"Name": f"tag:{key}", "Values": [value]}]

    assert len(nodes) == 2
    assert group["labels"] == {"karpenter.sh/controller": "true"}
    assert [(each["key"], each["effect"]) for each in group["taints"]] == [
        ("karpenter.sh/controller", "NO_SCHEDULE")
    ]
    assert "karpenter.sh/controller" in coredns
    assert "eks-pod-identity-agent" in eks.list_addons(clusterName=name)["addons"]
    assert len(ec2.describe_subnets(Filters=selected)["Subnets"]) == 3
    assert len(ec2.describe_security_groups(Filters=selected)["SecurityGroups"]) == 1
    assert site.client("iam").get_role(RoleName=node_class["spec"]["role"])["Role"]["RoleName"] == name
    values = [yaml.safe_load(each) for each in releases(folder)["karpenter"]["values"]]
    assert values[1]["nodeSelector"] == {"karpenter.sh/controller": "true"}
    assert [each["key"] for each in values[1]["tolerations"]] == [
        "CriticalAddonsOnly",
        "karpenter.sh/controller",
    ]
    (association,) = eks.list_pod_identity_associations(clusterName=name)["associations"]
    assert (association["namespace"], association["serviceAccount"]) == ("karpenter", "karpenter")


@pytest.mark.parametrize("name", ["managed-node-group", "fargate-profile"])
def test_every_part_is_valid(name: str, tmp_path: Path) -> None:
    """`terraform validate` accepts the parts of the module by themselves."""
    folder = shutil.copytree(MODULE / "modules" / name, tmp_path / name)
    terraform(folder, "init")

    assert "The configuration is valid" in terraform(folder, "validate")
