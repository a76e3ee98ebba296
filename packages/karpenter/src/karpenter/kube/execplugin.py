"""
Credentials of an exec plugin, such as ``aws eks get-token``: a program that prints a token or a certificate.

A plugin is run when its kubeconfig is read, again shortly before what it gave expires, and when the server
refuses that; at most once at a time. It gets the terminal only where there is one and its
``interactiveMode`` allows it, and is ended when it takes too long.
See https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

import msgspec
import structlog

from karpenter.api.meta import explain
from karpenter.base.clock import Clock
from karpenter.base.files import private
from karpenter.kube.http import Certificate, bearer
from karpenter.kube.transport import Pairs

log = structlog.stdlib.get_logger(__name__)

RENEW_BEFORE_END = timedelta(seconds=60)
"""How long before its end a token is renewed."""

RETRY_SECONDS = 10.0
"""Seconds between two attempts to renew, when one failed."""

RUN_SECONDS = 60.0
"""Seconds after which a plugin that has not ended is killed."""

# The protocol of credential plugins, by which kubectl runs aws-iam-authenticator or `aws eks get-token`:
# https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
_GROUP = "client.authentication.k8s.io/"
_MODES = ("IfAvailable", "Never", "Always")
_EXTENSION = "client.authentication.k8s.io/exec"
_CLUSTER_KEYS = (
    "server",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "certificate-authority-data",
    "proxy-url",
)


class PluginFailed(ValueError):  # noqa: N818  says what happened
    """A plugin that gives no credentials, or is described wrongly; the text says which one, and why."""


class ExecCredentialStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Credentials that a plugin prints under ``status``."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Document that a plugin prints."""

    kind: str = ""
    api_version: str = ""
    status: ExecCredentialStatus | None = None


class ExecPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A program that gives credentials, as a kubeconfig describes it."""

    command: str
    """A name that is looked for in the path, or a path."""

    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    api_version: str
    mode: str = "IfAvailable"
    hint: str = ""
    """How to install it."""

    cluster: Mapping[str, Any] | None = None
    """What it is told about the cluster, if it is to be told."""

    @classmethod
    def of(cls, given: Any, *, folder: Path, cluster: Mapping[str, Any]) -> "ExecPlugin":
        """
        Return the plugin of a user; a relative path is one from the `folder` of the kubeconfig.

        Raises:
            PluginFailed: naming the field that is wrong.
        """
        if not isinstance(given, Mapping):
            raise PluginFailed("users[].user.exec is no mapping with a command")
        command, version = str(given.get("command") or ""), str(given.get("apiVersion") or "")
        if not command:
            raise PluginFailed("users[].user.exec.command is missing")
        if not version.startswith(_GROUP):
            raise PluginFailed(
                f"users[].user.exec.apiVersion is {version!r}: it must be {_GROUP}v1 or {_GROUP}v1beta1"
            )
        mode = str(given.get("interactiveMode") or "IfAvailable")
        if mode not in _MODES:
            raise PluginFailed(
                f"users[].user.exec.interactiveMode is {mode!r}: it must be one of {', '.join(_MODES)}"
            )
        if os.sep in command and not Path(command).is_absolute():
            command = str(folder / command)
        return cls(
            command=command,
            args=tuple(str(each) for each in given.get("args") or ()),
            env={str(each["name"]): str(each.get("value") or "") for each in given.get("env") or ()},
            api_version=version,
            mode=mode,
            hint=str(given.get("installHint") or "").strip(),
            cluster=_told(cluster) if given.get("provideClusterInfo") else None,
        )

    async def run(self, environ: Mapping[str, str], *, terminal: bool) -> ExecCredentialStatus:
        """
        Return what the plugin gives; `terminal` says whether there is one for it to ask at.

        Raises:
            PluginFailed: it gives nothing.
        """
        if self.mode == "Always" and not terminal:
            raise PluginFailed(f"{self._name} needs a terminal (interactiveMode: Always), and there is none")
        interactive = terminal and self.mode != "Never"
        spec: dict[str, Any] = {"interactive": interactive}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        info = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        try:
            process = await asyncio.create_subprocess_exec(
                self.command,
                *self.args,
                env={**environ, **self.env, "KUBERNETES_EXEC_INFO": json.dumps(info)},
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except FileNotFoundError:
            hint = f"; {self.hint}" if self.hint else ""
            raise PluginFailed(f"{self._name} is not installed{hint}") from None
        except OSError as error:
            raise PluginFailed(f"{self._name} cannot be run: {error.strerror or error}") from error
        return self._read(*await self._finish(process))

    async def _finish(self, process: asyncio.subprocess.Process) -> tuple[int, bytes, bytes]:
        try:
            async with asyncio.timeout(RUN_SECONDS):
                out, errors = await process.communicate()
        except TimeoutError:
            raise PluginFailed(f"{self._name} did not end within {RUN_SECONDS:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()
        return process.returncode or 0, out, errors

    def _read(self, code: int, out: bytes, errors: bytes) -> ExecCredentialStatus:
        if code:
            said = errors.decode(errors="replace").strip()
            raise PluginFailed(f"{self._name} ended with {code}{': ' + said if said else ''}")
        try:
            found = msgspec.json.decode(out, type=_ExecCredential)
        except msgspec.ValidationError as error:
            place, problem = explain(str(error))
            where = f"{place}: {problem}" if place else problem
            raise PluginFailed(f"{self._name} printed no ExecCredential: {where}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PluginFailed(f"{self._name} printed no ExecCredential: it is not JSON") from error
        if found.kind != "ExecCredential" or found.api_version != self.api_version:
            printed = f"{found.kind or 'nothing'} of {found.api_version or 'no version'}"
            raise PluginFailed(
                f"{self._name} printed {printed} where an ExecCredential of {self.api_version} is expected"
            )
        status = found.status or ExecCredentialStatus()
        if not status.token and not status.client_certificate_data:
            raise PluginFailed(f"{self._name} gave neither a token nor a certificate")
        try:
            bearer(status.token)
        except ValueError as error:
            raise PluginFailed(f"{self._name} gave no token: {error}") from error
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise PluginFailed(f"{self._name} gave a certificate or a key without the other")
        return status

    @property
    def _name(self) -> str:
        return f"the exec plugin {self.command}"


def _told(cluster: Mapping[str, Any]) -> dict[str, Any]:
    told = {key: cluster[key] for key in _CLUSTER_KEYS if cluster.get(key)}
    for each in cluster.get("extensions") or ():
        if each.get("name") == _EXTENSION:
            told["config"] = each.get("extension")
    return told


class ExecCredentials:
    """Credentials that a plugin gave last, renewed before they end."""

    def __init__(
        self,
        plugin: ExecPlugin,
        *,
        environ: Mapping[str, str],
        clock: Clock,
        certificate: Certificate | None = None,
        extra: Pairs = (),
    ) -> None:
        """`certificate` is the kubeconfig's own, for a plugin that gives none."""
        self._plugin = plugin
        self._environ = environ
        self._clock = clock
        self._fallback = certificate
        self._extra = extra
        self._status = ExecCredentialStatus()
        self._given: Certificate | None = None
        self._one_at_a_time = asyncio.Lock()
        self._not_before = 0.0

    @property
    def certificate(self) -> Certificate | None:
        """The certificate that the plugin gave, or the kubeconfig's."""
        return self._given or self._fallback

    async def load(self) -> None:
        """
        Run the plugin.

        Raises:
            PluginFailed: it gives nothing; what it gave before stays in use.
        """
        status = await self._plugin.run(self._environ, terminal=sys.stdin is not None and sys.stdin.isatty())
        if status.client_certificate_data and (
            status.client_certificate_data != self._status.client_certificate_data
            or status.client_key_data != self._status.client_key_data
        ):
            self._given = self._write(status)
        self._status = status

    async def headers(self) -> Pairs:
        """Return the token, renewed if it ends soon."""
        if self._ends_soon():
            async with self._one_at_a_time:
                if self._ends_soon():
                    await self._try()
        return self._current()

    async def renew(self, refused: Pairs) -> bool:
        """Run the plugin again, unless another task has just done so."""
        async with self._one_at_a_time:
            if self._current() != refused:
                return True
            if self._clock.monotonic() < self._not_before:
                return False
            before = self.certificate
            await self._try()
            return self._current() != refused or self.certificate != before

    async def _try(self) -> None:
        self._not_before = self._clock.monotonic() + RETRY_SECONDS
        try:
            await self.load()
        except PluginFailed as error:
            log.warning("credentials.not_renewed", error=str(error))

    def _current(self) -> Pairs:
        return (*bearer(self._status.token), *self._extra)

    def _ends_soon(self) -> bool:
        ends = self._status.expiration_timestamp
        if ends is None or self._clock.monotonic() < self._not_before:
            return False
        aware = ends if ends.tzinfo is not None else ends.replace(tzinfo=UTC)
        return self._clock.now() >= aware - RENEW_BEFORE_END

    def _write(self, status: ExecCredentialStatus) -> Certificate:
        """Write a certificate and its key where TLS can read them, and no other user."""
        folder = mkdtemp(prefix="karpenter-credentials-")
        # Older ones stay until the end: a connection may be about to read them.
        finalize(self, rmtree, folder, ignore_errors=True)
        chain, key = Path(folder) / "tls.crt", Path(folder) / "tls.key"
        for path, text in ((chain, status.client_certificate_data), (key, status.client_key_data)):
            with open(path, "w", encoding="utf-8", opener=private) as file:
                file.write(text)
        return Certificate(str(chain), str(key))
