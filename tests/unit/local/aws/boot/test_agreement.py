"""
What the provider writes, machines read: the two sides share no code, and have to agree.

The provider foretells what room a node will have, and pods are placed by that. A node with less than was
foretold would leave pods waiting that have a machine of their own.
"""

from typing import Any

import pytest

from karpenter.api.ec2nodeclass import BlockDevice, BlockDeviceMapping
from karpenter.api.labels import ARM64
from karpenter.api.node import Taint
from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import Bootstrap
from karpenter.cloud.aws.amifamily.bootstrap.userdata import render_user_data
from karpenter.cloud.aws.amifamily.family import family_of
from karpenter.cloud.aws.instancetype.types import InstanceTypeInfo, Traits, node_resources, resolve_kubelet
from karpenter.cloud.aws.kubelet.expressions import KubeletSubset
from karpenter.cloud.catalogs.ec2.data import InstanceFacts, load_data
from karpenter.core.model.resources import Resources
from karpenter_local.aws.boot.amounts import allocatable, capacity
from karpenter_local.aws.boot.bootconfig import BootConfig, CannotJoin
from karpenter_local.aws.boot.hardware import Hardware
from karpenter_local.aws.boot.images import read_user_data, system_of

IMAGES = {
    "AL2": "amazon-eks-node-1.30-v20240807",
    "AL2023": "amazon-eks-node-al2023-x86_64-standard-1.33-v20250101",
    "Bottlerocket": "bottlerocket-aws-k8s-1.33-x86_64-v1.40.0-12345678",
    "Windows2019": "Windows_Server-2019-English-Core-EKS_Optimized-1.33-2025.01.01",
    "Windows2022": "Windows_Server-2022-English-Core-EKS_Optimized-1.33-2025.01.01",
    "Windows2025": "Windows_Server-2025-English-Core-EKS_Optimized-1.35-2025.01.01",
}
ROOTS = {"Windows2019": "/dev/sda1", "Windows2022": "/dev/sda1", "Windows2025": "/dev/sda1"}
TYPES = {each.name: each for each in load_data().types}
LABELS = {
    "karpenter.sh/capacity-type": "spot",
    "karpenter.sh/nodepool": "default",
    "example.com/team": "a.b_c-d",
    "empty": "",
}
TAINTS = (
    Taint(key="karpenter.sh/unregistered", effect="NoExecute"),
    Taint(key="dedicated", value="gpu", effect="NoSchedule"),
    Taint(key="dedicated", value="batch", effect="PreferNoSchedule"),
)

families = pytest.mark.parametrize("family", [pytest.param(name, id=name) for name in IMAGES])


def rendered(family: str, **said: Any) -> str:
    """Return user data as the provider writes it."""
    told = Bootstrap(
        cluster="blue",
        endpoint="https://blue.example",
        ca_bundle="Q0E=",
        service_cidr="10.100.0.0/16",
        **said,
    )
    return render_user_data(family_of(family), told)


def read(family: str, **said: Any) -> BootConfig:
    system = system_of(IMAGES[family])
    assert system is not None
    return read_user_data(system, rendered(family, **said))


@families
def test_who_reaches_whom(family: str) -> None:
    """A machine reads the cluster, its address and its authority as they were written."""
    told = read(family)

    assert (told.cluster, told.endpoint, told.authority) == ("blue", "https://blue.example", "Q0E=")


@families
def test_labels(family: str) -> None:
    """Labels arrive as they were meant, empty values included."""
    assert read(family, labels=LABELS).labels == LABELS


@families
def test_taints(family: str) -> None:
    """Taints arrive as they were meant, also several of one key."""
    assert set(read(family, taints=TAINTS).taints) == set(TAINTS)


@families
@pytest.mark.parametrize(
    "custom",
    [
        pytest.param("", id="nothing"),
        pytest.param("#!/bin/bash\necho 'hello' # \"world\"\n", id="a script"),
        pytest.param(
            'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="X"\n\n--X\n'
            'Content-Type: text/x-shellscript; charset="us-ascii"\n\n#!/bin/sh\necho hi\n\n--X--\n',
            id="an archive",
        ),
    ],
)
def test_what_the_user_says_beside(family: str, custom: str) -> None:
    """What users have to say does not keep a machine from joining."""
    if family == "Bottlerocket":
        custom = '[settings.kernel]\nlockdown = "integrity"\n' if custom else ""

    assert read(family, custom=custom, labels={"a": "b"}).labels == {"a": "b"}


def test_ours_wins_over_the_users_own_document() -> None:
    """Where the user's NodeConfig says something else, the last one, which is ours, counts."""
    custom = (
        "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n"
        "  cluster: {name: green}\n  kubelet: {config: {maxPods: 5, podsPerCore: 2}}\n"
    )
    told = read("AL2023", custom=custom, all_kubelet={"maxPods": 30})

    assert (told.cluster, told.kubelet.max_pods, told.kubelet.pods_per_core) == ("blue", 30, 2)


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        pytest.param("AL2", True, id="AL2"),
        pytest.param("AL2023", True, id="AL2023"),
        pytest.param("Bottlerocket", True, id="Bottlerocket"),
        pytest.param("Windows2022", False, id="Windows does not know it"),
    ],
)
def test_local_disks(family: str, expected: bool) -> None:
    """A machine that is told to make its disks one does so, if its system can."""
    assert read(family, raid0=True).raid0 is expected


SUBSET = KubeletSubset(
    max_pods=40,
    kube_reserved={"cpu": "200m", "memory": "600Mi", "ephemeral-storage": "2Gi"},
    system_reserved={"cpu": "100m", "memory": "100Mi"},
    eviction_hard={"memory.available": "5%", "nodefs.available": "2Gi"},
)
KUBELET = {
    "maxPods": 40,
    "kubeReserved": SUBSET.kube_reserved,
    "systemReserved": SUBSET.system_reserved,
    "evictionHard": SUBSET.eviction_hard,
}


def hardware(family: str, facts: InstanceFacts, disks: dict[str, int]) -> Hardware:
    return Hardware(
        id="i-1",
        facts=facts,
        region="us-west-2",
        zone="us-west-2a",
        zone_id="usw2-az2",
        address="10.0.0.1",
        name="ip-10-0-0-1",
        image=IMAGES[family],
        root_device=ROOTS.get(family, "/dev/xvda"),
        user_data="",
        disks=disks,
        efa=facts.efa_interfaces,
    )


def reported(
    family: str, facts: InstanceFacts, told: BootConfig, disks: dict[str, int]
) -> tuple[Resources, Resources]:
    """Return what a node says that it has, and what is left for pods."""
    system = system_of(IMAGES[family])
    assert system is not None
    machine = hardware(family, facts, disks)
    has = capacity(machine, system, told)
    return has, allocatable(machine, system, told, has)


def foretold(family: str, facts: InstanceFacts, **traits: Any) -> tuple[Resources, Resources]:
    sold = InstanceTypeInfo(facts=facts, storage_gb=facts.nvme_gb)
    seen = Traits(region="us-west-2", family_name=family, **traits)
    amounts = node_resources(sold, seen, resolve_kubelet(sold, seen))
    left = {name: amount - amounts.overhead.get(name, 0) for name, amount in amounts.capacity.items()}
    return amounts.capacity, left


@families
def test_nodes_have_what_was_foretold(family: str) -> None:
    """For every type that there is, a node whose class says nothing special has exactly what was foretold."""
    wrong = []
    for facts in TYPES.values():
        if facts.arch == ARM64 and family.startswith("Windows"):
            continue
        sold = InstanceTypeInfo(facts=facts)
        pods = resolve_kubelet(sold, Traits(region="us-west-2", family_name=family)).pods
        expected = foretold(family, facts)
        if min(expected[1].values()) < 0:
            continue  # too small for its own kubelet, and bought for no pod
        if reported(family, facts, read_pods(family, pods), {}) != expected:
            wrong.append(facts.name)

    assert wrong == []


def read_pods(family: str, pods: int) -> BootConfig:
    """Return what a machine is told about pods: the provider always says how many."""
    if (family, pods) not in _READ:
        _READ[family, pods] = read(
            family, kubelet=KubeletSubset(max_pods=pods), all_kubelet={"maxPods": pods}
        )
    return _READ[family, pods]


_READ: dict[tuple[str, int], BootConfig] = {}


def test_a_machine_that_is_too_small_for_its_kubelet() -> None:
    """Where more is reserved than there is, the kubelet does not start."""
    with pytest.raises(CannotJoin, match="kubelet: more memory is reserved than there is"):
        reported("Windows2022", TYPES["t1.micro"], read_pods("Windows2022", 110), {})


@families
@pytest.mark.parametrize(
    "name", [pytest.param(name, id=name) for name in ("m5.large", "c5d.2xlarge", "p5.48xlarge")]
)
def test_kubelet_settings_count(family: str, name: str) -> None:
    """What a class says about the kubelet changes the node as it was foretold."""
    facts = TYPES[name]
    told = read(family, kubelet=SUBSET, all_kubelet=KUBELET)

    assert reported(family, facts, told, {}) == foretold(family, facts, kubelet=SUBSET)


@families
def test_some_kubelet_settings_leave_no_less_than_foretold(family: str) -> None:
    """Where flags replace the image's own figures, more is left than was foretold, never less."""
    some = {"memory": "1Gi"}
    subset = KubeletSubset(max_pods=29, kube_reserved=some)
    told = read(family, kubelet=subset, all_kubelet={"maxPods": 29, "kubeReserved": some})
    facts = TYPES["m5.large"]

    _, left = reported(family, facts, told, {})
    _, expected = foretold(family, facts, kubelet=subset)

    assert all(left[resource] >= amount for resource, amount in expected.items())


@pytest.mark.parametrize(
    ("family", "device"),
    [
        pytest.param("AL2", "/dev/xvda", id="AL2: the root"),
        pytest.param("AL2023", "/dev/xvda", id="AL2023: the root"),
        pytest.param("Bottlerocket", "/dev/xvdb", id="Bottlerocket: the second"),
        pytest.param("Windows2022", "/dev/sda1", id="Windows: the root"),
    ],
)
def test_disks(family: str, device: str) -> None:
    """The disk that pods write to is as large as it was asked for."""
    facts = TYPES["m5.large"]
    wanted = BlockDeviceMapping(device_name=device, ebs=BlockDevice(volume_size="120Gi"))
    told = read_pods(family, 110 if family.startswith("Windows") else 29)

    assert reported(family, facts, told, {device: 120}) == foretold(family, facts, disks=(wanted,))


def test_local_disks_as_foretold() -> None:
    """Local disks that are made one count for pods."""
    facts = TYPES["c5d.2xlarge"]
    told = read("AL2023", raid0=True, all_kubelet={"maxPods": 58})

    assert reported("AL2023", facts, told, {}) == foretold("AL2023", facts, raid0=True)
