"""Where a pod's volumes let it go, and which volumes its claims get there."""

from typing import Any

import pytest

from karpenter.api.meta import convert
from karpenter.api.pod import Pod
from karpenter.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from karpenter_local.scheduler.place import Placed
from tests.unit.local.scheduler.clusters import ZONE, World, node, pod

DRIVER = "ebs.csi.aws.com"


def claim(
    name: str = "data", *, volume: str = "", storage: str = "1Gi", **more: Any
) -> PersistentVolumeClaim:
    """Return a claim; with a volume, it is bound."""
    notes = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    meta: dict[str, Any] = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    meta["annotations"] = {**notes, **more.pop("annotations", {})}
    if more.pop("leaving", False):
        meta["deletionTimestamp"] = "2025-01-01T00:00:00Z"
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "later",
        "resources": {"requests": {"storage": storage}},
        "volumeName": volume,
        **more,
    }
    status = {"phase": "Bound" if volume else "Pending"}
    return convert({"metadata": meta, "spec": spec, "status": status}, PersistentVolumeClaim)


def volume(name: str = "vol", *, zone: str = "", size: str = "1Gi", **more: Any) -> PersistentVolume:
    """Return a volume of our driver; with a zone, only nodes of that zone reach it."""
    spec: dict[str, Any] = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "later",
        "csi": {"driver": DRIVER, "volumeHandle": f"handle-{name}"},
    }
    if zone:
        term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    labels = more.pop("labels", {})
    status = {"phase": more.pop("phase", "Available")}
    body = {"metadata": {"name": name, "labels": labels}, "spec": {**spec, **more}, "status": status}
    return convert(body, PersistentVolume)


def storage_class(name: str = "later", *, waits: bool = True, **more: Any) -> StorageClass:
    """Return a class that makes volumes when a pod needs one, unless told otherwise."""
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    body = {"metadata": {"name": name}, "provisioner": DRIVER, "volumeBindingMode": mode, **more}
    return convert(body, StorageClass)


def user(name: str = "user", *claims: str) -> Pod:
    volumes = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": each}}
        for number, each in enumerate(claims or ("data",))
    ]
    return pod(name, volumes=volumes)


@pytest.fixture
def world() -> World:
    """Two nodes in two zones, and a class that waits."""
    found = World(node("n-a", zone="a"), node("n-b", zone="b"))
    found.table.storage.classes["later"] = storage_class()
    return found


def know(world: World, *things: PersistentVolumeClaim | PersistentVolume | StorageClass) -> World:
    """Let the world know of claims, volumes and classes."""
    for each in things:
        if isinstance(each, PersistentVolumeClaim):
            world.table.storage.set_claim(each)
        elif isinstance(each, PersistentVolume):
            world.table.storage.set_volume(each)
        else:
            world.table.storage.classes[each.name] = each
    return world


HELD: dict[str, Any] = {
    "claimRef": {"namespace": "default", "name": "data", "uid": "uid-data"},
    "phase": "Bound",
}


@pytest.mark.parametrize(
    ("things", "expected"),
    [
        pytest.param([], 'persistentvolumeclaim "data" not found. not found', id="no such claim"),
        pytest.param(
            [claim(leaving=True)],
            'persistentvolumeclaim "data" is being deleted. not found',
            id="the claim is being deleted",
        ),
        pytest.param(
            [claim(storageClassName="")],
            "pod has unbound immediate PersistentVolumeClaims. not found",
            id="no provisioner",
        ),
        pytest.param(
            [claim(storageClassName="now"), storage_class("now", waits=False)],
            "pod has unbound immediate PersistentVolumeClaims. not found",
            id="a volume is being made without us",
        ),
        pytest.param(
            [claim(volume="gone")],
            "2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
            id="its volume is gone",
        ),
        pytest.param([claim(volume="vol"), volume(zone="b", **HELD)], "n-b", id="where the volume is"),
        pytest.param(
            [claim(volume="vol"), volume(zone="c", **HELD)],
            "2 node(s) had volume node affinity conflict",
            id="where no node is",
        ),
        pytest.param(
            [claim(volume="vol"), volume(labels={ZONE: "b__c"}, **HELD)], "n-b", id="zones in labels"
        ),
        pytest.param(
            [claim(volume="vol"), volume(labels={ZONE: "c"}, **HELD)],
            "2 node(s) had no available volume zone",
            id="no node in such a zone",
        ),
        pytest.param(
            [
                claim(storageClassName="manual"),
                storage_class("manual", provisioner="kubernetes.io/no-provisioner"),
            ],
            "2 node(s) didn't find available persistent volumes to bind",
            id="no volume to bind and none to be made",
        ),
        pytest.param(
            [claim(annotations={"volume.kubernetes.io/selected-node": "n-b"})], "n-b", id="chosen before"
        ),
        pytest.param(
            [claim(annotations={"volume.kubernetes.io/selected-node": "gone"})],
            "2 node(s) didn't find available persistent volumes to bind",
            id="the node chosen before is gone",
        ),
    ],
)
def test_claims(world: World, things: list[Any], expected: str) -> None:
    """A pod goes only where each of its claims has, finds or gets a volume."""
    assert know(world, *things).where(user()) == expected


def test_a_class_that_is_kept_to_zones(world: World) -> None:
    """A class may make volumes in some zones only."""
    topology = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}]
    know(world, claim(storageClassName="zonal"), storage_class("zonal", allowedTopologies=topology))

    assert world.where(user()) == "n-b"


def test_a_lost_claim(world: World) -> None:
    """A claim that has lost its volume keeps its pod waiting."""
    lost = claim(volume="vol")
    world.table.storage.set_claim(convert(_with_phase(lost, "Lost"), PersistentVolumeClaim))

    assert world.where(user()) == (
        'persistentvolumeclaim "data" bound to non-existent persistentvolume "vol". not found'
    )


def _with_phase(found: PersistentVolumeClaim, phase: str) -> dict[str, Any]:
    return {
        "metadata": {"name": found.name, "namespace": found.namespace, "uid": found.metadata.uid},
        "spec": {"volumeName": found.spec.volume_name},
        "status": {"phase": phase},
    }


def test_an_ephemeral_volume(world: World) -> None:
    """The claim of an ephemeral volume is waited for, and then is one like any other."""
    asks = pod("web", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}])

    assert "waiting for ephemeral volume controller" in world.where(asks)
    know(world, claim("web-scratch"))
    assert world.where(asks) in {"n-a", "n-b"}


class TestFreeVolumes:
    """Claims that find a volume which is already there."""

    def test_the_smallest_that_fits(self, world: World) -> None:
        """The smallest volume that is large enough is taken, before one is made."""
        know(
            world,
            claim(storage="2Gi"),
            volume("large", size="9Gi"),
            volume("fits", size="3Gi"),
            volume("small"),
        )

        found = world.place(user())

        assert isinstance(found, Placed)
        assert [(each.claim.name, each.volume) for each in found.bindings] == [("data", "fits")]

    def test_where_it_can_be_reached(self, world: World) -> None:
        """Where no volume can be made, the pod goes to a node that reaches a free one."""
        manual = storage_class("later", provisioner="kubernetes.io/no-provisioner")
        know(world, manual, claim(), volume(zone="b"))

        assert world.where(user()) == "n-b"

    def test_two_claims_need_two_volumes(self, world: World) -> None:
        """One free volume does not serve two claims."""
        manual = storage_class("later", provisioner="kubernetes.io/no-provisioner")
        know(world, manual, claim("one"), claim("two"), volume("v1", zone="a"), volume("v2", zone="b"))

        assert "2 node(s) didn't find available" in world.where(user("user", "one", "two"))
        know(world, volume("v3", zone="b"))
        assert world.where(user("user", "one", "two")) == "n-b"

    @pytest.mark.parametrize(
        "taken",
        [
            pytest.param({"claimRef": {"namespace": "default", "name": "other", "uid": "x"}}, id="held"),
            pytest.param({"storageClassName": "other"}, id="of another class"),
            pytest.param({"accessModes": ["ReadOnlyMany"]}, id="with other access"),
            pytest.param({"volumeMode": "Block"}, id="of another mode"),
            pytest.param({"phase": "Released"}, id="not yet free again"),
        ],
    )
    def test_not_for_us(self, world: World, taken: dict[str, Any]) -> None:
        """A volume that is not free, or not what was asked for, is left alone and another is made."""
        know(world, claim(), volume(**taken))

        found = world.place(user())

        assert isinstance(found, Placed)
        assert [each.volume for each in found.bindings] == [""]

    def test_a_volume_is_promised_once(self, world: World) -> None:
        """A volume that was just chosen for a claim is not chosen again before the server knows."""
        know(world, claim("one"), claim("two"), volume())
        world.table.storage.assumed["vol"] = "default/one"

        found = world.place(user("user", "two"))

        assert isinstance(found, Placed)
        assert [each.volume for each in found.bindings] == [""]

    def test_a_volume_that_is_gone(self, world: World) -> None:
        """A volume that was deleted is no longer on offer."""
        know(world, claim(), volume())
        world.table.storage.drop_volume("vol")

        found = world.place(user())

        assert isinstance(found, Placed)
        assert [each.volume for each in found.bindings] == [""]


class TestLimits:
    """How many volumes a driver takes on a node."""

    @pytest.fixture
    def world(self, world: World) -> World:
        """Node a takes one volume, node b none."""
        world.table.set_volume_limits("n-a", {DRIVER: 1})
        world.table.set_volume_limits("n-b", {DRIVER: 0})
        return know(world, claim("one"), claim("two"))

    def test_full(self, world: World) -> None:
        """A node takes volumes up to its limit, whether or not they exist yet."""
        assert world.where(user("first", "one")) == "n-a"
        world.put("n-a", user("first", "one"))
        assert world.where(user("second", "two")) == "2 node(s) exceed max volume count"
        world.table.take("default/first")
        assert world.where(user("second", "two")) == "n-a"

    def test_shared(self, world: World) -> None:
        """Two pods of a node that use one volume need one slot."""
        world.put("n-a", user("first", "one"))

        assert world.where(user("second", "one")) == "n-a"

    def test_a_claim_that_gets_its_volume(self, world: World) -> None:
        """Binding a claim changes what it counts as, not how much."""
        world.put("n-a", user("first", "one"))
        know(world, volume("vol"), claim("one", volume="vol"))

        assert world.where(user("second", "two")) == "2 node(s) exceed max volume count"
        world.table.storage.drop_volume("vol")
        world.table.storage.drop_claim("default/one")
        assert world.where(user("second", "two")) == "n-a"

    def test_a_node_without_limit(self, world: World) -> None:
        """A driver that says nothing takes any number."""
        world.table.set_volume_limits("n-b", {})

        assert world.feasible(user("first", "one")) == {"n-a", "n-b"}


def test_a_volume_for_one_pod_only(world: World) -> None:
    """A claim for one pod in the whole cluster keeps the second one waiting."""
    know(world, claim(accessModes=["ReadWriteOncePod"]))
    assert world.where(user("first")) in {"n-a", "n-b"}

    world.put("n-a", user("first"))

    assert world.where(user("second")) == (
        "2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod"
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"csi": {"driver": "d", "volumeHandle": "h"}}, ("d", "h"), id="a driver's"),
        pytest.param(
            {"csi": None, "awsElasticBlockStore": {"volumeID": "vol-1"}},
            (DRIVER, "vol-1"),
            id="from before drivers",
        ),
        pytest.param({"csi": None, "hostPath": {"path": "/data"}}, ("", "vol"), id="no driver"),
    ],
)
def test_what_a_volume_is_to_its_driver(
    world: World, spec: dict[str, Any], expected: tuple[str, str]
) -> None:
    """Volumes are counted by driver; those without one are not limited."""
    know(world, claim(volume="vol"), volume(**HELD, **spec))

    found = world.table.storage.volume_of("default/data")

    assert (found.driver, found.handle) == expected
