"""Claims, volumes and attachments at work."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from karpenter.api.node import Node
from karpenter.api.pod import Pod
from karpenter.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from karpenter.kube.targets import Plain
from tests.unit.local.controllers.clusters import Small, small_cluster, template

ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
async def small() -> AsyncIterator[Small]:
    """A cluster of two nodes in two zones, with three classes of storage."""
    async with small_cluster() as running:
        for name, mode, provisioner in (
            ("later", "WaitForFirstConsumer", "ebs.csi.aws.com"),
            ("now", "Immediate", "ebs.csi.aws.com"),
            ("manual", "WaitForFirstConsumer", "kubernetes.io/no-provisioner"),
        ):
            body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}
            await running.client.create(StorageClass, body)
        yield running


def claim(name: str = "data", kind: str = "later", **spec: Any) -> Plain:
    """Return a claim of 1Gi."""
    body = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": kind,
        "resources": {"requests": {"storage": "1Gi"}},
        **spec,
    }
    return {"metadata": {"name": name}, "spec": body}


def volume(name: str, kind: str = "", **spec: Any) -> Plain:
    """Return a volume of 1Gi that was made by hand."""
    body = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": kind,
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": "/data"},
        **spec,
    }
    return {"metadata": {"name": name}, "spec": body}


def user(name: str = "user", uses: str = "data", **spec: Any) -> Plain:
    """Return a pod that uses a claim."""
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": uses}}]
    return {"metadata": {"name": name}, "spec": template("x", volumes=volumes, **spec)["spec"]}


async def phase(small: Small, name: str = "data") -> str:
    found = await small.get(PersistentVolumeClaim, name)
    return str(found.status.phase)


async def test_made_at_once(small: Small) -> None:
    """A claim of an immediate class gets a volume in some zone, and its pod goes there."""
    await small.make(PersistentVolumeClaim, claim(kind="now"))
    assert await phase(small) == "Bound"

    await small.make(Pod, user())
    await asyncio.sleep(5)
    pod = await small.get(Pod, "user")
    made = (await small.client.list(PersistentVolume)).items[0]
    node = await small.client.get(Node, pod.spec.node_name)
    assert made.spec.node_affinity is not None
    assert made.spec.node_affinity.required is not None
    zones = made.spec.node_affinity.required.node_selector_terms[0].match_expressions[0].values
    assert (pod.status.phase, zones) == ("Running", (node.metadata.labels[ZONE],))


async def test_only_in_the_allowed_zones(small: Small) -> None:
    """A class that names zones makes volumes there and nowhere else."""
    topology = [{"matchLabelExpressions": [{"key": ZONE, "values": ["local-1b"]}]}]
    body = {
        "metadata": {"name": "zonal"},
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "Immediate",
        "allowedTopologies": topology,
    }
    await small.client.create(StorageClass, body)
    await small.make(PersistentVolumeClaim, claim(kind="zonal"))
    await small.make(Pod, user())

    assert (await small.get(Pod, "user")).spec.node_name == "node-2"


async def test_a_volume_that_is_there(small: Small) -> None:
    """A claim without a class finds a volume that was made by hand, now or later."""
    await small.make(PersistentVolumeClaim, claim(kind=""))
    assert await phase(small) == "Pending"
    assert await small.told("FailedBinding")

    await small.client.create(PersistentVolume, volume("by-hand"))
    await asyncio.sleep(1)
    found = await small.get(PersistentVolumeClaim, "data")
    assert (found.status.phase, found.spec.volume_name) == ("Bound", "by-hand")
    assert (await small.client.get(PersistentVolume, "by-hand")).status.phase == "Bound"


async def test_a_volume_that_is_named(small: Small) -> None:
    """A claim may name its volume, and waits for it."""
    await small.make(PersistentVolumeClaim, claim(kind="", volumeName="by-hand"))
    assert await phase(small) in {"", "Pending"}
    await small.client.create(PersistentVolume, volume("by-hand"))
    await asyncio.sleep(1)

    assert await phase(small) == "Bound"


async def test_a_local_volume_decides_the_node(small: Small) -> None:
    """A pod whose claim waits for it goes where a free volume is, and takes it."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-2"]}]}
    reach = {"required": {"nodeSelectorTerms": [term]}}
    local = volume("disk", "manual", nodeAffinity=reach)
    local["spec"]["local"] = {"path": local["spec"].pop("hostPath")["path"]}
    await small.client.create(PersistentVolume, local)
    await small.make(PersistentVolumeClaim, claim(kind="manual"))
    assert await phase(small) == "Pending"

    await small.make(Pod, user())
    await asyncio.sleep(3)
    pod = await small.get(Pod, "user")
    assert (pod.spec.node_name, pod.status.phase, await phase(small)) == ("node-2", "Running", "Bound")


async def test_what_becomes_of_volumes(small: Small) -> None:
    """A volume that was made for a claim goes with it; one made by hand is released and kept."""
    await small.make(PersistentVolumeClaim, claim("made", "now"))
    await small.client.create(PersistentVolume, volume("by-hand"))
    await small.make(PersistentVolumeClaim, claim("held", ""))
    assert len((await small.client.list(PersistentVolume)).items) == 2

    await small.delete(PersistentVolumeClaim, "made")
    await small.delete(PersistentVolumeClaim, "held")
    await asyncio.sleep(3)

    left = (await small.client.list(PersistentVolume)).items
    assert [(each.name, each.status.phase) for each in left] == [("by-hand", "Released")]


async def test_a_claim_that_loses_its_volume(small: Small) -> None:
    """A claim whose volume was deleted is lost."""
    await small.client.create(PersistentVolume, volume("by-hand"))
    await small.make(PersistentVolumeClaim, claim(kind=""))
    await small.client.delete(PersistentVolume, "by-hand")
    await asyncio.sleep(1)
    held = await small.client.list(PersistentVolume)
    if held.items:  # protected while it is bound: its claim must go first
        assert held.items[0].metadata.deletion_timestamp is not None
        return

    assert await phase(small) == "Lost"


async def test_a_claim_in_use_is_not_pulled_away(small: Small) -> None:
    """A claim that is protected stays until the last pod that uses it has ended."""
    body = claim()
    body["metadata"]["finalizers"] = ["kubernetes.io/pvc-protection"]
    await small.make(PersistentVolumeClaim, body)
    await small.make(Pod, user())
    await asyncio.sleep(3)
    await small.delete(PersistentVolumeClaim, "data")
    assert (await small.get(PersistentVolumeClaim, "data")).metadata.deletion_timestamp is not None

    await small.delete(Pod, "user")
    assert await small.get(PersistentVolumeClaim, "data") is None


async def test_one_node_at_a_time(small: Small) -> None:
    """A volume for one node is attached elsewhere only after it was detached."""
    await small.make(PersistentVolumeClaim, claim(kind="", volumeName="shared"))
    csi = volume("shared", csi={"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"})
    del csi["spec"]["hostPath"]
    await small.client.create(PersistentVolume, csi)
    await asyncio.sleep(1)
    await small.make(Pod, user("first", nodeSelector={"kubernetes.io/hostname": "node-1"}))
    await asyncio.sleep(3)
    await small.make(Pod, user("second", nodeSelector={"kubernetes.io/hostname": "node-2"}))
    await asyncio.sleep(10)

    attachments = (await small.client.list(VolumeAttachment)).items
    assert [each.spec.node_name for each in attachments] == ["node-1"]
    assert (await small.get(Pod, "second")).status.phase == "Pending"
    node = await small.client.get(Node, "node-1")
    assert [each.name for each in node.status.volumes_attached] == ["kubernetes.io/csi/ebs.csi.aws.com^vol-1"]

    await small.delete(Pod, "first")
    await asyncio.sleep(5)
    assert (await small.get(Pod, "second")).status.phase == "Running"


async def test_a_volume_of_a_pod_alone(small: Small) -> None:
    """An ephemeral volume gets its claim with the pod, and loses it with the pod."""
    spec = claim()["spec"]
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]
    await small.make(Pod, {"metadata": {"name": "web"}, "spec": template("x", volumes=volumes)["spec"]})
    await asyncio.sleep(5)
    assert (await small.get(Pod, "web")).status.phase == "Running"
    assert await small.names(PersistentVolumeClaim) == ["web-scratch"]

    await small.delete(Pod, "web")
    await asyncio.sleep(3)
    assert await small.names(PersistentVolumeClaim) == []
