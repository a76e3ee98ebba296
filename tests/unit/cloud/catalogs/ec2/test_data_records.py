from __future__ import annotations

from typing import Any

import pytest

from karpenter.cloud.catalogs.ec2.data import Accelerator, Gpu, InstanceFacts, NeuronDevice, facts_of, usable


def record(**fields: object) -> dict[str, Any]:
    """Return the least that EC2 tells about a type, and more if told."""
    return {
        "InstanceType": "x1.large",
        "SupportedUsageClasses": ["on-demand"],
        "SupportedVirtualizationTypes": ["hvm", "paravirtual"],
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        "VCpuInfo": {"DefaultVCpus": 2},
        "MemoryInfo": {"SizeInMiB": 4096},
        "NetworkInfo": {
            "NetworkCards": [{"MaximumNetworkInterfaces": 3}],
            "Ipv4AddressesPerInterface": 10,
        },
        **fields,
    }


def facts(**fields: object) -> InstanceFacts:
    """Return the facts of such a record."""
    return facts_of(record(**fields), branch_interfaces=0)


def test_what_a_record_leaves_out_is_nothing() -> None:
    """Old and plain types say little about themselves."""
    assert facts() == InstanceFacts(
        name="x1.large",
        cpus=2,
        memory_mib=4096,
        arch="amd64",
        cpu_manufacturer="",
        clock_mhz=0,
        hypervisor="",
        capacity_types=("on-demand",),
        interfaces=3,
        ipv4_per_interface=10,
        branch_interfaces=0,
        efa_interfaces=0,
        network_mbps=0,
        ebs_mbps=0,
        nvme_gb=0,
        encryption_in_transit=False,
        nitro_enclaves=False,
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, True, id="x86 with hardware virtualisation"),
        pytest.param({"ProcessorInfo": {"SupportedArchitectures": ["arm64"]}}, True, id="ARM"),
        pytest.param({"ProcessorInfo": {"SupportedArchitectures": ["x86_64_mac"]}}, False, id="a Mac"),
        pytest.param({"ProcessorInfo": {"SupportedArchitectures": ["i386"]}}, False, id="32 bits"),
        pytest.param({"SupportedVirtualizationTypes": ["paravirtual"]}, False, id="paravirtual only"),
    ],
)
def test_which_types_can_be_nodes(fields: dict[str, object], expected: bool) -> None:
    """A node needs 64 bits, and a system that starts like everywhere else."""
    assert usable(record(**fields)) is expected


@pytest.mark.parametrize(
    ("told", "baselines", "mbps"),
    [
        pytest.param("25 Gigabit", [25.0], 25_000, id="a plain rate"),
        pytest.param("37.5 Gigabit", [37.5], 37_500, id="a rate with a fraction"),
        pytest.param("4x 100 Gigabit", [1.0, 1.0], 400_000, id="several cards at once"),
        pytest.param("Up to 10 Gigabit", [0.75], 750, id="a burst counts with its baseline"),
        pytest.param("Up to 40 Gigabit", [10.0, 10.0], 20_000, id="baselines of cards add up"),
        pytest.param("Moderate", [0.3], 0, id="a word is no rate"),
    ],
)
def test_network_rates(told: str, baselines: list[float], mbps: int) -> None:
    """What can be counted on is a plain rate, or the baseline of the cards."""
    cards = [{"MaximumNetworkInterfaces": 3, "BaselineBandwidthInGbps": rate} for rate in baselines]
    network = {"NetworkPerformance": told, "NetworkCards": cards, "Ipv4AddressesPerInterface": 10}

    assert facts(NetworkInfo=network).network_mbps == mbps


def test_network_interfaces_are_those_of_the_default_card() -> None:
    """Pods get their addresses from one card."""
    network = {
        "NetworkCards": [{"MaximumNetworkInterfaces": 2}, {"MaximumNetworkInterfaces": 8}],
        "DefaultNetworkCardIndex": 1,
        "Ipv4AddressesPerInterface": 50,
        "EfaInfo": {"MaximumEfaInterfaces": 4},
    }

    assert (facts(NetworkInfo=network).interfaces, facts(NetworkInfo=network).efa_interfaces) == (8, 4)


@pytest.mark.parametrize(
    ("fields", "field", "expected"),
    [
        pytest.param(
            {
                "EbsInfo": {
                    "EbsOptimizedSupport": "default",
                    "EbsOptimizedInfo": {"MaximumBandwidthInMbps": 9},
                }
            },
            "ebs_mbps",
            9,
            id="optimised for EBS by default",
        ),
        pytest.param(
            {
                "EbsInfo": {
                    "EbsOptimizedSupport": "supported",
                    "EbsOptimizedInfo": {"MaximumBandwidthInMbps": 9},
                }
            },
            "ebs_mbps",
            0,
            id="optimised for EBS on request only",
        ),
        pytest.param(
            {"InstanceStorageInfo": {"NvmeSupport": "required", "TotalSizeInGB": 75}},
            "nvme_gb",
            75,
            id="local NVMe disks",
        ),
        pytest.param(
            {"InstanceStorageInfo": {"NvmeSupport": "unsupported", "TotalSizeInGB": 75}},
            "nvme_gb",
            0,
            id="local disks of an older kind",
        ),
        pytest.param({"NitroEnclavesSupport": "supported"}, "nitro_enclaves", True, id="enclaves"),
        pytest.param(
            {"SupportedUsageClasses": ["capacity-block", "spot", "on-demand"]},
            "capacity_types",
            ("on-demand", "spot"),
            id="usage classes that are capacity types",
        ),
        pytest.param(
            {
                "GpuInfo": {
                    "Gpus": [
                        {
                            "Name": "T4",
                            "Manufacturer": "NVIDIA",
                            "Count": 2,
                            "MemoryInfo": {"SizeInMiB": 16384},
                        }
                    ]
                }
            },
            "gpus",
            (Gpu("T4", "NVIDIA", 2, 16384),),
            id="GPUs",
        ),
        pytest.param(
            {"NeuronInfo": {"NeuronDevices": [{"Name": "Trainium", "Count": 1, "CoreInfo": {"Count": 2}}]}},
            "neuron_devices",
            (NeuronDevice("Trainium", 1, 2),),
            id="Neuron devices",
        ),
        pytest.param(
            {
                "InferenceAcceleratorInfo": {
                    "Accelerators": [{"Name": "Qualcomm AI100", "Manufacturer": "Qualcomm", "Count": 8}]
                }
            },
            "accelerators",
            (Accelerator("Qualcomm AI100", "Qualcomm", 8),),
            id="inference accelerators",
        ),
    ],
)
def test_single_facts(fields: dict[str, object], field: str, expected: object) -> None:
    """Each fact has its place in the record."""
    assert getattr(facts(**fields), field) == expected
