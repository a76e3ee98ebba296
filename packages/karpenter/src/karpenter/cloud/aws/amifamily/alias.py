"""
The SSM parameters of the AMIs that an alias stands for.

A parameter has the id of one AMI. The AMI may be for several variants of instance types: ordinary ones, those
with Nvidia GPUs, those with Neuron accelerators.

https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html,
https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id-bottlerocket.html and
https://docs.aws.amazon.com/eks/latest/userguide/eks-optimized-windows-ami.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.ec2nodeclass_status import ImageRequirement
from karpenter.api.labels import OS, WINDOWS, WINDOWS_BUILD
from karpenter.cloud.aws.amifamily.family import FAMILIES
from karpenter.cloud.aws.labels import ACCELERATOR_COUNT, GPU_COUNT

if TYPE_CHECKING:
    from collections.abc import Iterator

LATEST: Final = "latest"

# https://github.com/awslabs/amazon-eks-ami/issues/2545
_LAST_AL2: Final = 32
# https://docs.aws.amazon.com/eks/latest/userguide/eks-optimized-windows-ami.html
_FIRST_WINDOWS_2025: Final = 35
# https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html
_EKS: Final = "/aws/service/eks/optimized-ami"

Variant = tuple[ImageRequirement, ...]

# AMIs for GPUs and for Neuron have the drivers; standard ones would leave the devices unused:
# https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html
STANDARD: Final[Variant] = (
    ImageRequirement(key=ACCELERATOR_COUNT, operator="DoesNotExist"),
    ImageRequirement(key=GPU_COUNT, operator="DoesNotExist"),
)
NVIDIA: Final[Variant] = (ImageRequirement(key=GPU_COUNT, operator="Exists"),)
NEURON: Final[Variant] = (ImageRequirement(key=ACCELERATOR_COUNT, operator="Exists"),)
_OF_NAME: Final = {"standard": STANDARD, "nvidia": NVIDIA, "neuron": NEURON}


class UnsupportedAlias(ValueError):  # noqa: N818  says what is wrong
    """An alias that AWS publishes no AMIs for, on this version of Kubernetes or at all."""


class Alias(msgspec.Struct, frozen=True):
    """An AMI family and a version of it."""

    family: str
    """As aliases spell it, such as ``al2023``."""

    version: str

    @property
    def is_latest(self) -> bool:
        """Whether the alias stands for the newest AMI."""
        return self.version == LATEST


class PublishedImage(msgspec.Struct, frozen=True):
    """An SSM parameter with the id of an AMI, and the variants that the AMI is for."""

    path: str
    variants: tuple[Variant, ...]


def parse_alias(text: str) -> Alias:
    """
    Return the family and the version of an alias.

    Raises:
        UnsupportedAlias: it does not have the form ``family@version``.
    """
    family, at, version = text.partition("@")
    if not family or not at or not version or "@" in version:
        raise UnsupportedAlias(f"alias {text!r} does not have the form family@version")
    return Alias(family, version)


def check_alias(alias: Alias, kubernetes: str) -> None:
    """
    Refuse an alias that AWS publishes no AMIs for on this version of Kubernetes.

    Raises:
        UnsupportedAlias: naming the versions that there are AMIs for.
    """
    minor = int(kubernetes.partition(".")[2])
    if alias.family == "al2" and minor > _LAST_AL2:
        raise UnsupportedAlias(
            f"AWS publishes AL2 images up to Kubernetes 1.{_LAST_AL2}, not for {kubernetes}"
        )
    if alias.family == "windows2025" and minor < _FIRST_WINDOWS_2025:
        raise UnsupportedAlias(
            f"AWS publishes Windows 2025 images from Kubernetes 1.{_FIRST_WINDOWS_2025} on,"
            f" not for {kubernetes}"
        )


def published(alias: Alias, kubernetes: str) -> tuple[PublishedImage, ...]:
    """
    Return the SSM parameters of the AMIs that an alias stands for.

    Raises:
        UnsupportedAlias: AWS does not publish this family.
    """
    match alias.family:
        case "al2":
            found = _al2(alias, kubernetes)
        case "al2023":
            found = _al2023(alias, kubernetes)
        case "bottlerocket":
            found = _bottlerocket(alias, kubernetes)
        case "windows2019" | "windows2022" | "windows2025":
            found = _windows(alias, kubernetes)
        case _:
            raise UnsupportedAlias(f"alias family {alias.family!r} is none that AWS publishes")
    return tuple(found)


# The GPU AMI of AL2 serves Nvidia and Neuron alike; AL2023 has one AMI for each.
def _al2(alias: Alias, kubernetes: str) -> Iterator[PublishedImage]:
    for suffix, kind, variants in (
        ("", "", (STANDARD,)),
        ("-arm64", "arm64-", (STANDARD,)),
        ("-gpu", "gpu-", (NEURON, NVIDIA)),
    ):
        release = "recommended" if alias.is_latest else f"amazon-eks-{kind}node-{kubernetes}-{alias.version}"
        yield PublishedImage(f"{_EKS}/{kubernetes}/amazon-linux-2{suffix}/{release}/image_id", variants)


def _al2023(alias: Alias, kubernetes: str) -> Iterator[PublishedImage]:
    for arch, kinds in (("x86_64", ("standard", "nvidia", "neuron")), ("arm64", ("standard", "nvidia"))):
        for kind in kinds:
            release = (
                "recommended"
                if alias.is_latest
                else f"amazon-eks-node-al2023-{arch}-{kind}-{kubernetes}-{alias.version}"
            )
            path = f"{_EKS}/{kubernetes}/amazon-linux-2023/{arch}/{kind}/{release}/image_id"
            yield PublishedImage(path, (_OF_NAME[kind],))


def _bottlerocket(alias: Alias, kubernetes: str) -> Iterator[PublishedImage]:
    # Releases of Bottlerocket are tagged v1.2.3; the SSM path has the number without the v:
    # https://github.com/bottlerocket-os/bottlerocket/releases
    version = LATEST if alias.is_latest else alias.version.lstrip("v")
    for flavour, arch, variants in (
        ("", "x86_64", (STANDARD, NEURON)),
        ("", "arm64", (STANDARD,)),
        ("-nvidia", "x86_64", (NVIDIA,)),
        ("-nvidia", "arm64", (NVIDIA,)),
    ):
        path = f"/aws/service/bottlerocket/aws-k8s-{kubernetes}{flavour}/{arch}/{version}/image_id"
        yield PublishedImage(path, variants)


def _windows(alias: Alias, kubernetes: str) -> Iterator[PublishedImage]:
    year = alias.family.removeprefix("windows")
    name = f"Windows_Server-{year}-English-Core-EKS_Optimized-{kubernetes}"
    build = FAMILIES[f"Windows{year}"].windows_build
    variant = (
        ImageRequirement(key=OS, operator="In", values=(WINDOWS,)),
        ImageRequirement(key=WINDOWS_BUILD, operator="In", values=(build,)),
    )
    # SSM has only the latest Windows AMI, so the version of the alias is always latest:
    # https://docs.aws.amazon.com/eks/latest/userguide/eks-optimized-windows-ami.html
    yield PublishedImage(f"/aws/service/ami-windows-latest/{name}/image_id", (variant,))
