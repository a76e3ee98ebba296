import json
import os
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest

from karpenter_local.controlplane import Binaries, ProcessFailed, RealControlPlane, find_binaries
from karpenter_local.controlplane.ports import free_ports


def ask(plane: RealControlPlane, path: str, *, body: Any = None, token: str | None = None) -> Any:
    headers = {"Authorization": f"Bearer {token or plane.token}", "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(plane.url + path, data, headers)  # noqa: S310  https, to our own server
    trust = ssl.create_default_context(cafile=str(plane.authority))
    with urllib.request.urlopen(request, context=trust) as response:  # noqa: S310  likewise
        return json.load(response)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_plane_that_was_not_started_is_nowhere(tmp_path: Path) -> None:
    """Its address is known only once it runs."""
    plane = RealControlPlane(tmp_path, binaries=Binaries(etcd=tmp_path, apiserver=tmp_path))

    with pytest.raises(RuntimeError, match="has not been started"):
        _ = plane.url


@pytest.mark.controlplane
async def test_the_plane_answers_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """Inside, the API answers; afterwards every process has ended; the next start finds the data."""
    configmap = {"metadata": {"name": "kept"}, "data": {"x": "1"}}
    async with RealControlPlane(tmp_path, binaries=find_binaries(), durable=True) as plane:
        pids = [process.pid for process in plane._processes]
        ask(plane, "/api/v1/namespaces/default/configmaps", body=configmap)
        with pytest.raises(urllib.error.HTTPError, match="403"):
            ask(plane, "/api/v1/secrets", token=plane.guest_token)
        config = plane.kubeconfig.read_text()

    assert plane.url in config
    assert len(pids) == 4
    assert not any(alive(pid) for pid in pids)
    (port,) = free_ports(1)
    async with RealControlPlane(tmp_path, binaries=find_binaries(), durable=True, port=port) as again:
        found = ask(again, "/api/v1/namespaces/default/configmaps/kept")
    assert found["data"] == {"x": "1"}
    assert again.url == f"https://127.0.0.1:{port}"


@pytest.mark.controlplane
async def test_a_plane_that_cannot_start_says_which_part(tmp_path: Path) -> None:
    """When a component fails, the error names it and the others are stopped."""
    broken = tmp_path / "kube-apiserver"
    broken.write_text("#!/bin/sh\necho 'unknown flag'\nexit 2\n")
    broken.chmod(0o755)
    binaries = msgspec.structs.replace(find_binaries(), apiserver=broken)
    plane = RealControlPlane(tmp_path / "plane", binaries=binaries)

    with pytest.raises(ProcessFailed, match=r"(?s)kube-apiserver ended with code 2.*unknown flag"):
        await plane.start()

    assert plane._processes == []
