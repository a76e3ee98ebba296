"""
A cluster of Karpenter 1.14.1 on the embedded AWS switches to this operator and back.

The hashes are those that Karpenter's own Go code gives for these specs.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.manifests import render_documents
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.cli import main
from karpenter.kube.patches import MergePatch
from karpenter.kube.targets import untyped
from tests.integration.sandboxes import in_aws
from tests.integration.test_aws import CLASS as SPEC
from tests.integration.test_aws import REFERENCE, apply, scale
from tests.integration.test_plan_live import config  # noqa: F401  a fixture
from tests.unit.changeover.objects import deployment, secret

if TYPE_CHECKING:
    from karpenter_local.sandbox.sandbox import Sandbox


def pool_notes(value: str) -> dict[str, str]:
    """Return what Karpenter writes to a pool and its claims."""
    return {"karpenter.sh/nodepool-hash": value, "karpenter.sh/nodepool-hash-version": "v3"}


def class_notes(value: str) -> dict[str, str]:
    """Return what Karpenter writes to a class and its claims."""
    return {
        "karpenter.k8s.aws/ec2nodeclass-hash": value,
        "karpenter.k8s.aws/ec2nodeclass-hash-version": "v5",
    }


POOL_HASH, CLASS_HASH = "17369979337536258260", "3391433241522982533"
POOL, CLASS = pool_notes(POOL_HASH), class_notes(CLASS_HASH)
SHAPES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "hashes" / "switch.json").read_text(encoding="utf-8")
)
TRUSTED = "dGVzdA=="
"""What the embedded AWS says that the API server of a cluster called test is trusted by."""

KINDS = (NodePool, NodeClaim, Node, Pod, EC2NodeClass)


async def stamp(sandbox: Sandbox, name: str, pool_hash: str, class_hash: str) -> None:
    """Write what Karpenter has written: its hashes, on a pool, its class and its claims."""
    client, ours, theirs = sandbox.client, pool_notes(pool_hash), class_notes(class_hash)
    await client.patch(NodePool, name, MergePatch({"metadata": {"annotations": ours}}))
    await client.patch(EC2NodeClass, name, MergePatch({"metadata": {"annotations": theirs}}))
    for claim in await sandbox.node_claims():
        if claim.metadata.labels["karpenter.sh/nodepool"] == name:
            change = MergePatch({"metadata": {"annotations": {**ours, **theirs}}})
            await client.patch(NodeClaim, claim.name, change)


async def report(sandbox: Sandbox, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the report of ``karpenter changeover`` about the objects of the cluster."""
    objects = [deployment(), secret({"settings": {"clusterName": "test"}})]
    for kind in KINDS:
        plural = f"{kind.kind.lower()}{'es' if kind is EC2NodeClass else 's'}"
        target = untyped(kind.api_version, plural, kind=kind.kind, namespaced=kind is Pod)
        found = await sandbox.client.list(target)
        objects += [{"apiVersion": kind.api_version, "kind": kind.kind, **each} for each in found.items]
    moment = sandbox.clock.now().isoformat()
    result = CliRunner().invoke(
        main,
        ["changeover", "-f", "-", "--ca-bundle", TRUSTED, "--now", moment, "-o", "json", *arguments],
        input=render_documents(objects),
    )
    assert result.exit_code < 2, result.output
    return result.exit_code, json.loads(result.stdout)


def names(claims: list[NodeClaim]) -> set[str]:
    return {each.name for each in claims}


@in_aws()
async def test_there_and_back(sandbox: Sandbox) -> None:
    """Live claims stay; what is under way is carried to its end, once; Karpenter finds its own hashes."""
    await apply(sandbox)
    for replicas in (2, 4, 6):
        await scale(sandbox, replicas)
        await sandbox.until_running(replicas)
    await sandbox.stop_operator()
    await stamp(sandbox, "default", POOL_HASH, CLASS_HASH)
    assert (await report(sandbox, "--check"))[0] == 0

    alive = names(await sandbox.node_claims())
    drifted, leaving, *others = sorted(alive)
    mark = {"type": "Drifted", "status": "True", "reason": "AMIDrift", "message": "AMIDrift"}
    conditions = [
        *(
            each
            for each in (await plain(sandbox, drifted))["status"]["conditions"]
            if each["type"] != "Drifted"
        ),
        {**mark, "lastTransitionTime": sandbox.clock.now().isoformat().replace("+00:00", "Z")},
    ]
    await sandbox.client.patch(
        NodeClaim, drifted, MergePatch({"status": {"conditions": conditions}}), subresource="status"
    )
    await sandbox.client.delete(NodeClaim, leaving)
    template = (await plain(sandbox, others[0]))["spec"]
    launching = {
        "metadata": {
            "name": "default-mid",
            "labels": {"karpenter.sh/nodepool": "default"},
            "annotations": {**POOL, **CLASS},
            "finalizers": ["karpenter.sh/termination"],
        },
        "spec": {**template, "nodeClassRef": REFERENCE},
    }
    await sandbox.client.create(NodeClaim, launching)
    code, found = await report(sandbox, "--check")
    assert code == 1
    assert found["claims"] == {"running": len(others) + 1, "launching": 1, "terminating": 1}
    assert [(each["claim"], each["already"]) for each in found["drifted"]] == [(drifted, True)]
    assert not [each for each in found["differences"] if each["blocks"]]

    await sandbox.start_operator()
    await asyncio.sleep(300)
    await sandbox.stop_operator()

    after = await sandbox.node_claims()
    assert set(others) | {"default-mid"} <= names(after)
    assert leaving not in names(after)
    assert len(sandbox.aws.control.instances()) == len(after)
    for claim in after:
        kept = {key: claim.metadata.annotations[key] for key in (*POOL, *CLASS)}
        assert kept == {**POOL, **CLASS}
    assert (await sandbox.client.get(NodePool, "default")).metadata.annotations.items() >= POOL.items()
    assert (await sandbox.client.get(EC2NodeClass, "default")).metadata.annotations.items() >= CLASS.items()


@in_aws()
async def test_no_shape_of_pool_or_class_is_replaced(sandbox: Sandbox) -> None:
    """
    Empty maps and lists, false, zero, durations, dated taints: no node goes, and no hash changes.

    Each pool has a class and a pod of its own. The hashes are what the Go code of 1.14.1 gives for these
    specs as the API server stores them.
    """
    for at, shape in enumerate(SHAPES):
        await launch_shape(sandbox, f"shape-{at}", shape)
    await sandbox.until_running(len(SHAPES))
    await sandbox.stop_operator()
    for at, shape in enumerate(SHAPES):
        await stamp(sandbox, f"shape-{at}", shape["hash"], shape["classHash"])
    alive = names(await sandbox.node_claims())
    machines = {each.id for each in sandbox.aws.control.instances()}
    assert len(alive) == len(machines) == len(SHAPES)

    await sandbox.start_operator()
    await asyncio.sleep(300)
    await sandbox.stop_operator()

    assert names(await sandbox.node_claims()) == alive
    assert {each.id for each in sandbox.aws.control.instances()} == machines
    for claim in await sandbox.node_claims():
        shape = SHAPES[int(claim.metadata.labels["karpenter.sh/nodepool"].removeprefix("shape-"))]
        name = claim.spec.node_class_ref.name
        node_pool = await sandbox.client.get(NodePool, name)
        node_class = await sandbox.client.get(EC2NodeClass, name)
        ours, theirs = pool_notes(shape["hash"]), class_notes(shape["classHash"])
        assert node_pool.metadata.annotations.items() >= ours.items()
        assert node_class.metadata.annotations.items() >= theirs.items()
        assert claim.metadata.annotations.items() >= {**ours, **theirs}.items()
        assert not [each for each in claim.status.conditions if each.type == "Drifted"]


async def launch_shape(sandbox: Sandbox, name: str, shape: dict[str, Any]) -> None:
    """Create a class, a pool and a pod that only this pool may run."""
    await sandbox.client.create(
        EC2NodeClass, {"metadata": {"name": name}, "spec": {**SPEC, **shape["class"]}}
    )
    wanted = {"kubernetes.io/arch": "amd64", "karpenter.sh/capacity-type": "on-demand"}
    requirements = [{"key": key, "operator": "In", "values": [value]} for key, value in wanted.items()]
    template = {
        **shape["template"],
        "spec": {
            **shape["template"]["spec"],
            "nodeClassRef": {**REFERENCE, "name": name},
            "requirements": requirements,
        },
    }
    disruption = {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}
    body = {"metadata": {"name": name}, "spec": {"template": template, "disruption": disruption}}
    await sandbox.client.create(NodePool, body)
    await sandbox.deploy(name, replicas=1, nodeSelector={"karpenter.sh/nodepool": name})


async def plain(sandbox: Sandbox, claim: str) -> dict[str, Any]:
    """Return a claim as the API server holds it."""
    target = untyped("karpenter.sh/v1", "nodeclaims", kind="NodeClaim", namespaced=False)
    found: dict[str, Any] = await sandbox.client.get(target, claim)
    return found


def test_a_live_cluster_is_read(config: Path) -> None:  # noqa: F811  the fixture
    """Over HTTP: the machine is too large for its pod, and the commands name the kubeconfig."""
    result = CliRunner().invoke(main, ["changeover", "--kubeconfig", str(config), "--check"])

    assert result.exit_code == 1, result.output
    assert "Underutilized: replace one by" in " ".join(result.stdout.split())
    assert f"kubectl --kubeconfig {config} get nodeclaims" in result.stdout
