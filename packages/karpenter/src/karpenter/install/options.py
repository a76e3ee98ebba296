"""
What was asked for, what is known of the cluster, and what things are called there.

Pure. Two ways of naming are known: that of Karpenter's own guide (``karpenter``), and that of eksdemo
(``eksdemo``). Each rule of names that comes from outside is in :func:`names_of`.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from karpenter import __version__
from karpenter.install.documents import LAST_AL2

DISCOVERY: Final = "karpenter.sh/discovery"
AMI_FAMILIES: Final = ("AL2", "AL2023", "Bottlerocket")
NAMESPACES_OF_KUBERNETES: Final = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
_LONGEST_NAME: Final = 64
"""Of roles and of rules. https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"""

Naming = Literal["karpenter", "eksdemo"]
Identity = Literal["irsa", "pod-identity"]
Auth = Literal["access-entry", "aws-auth"]


VERSION: Final = __version__
"""Of the chart and of the image, where no other is asked for."""

PREVIOUS: Final = (__version__, __version__)
"""Chart and image, the ones before: nothing was released before."""

EKSDEMO: Final = "v0.16.0"
"""The tool whose tutorial `--naming eksdemo` follows, as its default EC2NodeClass says."""


class InstallationError(ValueError):
    """What was asked for cannot be installed there; the message names it, the hint says what helps."""

    def __init__(self, problem: str, *, hint: str = "") -> None:
        super().__init__(problem)
        self.hint = hint


class InstallationOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for. Empty means: what the naming has as its default."""

    cluster: str
    naming: Naming = "karpenter"
    namespace: str = ""
    service_account: str = "karpenter"
    identity: Identity = "irsa"
    auth: Auth | Literal[""] = ""
    ami_family: str = ""
    ami_alias: str = ""
    consolidate_after: str = "1m"
    expire_after: str = "720h"
    disable_drift: bool = False
    spot_to_spot: bool = False
    replicas: int = 0
    version: str = ""
    chart_version: str = ""
    values: tuple[dict[str, Any], ...] = ()
    """Files of values, laid over ours."""

    sets: tuple[str, ...] = ()


class InstallationFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the cluster and its account before anything is made."""

    cluster: str
    account: str
    region: str
    partition: str = "aws"
    kubernetes: str = ""
    """Its version, such as ``1.33``."""

    endpoint: str = ""
    issuer: str = ""
    """Who signs the tokens of its service accounts, as a URL; empty if EKS does not say."""

    authentication_mode: str = ""
    """``API``, ``API_AND_CONFIG_MAP`` or ``CONFIG_MAP``; empty if EKS does not say."""

    subnets: tuple[str, ...] = ()
    """Where nodes shall be."""

    security_groups: tuple[str, ...] = ()
    """What nodes shall be in."""

    images: tuple[str, ...] = ()
    """Images of the family, x86_64 first, where the class names them by their ids."""

    exists: bool = True
    """False for a cluster that is gone, of which something may be left to uninstall."""


class InstallationNames(msgspec.Struct, frozen=True, kw_only=True):
    """What things are called."""

    namespace: str
    node_role: str
    instance_profile: str
    """Empty where the operator alone makes profiles."""

    controller_role: str
    inline_policy: str
    """Empty where the role has managed policies."""

    queue: str
    stacks: dict[str, str]
    """Stacks by the step whose resources they hold."""


def truncate_unique(name: str, longest: int = _LONGEST_NAME) -> str:
    """Return a name that fits: a long one is cut, and told apart by a hash of the whole."""
    if len(name) <= longest:
        return name
    return f"{name[: longest - 9]}-{_fnv1a_32(name.encode()):08x}"


def _fnv1a_32(data: bytes) -> int:
    result = 0x811C9DC5
    for byte in data:
        result = (result ^ byte) * 0x01000193 & 0xFFFFFFFF
    return result


def names_of(options: InstallationOptions) -> InstallationNames:
    cluster, account = options.cluster, options.service_account
    if options.naming == "eksdemo":
        namespace = options.namespace or "karpenter"
        irsa = f"eksctl-{cluster}-addon-iamserviceaccount-{namespace}-{account}"
        return InstallationNames(
            namespace=namespace,
            node_role=truncate_unique(f"KarpenterNodeRole-{cluster}"),
            instance_profile="",
            controller_role=truncate_unique(f"eksdemo.{cluster}.{namespace}.{account}"),
            inline_policy=f"{irsa}-Policy1",
            queue=f"karpenter-{cluster}",
            stacks={
                "karpenter-irsa": irsa,
                "karpenter-node-role": f"eksdemo-{cluster}-karpenter-node-role",
                "karpenter-sqs-queue": f"eksdemo-{cluster}-karpenter-sqs-queue",
            },
        )
    return InstallationNames(
        namespace=options.namespace or "kube-system",
        node_role=truncate_unique(f"KarpenterNodeRole-{cluster}"),
        instance_profile=f"KarpenterNodeInstanceProfile-{cluster}",
        controller_role=truncate_unique(f"KarpenterControllerRole-{cluster}"),
        inline_policy="",
        queue=cluster,
        stacks={},
    )


def ami_family(options: InstallationOptions, kubernetes: str) -> str:
    """
    Return the family of images of the default EC2NodeClass.

    Raises:
        InstallationError: there is no such family, or none for this version of Kubernetes.
    """
    asked = options.ami_family or ("AL2" if options.naming == "eksdemo" else "AL2023")
    family = next((each for each in AMI_FAMILIES if each.lower() == asked.lower()), "")
    if not family:
        raise InstallationError(f"--ami-family must be one of: {', '.join(AMI_FAMILIES)}")
    version = tuple(int(each) for each in kubernetes.split(".")[:2] if each.isdigit())
    if family == "AL2" and not options.ami_alias and version > LAST_AL2:
        raise InstallationError(
            f"--ami-family AL2: EKS publishes no image of Amazon Linux 2 for Kubernetes {kubernetes}",
            hint="--ami-family AL2023",
        )
    return family
