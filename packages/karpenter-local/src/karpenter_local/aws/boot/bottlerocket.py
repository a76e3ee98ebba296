"""Bottlerocket: settings in TOML, read by the system itself before the kubelet starts."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any, Final

from karpenter_local.aws.boot.bootconfig import BootConfig, CannotJoin, KubeletArguments
from karpenter_local.aws.boot.flags import read_taint, whole

if TYPE_CHECKING:
    from karpenter.api.node import Taint

# https://bottlerocket.dev/en/os/latest/
_NEEDED: Final = ("cluster-name", "api-server", "cluster-certificate")
_INIT: Final = ["apiclient", "ephemeral-storage", "init"]


def read_bottlerocket(user_data: str) -> BootConfig:
    """
    Return what the settings say.

    Raises:
        CannotJoin: they are not TOML, or not complete.
    """
    try:
        settings = _table(tomllib.loads(user_data), "settings")
    except tomllib.TOMLDecodeError as error:
        raise CannotJoin(f"early-boot-config: the user data is not TOML: {error}") from None
    kubernetes = _table(settings, "kubernetes")
    for name in _NEEDED:
        if not kubernetes.get(name):
            raise CannotJoin(f"early-boot-config: settings.kubernetes.{name} is missing")
    labels = _table(kubernetes, "node-labels")
    return BootConfig(
        cluster=str(kubernetes["cluster-name"]),
        endpoint=str(kubernetes["api-server"]),
        authority=str(kubernetes["cluster-certificate"]),
        labels={key: str(value) for key, value in labels.items()},
        taints=_taints(_table(kubernetes, "node-taints")),
        kubelet=_kubelet(kubernetes),
        raid0=_prepares_disks(_table(settings, "bootstrap-commands")),
    )


def _kubelet(kubernetes: dict[str, Any]) -> KubeletArguments:
    def amounts(name: str) -> dict[str, str]:
        return {key: str(value) for key, value in _table(kubernetes, name).items()}

    most = kubernetes.get("max-pods")
    return KubeletArguments(
        max_pods=whole("max-pods", most) if most is not None else None,
        kube_reserved=amounts("kube-reserved"),
        system_reserved=amounts("system-reserved"),
        eviction_hard=amounts("eviction-hard"),
    )


def _taints(table: dict[str, Any]) -> tuple[Taint, ...]:
    return tuple(
        read_taint(f"{key}={each}" if not str(each).startswith(":") else f"{key}{each}")
        for key, said in table.items()
        for each in (said if isinstance(said, list) else [said])
    )


def _prepares_disks(commands: dict[str, Any]) -> bool:
    return any(_INIT in each.get("commands", ()) for each in commands.values() if isinstance(each, dict))


def _table(table: dict[str, Any], name: str) -> dict[str, Any]:
    found = table.get(name, {})
    if not isinstance(found, dict):
        raise CannotJoin(f"early-boot-config: {name} is {found!r}, where a table is expected")
    return found
