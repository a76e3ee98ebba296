"""Commands that look at a live cluster of EC2, over HTTP, as a user types them: one way for all of them."""

from __future__ import annotations

import asyncio
import gc
import json
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner, Result

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.node import Node
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.api.workloads import Deployment
from karpenter.base.clock import SystemClock
from karpenter.cli import main
from karpenter.kube.client import Client
from karpenter.kube.http import HttpTransport
from karpenter.kube.kubeconfig import find_cluster
from karpenter.kube.patches import MergePatch
from karpenter.kube.targets import untyped
from karpenter_local import kubeconfig
from karpenter_local.sandbox.cluster import install_definitions
from tests.integration.serving import Running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# A command that ends does not wait for the goodbye of TLS on connections whose requests it gave up.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

ROLES = untyped("rbac.authorization.k8s.io/v1", "clusterroles", kind="ClusterRole", namespaced=False)
BINDINGS = untyped(
    "rbac.authorization.k8s.io/v1", "clusterrolebindings", kind="ClusterRoleBinding", namespaced=False
)
POOL: dict[str, Any] = {
    "metadata": {"name": "default"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
                ],
            }
        }
    },
}
CLASS: dict[str, Any] = {
    "metadata": {"name": "default"},
    "spec": {
        "role": "nodes",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "blue"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "blue"}}],
    },
}
READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "message": ""}


async def _fill(config: Path) -> None:
    """Put a cluster there: a NodePool of EC2 without a node, a pod that waits, an operator, and two users."""
    cluster = await find_cluster(environ={}, clock=SystemClock(), kubeconfig=str(config))
    client = Client(HttpTransport(cluster.endpoint, cluster.credentials), chance=Random(1))  # noqa: S311  retries
    await install_definitions(client)
    await client.create(NodePool, POOL)
    await client.create(EC2NodeClass, CLASS)
    subnets = [{"id": "subnet-1", "zone": "eu-west-1b", "zoneID": "euw1-az2"}]
    status = {"subnets": subnets, "conditions": [{**READY, "reason": "Ready"}]}
    await client.patch(EC2NodeClass, "default", MergePatch({"status": status}), subresource="status")
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    await client.create(
        Pod, {"metadata": {"name": "web-0"}, "spec": {"containers": [container]}}, namespace="default"
    )
    labels = {"app.kubernetes.io/name": "karpenter"}
    environment = [
        {"name": "FEATURE_GATES", "value": "NodeRepair=true,SpotToSpotConsolidation=true"},
        {"name": "PACKING_POLICY", "value": "greedy"},
        {"name": "LOG_LEVEL", "value": "debug"},
        {"name": "COMMITMENTS", "value": "/etc/karpenter/commitments.yaml"},
    ]
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "controller", "image": "i", "env": environment}]},
    }
    await client.create(
        Deployment,
        {
            "metadata": {"name": "karpenter", "labels": labels},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        },
        namespace="kube-system",
    )
    for user, resources in (("nodes-only", ["nodes", "pods"]), ("all-but-pods", ALL_BUT_PODS)):
        rule = {"apiGroups": ["*"], "resources": resources, "verbs": ["list", "watch", "get"]}
        await client.create(ROLES, {"metadata": {"name": user}, "rules": [rule]})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
        await client.create(
            BINDINGS, {"metadata": {"name": user}, "roleRef": reference, "subjects": [subject]}
        )
    await client.close()


ALL_BUT_PODS = [
    *("nodes", "nodepools", "nodeclaims", "ec2nodeclasses", "kwoknodeclasses", "daemonsets", "namespaces"),
    *("poddisruptionbudgets", "persistentvolumes", "persistentvolumeclaims", "storageclasses", "csinodes"),
    *("volumeattachments", "deployments"),
]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of an administrator."""
    running = Running()
    front = running.front
    assert front is not None
    path = tmp_path_factory.mktemp("session") / "kubeconfig"
    text = kubeconfig.render(
        name="blue", url=front.url, authority=front.certificates.authority, token=front.token
    )
    kubeconfig.write(path, text)
    asyncio.run(_fill(path))
    yield path
    running.stop()


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """What a command leaves is collected before another module's test would be blamed for it."""
    yield
    gc.collect()


def acting_as(config: Path, **user: str) -> Path:
    """Return a kubeconfig of another user of the same cluster."""
    plain = yaml.safe_load(config.read_text("utf-8"))
    plain["users"][0]["user"].update(user)
    path = config.with_name("-".join(user.values()))
    path.write_text(yaml.safe_dump(plain), "utf-8")
    return path


def run(config: Path, *words: str) -> Result:
    """Run a command with a kubeconfig as the current one."""
    return CliRunner().invoke(main, words, env={"KUBECONFIG": str(config)})


def test_a_plan_buys_what_the_region_sells(config: Path) -> None:
    """Without --catalog and without a node the subnets of the EC2NodeClass say what is on sale."""
    result = run(config, "plan", "-o", "json")
    (node,) = json.loads(result.stdout)["newNodes"]

    assert node["offering"]["zone"].startswith("eu-west-1")


def test_an_explanation_names_what_the_region_sells(config: Path) -> None:
    """The same cluster, the same types."""
    result = run(config, "why", "pod/web-0")

    assert result.exit_code == 0, result.stderr
    assert "(eu-west-1" in " ".join(result.stdout.split())


def test_changes_are_tried_on_the_same_types(config: Path) -> None:
    """Disruption is decided, and the node viewer advises, with the catalogue of the cluster."""
    assert "test-zone" not in run(config, "plan", "--disruption").stdout
    assert "of NodePool default (eu-west-1" in " ".join(run(config, "top", "--once").stdout.split())


def test_the_catalogue_of_another_cloud_is_refused(config: Path) -> None:
    """Every command refuses types that the NodePool cannot buy."""
    for words in (("plan",), ("why", "pod/web-0"), ("top", "--once"), ("changeover",)):
        result = run(config, *words, "--catalog", "kwok")
        assert (result.exit_code, result.stdout) == (2, ""), words
        assert "error: catalogue kwok sells nothing to NodePool default" in result.stderr


@pytest.mark.parametrize(
    "words",
    [("plan",), ("why", "pod/web-0"), ("top", "--once"), ("changeover",), ("doctor",)],
    ids=lambda words: words[0],
)
def test_the_current_context_is_named(config: Path, words: tuple[str, ...]) -> None:
    """A command that looks at the current context says which one that is."""
    assert "reading context blue" in run(config, *words).stderr


@pytest.mark.parametrize(
    "words", [("plan",), ("why", "pod/web-0"), ("top", "--once")], ids=lambda words: words[0]
)
def test_the_settings_are_those_of_the_operator(config: Path, words: tuple[str, ...]) -> None:
    """Decisions are those of the operator that runs there; which settings change them is said."""
    told = run(config, *words).stderr

    assert (
        "settings of deployment kube-system/karpenter: "
        "feature-gates=NodeRepair=true,SpotToSpotConsolidation=true, packing-policy=greedy\n"
    ) in told
    assert "warning: the operator has another one, which cannot be read here: setting commitments:" in told


def test_a_catalogue_of_another_region_is_noted(config: Path) -> None:
    """Prices of another region are a question that may be asked, and not without a word."""
    told = run(config, "plan", "--catalog", "aws").stderr

    assert "note: the cluster is in eu-west-1, and catalogue aws is that of us-east-1\n" in told
    assert "note:" not in run(config, "plan", "--catalog", "aws:eu-west-1").stderr


def test_a_setting_that_is_given_wins(config: Path) -> None:
    """--set replaces one setting of the operator, and no other."""
    told = run(config, "plan", "--set", "packing-policy=price").stderr

    assert "karpenter: feature-gates=NodeRepair=true,SpotToSpotConsolidation=true\n" in told


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "--strict"),
        ("why", "pod/web-0"),
        ("top", "--once"),
        ("changeover",),
        ("console", "--no-browser"),
    ],
    ids=lambda words: words[0],
)
def test_what_may_not_be_read_is_not_absent(config: Path, words: tuple[str, ...]) -> None:
    """Without pods every answer would be wrong: the error says what is missing, and the Role that helps."""
    result = run(acting_as(config, **{"as": "all-but-pods"}), *words)

    assert (result.exit_code, result.stdout) == (2, "")
    assert "error: all-but-pods may not list pods in the whole cluster" in result.stderr
    assert "--verb=get,list,watch --resource=" in result.stderr
    assert "pods" in result.stderr.partition("--resource=")[2]
    assert "--clusterrole=karpenter-reader --user=all-but-pods" in result.stderr


def test_nodes_are_shown_to_who_may_read_nodes_and_pods(config: Path) -> None:
    """The node viewer decides nothing with --no-plan, and needs no more than it shows."""
    user = acting_as(config, **{"as": "nodes-only"})

    refused, shown = run(user, "top", "--once"), run(user, "top", "--once", "--no-plan")
    assert (refused.exit_code, shown.exit_code) == (2, 0)
    assert "nodepools.karpenter.sh" in refused.stderr
    assert "or --no-plan" in refused.stderr


def test_rules_without_their_facts_are_not_checked(config: Path) -> None:
    """A definition that may not be seen is not called missing, with a fix that overwrites it."""
    result = run(acting_as(config, **{"as": "nodes-only"}), "doctor")

    assert "is not installed" not in result.stdout
    told = " ".join(result.stderr.split())
    assert "CustomResourceDefinition may not be read in the cluster" in told
    assert "kubectl create clusterrole karpenter-reader" in told
    assert "secrets" not in told.partition("--resource=")[2]


@pytest.mark.parametrize(
    "words",
    [("plan",), ("why", "pod/web-0"), ("top", "--once"), ("changeover",), ("console",), ("doctor",)],
    ids=lambda words: words[0],
)
def test_credentials_that_are_not_accepted(config: Path, words: tuple[str, ...]) -> None:
    """Expired credentials are told as such, with what renews them."""
    result = run(acting_as(config, token="expired"), *words)

    assert (result.exit_code, result.stdout) == (2, "")
    assert "error: the cluster does not accept the credentials of the kubeconfig" in result.stderr
    assert "aws eks update-kubeconfig" in result.stderr


async def _with_node(config: Path, words: tuple[str, ...]) -> Result:
    """Run a command while there is a node that says by its provider id alone where it is."""
    cluster = await find_cluster(environ={}, clock=SystemClock(), kubeconfig=str(config))
    client = Client(HttpTransport(cluster.endpoint, cluster.credentials), chance=Random(1))  # noqa: S311  retries
    body = {"metadata": {"name": "one"}, "spec": {"providerID": "aws:///us-west-2a/i-0abc"}}
    await client.create(Node, body)
    try:
        return await asyncio.to_thread(run, config, *words)
    finally:
        await client.delete(Node, "one")
        await client.close()


def test_nodes_say_the_region_by_their_provider_ids(config: Path) -> None:
    """Where machines are wins over what the node class could reach."""
    result = asyncio.run(_with_node(config, ("plan", "-o", "json")))

    (node,) = json.loads(result.stdout)["newNodes"]
    assert node["offering"]["zone"].startswith("us-west-2")
