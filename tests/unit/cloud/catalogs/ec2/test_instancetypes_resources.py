from __future__ import annotations

import pytest

from karpenter.cloud.catalogs.ec2.data import Gpu, InstanceFacts, NeuronDevice
from karpenter.cloud.catalogs.ec2.instancetypes import capacity, eni_limited_pods, overhead
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.core.model.catalog import InstanceType

MIB = 2**20
GIB = 2**30
POD_ENI = "vpc.amazonaws.com/pod-eni"
EFA = "vpc.amazonaws.com/efa"


def facts(**fields: object) -> InstanceFacts:
    """Return the facts of an m5.large, unless told otherwise."""
    known: dict[str, object] = {
        "name": "m5.large",
        "cpus": 2,
        "memory_mib": 8192,
        "arch": "amd64",
        "cpu_manufacturer": "Intel",
        "clock_mhz": 3100,
        "hypervisor": "nitro",
        "capacity_types": ("on-demand", "spot"),
        "interfaces": 3,
        "ipv4_per_interface": 10,
        "branch_interfaces": 9,
        "efa_interfaces": 0,
        "network_mbps": 750,
        "ebs_mbps": 4750,
        "nvme_gb": 0,
        "encryption_in_transit": False,
        "nitro_enclaves": False,
    }
    return InstanceFacts(**{**known, **fields})  # type: ignore[arg-type]  # tests name only real fields


@pytest.mark.parametrize(
    ("name", "cpu", "memory_mib", "pods", "other"),
    [
        ("a1.medium", 940, 1392, 8, {POD_ENI: 10}),
        ("t3.large", 1930, 6837, 35, {}),
        ("t4g.small", 1930, 1359, 11, {}),
        ("m5.large", 1930, 6903, 29, {POD_ENI: 9}),
        ("m5.xlarge", 3920, 14162, 58, {POD_ENI: 18}),
        ("m5.metal", 95690, 355262, 737, {POD_ENI: 120}),
        ("c6g.large", 1930, 3055, 29, {POD_ENI: 9}),
        ("m6idn.32xlarge", 127610, 480277, 394, {POD_ENI: 106, EFA: 2}),
        ("g4dn.8xlarge", 31850, 120248, 58, {POD_ENI: 58, EFA: 1, "nvidia.com/gpu": 1}),
        ("g5.12xlarge", 47810, 173400, 737, {POD_ENI: 107, EFA: 1, "nvidia.com/gpu": 4}),
        (
            "inf2.24xlarge",
            95690,
            355262,
            737,
            {POD_ENI: 107, "aws.amazon.com/neuron": 6, "aws.amazon.com/neuroncore": 12},
        ),
        (
            "trn1.2xlarge",
            7910,
            29317,
            58,
            {POD_ENI: 17, "aws.amazon.com/neuron": 1, "aws.amazon.com/neuroncore": 2},
        ),
        ("p5.48xlarge", 191450, 1938410, 100, {POD_ENI: 120, EFA: 32, "nvidia.com/gpu": 8}),
        ("u7in-32tb.224xlarge", 893690, 31033160, 394, {POD_ENI: 106, EFA: 2}),
    ],
)
def test_allocatable_to_the_byte(
    name: str, cpu: int, memory_mib: int, pods: int, other: dict[str, int]
) -> None:
    """What is left for pods on Amazon Linux 2023 with default settings."""
    assert dict(load_catalog("aws").by_name[name].allocatable) == {
        "cpu": cpu,
        "memory": memory_mib * MIB,
        "pods": pods,
        "ephemeral-storage": 17 * GIB,
        **other,
    }


def test_gpus_of_amd_have_a_resource_of_their_own() -> None:
    """A type that is no longer sold still follows the formulas: g4ad.16xlarge."""
    kind = InstanceType(
        name="g4ad.16xlarge",
        requirements=load_catalog("aws").types[0].requirements,
        offerings=(),
        capacity=capacity(
            machine := facts(
                cpus=64,
                memory_mib=262144,
                interfaces=8,
                ipv4_per_interface=30,
                branch_interfaces=6,
                gpus=(Gpu("Radeon Pro V520", "AMD", 4, 8192),),
            )
        ),
        overhead=overhead(machine),
    )

    assert dict(kind.allocatable) == {
        "cpu": 63770,
        "memory": 239554 * MIB,
        "pods": 234,
        "ephemeral-storage": 17 * GIB,
        POD_ENI: 6,
        "amd.com/gpu": 4,
    }


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        pytest.param(facts(gpus=(Gpu("HL-205", "Habana", 8, 32768),)), {"habana.ai/gaudi": 8}, id="Gaudi"),
        pytest.param(
            facts(gpus=(Gpu("A", "NVIDIA", 2, 1), Gpu("B", "NVIDIA", 3, 1))),
            {"nvidia.com/gpu": 5},
            id="several kinds of one make add up",
        ),
        pytest.param(facts(gpus=(Gpu("X", "Other", 2, 1),)), {}, id="an unknown make has no resource"),
        pytest.param(
            facts(gpus=(Gpu("L4", "NVIDIA", 0, 2861),)), {}, id="a share of a GPU is not a whole one"
        ),
        pytest.param(
            facts(neuron_devices=(NeuronDevice("N", 16, 4),)),
            {"aws.amazon.com/neuron": 16, "aws.amazon.com/neuroncore": 64},
            id="Neuron devices and their cores",
        ),
    ],
)
def test_chips(machine: InstanceFacts, expected: dict[str, int]) -> None:
    """Chips are counted under the name that their device plugin advertises."""
    found = {name: amount for name, amount in capacity(machine).items() if "/" in name and name != POD_ENI}

    assert found == expected


def test_a_machine_without_network_interfaces_has_no_pods() -> None:
    """No interface, no addresses, no pods."""
    assert eni_limited_pods(facts(interfaces=0)) == 0


def test_no_type_is_overdrawn() -> None:
    """On every type of every size something is left for pods."""
    assert not [
        kind.name
        for kind in load_catalog("aws").types
        if min(kind.allocatable[name] for name in ("cpu", "memory", "pods", "ephemeral-storage")) <= 0
    ]
