"""
User data for Windows: PowerShell, the script of the node class first.

https://docs.aws.amazon.com/eks/latest/userguide/eks-optimized-windows-ami.html
"""

from __future__ import annotations

from typing import Final

from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import Bootstrap, kubelet_flags

# https://docs.aws.amazon.com/eks/latest/userguide/eks-optimized-windows-ami.html
_SCRIPT: Final = r"$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"


def render_windows(bootstrap: Bootstrap) -> str:
    arguments = [
        ("EKSClusterName", bootstrap.cluster),
        ("APIServerEndpoint", bootstrap.endpoint),
        ("Base64ClusterCA", bootstrap.ca_bundle),
        ("KubeletExtraArgs", kubelet_flags(bootstrap)),
    ]
    if bootstrap.dns:
        arguments.append(("DNSClusterIP", bootstrap.dns))
    call = " ".join(f"-{name} '{value}'" for name, value in arguments)
    lines = ["<powershell>", f'[string]$EKSBootstrapScriptFile = "{_SCRIPT}"']
    if bootstrap.custom.strip():
        lines.insert(1, bootstrap.custom.strip("\r\n"))
    return "\n".join([*lines, f"& $EKSBootstrapScriptFile {call}", "</powershell>", ""])
