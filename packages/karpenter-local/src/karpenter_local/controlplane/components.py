"""
The command line of each component of the real control plane.

Pure: paths and ports in, arguments out. The choices: everything listens on loopback with TLS and asks for a
client certificate or a token; RBAC decides; admission is what kube-apiserver does by default, except
ServiceAccount, which would mount a token into every pod and refuse pods until a controller has made the
namespace's account.
"""

from pathlib import Path

import msgspec

from karpenter_local.certificates import LOOPBACK, KeyPair
from karpenter_local.controlplane.binaries import Binaries

Command = tuple[str | Path, ...]

# https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/
SERVICE_RANGE = "10.96.0.0/16"
ISSUER = "https://kubernetes.default.svc"


class Ports(msgspec.Struct, frozen=True, kw_only=True):
    """Who listens where."""

    etcd: int
    peer: int
    api: int
    controller_manager: int
    scheduler: int


class ComponentFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The certificate, token and kubeconfig files of the components."""

    authority: Path
    serving: KeyPair
    """Shown by every server, and by kube-apiserver when it calls etcd."""

    signing: KeyPair
    tokens: Path
    kubeconfig: Path
    """What the controller manager and the scheduler log in with."""


def etcd(binaries: Binaries, ports: Ports, files: ComponentFiles, *, data: Path, durable: bool) -> Command:
    """Return how etcd is started; unless `durable`, it does not wait for the disk."""
    client = f"https://{LOOPBACK}:{ports.etcd}"
    peer = f"https://{LOOPBACK}:{ports.peer}"
    return (
        binaries.etcd,
        "--name=local",
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=local={peer}",
        f"--cert-file={files.serving.certificate}",
        f"--key-file={files.serving.key}",
        f"--trusted-ca-file={files.authority}",
        "--client-cert-auth",
        f"--peer-cert-file={files.serving.certificate}",
        f"--peer-key-file={files.serving.key}",
        f"--peer-trusted-ca-file={files.authority}",
        "--peer-client-cert-auth",
        "--log-level=warn",
        *(() if durable else ("--unsafe-no-fsync",)),
    )


def apiserver(binaries: Binaries, ports: Ports, files: ComponentFiles) -> Command:
    return (
        binaries.apiserver,
        f"--etcd-servers=https://{LOOPBACK}:{ports.etcd}",
        f"--etcd-cafile={files.authority}",
        f"--etcd-certfile={files.serving.certificate}",
        f"--etcd-keyfile={files.serving.key}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        f"--secure-port={ports.api}",
        "--endpoint-reconciler-type=none",
        *_serving(files),
        f"--client-ca-file={files.authority}",
        f"--token-auth-file={files.tokens}",
        "--anonymous-auth=false",
        "--authorization-mode=RBAC",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={files.signing.certificate}",
        f"--service-account-signing-key-file={files.signing.key}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--disable-admission-plugins=ServiceAccount",
        "--allow-privileged",
        "--profiling=false",
    )


def controller_manager(binary: Path, ports: Ports, files: ComponentFiles) -> Command:
    """Return how kube-controller-manager is started: every default controller, no leader to elect."""
    return (
        binary,
        f"--kubeconfig={files.kubeconfig}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={ports.controller_manager}",
        *_serving(files),
        f"--service-account-private-key-file={files.signing.key}",
        f"--root-ca-file={files.authority}",
        "--leader-elect=false",
        "--profiling=false",
    )


def scheduler(binary: Path, ports: Ports, files: ComponentFiles) -> Command:
    """Return how kube-scheduler is started, with its default profile."""
    return (
        binary,
        f"--kubeconfig={files.kubeconfig}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={ports.scheduler}",
        *_serving(files),
        "--leader-elect=false",
        "--profiling=false",
    )


def _serving(files: ComponentFiles) -> Command:
    return (
        f"--tls-cert-file={files.serving.certificate}",
        f"--tls-private-key-file={files.serving.key}",
    )
