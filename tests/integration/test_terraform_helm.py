"""
The module of Terraform with the provider hashicorp/helm: its releases on a cluster, and how they end.

Needs what :mod:`.test_terraform` needs, and the provider hashicorp/helm from a folder or from the
registry. The cluster and the account are embedded; no operator runs there.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from karpenter_local import kubeconfig
from karpenter_local.sandbox.options import AwsOptions, ClusterOptions
from karpenter_local.sandbox.sandbox import Sandbox
from tests.integration.kubectl import Kubectl
from tests.integration.test_terraform import FOLDER, PROVIDER, ROOT, terraform
from tests.unit.cloud.aws.world import embedded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

REAL_TIME = True
NEEDS_KUBECTL = True
pytestmark = pytest.mark.terraform

MODULE = """
provider "helm" {
  kubernetes = {
    config_path = "kubeconfig"
  }
}

module "karpenter" {
  source                          = "./deploy/terraform/karpenter"
  cluster_name                    = "blue"
  create_spot_service_linked_role = true
}
"""
OPERATOR = "module.karpenter.helm_release.karpenter"


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    """Return a cluster on which nothing is installed; a folder has its kubeconfig and the module."""
    made = Sandbox(
        name="blue",
        clock="real",
        cluster=ClusterOptions(kubernetes="1.33", definitions=False, http=True),
        cloud=AwsOptions(types=("m5.large",), server=embedded(), bare=True, tagged=False, node_class=False),
        operators=0,
    )
    async with made:
        kubeconfig.write(tmp_path / "kubeconfig", made.running.kubeconfig)
        shutil.copytree(FOLDER, tmp_path / "deploy" / "terraform")
        shutil.copytree(ROOT / "charts", tmp_path / "charts")
        (tmp_path / "main.tf").write_text(PROVIDER + MODULE, encoding="utf-8")
        yield made


async def test_releases_come_and_go_in_order(sandbox: Sandbox, tmp_path: Path) -> None:
    """Definitions, operator and NodePools are releases; those that need the operator end before it does."""
    environment = {**os.environ, **sandbox.cloud.environment}
    kubectl = Kubectl(tmp_path / "kubeconfig", tmp_path)

    async def run(*words: str) -> str:
        return await asyncio.to_thread(terraform, tmp_path, *words, environment=environment)

    await run("init")
    await run("apply", "-auto-approve")
    pools = json.loads(await kubectl.ok("get nodepools,ec2nodeclasses -o json"))["items"]
    await run("plan", "-detailed-exitcode")

    assert sorted(each["kind"] for each in pools) == ["EC2NodeClass", "NodePool"]
    assert "deployment.apps/karpenter" in await kubectl.ok("get deployments -n kube-system -o name")

    gone = await run("destroy", f"-target={OPERATOR}", "-auto-approve")
    released = "module.karpenter.helm_release.nodepools[0]: Destruction complete"
    assert -1 < gone.index(released) < gone.index(f"{OPERATOR}: Destroying")
    assert not json.loads(await kubectl.ok("get nodepools -o json"))["items"]
    await run("destroy", "-auto-approve")
    assert "karpenter" not in await kubectl.ok("get deployments -n kube-system -o name")
