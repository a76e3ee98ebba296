"""Why a machine is not what its class asks for, and what the hash of a class covers."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.ec2nodeclass_status import AMI, SecurityGroup, Subnet
from karpenter.cloud.aws.drift import (
    class_drift,
    image_drift,
    network_drift,
    placement_drift,
    reservation_drift,
)
from karpenter.cloud.aws.instance.types import Instance, instance_id
from karpenter.cloud.aws.labels import CLASS_HASH, CLASS_HASH_VERSION, PLACEMENT_GROUP
from karpenter.cloud.aws.nodeclass.hash import class_hash
from karpenter.cloud.aws.placementgroup import PlacementGroup
from karpenter.cloud.errors import CloudUnreachable, MachineNotFound
from tests.unit.cloud.aws.amifamily.test_resolver import IMAGES, resolved
from tests.unit.cloud.aws.instancetype.test_instancetype import built, reservation
from tests.unit.cloud.aws.scripted import launched
from tests.unit.cloud.aws.world import node_class, simple_class

HASHED = {CLASS_HASH: "1", CLASS_HASH_VERSION: "v5"}


def instance(**more: Any) -> Instance:
    """Return a machine that is what its class asks for."""
    usual: dict[str, Any] = {
        "id": "i-1",
        "instance_type": "m5.large",
        "zone": "us-west-2a",
        "launched": datetime(2026, 1, 1, tzinfo=UTC),
        "image": "ami-standard",
        "subnet": "subnet-us-west-2a",
        "security_groups": frozenset({"sg-1", "sg-2"}),
    }
    return Instance(**{**usual, **more})


def annotated(**annotations: str) -> EC2NodeClass:
    found = simple_class()
    return msgspec.structs.replace(
        found, metadata=msgspec.structs.replace(found.metadata, annotations=annotations)
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        pytest.param(HASHED, HASHED, "", id="the same"),
        pytest.param({**HASHED, CLASS_HASH: "2"}, HASHED, "NodeClassDrift", id="another hash"),
        pytest.param({**HASHED, CLASS_HASH: "2", CLASS_HASH_VERSION: "v6"}, HASHED, "", id="another version"),
        pytest.param({}, HASHED, "", id="a claim without a hash"),
        pytest.param(HASHED, {}, "", id="a class without a hash"),
        pytest.param({CLASS_HASH: "2"}, HASHED, "", id="half a hash"),
    ],
)
def test_class_drift(ours: dict[str, str], theirs: dict[str, str], expected: str) -> None:
    """Hashes count only if both have one, made in the same way."""
    assert class_drift(launched(annotations=ours), annotated(**theirs)) == expected


@pytest.mark.parametrize(
    ("image", "images", "expected"),
    [
        pytest.param("ami-standard", IMAGES, "", id="the image of its type"),
        pytest.param("ami-old", IMAGES, "AMIDrift", id="an image that was replaced"),
        pytest.param("ami-arm", IMAGES, "AMIDrift", id="an image for other types"),
        pytest.param("ami-standard", IMAGES[1:2], "AMIDrift", id="no image for the type any longer"),
    ],
)
def test_image_drift(image: str, images: tuple[AMI, ...], expected: str) -> None:
    """A machine starts from the image that its type would start from now."""
    assert (
        image_drift(launched(image=image), instance(), simple_class(amis=images), built("m5.large"))
        == expected
    )


@pytest.mark.parametrize(
    ("images", "name"),
    [pytest.param((), "m5.large", id="no images"), pytest.param(IMAGES, "", id="a type that is not known")],
)
def test_without_anything_to_compare_with_nothing_is_said(images: tuple[AMI, ...], name: str) -> None:
    """A machine is not replaced because something could not be looked up."""
    with pytest.raises(CloudUnreachable):
        image_drift(
            launched(image="ami-1"), instance(), simple_class(amis=images), built(name) if name else None
        )


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({}, "", id="the same"),
        pytest.param({"security_groups": frozenset({"sg-1"})}, "SecurityGroupDrift", id="a group is missing"),
        pytest.param(
            {"security_groups": frozenset({"sg-1", "sg-2", "sg-3"})}, "SecurityGroupDrift", id="one too many"
        ),
        pytest.param({"subnet": "subnet-other"}, "SubnetDrift", id="a subnet that is not the class's"),
        pytest.param(
            {"subnet": "subnet-other", "security_groups": frozenset()},
            "SecurityGroupDrift",
            id="groups come first",
        ),
    ],
)
def test_network_drift(more: dict[str, Any], expected: str) -> None:
    """Exactly the groups of the class, and one of its subnets."""
    assert network_drift(instance(**more), resolved()) == expected


@pytest.mark.parametrize(
    "status",
    [
        {"subnets": (), "security_groups": (SecurityGroup(id="sg-1"),)},
        {"subnets": (Subnet(id="s", zone="z"),), "security_groups": ()},
    ],
    ids=["no subnets", "no groups"],
)
def test_without_a_network_nothing_is_said(status: dict[str, Any]) -> None:
    """As with images."""
    with pytest.raises(CloudUnreachable):
        network_drift(instance(), simple_class(**status))


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        pytest.param("", "", id="none"),
        pytest.param("cr-1", "", id="one of the class's"),
        pytest.param("cr-9", "CapacityReservationDrift", id="one that is not"),
    ],
)
def test_reservation_drift(held: str, expected: str) -> None:
    """A machine in a reservation that the class has given up goes."""
    found = simple_class(capacity_reservations=(reservation(),))

    assert reservation_drift(instance(reservation=held), found) == expected


GROUP = PlacementGroup(id="pg-1", name="g", strategy="cluster")


@pytest.mark.parametrize(
    ("label", "group", "expected"),
    [
        pytest.param("", None, "", id="none"),
        pytest.param("pg-1", GROUP, "", id="the same"),
        pytest.param("", GROUP, "PlacementGroupDrift", id="a new one"),
        pytest.param("pg-1", None, "PlacementGroupDrift", id="none any longer"),
        pytest.param("pg-2", GROUP, "PlacementGroupDrift", id="another"),
    ],
)
def test_placement_drift(label: str, group: PlacementGroup | None, expected: str) -> None:
    """Machines cannot be moved into a group."""
    labels = {PLACEMENT_GROUP: label} if label else {}

    assert placement_drift(launched(labels=labels), group) == expected


def hashed(**spec: Any) -> str:
    return class_hash(node_class(**spec), ca_bundle="Q0E=")


DISK = {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20Gi"}}
OTHER = {"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "10Gi"}}


@pytest.mark.parametrize(
    "spec",
    [
        {"userData": "x"},
        {"role": "other"},
        {"role": None, "instanceProfile": "p"},
        {"tags": {"a": "b"}},
        {"kubelet": {"maxPods": 1}},
        {"blockDeviceMappings": [DISK]},
        {"instanceStorePolicy": "RAID0"},
        {"detailedMonitoring": True},
        {"detailedMonitoring": False},
        {"associatePublicIPAddress": False},
        {"tags": {}},
        {"kubelet": {}},
        {"blockDeviceMappings": []},
        {"userData": ""},
        {"context": ""},
        {"metadataOptions": {"httpTokens": "optional"}},
        {"associatePublicIPAddress": True},
        {"context": "c"},
        {"connectionTracking": {"udpTimeout": 30}},
        {"cpuOptions": {"nestedVirtualization": "enabled"}},
        {"placementGroupSelector": {"name": "g"}},
        {"networkInterfaces": [{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}]},
        {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]},
        {"amiFamily": "Custom"},
    ],
    ids=lambda spec: next(iter(spec)),
)
def test_what_machines_are_made_of_is_hashed(spec: dict[str, Any]) -> None:
    """A change of it replaces them, also from absent to empty or false."""
    assert hashed(**spec) != hashed()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({}, {"subnetSelectorTerms": [{"id": "subnet-1"}]}, id="subnets are compared elsewhere"),
        pytest.param({}, {"securityGroupSelectorTerms": [{"id": "sg-1"}]}, id="and so are groups"),
        pytest.param({}, {"amiSelectorTerms": [{"alias": "al2023@v20260101"}]}, id="and images"),
        pytest.param({}, {"capacityReservationSelectorTerms": [{"id": "cr-1"}]}, id="and reservations"),
        pytest.param({}, {"ipPrefixCount": 5}, id="prefixes replace nothing"),
        pytest.param({}, {"amiFamily": "AL2023"}, id="a family that the alias says already"),
        pytest.param(
            {"kubelet": {"clusterDNS": ["1.1.1.1", "2.2.2.2"]}},
            {"kubelet": {"clusterDNS": ["2.2.2.2", "1.1.1.1"]}},
            id="the order of DNS servers",
        ),
        pytest.param(
            {"kubelet": {"evictionSoftGracePeriod": {"memory.available": "60s"}}},
            {"kubelet": {"evictionSoftGracePeriod": {"memory.available": "1m"}}},
            id="how a duration is written",
        ),
        pytest.param(
            {"blockDeviceMappings": [DISK, OTHER]},
            {"blockDeviceMappings": [OTHER, DISK]},
            id="order does not count",
        ),
        pytest.param(
            {"blockDeviceMappings": [{**DISK, "ebs": {"volumeSize": "1024Gi"}}]},
            {"blockDeviceMappings": [{**DISK, "ebs": {"volumeSize": "1Ti"}}]},
            id="nor how a size is written",
        ),
        pytest.param(
            {"kubelet": {"maxPods": 1, "podsPerCore": 2}},
            {"kubelet": {"podsPerCore": 2, "maxPods": 1}},
            id="nor the order of settings",
        ),
    ],
)
def test_what_is_not_hashed(one: dict[str, Any], other: dict[str, Any]) -> None:
    """A change of it leaves machines alone, or is noticed in another way."""
    assert hashed(**one) == hashed(**other)


def test_what_nodes_trust_is_hashed() -> None:
    """With another authority they could not talk to the API server."""
    found = node_class()

    assert class_hash(found, ca_bundle="a") != class_hash(found, ca_bundle="b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("aws:///us-west-2a/i-0123456789abcdef0", "i-0123456789abcdef0"),
        ("kwok-aws:///us-west-2a/i-1", "i-1"),
        ("aws:///us-west-2-lax-1a/i-1", "i-1"),
    ],
)
def test_provider_ids(text: str, expected: str) -> None:
    """Zone and instance."""
    assert instance_id(text) == expected


@pytest.mark.parametrize("text", ["", "i-1", "aws:///i-1", "aws:///a/b", "aws://a/i-1", "aws:///a/i-1/x"])
def test_what_is_no_provider_id(text: str) -> None:
    """There is no such machine."""
    with pytest.raises(MachineNotFound):
        instance_id(text)
