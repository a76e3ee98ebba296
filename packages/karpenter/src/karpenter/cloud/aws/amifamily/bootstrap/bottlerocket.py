"""
User data for Bottlerocket: settings in TOML.

The user's settings are kept, with two exceptions: settings of Kubernetes that Bottlerocket does not know are
dropped, and those that a node needs to join are Karpenter's. The settings are described at
https://bottlerocket.dev/en/os/latest/api/settings/kubernetes/

:func:`find_version` finds the version of Bottlerocket, as far as the node class or the AMI names it.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any, Final

import structlog
import tomli_w

from karpenter.cloud.aws.amifamily.alias import LATEST
from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import BadUserData, Bootstrap

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.api.ec2nodeclass import EC2NodeClass
    from karpenter.api.node import Taint


log = structlog.stdlib.get_logger(__name__)

# Bootstrap commands run in the order of their names, so this one is first:
# https://bottlerocket.dev/en/os/latest/#/api/settings/bootstrap-commands/
MOUNT: Final = "000-mount-instance-storage"
# What grows with pods: images and writable layers, emptyDir volumes, logs.
# https://kubernetes.io/docs/concepts/storage/ephemeral-storage/
_DIRECTORIES: Final = ("/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
_ANYTHING: Final[Any] = True

# From this version on, Bottlerocket binds its own directories to the local disks:
# https://github.com/bottlerocket-os/bottlerocket/blob/develop/CHANGELOG.md
_BINDS_BY_ITSELF: Final = (1, 46, 0)
_PARTS: Final = 3

# tomllib takes time by the square of the length of a dotted key; no setting has more than six parts.
_LONG_KEY: Final = re.compile(r"""(?:\.[ \t]*+(?:[\w-]++|"[^"\n]*"|'[^'\n]*')[ \t]*+){100}""")

KNOWN: Final[Mapping[str, Any]] = {
    **dict.fromkeys(
        (
            "api-server",
            "cloud-provider",
            "cluster-certificate",
            "cluster-dns-ip",
            "cluster-domain",
            "cluster-name",
            "node-labels",
            "node-taints",
            "max-pods",
            "eviction-hard",
            "eviction-soft",
            "eviction-soft-grace-period",
            "eviction-max-pod-grace-period",
            "kube-reserved",
            "system-reserved",
            "allowed-unsafe-sysctls",
            "server-tls-bootstrap",
            "registry-qps",
            "registry-burst",
            "event-qps",
            "event-burst",
            "kube-api-qps",
            "kube-api-burst",
            "container-log-max-size",
            "container-log-max-files",
            "container-log-max-workers",
            "container-log-monitor-interval",
            "cpu-cfs-quota-enforced",
            "cpu-manager-policy",
            "cpu-manager-policy-options",
            "cpu-manager-reconcile-period",
            "memory-manager-policy",
            "topology-manager-scope",
            "topology-manager-policy",
            "image-gc-high-threshold-percent",
            "image-gc-low-threshold-percent",
            "ids-per-pod",
            "shutdown-grace-period",
            "shutdown-grace-period-for-critical-pods",
            "seccomp-default",
            "pod-pids-limit",
            "device-ownership-from-security-context",
            "single-process-oom-kill",
            "hostname-override-source",
            "log-level",
        ),
        _ANYTHING,
    ),
    "credential-providers": {
        "*": dict.fromkeys(("enabled", "cache-duration", "image-patterns", "environment"), _ANYTHING)
    },
    "static-pods": {"*": dict.fromkeys(("enabled", "manifest"), _ANYTHING)},
    "memory-manager-reserved-memory": {
        "*": dict.fromkeys(("enabled", "memory", "hugepages-2Mi", "hugepages-1Gi"), _ANYTHING)
    },
    "topology-manager-policy-options": dict.fromkeys(
        ("prefer-closest-numa-nodes", "max-allowable-numa-nodes"), _ANYTHING
    ),
}
"""The settings of Kubernetes that are kept; ``*`` stands for any name."""


def render_bottlerocket(bootstrap: Bootstrap) -> str:
    """
    Return the settings as TOML.

    Raises:
        BadUserData: the user data of the node class is not TOML.
    """
    document = _custom(bootstrap.custom)
    settings = _table(document, "settings")
    kubernetes = _known_settings(_table(settings, "kubernetes"), KNOWN, "settings.kubernetes")
    _table(kubernetes, "node-labels")
    settings["kubernetes"] = _kubernetes(bootstrap, kubernetes)
    if bootstrap.raid0:
        _table(settings, "bootstrap-commands")[MOUNT] = _mount(directories=bootstrap.binds_directories)
    try:
        return tomli_w.dumps(document, indent=0)  # user data has a size limit, so no indentation
    except (RecursionError, ValueError):  # Python writes no hexadecimal number that long as a decimal
        raise BadUserData("the user data is TOML that is nested too deep or has a number too long") from None


def _custom(text: str) -> dict[str, Any]:
    if _LONG_KEY.search(text):
        raise BadUserData("the user data is TOML with a key of more than 100 parts")
    try:
        return tomllib.loads(text)
    except (RecursionError, OverflowError):
        raise BadUserData("the user data is TOML that is nested too deep") from None
    except tomllib.TOMLDecodeError as error:
        raise BadUserData(f"the user data is not TOML: {error}") from None
    except ValueError:  # https://docs.python.org/3/library/stdtypes.html#int-max-str-digits
        raise BadUserData("the user data is TOML with a number or date that cannot be read") from None


def _table(table: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a table within a table, created if it does not exist."""
    found = table.setdefault(name, {})
    if not isinstance(found, dict):
        raise BadUserData(f"the user data has a value at {name}, where a table is expected")
    return found


def _known_settings(table: Mapping[str, Any], known: Mapping[str, Any], path: str) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in table.items():
        below = known.get(key, known.get("*"))
        if below is None:
            log.warning("userdata.setting_dropped", setting=f"{path}.{key}")
        elif isinstance(below, dict) and isinstance(value, dict):
            kept[key] = _known_settings(value, below, f"{path}.{key}")
        else:
            kept[key] = value
    return kept


def _kubernetes(bootstrap: Bootstrap, user: dict[str, Any]) -> dict[str, Any]:
    kubelet = bootstrap.kubelet
    required = {
        "cluster-name": bootstrap.cluster,
        "api-server": bootstrap.endpoint,
        "cluster-certificate": bootstrap.ca_bundle,
        "max-pods": kubelet.max_pods,
        # Labels are merged, since a node needs those of Karpenter and may have more.
        "node-labels": {**user["node-labels"], **dict(sorted(bootstrap.labels.items()))},
        "node-taints": _taints(bootstrap.taints),
    }
    from_kubelet = {
        "cluster-dns-ip": bootstrap.dns,
        "system-reserved": dict(sorted(kubelet.system_reserved.items())),
        "kube-reserved": dict(sorted(kubelet.kube_reserved.items())),
        "eviction-hard": dict(sorted(kubelet.eviction_hard.items())),
        "eviction-soft": dict(sorted(kubelet.eviction_soft.items())),
        "eviction-soft-grace-period": dict(sorted(kubelet.eviction_soft_grace_period.items())),
        "eviction-max-pod-grace-period": kubelet.eviction_max_pod_grace_period,
        "image-gc-high-threshold-percent": _percent(kubelet.image_gc_high),
        "image-gc-low-threshold-percent": _percent(kubelet.image_gc_low),
        "cpu-cfs-quota-enforced": kubelet.cpu_cfs_quota,
    }
    given = {key: value for key, value in from_kubelet.items() if value not in (None, "", {})}
    return {**user, **given, **{key: value for key, value in required.items() if value is not None}}


def _taints(taints: tuple[Taint, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for taint in taints:
        found.setdefault(taint.key, []).append(f"{taint.value}:{taint.effect}")
    return found


def _percent(value: int | None) -> str | None:
    return None if value is None else str(value)


def _mount(*, directories: bool) -> dict[str, Any]:
    """Return the bootstrap command that joins the local disks and puts pods, images and logs on them."""
    bind = ["apiclient", "ephemeral-storage", "bind"]
    return {
        "commands": [
            ["apiclient", "ephemeral-storage", "init"],
            [*bind, "--dirs", *_DIRECTORIES] if directories else bind,
        ],
        "essential": True,
        "mode": "always",
    }


def binds_directories(node_class: EC2NodeClass, image_name: str) -> bool:
    """Return whether the image is so old that the directories on local disks have to be named."""
    version = find_version(node_class, image_name)
    if version == LATEST:
        return False
    parts = version.lstrip("v").split("-")[0].split(".")
    if len(parts) < _PARTS or not all(part.isdigit() for part in parts[:_PARTS]):
        return True
    return tuple(map(int, parts[:_PARTS])) < _BINDS_BY_ITSELF


def find_version(node_class: EC2NodeClass, image_name: str) -> str:
    """Return the version that the alias, a selector term or the AMI names; empty if none does."""
    alias = node_class.spec.alias
    if alias:
        return alias.partition("@")[2]
    for term in node_class.spec.ami_selector_terms:
        found = _version_in(term.name)
        if found:
            return found
    return _version_in(image_name) if "bottlerocket" in image_name else ""


def _version_in(name: str) -> str:
    return next((piece for piece in name.split("-") if piece.startswith("v") and "." in piece), "")
