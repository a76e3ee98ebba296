"""What users type to run and move workloads, with unmodified kubectl on the embedded cluster."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from karpenter_local import kubeconfig
from karpenter_local.cluster import LocalCluster
from karpenter_local.kubelet.script import PodTimings
from karpenter_local.kubelet.settings import KubeletSettings
from tests.integration.kubectl import Kubectl

REAL_TIME = True
NEEDS_KUBECTL = True

QUICK = KubeletSettings(boot=0.05, habits=PodTimings(create=0.1, run=0.5, stop=0.1))

INFLATE = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: inflate}
spec:
  replicas: 2
  selector: {matchLabels: {app: inflate}}
  template:
    metadata: {labels: {app: inflate}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
        - name: inflate
          image: registry.k8s.io/pause:3.10
          resources: {requests: {cpu: 500m}}
"""


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    """Kubectl on a cluster of three quick nodes, with two pods of ``inflate`` running."""
    async with LocalCluster(seed=1, http=True, kubelets=QUICK) as cluster:
        await cluster.add_nodes(3)
        path = tmp_path / "kubeconfig"
        kubeconfig.write(path, cluster.kubeconfig())
        run = Kubectl(path, tmp_path)
        await run.ok("apply -f -", stdin=INFLATE)
        await run.ok("rollout status deployment/inflate --timeout=30s")
        yield run


async def names(kubectl: Kubectl, what: str) -> list[str]:
    """Return the names of what ``kubectl get`` lists."""
    return (await kubectl.ok(f"get {what} -o jsonpath={{.items[*].metadata.name}}")).split()


async def test_scale(kubectl: Kubectl) -> None:
    """A deployment is scaled up and down, and reports what it has."""
    assert await kubectl.ok("scale deployment inflate --replicas=5") == "deployment.apps/inflate scaled"
    await kubectl.ok("rollout status deployment/inflate --timeout=30s")
    assert len(await names(kubectl, "pods -l app=inflate")) == 5

    await kubectl.ok("scale deployment/inflate --replicas=0")
    await kubectl.ok("wait --for=delete pod -l app=inflate --timeout=30s")
    assert await names(kubectl, "pods") == []


async def test_rollout(kubectl: Kubectl) -> None:
    """A rollout is watched, restarted, looked back at and undone."""
    await kubectl.ok("set image deployment/inflate inflate=registry.k8s.io/pause:3.11")
    done = await kubectl.ok("rollout status deployment/inflate --timeout=30s")
    assert done.endswith('deployment "inflate" successfully rolled out')

    assert await kubectl.ok("rollout restart deployment/inflate") == "deployment.apps/inflate restarted"
    await kubectl.ok("rollout status deployment/inflate --timeout=30s")
    history = await kubectl.ok("rollout history deployment/inflate")
    assert [line.split()[0] for line in history.splitlines()[2:]] == ["1", "2", "3"]

    undone = await kubectl.ok("rollout undo deployment/inflate --to-revision=1")
    assert undone == "deployment.apps/inflate rolled back"
    await kubectl.ok("rollout status deployment/inflate --timeout=30s")
    image = "get deployment inflate -o jsonpath={.spec.template.spec.containers[0].image}"
    assert await kubectl.ok(image) == "registry.k8s.io/pause:3.10"


async def test_pause_and_resume(kubectl: Kubectl) -> None:
    """A paused deployment does not roll out until it is resumed."""
    await kubectl.ok("rollout pause deployment/inflate")
    await kubectl.ok("set image deployment/inflate inflate=registry.k8s.io/pause:3.11")
    assert len(await names(kubectl, "replicasets")) == 1

    await kubectl.ok("rollout resume deployment/inflate")
    await kubectl.ok("rollout status deployment/inflate --timeout=30s")
    assert len(await names(kubectl, "replicasets")) == 2


async def test_cordon_and_drain(kubectl: Kubectl) -> None:
    """A node is cordoned, emptied with respect for budgets, and used again."""
    await kubectl.ok("scale deployment inflate --replicas=6")
    await kubectl.ok("rollout status deployment/inflate --timeout=30s")
    await kubectl.ok("create poddisruptionbudget inflate --selector=app=inflate --max-unavailable=1")
    await kubectl.ok("wait --for=jsonpath={.status.disruptionsAllowed}=1 pdb/inflate --timeout=30s")

    assert await kubectl.ok("cordon node-2") == "node/node-2 cordoned"
    drained = await kubectl.ok("drain node-2 --ignore-daemonsets --timeout=60s")
    assert drained.endswith("node/node-2 drained")
    assert await names(kubectl, "pods --field-selector spec.nodeName=node-2") == []
    assert "SchedulingDisabled" in await kubectl.ok("get node node-2")
    await kubectl.ok("rollout status deployment/inflate --timeout=30s")

    await kubectl.ok("uncordon node-2")
    await kubectl.ok("scale deployment inflate --replicas=9")
    await kubectl.ok("rollout status deployment/inflate --timeout=30s")
    assert await names(kubectl, "pods --field-selector spec.nodeName=node-2")


async def test_taint(kubectl: Kubectl) -> None:
    """A taint drives pods out, and keeps them out until it is removed."""
    assert await kubectl.ok("taint nodes node-1 node-2 node-3 out=now:NoExecute") == (
        "node/node-1 tainted\nnode/node-2 tainted\nnode/node-3 tainted"
    )
    await kubectl.ok("wait --for=condition=PodScheduled=false pod -l app=inflate --timeout=30s")
    why = 'get pods -o jsonpath={.items[0].status.conditions[?(@.type=="PodScheduled")].message}'
    assert "0/3 nodes are available: 3 node(s) had untolerated taint(s)." in await kubectl.ok(why)

    await kubectl.ok("taint nodes --all out-")
    await kubectl.ok("wait --for=condition=Ready pod -l app=inflate --timeout=30s")


async def test_wait_and_watch(kubectl: Kubectl) -> None:
    """Conditions can be waited for, of nodes, pods, deployments and jobs."""
    await kubectl.ok("wait --for=condition=Ready node --all --timeout=30s")
    await kubectl.ok("wait --for=condition=Available deployment/inflate --timeout=30s")
    await kubectl.ok("create job once --image=registry.k8s.io/pause:3.10")
    assert await kubectl.ok("wait --for=condition=complete job/once --timeout=30s") == (
        "job.batch/once condition met"
    )
    timed_out = await kubectl("wait --for=condition=Failed job/once --timeout=1s")
    assert timed_out.code == 1


async def test_delete(kubectl: Kubectl) -> None:
    """Deleting a deployment takes its pods along, and waits for it where asked to."""
    await kubectl.ok("delete deployment inflate --cascade=foreground --wait=true --timeout=30s")

    assert await names(kubectl, "pods,replicasets") == []


async def test_daemon_and_stateful_sets(kubectl: Kubectl) -> None:
    """Rollouts of daemon and stateful sets are watched and undone like any other."""
    kinds = {
        "daemonset": INFLATE.replace("kind: Deployment", "kind: DaemonSet").replace("  replicas: 2\n", ""),
        "statefulset": INFLATE.replace("kind: Deployment", "kind: StatefulSet"),
    }
    for kind, manifest in kinds.items():
        await kubectl.ok("apply -f -", stdin=manifest.replace("inflate", kind))
        await kubectl.ok(f"rollout status {kind}/{kind} --timeout=30s")
        await kubectl.ok(f"set image {kind}/{kind} {kind}=registry.k8s.io/pause:3.11")
        await kubectl.ok(f"rollout status {kind}/{kind} --timeout=30s")
        await kubectl.ok(f"rollout undo {kind}/{kind}")
        await kubectl.ok(f"rollout status {kind}/{kind} --timeout=30s")
        image = f"get {kind} {kind} -o jsonpath={{.spec.template.spec.containers[0].image}}"
        assert await kubectl.ok(image) == "registry.k8s.io/pause:3.10"


async def test_describe(kubectl: Kubectl) -> None:
    """Nodes and pods are described with what happened to them."""
    node = await kubectl.ok("describe node node-1")
    assert "Ready            True" in node
    assert "cpu                500m (12%)" in node or "cpu                0 (0%)" in node

    pod = (await names(kubectl, "pods"))[0]
    described = await kubectl.ok(f"describe pod {pod}")
    assert "Scheduled" in described
    assert "Controlled By:  ReplicaSet/inflate-" in described
