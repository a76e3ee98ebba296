"""
A kubeconfig for one server and one user, with everything it needs inside it.

Readable by its owner only: whoever can read it is the administrator of the cluster it names.
"""

import base64
from pathlib import Path

import yaml

NAME = "karpenter-local"


def write_kubeconfig(path: Path, *, server: str, authority: bytes, token: str) -> None:
    """Write to `path` how to reach `server` as the holder of `token`."""
    trusted = base64.b64encode(authority).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": {"server": server, "certificate-authority-data": trusted}}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "current-context": NAME,
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document, sort_keys=False))
