"""
What EC2 says about an instance type, reduced to what scheduling can use.

Only facts: numbers and names as DescribeInstanceTypes reports them. What Kubernetes
makes of them is in :mod:`.labels` and :mod:`.resources`; where a type is sold and for
how much is in :mod:`.data`, because that differs from region to region.
"""

from __future__ import annotations

import msgspec


class Gpu(msgspec.Struct, frozen=True, array_like=True):
    """A kind of graphics processor in a machine."""

    name: str
    manufacturer: str
    count: int
    memory_mib: int
    """Of each one."""


class NeuronDevice(msgspec.Struct, frozen=True, array_like=True):
    """A kind of machine learning chip made by AWS."""

    name: str
    count: int
    cores: int
    """Of each one."""


class Accelerator(msgspec.Struct, frozen=True, array_like=True):
    """A kind of inference chip, whoever makes it."""

    name: str
    manufacturer: str
    count: int


class InstanceFacts(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """One instance type; stored as a row, so the order of the fields is part of the file format."""

    name: str
    cpus: int
    memory_mib: int
    arch: str
    """As Kubernetes spells it: amd64 or arm64."""

    cpu_manufacturer: str
    clock_mhz: int
    """Sustained; zero where EC2 does not say."""

    hypervisor: str
    """nitro or xen; empty for bare metal."""

    capacity_types: tuple[str, ...]
    interfaces: int
    """How many network interfaces the default network card takes."""

    ipv4_per_interface: int
    branch_interfaces: int
    """How many pods may have a network interface of their own; zero where trunking is not supported."""

    efa_interfaces: int
    network_mbps: int
    """What can be counted on, not the burst; zero where EC2 only says High or Low."""

    ebs_mbps: int
    """At most; zero unless the type is optimised for EBS by default."""

    nvme_gb: int
    """All local disks together; zero where there is none, or none with NVMe."""

    encryption_in_transit: bool
    nitro_enclaves: bool
    gpus: tuple[Gpu, ...] = ()
    neuron_devices: tuple[NeuronDevice, ...] = ()
    accelerators: tuple[Accelerator, ...] = ()
