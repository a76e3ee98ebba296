"""User data for Windows: PowerShell, the user's first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import kubelet_flags

if TYPE_CHECKING:
    from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import Bootstrap

_SCRIPT: Final = r"$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"


def render_windows(told: Bootstrap) -> str:
    """Return the script."""
    arguments = [
        ("EKSClusterName", told.cluster),
        ("APIServerEndpoint", told.endpoint),
        ("Base64ClusterCA", told.ca_bundle),
        ("KubeletExtraArgs", kubelet_flags(told)),
    ]
    if told.dns:
        arguments.append(("DNSClusterIP", told.dns))
    call = " ".join(f"-{name} '{value}'" for name, value in arguments)
    lines = ["<powershell>", f'[string]$EKSBootstrapScriptFile = "{_SCRIPT}"']
    if told.custom.strip():
        lines.insert(1, told.custom.strip("\r\n"))
    return "\n".join([*lines, f"& $EKSBootstrapScriptFile {call}", "</powershell>", ""])
