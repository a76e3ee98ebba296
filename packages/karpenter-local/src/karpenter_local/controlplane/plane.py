"""
The real control plane as one thing that starts and stops.

``async with RealControlPlane(directory, binaries=find_binaries()) as plane`` yields when the API answers,
with the ``default`` namespace there; on leaving, every process has ended. Certificates, tokens and the
kubeconfig are made anew at each start. A durable plane finds its data in `directory` again; any other begins
empty.

Which binaries exist is :mod:`.binaries`' question, which flags they take :mod:`.components`'.
"""

import secrets
import shutil
import ssl
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from karpenter_local import kubeconfig
from karpenter_local.certificates import LOOPBACK, CertificateAuthority, signing_key
from karpenter_local.controlplane import components
from karpenter_local.controlplane.binaries import Binaries
from karpenter_local.controlplane.components import Command, ComponentFiles, Ports
from karpenter_local.controlplane.ports import free_ports
from karpenter_local.controlplane.process import ComponentProcess, ProcessFailed

START_WITHIN = 90.0
"""Seconds that each component has to become ready; it takes about five on an idle machine."""

ATTEMPTS = 3
"""How often the start is tried with other ports when one was taken in between."""

OK = 200
NAME = "karpenter-local"


class RealControlPlane:
    """etcd, kube-apiserver and, where they were built, kube-controller-manager and kube-scheduler.

    With `durable`, what was acknowledged is there at the next start, whatever happens; without, each start
    is that of a new cluster. `port` is where the API listens; 0 is any free one.
    """

    def __init__(self, directory: Path, *, binaries: Binaries, durable: bool = False, port: int = 0) -> None:
        self.directory = directory
        self.kubeconfig = directory / "kubeconfig"
        self.token = secrets.token_hex(16)
        self.guest_token = secrets.token_hex(16)
        """Logs in as a user whom RBAC allows nothing but to look at its own rights."""

        self._binaries = binaries
        self._durable = durable
        self._port = port
        self._processes: list[ComponentProcess] = []
        self._ports: Ports | None = None

    @property
    def url(self) -> str:
        return f"https://{LOOPBACK}:{self.ports.api}"

    @property
    def ports(self) -> Ports:
        """Who listens where; known once started."""
        if self._ports is None:
            raise RuntimeError("the control plane has not been started")
        return self._ports

    @property
    def authority(self) -> Path:
        """The certificate that signed every other one."""
        return self.directory / "pki" / "ca.crt"

    async def start(self) -> None:
        """Start every component and wait until the API answers.

        Raises:
            ProcessFailed: a component ended or was not ready in time; the others have been stopped.
        """
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self._start()
            except ProcessFailed:
                await self.stop()
                if attempt == ATTEMPTS:
                    raise
            except BaseException:
                await self.stop()
                raise
            else:
                return

    async def stop(self) -> None:
        """End every process, the last started first, and wait for it."""
        while self._processes:
            await self._processes.pop().stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _start(self) -> None:
        self._ports = ports = _choose_ports(self._port)
        files = self._write_files()
        trust = ssl.create_default_context(cafile=str(files.authority))
        known = ssl.create_default_context(cafile=str(files.authority))
        known.load_cert_chain(files.serving.certificate, files.serving.key)
        binaries = self._binaries
        data = self.directory / "etcd"
        if not self._durable:
            shutil.rmtree(data, ignore_errors=True)
        storage = components.etcd(binaries, ports, files, data=data, durable=self._durable)
        await self._run("etcd", storage, f"https://{LOOPBACK}:{ports.etcd}/health", trust=known)
        namespace = f"{self.url}/api/v1/namespaces/default"
        serving = components.apiserver(binaries, ports, files)
        await self._run("kube-apiserver", serving, f"{self.url}/readyz", namespace, trust=trust)
        if binaries.controller_manager:
            managing = components.controller_manager(binaries.controller_manager, ports, files)
            health = f"https://{LOOPBACK}:{ports.controller_manager}/healthz"
            await self._run("kube-controller-manager", managing, health, trust=trust)
        if binaries.scheduler:
            scheduling = components.scheduler(binaries.scheduler, ports, files)
            health = f"https://{LOOPBACK}:{ports.scheduler}/healthz"
            await self._run("kube-scheduler", scheduling, health, trust=trust)

    async def _run(self, name: str, command: Command, *probes: str, trust: ssl.SSLContext) -> None:
        process = await ComponentProcess.start(name, command, directory=self.directory)
        self._processes.append(process)
        for probe in probes:
            await process.until(partial(self._answers, probe, trust), within=START_WITHIN)

    async def _answers(self, url: str, trust: ssl.SSLContext) -> bool:
        headers = {"Authorization": f"Bearer {self.token}"}
        try:
            async with (
                aiohttp.ClientSession(headers=headers) as session,
                session.get(url, ssl=trust) as response,
            ):
                return response.status == OK
        except (aiohttp.ClientError, TimeoutError):
            return False

    def _write_files(self) -> ComponentFiles:
        pki = self.directory / "pki"
        pki.mkdir(parents=True, exist_ok=True, mode=0o700)
        authority = CertificateAuthority()
        tokens = pki / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(
            f"{self.token},kubernetes-admin,admin,system:masters\n{self.guest_token},guest,guest,guests\n"
        )
        text = kubeconfig.render(name=NAME, url=self.url, authority=authority.certificate, token=self.token)
        kubeconfig.write(self.kubeconfig, text)
        return ComponentFiles(
            authority=authority.write(pki),
            serving=authority.issue_files(pki, "server"),
            signing=signing_key(pki),
            tokens=tokens,
            kubeconfig=self.kubeconfig,
        )


def _choose_ports(api: int) -> Ports:
    etcd, peer, any_free, controller_manager, scheduler = free_ports(5)
    return Ports(
        etcd=etcd, peer=peer, api=api or any_free, controller_manager=controller_manager, scheduler=scheduler
    )
