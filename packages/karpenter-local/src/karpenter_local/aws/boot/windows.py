"""
Windows: PowerShell calls ``Start-EKSBootstrap.ps1``, which starts the kubelet.

Scripts are not run. The call is looked for in them, by its path or by a variable that holds the path.
"""

from __future__ import annotations

import re
from typing import Final

from karpenter_local.aws.boot.bootconfig import BootConfig, CannotJoin
from karpenter_local.aws.boot.flags import kubelet_of, labels_of, split_flags, taints_of

# https://docs.aws.amazon.com/eks/latest/userguide/eks-optimized-windows-ami.html
_BLOCK: Final = re.compile(r"<powershell>(?P<script>.*?)</powershell>", re.DOTALL | re.IGNORECASE)
_HOLDS: Final = re.compile(
    r"(?P<variable>\$\w+)\s*=\s*[\"'][^\"'\n]*Start-EKSBootstrap\.ps1[\"']", re.IGNORECASE
)
_CALL: Final = re.compile(
    r"^\s*&\s*(?P<script>\$\w+|[\"'][^\"'\n]*Start-EKSBootstrap\.ps1[\"'])(?P<arguments>[^\r\n]*)",
    re.MULTILINE | re.IGNORECASE,
)
_ARGUMENT: Final = re.compile(
    r"-(?P<name>\w+)\s+(?:'(?P<single>(?:[^']|'')*)'|\"(?P<double>[^\"]*)\"|(?P<bare>[^\s'\"]+))"
)
_NEEDED: Final = ("eksclustername", "apiserverendpoint", "base64clusterca")


def read_windows(user_data: str) -> BootConfig:
    """
    Return what the script says.

    Raises:
        CannotJoin: nothing starts the kubelet, or not properly.
    """
    script = "\n".join(found["script"] for found in _BLOCK.finditer(user_data))
    if not script:
        raise CannotJoin("EC2Launch: the user data has no <powershell> script")
    holders = {found["variable"].lower() for found in _HOLDS.finditer(script)}
    call = next(
        (
            each
            for each in _CALL.finditer(script)
            if not each["script"].startswith("$") or each["script"].lower() in holders
        ),
        None,
    )
    if call is None:
        raise CannotJoin("EC2Launch: no script called Start-EKSBootstrap.ps1, so the kubelet was not started")
    arguments = _arguments(call["arguments"])
    for name in _NEEDED:
        if not arguments.get(name):
            raise CannotJoin(f"Start-EKSBootstrap.ps1: -{name} is missing")
    flags = split_flags(arguments.get("kubeletextraargs", ""))
    return BootConfig(
        cluster=arguments["eksclustername"],
        endpoint=arguments["apiserverendpoint"],
        authority=arguments["base64clusterca"],
        labels=labels_of(flags),
        taints=taints_of(flags),
        kubelet=kubelet_of(flags),
    )


def _arguments(text: str) -> dict[str, str]:
    found = {}
    for each in _ARGUMENT.finditer(text):
        single = each["single"]
        value = single.replace("''", "'") if single is not None else each["double"] or each["bare"] or ""
        found[each["name"].lower()] = value
    return found
