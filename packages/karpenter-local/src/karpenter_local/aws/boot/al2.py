"""
Amazon Linux 2: a shell script calls ``/etc/eks/bootstrap.sh``, which starts the kubelet.

Scripts are not run. The call is looked for in them, and its words are read as a shell would; the first call
counts, because a kubelet that runs is not started again.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from karpenter_local.aws.boot.archive import SHELL, documents
from karpenter_local.aws.boot.bootconfig import BootConfig, CannotJoin
from karpenter_local.aws.boot.flags import kubelet_of, labels_of, split_flags, taints_of

_CALL: Final = re.compile(r"^[^#\n]*?/etc/eks/bootstrap\.sh\s+(?P<arguments>.*)$", re.MULTILINE)
_WITH_VALUE: Final = frozenset(
    {
        "apiserver-endpoint",
        "b64-cluster-ca",
        "cluster-id",
        "container-runtime",
        "containerd-config-file",
        "dns-cluster-ip",
        "enable-docker-bridge",
        "enable-local-outpost",
        "ip-family",
        "kubelet-extra-args",
        "local-disks",
        "mount-bpf-fs",
        "pause-container-account",
        "pause-container-version",
        "service-ipv6-cidr",
        "use-max-pods",
    }
)


def read_al2(user_data: str) -> BootConfig:
    """
    Return what the script says.

    Raises:
        CannotJoin: nothing starts the kubelet, or not properly.
    """
    scripts = [each.text for each in documents(user_data) if each.type == SHELL]
    calls = [found["arguments"] for text in scripts for found in _CALL.finditer(text.replace("\\\n", " "))]
    if not calls:
        raise CannotJoin("cloud-init: no script called /etc/eks/bootstrap.sh, so the kubelet was not started")
    cluster, options = _arguments(calls[0])
    missing = [name for name in ("apiserver-endpoint", "b64-cluster-ca") if not options.get(name)]
    if missing:
        raise CannotJoin(f"bootstrap.sh: --{missing[0]} is missing, and EKS is not asked for it here")
    flags = split_flags(options.get("kubelet-extra-args", ""))
    return BootConfig(
        cluster=cluster,
        endpoint=options["apiserver-endpoint"],
        authority=options["b64-cluster-ca"],
        labels=labels_of(flags),
        taints=taints_of(flags),
        kubelet=kubelet_of(flags),
        raid0=options.get("local-disks") == "raid0",
    )


def _arguments(text: str) -> tuple[str, dict[str, str]]:
    try:
        words = iter(shlex.split(text, comments=True))
    except ValueError as error:
        raise CannotJoin(f"bash: the call of bootstrap.sh cannot be read: {error}") from None
    cluster, options = "", {}
    for word in words:
        name = word.removeprefix("--")
        if not word.startswith("--"):
            cluster = cluster or word
        elif name in _WITH_VALUE:
            options[name] = next(words, "")
        else:
            raise CannotJoin(f"bootstrap.sh: unknown option {word}")
    if not cluster:
        raise CannotJoin("bootstrap.sh: the name of the cluster is missing")
    return cluster, options
