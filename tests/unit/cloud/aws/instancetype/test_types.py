"""How much machines offer and keep, to the byte."""

import math
from typing import Any

import msgspec
import pytest

from karpenter.cloud.aws.instancetype.types import (
    InstanceTypeInfo,
    NodeResources,
    Traits,
    ephemeral_storage,
    instance_type_info,
    kube_reserved,
    node_resources,
    resolve_kubelet,
)
from karpenter.cloud.aws.kubelet.expressions import BadExpression
from tests.unit.cloud.aws.catalogue import disk, every_type, interface, sold, traits
from tests.unit.cloud.catalogs.ec2.small_region import record

MI, GI, GB = 2**20, 2**30, 10**9


def amounts(kind: InstanceTypeInfo, wanted: Traits, discovered: int | None = None) -> NodeResources:
    """Return what a machine offers and keeps."""
    return node_resources(kind, wanted, resolve_kubelet(kind, wanted), discovered=discovered)


def left(kind: InstanceTypeInfo, wanted: Traits) -> dict[str, int]:
    found = amounts(kind, wanted)
    return {name: amount - found.overhead.get(name, 0) for name, amount in found.capacity.items()}


@pytest.mark.parametrize(
    ("name", "cpu", "memory", "pods", "other"),
    [
        ("a1.medium", 940, 1392, 8, {"vpc.amazonaws.com/pod-eni": 10}),
        ("t3.large", 1930, 6837, 35, {}),
        ("t4g.small", 1930, 1359, 11, {}),
        ("m5.large", 1930, 6903, 29, {"vpc.amazonaws.com/pod-eni": 9}),
        ("m5.xlarge", 3920, 14162, 58, {"vpc.amazonaws.com/pod-eni": 18}),
        ("m5.metal", 95690, 355262, 737, {"vpc.amazonaws.com/pod-eni": 120}),
        ("c6g.large", 1930, 3055, 29, {"vpc.amazonaws.com/pod-eni": 9}),
        ("m6idn.32xlarge", 127610, 480277, 394, {"vpc.amazonaws.com/efa": 2}),
        ("g4dn.8xlarge", 31850, 120248, 58, {"nvidia.com/gpu": 1, "vpc.amazonaws.com/efa": 1}),
        ("g5.12xlarge", 47810, 173400, 737, {"nvidia.com/gpu": 4, "vpc.amazonaws.com/efa": 1}),
        ("inf2.24xlarge", 95690, 355262, 737, {"aws.amazon.com/neuron": 6, "aws.amazon.com/neuroncore": 12}),
        ("trn1.2xlarge", 7910, 29317, 58, {"aws.amazon.com/neuron": 1, "aws.amazon.com/neuroncore": 2}),
        ("p5.48xlarge", 191450, 1938410, 100, {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}),
        ("u7in-32tb.224xlarge", 893690, 31033160, 394, {"vpc.amazonaws.com/pod-eni": 106}),
    ],
)
def test_what_is_left_for_pods(name: str, cpu: int, memory: int, pods: int, other: dict[str, int]) -> None:
    """On Amazon Linux 2023 with nothing special, as its nodes report it."""
    found = left(sold(name), traits())

    assert (found["cpu"], found["memory"], found["pods"]) == (cpu, memory * MI, pods)
    assert found["ephemeral-storage"] == 17 * GI
    assert other.items() <= found.items()


def expected(kind: InstanceTypeInfo, wanted: Traits) -> dict[str, int]:
    """Return what pods get, worked out step by step, as the guides of the images describe it."""
    facts = kind.facts
    family = wanted.family_name
    memory = facts.memory_mib - (64 if facts.arch == "arm64" else 0)
    memory -= math.ceil(memory * 0.075)
    by_interfaces = facts.interfaces * (facts.ipv4_per_interface - 1) + 2 if facts.interfaces else 0
    pods = 110 if family.startswith("Windows") else by_interfaces
    counted = by_interfaces if family in {"AL2", "AL2023", "Custom"} else pods
    reserved = memory - (11 * counted + 255) - 100
    milli, kept = facts.cpus * 1000, 0
    for width, share in ((1000, 0.06), (1000, 0.01), (2000, 0.005), (10**9, 0.0025)):
        kept += math.floor(round(min(milli, width) * share, 6))
        milli -= min(milli, width)
    disk_size = (50 if family.startswith("Windows") else 20) * GI
    return {
        "cpu": facts.cpus * 1000 - kept,
        "memory": reserved * MI,
        "pods": pods,
        "ephemeral-storage": disk_size - GI - math.ceil(disk_size / 10),
    }


@pytest.mark.parametrize("family", ["AL2", "AL2023", "Bottlerocket", "Custom", "Windows2022"])
def test_every_type_of_ec2(family: str) -> None:
    """More than 1,300 types agree with the formulas, worked out in another way."""
    wanted = traits(family)
    names = ("cpu", "memory", "pods", "ephemeral-storage")

    differing = {}
    for name, kind in every_type().items():
        found = left(kind, wanted)
        short = {each: found.get(each, 0) for each in names}
        if short != expected(kind, wanted):
            differing[name] = (short, expected(kind, wanted))

    assert len(every_type()) > 1300
    assert differing == {}


@pytest.mark.parametrize(
    ("family", "kubelet", "enis", "pods", "reserved"),
    [
        ("AL2", {}, 0, 35, 640),
        ("AL2023", {}, 0, 35, 640),
        ("Custom", {}, 0, 35, 640),
        ("Bottlerocket", {}, 0, 35, 640),
        ("Windows2022", {}, 0, 110, 1465),
        ("AL2", {"maxPods": 10}, 0, 10, 640),
        ("AL2023", {"maxPods": 10}, 0, 10, 640),
        ("Custom", {"maxPods": 10}, 0, 10, 640),
        ("Bottlerocket", {"maxPods": 10}, 0, 10, 365),
        ("Windows2019", {"maxPods": 10}, 0, 10, 365),
        ("AL2", {}, 1, 24, 640),
        ("AL2023", {}, 1, 24, 640),
        ("Custom", {}, 1, 24, 640),
        ("Bottlerocket", {}, 1, 24, 519),
        ("Windows2025", {}, 1, 110, 1465),
        ("AL2023", {"podsPerCore": 4}, 0, 8, 640),
        ("AL2", {"podsPerCore": 4}, 0, 8, 640),
        ("Bottlerocket", {"podsPerCore": 4}, 0, 35, 640),
        ("Windows2022", {"podsPerCore": 4}, 0, 8, 343),
        ("AL2023", {"podsPerCore": 4, "maxPods": 5}, 0, 5, 640),
        ("AL2023", {"podsPerCore": 0}, 0, 35, 640),
        ("AL2023", {}, 3, 0, 640),
        ("AL2023", {}, 9, 0, 640),
    ],
)
def test_pods_and_what_is_kept_for_them(
    family: str, kubelet: dict[str, Any], enis: int, pods: int, reserved: int
) -> None:
    """By family, settings and interfaces that pods do not get; all of a t3.large."""
    kind, wanted = sold("t3.large"), traits(family, kubelet=kubelet, reserved_enis=enis)
    settled = resolve_kubelet(kind, wanted)

    assert settled.pods == pods
    assert kube_reserved(kind, wanted, settled)["memory"] == reserved * MI


@pytest.mark.parametrize(
    ("kubelet", "resource", "kept"),
    [
        pytest.param({}, "cpu", 70, id="cpu by bands"),
        pytest.param({"kubeReserved": {"cpu": "200m"}}, "cpu", 200, id="cpu as it is set"),
        pytest.param({"kubeReserved": {"memory": "1Gi"}}, "memory", GI + 100 * MI, id="memory as it is set"),
        pytest.param(
            {"systemReserved": {"cpu": "100m"}}, "cpu", 170, id="what the system keeps comes on top"
        ),
        pytest.param(
            {"systemReserved": {"memory": "100Mi"}}, "memory", (574 + 100 + 100) * MI, id="memory, too"
        ),
        pytest.param({"systemReserved": {"pid": "100"}}, "cpu", 70, id="process ids are not scheduled"),
        pytest.param(
            {"evictionHard": {"memory.available": "200Mi"}}, "memory", (574 + 200) * MI, id="a threshold"
        ),
        pytest.param(
            {"evictionHard": {"memory.available": "10%"}},
            "memory",
            574 * MI + math.ceil(7577 * MI / 100 * 10),
            id="a share of the memory",
        ),
        pytest.param(
            {"evictionHard": {"memory.available": "100%"}}, "memory", 574 * MI, id="all of it means none"
        ),
        pytest.param(
            {"evictionSoft": {"memory.available": "3Gi"}},
            "memory",
            (574 + 100) * MI,
            id="soft ones do not count",
        ),
        pytest.param(
            {"evictionHard": {"nodefs.available": "5Gi"}}, "ephemeral-storage", 6 * GI, id="storage"
        ),
        pytest.param(
            {"kubeReserved": {"ephemeral-storage": "2Gi"}}, "ephemeral-storage", 4 * GI, id="more storage"
        ),
    ],
)
def test_what_is_kept(kubelet: dict[str, Any], resource: str, kept: int) -> None:
    """What the class says about the kubelet overrides the formulas, entry by entry; all of an m5.large."""
    assert amounts(sold("m5.large"), traits(kubelet=kubelet)).overhead[resource] == kept


@pytest.mark.parametrize(
    ("family", "disks", "raid0", "kind", "expected_size"),
    [
        pytest.param("AL2023", (), False, "m5.large", 20 * GI, id="the disk of the family"),
        pytest.param("Bottlerocket", (), False, "m5.large", 20 * GI, id="the second one of Bottlerocket"),
        pytest.param("Windows2022", (), False, "m5.large", 50 * GI, id="a larger one for Windows"),
        pytest.param("Custom", (), False, "m5.large", 20 * GI, id="a default where the volume is not known"),
        pytest.param("AL2023", (disk(size="100Gi"),), False, "m5.large", 100 * GI, id="a size of its own"),
        pytest.param("AL2023", (disk(size="100G"),), False, "m5.large", 100 * GB, id="in decimal"),
        pytest.param(
            "AL2023", (disk("/dev/xvdb", "100Gi"),), False, "m5.large", 20 * GI, id="another device"
        ),
        pytest.param(
            "AL2023", (disk("/dev/sdx", "64Gi", root=True),), False, "m5.large", 64 * GI, id="said to be root"
        ),
        pytest.param("Bottlerocket", (disk(size="99Gi"),), False, "m5.large", 20 * GI, id="not its first"),
        pytest.param(
            "Bottlerocket", (disk("/dev/xvdb", "99Gi"),), False, "m5.large", 99 * GI, id="its second"
        ),
        pytest.param(
            "Custom", (disk("/dev/a", "1Gi"), disk("/dev/b", "2Gi")), False, "m5.large", 2 * GI, id="the last"
        ),
        pytest.param("AL2023", (disk(),), False, "m5.large", 20 * GI, id="without a size"),
        pytest.param("AL2023", (), True, "m5d.large", 75 * GB, id="all local disks together"),
        pytest.param("AL2023", (), True, "m5.large", 20 * GI, id="if there are any"),
        pytest.param("AL2023", (), False, "m5d.large", 20 * GI, id="and if they are asked for"),
    ],
)
def test_storage(family: str, disks: tuple[Any, ...], raid0: bool, kind: str, expected_size: int) -> None:
    """The disk that pods write to is what the class says it is, or what the family has."""
    assert ephemeral_storage(sold(kind), traits(family, disks=disks, raid0=raid0)) == expected_size


def test_memory_that_was_seen_is_believed() -> None:
    """What is kept free is still worked out from what EC2 says."""
    found = amounts(sold("m5.large"), traits(), discovered=7000 * MI)

    assert found.capacity["memory"] == 7000 * MI
    assert found.overhead["memory"] == (574 + 100) * MI


@pytest.mark.parametrize(
    ("percent", "memory"), [(0.0, 8192), (0.075, 7577), (0.5, 4096)], ids=["none", "the usual", "half"]
)
def test_memory_overhead_can_be_set(percent: float, memory: int) -> None:
    """What hypervisor and kernel take differs from kernel to kernel."""
    assert amounts(sold("m5.large"), traits(memory_overhead=percent)).capacity["memory"] == memory * MI


@pytest.mark.parametrize(
    ("interfaces", "efa"),
    [
        pytest.param((), 32, id="as many as EC2 says"),
        pytest.param((interface(),), None, id="none when the class has other interfaces"),
        pytest.param((interface(), interface(1, 1, "efa-only"), interface(2, 1, "efa-only")), 2, id="two"),
    ],
)
def test_efa(interfaces: tuple[Any, ...], efa: int | None) -> None:
    """Interfaces for EFA are those of the type, unless the class lists interfaces."""
    found = amounts(sold("p5.48xlarge"), traits(interfaces=interfaces))

    assert found.capacity.get("vpc.amazonaws.com/efa") == efa


def test_efa_interfaces_on_the_first_card_take_room_from_pods() -> None:
    """They have no addresses."""
    with_efa = traits(interfaces=(interface(), interface(0, 1, "efa-only")))

    assert resolve_kubelet(sold("m5.large"), with_efa).pods == 2 * 9 + 2


def test_windows_counts_addresses() -> None:
    """The network plugin there gives every pod an address of the first interface."""
    found = amounts(sold("m5.large"), traits("Windows2022"))

    assert found.capacity["vpc.amazonaws.com/PrivateIPv4Address"] == 9


def test_windows_counts_no_addresses_that_are_not_advertised() -> None:
    """The VPC resource controller has a table of types, and a node of another type gets no addresses."""
    unknown = msgspec.structs.replace(sold("m5.large"), advertised=False)

    assert "vpc.amazonaws.com/PrivateIPv4Address" not in amounts(unknown, traits("Windows2022")).capacity


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("m5.large", True, id="in the table"),
        pytest.param("hpc7a.12xlarge", False, id="not in the table"),
        pytest.param("m99.large", False, id="newer than the table"),
    ],
)
def test_types_that_are_advertised(name: str, expected: bool) -> None:
    """Whether nodes of a type advertise their addresses is known by the type's name."""
    assert instance_type_info(record(name)).advertised is expected


@pytest.mark.parametrize(
    ("kubelet", "expressions", "pods", "kube"),
    [
        pytest.param({"maxPods": "vcpus * 5"}, True, 10, (), id="pods by cores"),
        pytest.param({"maxPods": "max_pods - 4"}, True, 25, (), id="pods from the usual number"),
        pytest.param({"maxPods": "vcpus * 5"}, False, 29, (), id="with the gate closed it is as if unset"),
        pytest.param(
            {"kubeReserved": {"cpu": "vcpus * 33"}}, True, 29, (("cpu", "70m"),), id="cpu, rounded up to tens"
        ),
        pytest.param(
            {"kubeReserved": {"memory": "memory_mib / 100"}},
            True,
            29,
            (("memory", "96Mi"),),
            id="memory, rounded up to sixteens",
        ),
        pytest.param(
            {"kubeReserved": {"memory": "max_pods * 11"}, "maxPods": 16},
            True,
            16,
            (("memory", "176Mi"),),
            id="memory by pods",
        ),
        pytest.param(
            {"kubeReserved": {"cpu": "vcpus * 33", "memory": "1Gi"}},
            False,
            29,
            (("memory", "1Gi"),),
            id="expressions are left out with the gate closed",
        ),
    ],
)
def test_expressions(
    kubelet: dict[str, Any], expressions: bool, pods: int, kube: tuple[tuple[str, str], ...]
) -> None:
    """Kubelet settings may depend on the instance type, where that is switched on."""
    settled = resolve_kubelet(sold("m5.large"), traits(kubelet=kubelet, expressions=expressions))

    assert (settled.pods, settled.reserved.kube) == (pods, kube)


def test_an_expression_that_comes_to_nothing_is_told() -> None:
    """No type is offered with another number of pods than was asked for."""
    with pytest.raises(BadExpression):
        resolve_kubelet(sold("m5.large"), traits(kubelet={"maxPods": "vcpus - 10"}, expressions=True))
