"""User data for Amazon Linux 2: shell scripts in a MIME archive, ours last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import kubelet_flags
from karpenter.cloud.aws.amifamily.bootstrap.mime import (
    SHELL,
    Part,
    is_archive,
    parse_archive,
    render_archive,
)

if TYPE_CHECKING:
    from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import Bootstrap

_LOGGED: Final = "exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1"


def render_al2(told: Bootstrap) -> str:
    """
    Return the archive.

    Raises:
        BadUserData: what the user wrote says that it is MIME, and is not.
    """
    return render_archive((*_custom(told.custom), Part.of(SHELL, _script(told))))


def _custom(text: str) -> tuple[Part, ...]:
    if not text:
        return ()
    return parse_archive(text) if is_archive(text) else (Part.of(SHELL, text),)


def _script(told: Bootstrap) -> str:
    options = [
        (
            f"/etc/eks/bootstrap.sh '{told.cluster}' --apiserver-endpoint '{told.endpoint}'"
            f" --b64-cluster-ca '{told.ca_bundle}'"
        )
    ]
    if told.is_ipv6:
        options.append("--ip-family ipv6")
    if told.dns:
        options.append(f"--dns-cluster-ip '{told.dns}'")
    if isinstance(told.kubelet.max_pods, int):
        options.append("--use-max-pods false")
    options.append(f"--kubelet-extra-args '{kubelet_flags(told)}'")
    if told.raid0:
        options.append("--local-disks raid0")
    return "\n".join(["#!/bin/bash -xe", _LOGGED, " \\\n".join(options)])
