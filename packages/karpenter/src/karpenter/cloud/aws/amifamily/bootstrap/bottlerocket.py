"""
User data for Bottlerocket: settings in TOML.

What the user wrote is kept, but for settings of Kubernetes that nobody knows, which are left out, and those
that a node cannot do without, which are ours.

Which version of Bottlerocket machines start from, as far as anyone says.

Writing TOML: tables of texts, numbers, truths, lists and tables, as far as the settings of images go.
"""

from __future__ import annotations

import json
import re
import tomllib
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any, Final

import structlog

from karpenter.cloud.aws.amifamily.alias import LATEST
from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import BadUserData

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from karpenter.api.ec2nodeclass import EC2NodeClass
    from karpenter.api.node import Taint
    from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import Bootstrap


_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def render_toml(table: Mapping[str, Any]) -> str:
    """Return a table as a TOML document."""
    return "\n".join(_toml_table(table, ())).strip("\n") + "\n"


def _toml_table(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    values = {key: value for key, value in table.items() if not isinstance(value, dict)}
    if path and (values or not table):
        yield f"[{'.'.join(map(_key, path))}]"
    for key, value in values.items():
        yield f"{_key(key)} = {_value(value)}"
    if values or not table:
        yield ""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _toml_table(value, (*path, key))


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return _text(value)
        case datetime() | date() | time():
            return value.isoformat()
        case list():
            return f"[{', '.join(map(_value, value))}]"
        case dict():
            return f"{{{', '.join(f'{_key(key)} = {_value(each)}' for key, each in value.items())}}}"
        case _:
            raise TypeError(f"{value!r} cannot be written as TOML")


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


log = structlog.stdlib.get_logger(__name__)

MOUNT: Final = "000-mount-instance-storage"
_DIRECTORIES: Final = ("/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
_ANYTHING: Final[Any] = True

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


def render_bottlerocket(told: Bootstrap) -> str:
    """
    Return the settings.

    Raises:
        BadUserData: what the user wrote is not TOML.
    """
    document = _custom(told.custom)
    settings = _table(document, "settings")
    kubernetes = _kept(_table(settings, "kubernetes"), KNOWN, "settings.kubernetes")
    settings["kubernetes"] = _kubernetes(told, kubernetes)
    if told.raid0:
        _table(settings, "bootstrap-commands")[MOUNT] = _mount(directories=told.binds_directories)
    return render_toml(document)


def _custom(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadUserData(f"the user data is not TOML: {error}") from error


def _table(table: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a table within a table, made if need be."""
    found = table.setdefault(name, {})
    if not isinstance(found, dict):
        raise BadUserData(f"the user data says {name} = {found!r}, where a table is expected")
    return found


def _kept(table: Mapping[str, Any], known: Mapping[str, Any], path: str) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in table.items():
        below = known.get(key, known.get("*"))
        if below is None:
            log.warning("userdata.setting_dropped", setting=f"{path}.{key}")
        elif isinstance(below, dict) and isinstance(value, dict):
            kept[key] = _kept(value, below, f"{path}.{key}")
        else:
            kept[key] = value
    return kept


def _kubernetes(told: Bootstrap, user: dict[str, Any]) -> dict[str, Any]:
    kubelet = told.kubelet
    forced = {
        "cluster-name": told.cluster,
        "api-server": told.endpoint,
        "cluster-certificate": told.ca_bundle,
        "max-pods": kubelet.max_pods,
        "node-labels": {**user.get("node-labels", {}), **dict(sorted(told.labels.items()))},
        "node-taints": _taints(told.taints),
    }
    ours = {
        "cluster-dns-ip": told.dns,
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
    said = {key: value for key, value in ours.items() if value not in (None, "", {})}
    return {**user, **said, **{key: value for key, value in forced.items() if value is not None}}


def _taints(taints: tuple[Taint, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for taint in taints:
        found.setdefault(taint.key, []).append(f"{taint.value}:{taint.effect}")
    return found


def _percent(value: int | None) -> str | None:
    return None if value is None else str(value)


def _mount(*, directories: bool) -> dict[str, Any]:
    """Return the command that makes local disks one and puts pods, images and logs on it."""
    bind = ["apiclient", "ephemeral-storage", "bind"]
    return {
        "commands": [
            ["apiclient", "ephemeral-storage", "init"],
            [*bind, "--dirs", *_DIRECTORIES] if directories else bind,
        ],
        "essential": True,
        "mode": "always",
    }


_BINDS_BY_ITSELF: Final = (1, 46, 0)
_PARTS: Final = 3


def binds_directories(node_class: EC2NodeClass, image_name: str) -> bool:
    """Say whether the image is so old that it has to be told which directories go to local disks."""
    version = find_version(node_class, image_name)
    if version == LATEST:
        return False
    parts = version.lstrip("v").split("-")[0].split(".")
    if len(parts) < _PARTS or not all(part.isdigit() for part in parts[:_PARTS]):
        return True
    return tuple(map(int, parts[:_PARTS])) < _BINDS_BY_ITSELF


def find_version(node_class: EC2NodeClass, image_name: str) -> str:
    """Return the version that the alias, a selector by name or the image itself names; empty if none does."""
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
