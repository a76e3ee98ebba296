"""
The life of a release on the embedded cluster, with the real helm.

Installed, upgraded, rolled back and removed; taken over from a release of Karpenter's chart; and definitions
that are upgraded after Helm has installed them once.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from typing import TYPE_CHECKING

import pytest
import yaml

from karpenter.api.crd.definitions import DEFINITIONS, render
from karpenter_local import kubeconfig
from karpenter_local.cluster import LocalCluster
from karpenter_local.kubelet.script import PodTimings
from karpenter_local.kubelet.settings import KubeletSettings
from tests.helm import ROOT, Helm
from tests.integration.kubectl import Kubectl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

REAL_TIME = True
NEEDS_KUBECTL = True
pytestmark = pytest.mark.helm

QUICK = KubeletSettings(boot=0.05, habits=PodTimings(create=0.1, run=0.2, stop=0.1))
CHART = ROOT / "charts" / "karpenter"
DEFINITIONS_CHART = ROOT / "charts" / "karpenter-crd"
UPSTREAM_VALUES = ROOT / "tests" / "data" / "chart" / "upstream-values.json"
RELEASE = ("karpenter", CHART, "--namespace", "kube-system", "--wait", "--timeout", "60s")
NAMED = ("--set", "settings.clusterName=blue")


class HelmCluster:
    """A cluster, with helm and kubectl on it."""

    def __init__(self, home: Path) -> None:
        self._helm = Helm(home, home / "kubeconfig")
        self.kubectl = Kubectl(home / "kubeconfig", home)

    async def helm(self, *words: str | Path) -> str:
        """Run a command that must succeed; the cluster is in this process, and goes on meanwhile."""
        return await asyncio.to_thread(self._helm.ok, *words)

    async def refused(self, *words: str | Path) -> str:
        """Run a command that must fail, and return what it says."""
        done = await asyncio.to_thread(self._helm, *words)
        assert done.returncode == 1, done.stdout
        return done.stderr

    async def get(self, what: str, path: str) -> str:
        """Return a field of an object in the namespace of the system."""
        return await self.kubectl.ok(f"get -n kube-system {what} -o jsonpath={path}")


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[HelmCluster]:
    """A cluster of three quick nodes."""
    async with LocalCluster(seed=1, http=True, kubelets=QUICK) as running:
        await running.add_nodes(3)
        kubeconfig.write(tmp_path / "kubeconfig", running.kubeconfig())
        yield HelmCluster(tmp_path)


async def test_a_release_is_installed_upgraded_rolled_back_and_removed(cluster: HelmCluster) -> None:
    """Every step changes what it says and waits for the pods; definitions and their objects stay."""
    said = await cluster.helm("install", *RELEASE, *NAMED, "--set", "webhook.enabled=false")
    assert "WARNING: webhook has no effect: there is no webhook" in said
    assert await cluster.get("deployment/karpenter", "{.status.readyReplicas}") == "2"
    pods = await cluster.kubectl.ok("get pods -n kube-system -l app.kubernetes.io/name=karpenter -o name")
    assert len(pods.split()) == 2

    more = "replicas=1,controller.env[0].name=LEADER_ELECTION_NAME,controller.env[0].value=mine"
    await cluster.helm("upgrade", *RELEASE, "--reuse-values", "--set", more)
    assert await cluster.get("deployment/karpenter", "{.spec.replicas}") == "1"
    assert await cluster.get("role/karpenter", "{.rules[1].resourceNames}") == '["mine"]'

    refused = await cluster.refused("upgrade", *RELEASE, "--reuse-values", "--set", "replica=3")
    assert "additional properties 'replica' not allowed" in refused
    assert await cluster.get("deployment/karpenter", "{.spec.replicas}") == "1"

    await cluster.helm("rollback", "karpenter", "1", "--namespace", "kube-system", "--wait")
    assert await cluster.get("deployment/karpenter", "{.spec.replicas}") == "2"
    assert await cluster.get("role/karpenter", "{.rules[1].resourceNames}") == '["karpenter-leader-election"]'

    await cluster.helm("uninstall", "karpenter", "--namespace", "kube-system", "--wait")
    left = await cluster.kubectl.ok("get deploy,sa,role,pdb,svc,secret -n kube-system -o name")
    assert not [name for name in left.split() if "karpenter" in name]
    assert "nodepools.karpenter.sh" in await cluster.kubectl.ok("get crd -o name")


async def test_a_release_of_karpenter_is_taken_over(cluster: HelmCluster, tmp_path: Path) -> None:
    """With --reuse-values the image of Karpenter is refused; --reset-then-reuse-values keeps what was set."""
    theirs = tmp_path / "theirs"
    (theirs / "templates").mkdir(parents=True)
    (theirs / "Chart.yaml").write_text("apiVersion: v2\nname: karpenter\nversion: 1.14.1\n")
    (theirs / "values.yaml").write_text(yaml.safe_dump(json.loads(UPSTREAM_VALUES.read_text())))
    (theirs / "templates" / "one.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: theirs}\ndata: {}\n"
    )
    queue = ("--set", "settings.interruptionQueue=blue")
    await cluster.helm("install", "karpenter", theirs, "--namespace", "kube-system", *NAMED, *queue)

    refused = await cluster.refused("upgrade", *RELEASE, "--reuse-values")
    assert "controller.image.repository is public.ecr.aws/karpenter/controller, the image of" in refused

    ours = "controller.image.repository=registry.example.com/karpenter,controller.image.digest="
    await cluster.helm("upgrade", *RELEASE, "--reuse-values", "--set", f"{ours},controller.image.tag=")
    environment = await cluster.get("deployment/karpenter", "{.spec.template.spec.containers[0].env}")
    assert {"name": "CLOUD_PROVIDER", "value": "aws"} in json.loads(environment)

    await cluster.helm("upgrade", *RELEASE, "--reset-then-reuse-values", "--set", "controller.image.digest=")
    container = json.loads(await cluster.get("deployment/karpenter", "{.spec.template.spec.containers[0]}"))
    assert {"name": "INTERRUPTION_QUEUE", "value": "blue"} in container["env"]
    assert "configmap/theirs" not in await cluster.kubectl.ok("get cm -n kube-system -o name")

    await cluster.helm("rollback", "karpenter", "1", "--namespace", "kube-system", "--wait")
    assert "configmap/theirs" in await cluster.kubectl.ok("get cm -n kube-system -o name")
    assert "karpenter" not in await cluster.kubectl.ok("get deploy -n kube-system -o name")


async def test_commands_of_the_guide_work(cluster: HelmCluster) -> None:
    """What the guide tells people to type works, from the first command to the last, on one cluster."""
    text = (ROOT / "docs" / "guides" / "install.md").read_text(encoding="utf-8")
    typed = re.findall(r"^\$ (helm .*|karpenter crds .*)$", text, re.MULTILINE)

    for line in typed:
        if line.startswith("helm "):
            await cluster.helm(*shlex.split(line.replace("REGISTRY", "registry.example.com"))[1:])
        else:
            definitions = yaml.safe_dump_all([render(each) for each in DEFINITIONS])
            await cluster.kubectl.ok(line.partition("| kubectl ")[2], stdin=definitions)

    assert [line.split()[1] for line in typed] == [
        "upgrade",
        "crds",
        "upgrade",
        "upgrade",
        "upgrade",
        "rollback",
        "uninstall",
    ]


async def test_definitions_are_upgraded(cluster: HelmCluster) -> None:
    """After Helm installed them once: by kubectl where conflicts are forced, or by a chart that owns them."""
    await cluster.helm("install", *RELEASE, *NAMED)
    changed = render(next(each for each in DEFINITIONS if each.file_name.endswith("nodepools.yaml")))
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "Of a later version."
    manifest = yaml.safe_dump(changed)

    conflict = await cluster.kubectl("apply --server-side -f -", stdin=manifest)
    assert conflict.code == 1
    assert 'conflict with "helm"' in conflict.err
    await cluster.kubectl.ok("apply --server-side --force-conflicts -f -", stdin=manifest)

    owned = ("karpenter-crd", DEFINITIONS_CHART, "--namespace", "kube-system")
    refused = await cluster.refused("upgrade", "--install", *owned)
    assert "invalid ownership metadata" in refused
    await cluster.helm("upgrade", "--install", *owned, "--take-ownership")
    path = "{.spec.versions[0].schema.openAPIV3Schema.description}"
    described = await cluster.kubectl.ok(f"get crd nodepools.karpenter.sh -o jsonpath={path}")
    assert described != "Of a later version."

    await cluster.helm("upgrade", *RELEASE, *NAMED, "--skip-crds")
    await cluster.helm("uninstall", "karpenter-crd", "--namespace", "kube-system")
    assert "nodepools.karpenter.sh" in await cluster.kubectl.ok("get crd -o name")
