"""
Settings of the provider, by Karpenter's environment variables.

https://karpenter.sh/docs/reference/settings/ describes them. A value that is not allowed prevents the start,
with one sentence that names the setting; what is no value of the setting's type at all counts as not set, as
it does for Karpenter.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec
import structlog

from karpenter.base.duration import DurationError, parse_duration, parse_switch
from karpenter.cloud.cloudprovider import ProviderSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

log = structlog.stdlib.get_logger(__name__)

_MINUTE: Final = 60.0
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+")


class BadAwsSetting(ValueError):  # noqa: N818  says what is wrong
    """A setting of the provider cannot be used."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"setting {name}: {problem}")
        self.name = name


class UnreadableSetting(BadAwsSetting):
    """The text is no value of the setting's type at all, such as a word for a number."""


class AwsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings in force."""

    cluster: str
    cluster_endpoint: str = ""
    """Where nodes reach the API server; empty means to ask EKS."""

    cluster_ca_bundle: str = ""
    """What nodes trust the API server by, in base64; empty means what our own client trusts it by."""

    kubernetes_version: str = ""
    """The version of the control plane, such as ``1.33``; empty means to ask EKS."""

    eks_control_plane: bool = False
    """Whether to ask EKS for the version even if it is given."""

    isolated_vpc: bool = False
    """Whether services without an endpoint in the VPC cannot be reached: no prices, no IAM."""

    memory_overhead: float = 0.075
    """The share of an instance's memory that hypervisor and kernel take before the kubelet counts."""

    interruption_queue: str = ""
    reserved_enis: int = 0
    """Network interfaces that pods get no addresses from."""

    disable_dry_run: bool = False
    zonal_shift: bool = False
    ami_refresh: float = _MINUTE
    """Seconds for which images that were found count as current."""

    subnet_refresh: float = _MINUTE
    """Seconds for which subnets that were found count as current."""

    expressions: bool = False
    """Whether kubelet settings may be expressions over the instance type."""

    reserved_capacity: bool = True
    node_overlay: bool = False
    region: str = ""
    endpoint: str = ""
    """Where AWS is, when not where the SDK looks for it."""


def read_settings(cluster: str, given: Mapping[str, str]) -> AwsSettings:
    """
    Return the settings in force. What is no value at all counts as not set.

    Raises:
        BadAwsSetting: naming the setting, and what is allowed.
    """
    name = given.get("CLUSTER_NAME") or cluster
    if not name:
        raise BadAwsSetting("CLUSTER_NAME", "is required")
    gates = _gates(given.get("FEATURE_GATES", ""), "FEATURE_GATES")
    aws_gates = _gates(given.get(_AWS_GATES, ""), _AWS_GATES)
    values: dict[str, Any] = {}
    for key, (field, parse) in _READERS.items():
        try:
            if given.get(key):
                values[field] = parse(given[key], key)
        except UnreadableSetting:  # the default is in force, as it is for Karpenter
            log.warning("setting.ignored", setting=key, value=given[key])
    return AwsSettings(
        cluster=name,
        expressions=aws_gates.get(_CEL, False),
        reserved_capacity=gates.get("ReservedCapacity", True),
        node_overlay=gates.get("NodeOverlay", False),
        **values,
    )


def check_flags(flags: Mapping[str, str]) -> None:
    """
    Refuse flags that cannot be read, by the environment variables that they stand for.

    Raises:
        BadAwsSetting: naming the setting, and what is allowed.
    """
    for key, text in flags.items():
        if key in _READERS and text:
            _READERS[key][1](text, key)
    for name in _gates(flags.get(_AWS_GATES, ""), _AWS_GATES):
        if name != _CEL:
            raise BadAwsSetting(_AWS_GATES, f"there is no feature gate {name!r}; there is {_CEL}")


def _text(text: str, name: str) -> str:
    del name
    return text


def _flag(text: str, name: str) -> bool:
    try:
        return parse_switch(text)
    except ValueError:
        raise UnreadableSetting(name, f"{text!r} is not true or false") from None


def _share(text: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise UnreadableSetting(name, f"{text!r} is not a number") from None
    if not math.isfinite(value) or value < 0:
        raise BadAwsSetting(name, f"{text} is not a number of 0 or more")
    return value


def _count(text: str, name: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(text):
        raise UnreadableSetting(name, f"{text!r} is not a whole number of 0 or more")
    if int(text) < 0:
        raise BadAwsSetting(name, f"{text!r} is not a whole number of 0 or more")
    return int(text)


def _interval(text: str, name: str) -> float:
    try:
        seconds = parse_duration(text).total_seconds()
    except DurationError as error:
        raise UnreadableSetting(name, str(error)) from None
    if seconds < _MINUTE:
        raise BadAwsSetting(name, f"{text} is less than 1m")
    return seconds


def _url(text: str, name: str) -> str:
    parts = urlsplit(text)
    if not parts.scheme or not parts.hostname:
        raise BadAwsSetting(name, f"{text!r} is not a URL such as https://example.com")
    return text


def _version(text: str, name: str) -> str:
    major, dot, rest = text.removeprefix("v").partition(".")
    minor = rest.partition(".")[0].rstrip("+")
    if not (dot and major.isdigit() and minor.isdigit()):
        raise BadAwsSetting(name, f"{text!r} is not a version such as 1.33")
    return f"{major}.{minor}"


_READERS: Final[Mapping[str, tuple[str, Callable[[str, str], object]]]] = {
    "CLUSTER_ENDPOINT": ("cluster_endpoint", _url),
    "CLUSTER_CA_BUNDLE": ("cluster_ca_bundle", _text),
    "KUBERNETES_VERSION": ("kubernetes_version", _version),
    "EKS_CONTROL_PLANE": ("eks_control_plane", _flag),
    "ISOLATED_VPC": ("isolated_vpc", _flag),
    "VM_MEMORY_OVERHEAD_PERCENT": ("memory_overhead", _share),
    "INTERRUPTION_QUEUE": ("interruption_queue", _text),
    "RESERVED_ENIS": ("reserved_enis", _count),
    "DISABLE_DRY_RUN": ("disable_dry_run", _flag),
    "ENABLE_ZONAL_SHIFT": ("zonal_shift", _flag),
    "AMI_REFRESH_INTERVAL": ("ami_refresh", _interval),
    "SUBNET_REFRESH_INTERVAL": ("subnet_refresh", _interval),
    "AWS_REGION": ("region", _text),
    "AWS_ENDPOINT_URL": ("endpoint", _url),
}
"""Environment variable to the field, and how its text is read."""


AWS_SETTINGS: Final = (
    ProviderSetting("cluster-endpoint", "", "where nodes reach the API server; empty means to ask EKS"),
    ProviderSetting(
        "cluster-ca-bundle",
        "",
        "what nodes trust the API server by, in base64; empty means what we trust it by",
    ),
    ProviderSetting(
        "isolated-vpc", "false", "do without services that have no endpoint in a VPC: price list and IAM"
    ),
    ProviderSetting(
        "eks-control-plane", "false", "ask EKS for the version of Kubernetes, not the API server"
    ),
    ProviderSetting(
        "vm-memory-overhead-percent",
        "0.075",
        "share of an instance's memory that hypervisor and kernel take",
    ),
    ProviderSetting(
        "interruption-queue", "", "name of the SQS queue that tells of interruptions; empty means none"
    ),
    ProviderSetting(
        "reserved-enis", "0", "network interfaces of each instance that pods get no addresses from"
    ),
    ProviderSetting("disable-dry-run", "false", "do not try launches out before a node class is ready"),
    ProviderSetting("enable-zonal-shift", "false", "leave zones alone that are shifted away"),
    ProviderSetting(
        "ami-refresh-interval", "1m", "how long images that were found count as current, 1m at least"
    ),
    ProviderSetting(
        "subnet-refresh-interval", "1m", "how long subnets that were found count as current, 1m at least"
    ),
    ProviderSetting("aws-feature-gates", "NodeClassCEL=false", "Name=bool, comma separated"),
)
"""What can be set beside the name of the cluster, in the order in which it is documented."""


_AWS_GATES: Final = "AWS_FEATURE_GATES"
_CEL: Final = "NodeClassCEL"


def _gates(text: str, setting: str) -> dict[str, bool]:
    gates = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        try:
            gates[name.strip()] = parse_switch(value.strip())
        except ValueError:
            raise BadAwsSetting(setting, f"{part!r} is not Name=true or Name=false") from None
    return gates
