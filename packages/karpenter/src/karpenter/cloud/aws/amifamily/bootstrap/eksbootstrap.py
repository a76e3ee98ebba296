"""
User data for Amazon Linux 2: a MIME archive of shell scripts, with the call of bootstrap.sh last.

https://github.com/awslabs/amazon-eks-ami (bootstrap.sh)
"""

from __future__ import annotations

from typing import Final

from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import Bootstrap, kubelet_flags
from karpenter.cloud.aws.amifamily.bootstrap.mime import (
    SHELL,
    Part,
    is_archive,
    parse_archive,
    render_archive,
)

# Output goes to the console too, where it can be read of an instance that never joins:
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-console.html
_LOGGED: Final = "exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1"


def render_al2(bootstrap: Bootstrap) -> str:
    """
    Return the MIME archive.

    Raises:
        BadUserData: the user data of the node class is not a valid MIME archive.
    """
    return render_archive((*_custom(bootstrap.custom), Part.of(SHELL, _script(bootstrap))))


def _custom(text: str) -> tuple[Part, ...]:
    if not text:
        return ()
    return parse_archive(text) if is_archive(text) else (Part.of(SHELL, text),)


def _script(bootstrap: Bootstrap) -> str:
    options = [
        (
            f"/etc/eks/bootstrap.sh '{bootstrap.cluster}' --apiserver-endpoint '{bootstrap.endpoint}'"
            f" --b64-cluster-ca '{bootstrap.ca_bundle}'"
        )
    ]
    if bootstrap.is_ipv6:
        options.append("--ip-family ipv6")
    if bootstrap.dns:
        options.append(f"--dns-cluster-ip '{bootstrap.dns}'")
    if isinstance(bootstrap.kubelet.max_pods, int):
        # bootstrap.sh would otherwise set maxPods from its own table of instance types.
        options.append("--use-max-pods false")
    options.append(f"--kubelet-extra-args '{kubelet_flags(bootstrap)}'")
    if bootstrap.raid0:
        options.append("--local-disks raid0")
    return "\n".join(["#!/bin/bash -xe", _LOGGED, " \\\n".join(options)])
