"""
Finding a cluster and the credentials for it.

In order: the kubeconfig that was named, the one of $KUBECONFIG, the service account of the pod we run in,
and the one in the home directory. Reading kubeconfigs, running exec plugins and refreshing provider tokens
is kubernetes-asyncio's work; here its results become an :class:`Endpoint` and :class:`Credentials`. Renewal
is ours: a plugin is run again shortly before its token expires, or when the server refuses it, and at most
once at a time.

Not passed to plugins: the cluster's address (``provideClusterInfo``).
"""

import asyncio
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import structlog
import yaml
from kubernetes_asyncio.client.configuration import Configuration
from kubernetes_asyncio.config.config_exception import ConfigException
from kubernetes_asyncio.config.incluster_config import InClusterConfigLoader
from kubernetes_asyncio.config.kube_config import KubeConfigLoader, KubeConfigMerger

from karpenter.api.manifests import read_documents
from karpenter.api.meta import InvalidObject
from karpenter.base.clock import Clock
from karpenter.kube.errors import NotConfigured
from karpenter.kube.http import (
    Certificate,
    Credentials,
    Endpoint,
    StaticCredentials,
    TokenFile,
    Trust,
    make_context,
    proxy_for,
)
from karpenter.kube.rest import Pairs

log = structlog.stdlib.get_logger(__name__)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

EARLY = timedelta(seconds=60)
"""How long before its end a token is renewed."""

PAUSE = 10.0
"""Seconds between two attempts to renew, when one failed."""

_MISTAKES = (
    ConfigException,
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    AssertionError,
    yaml.YAMLError,
    RecursionError,
    IndexError,
)
"""What reading a kubeconfig that is not one may raise."""


_REMEMBERED = ("exec_plugin_expiry", "cert_file", "key_file")
"""What the loader keeps of a plugin's last answer."""


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster to talk to, and as whom."""

    endpoint: Endpoint
    credentials: Credentials
    context: str
    """The kubeconfig's name for it; empty in a pod."""

    namespace: str
    """Where things go that say no namespace: the context's, or the pod's own."""


async def find_cluster(
    *,
    environ: Mapping[str, str],
    clock: Clock,
    kubeconfig: str = "",
    context: str = "",
    service_account: Path = SERVICE_ACCOUNT,
) -> Cluster:
    """Return the cluster to talk to.

    Raises:
        NotConfigured: there is none, or what describes it is wrong.
    """
    named = kubeconfig or environ.get("KUBECONFIG", "")
    if named:
        return await from_kubeconfig(named, context=context, environ=environ, clock=clock)
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(environ=environ, clock=clock, service_account=service_account)
    default = Path(environ.get("HOME", "")) / ".kube" / "config"
    if not default.is_file():
        raise NotConfigured(f"no cluster to talk to: set KUBECONFIG, or put a kubeconfig at {default}")
    return await from_kubeconfig(str(default), context=context, environ=environ, clock=clock)


def in_cluster(
    *, environ: Mapping[str, str], clock: Clock, service_account: Path = SERVICE_ACCOUNT
) -> Cluster:
    """Return the cluster that this pod runs in, as its service account."""
    token, ca = service_account / "token", service_account / "ca.crt"
    configuration: Any = Configuration()
    try:
        InClusterConfigLoader(str(token), str(ca), environ=dict(environ)).load_and_set(configuration)
        credentials = TokenFile(token, clock=clock)
        endpoint = Endpoint(
            server=configuration.host,
            trust=Trust(ca_file=str(ca)),
            proxy=proxy_for(configuration.host, environ),
        )
        _check(endpoint, credentials)
    except _MISTAKES as error:
        raise NotConfigured(f"cannot use this pod's service account: {error}") from error
    own = service_account / "namespace"
    return Cluster(
        endpoint=endpoint,
        credentials=credentials,
        context="",
        namespace=own.read_text().strip() if own.is_file() else "default",
    )


async def from_kubeconfig(
    paths: str, *, environ: Mapping[str, str], clock: Clock, context: str = ""
) -> Cluster:
    """Return the cluster of a context, by default the current one; several `paths` are joined by colons."""
    configuration: Any = Configuration()
    user: Mapping[str, Any] = {}
    try:
        merged = _merged(paths)
        _check_context(merged, context)
        loader = KubeConfigLoader(merged, active_context=context or None, config_base_path=None)
        chosen: Any = loader.current_context
        user, user_file = _user(merged, chosen["context"].get("user", ""))
        await loader.load_and_set(configuration)
        endpoint = _endpoint(configuration, environ)
        credentials = _credentials(loader, configuration, user, user_file, clock)
        _check(endpoint, credentials)
    except FileNotFoundError as error:
        raise NotConfigured(f"kubeconfig {paths}: {_missing(error, user)}") from error
    except _MISTAKES as error:
        raise NotConfigured(f"kubeconfig {paths}: {error}") from error
    return Cluster(
        endpoint=endpoint,
        credentials=credentials,
        context=chosen["name"],
        namespace=chosen["context"].get("namespace") or "default",
    )


def _merged(paths: str) -> Any:
    """Return what the files say together, each read once; those that are not there say nothing."""
    there = [path for path in paths.split(os.pathsep) if path and Path(path).expanduser().exists()]
    if not there:
        raise NotConfigured(f"there is no kubeconfig at {paths}")
    try:
        for each in there:  # first by the reader that has limits: the merger's has none
            text = Path(each).expanduser().read_text(encoding="utf-8")
            for _ in read_documents(text, source=each, repeated=[]):
                pass
        return KubeConfigMerger(os.pathsep.join(there)).config
    except InvalidObject as error:
        raise NotConfigured(f"kubeconfig {error}") from error
    except OSError as error:
        raise NotConfigured(f"kubeconfig {error.filename} cannot be read: {error.strerror}") from error
    except (TypeError, AttributeError) as error:
        raise NotConfigured(f"{paths} is no kubeconfig with clusters, contexts and users") from error


def _check_context(merged: Any, context: str) -> None:
    """Refuse a context that is not there, and say which are."""
    there = [str(each["name"]) for each in merged.value.get("contexts") or ()]
    if context and context not in there:
        listed = ", ".join(there) or "none"
        raise NotConfigured(f"the kubeconfig has no context {context}; there are: {listed}")


def _check(endpoint: Endpoint, credentials: Credentials) -> None:
    """Find out now, and not with the first request, that certificates are no certificates."""
    if endpoint.server.startswith("https"):
        make_context(endpoint.trust, credentials.certificate)


def _endpoint(configuration: Any, environ: Mapping[str, str]) -> Endpoint:
    proxy = configuration.proxy or proxy_for(configuration.host, environ)
    if proxy and urlsplit(proxy).scheme not in {"http", "https"}:
        raise NotConfigured(f"the proxy {proxy} cannot be used: only http and https proxies can")
    return Endpoint(
        server=configuration.host,
        trust=Trust(
            ca_file=configuration.ssl_ca_cert or "",
            verify=configuration.verify_ssl,
            server_name=configuration.tls_server_name or "",
        ),
        proxy=proxy,
    )


def _credentials(
    loader: KubeConfigLoader, configuration: Any, user: Mapping[str, Any], user_file: str, clock: Clock
) -> Credentials:
    acting = _acting_as(user)
    if "exec" in user or "auth-provider" in user:
        return Renewed(loader, configuration, clock=clock, extra=acting)
    certificate = _certificate(configuration)
    if user.get("tokenFile"):
        path = Path(user_file).parent / user["tokenFile"]
        return TokenFile(path, clock=clock, certificate=certificate, extra=acting)
    return StaticCredentials(certificate=certificate, extra=(*_shown(configuration), *acting))


def _user(merged: Any, name: str) -> tuple[Mapping[str, Any], str]:
    """Return the user's entry, and the file it came from, to which its paths are relative."""
    for node in merged.value["users"]:
        if node.value["name"] == name:
            return node.value.get("user") or {}, node.path
    return {}, ""


def _acting_as(user: Mapping[str, Any]) -> Pairs:
    """Return the headers of ``kubectl --as`` where a kubeconfig has them built in."""
    pairs = [("impersonate-user", user["as"])] if user.get("as") else []
    pairs += [("impersonate-uid", user["as-uid"])] if user.get("as-uid") else []
    return (*pairs, *(("impersonate-group", group) for group in user.get("as-groups") or ()))


def _certificate(configuration: Any) -> Certificate | None:
    if not configuration.cert_file:
        return None
    return Certificate(configuration.cert_file, configuration.key_file or "")


def _shown(configuration: Any) -> Pairs:
    scheme, _, secret = configuration.api_key.get("BearerToken", "").partition(" ")
    return (("authorization", f"{scheme} {secret.strip()}"),) if secret.strip() else ()


def _missing(error: FileNotFoundError, user: Mapping[str, Any]) -> str:
    plugin = user.get("exec") or {}
    if error.filename != plugin.get("command"):
        return str(error)
    hint = plugin.get("installHint", "")
    return f"the exec plugin {error.filename} is not installed{'; ' + hint.strip() if hint else ''}"


class Renewed:
    """Credentials that a plugin or a provider hands out, for a while each."""

    def __init__(
        self, loader: KubeConfigLoader, configuration: Any, *, clock: Clock, extra: Pairs = ()
    ) -> None:
        self._loader = loader
        self._configuration = configuration
        self._clock = clock
        self._extra = extra
        self._one_at_a_time = asyncio.Lock()
        self._not_before = 0.0

    @property
    def certificate(self) -> Certificate | None:
        """The certificate that the plugin gave, or the kubeconfig's."""
        return _certificate(self._configuration)

    async def headers(self) -> Pairs:
        """Return the token, renewed if it ends soon."""
        if self._ends_soon():
            async with self._one_at_a_time:
                if self._ends_soon():
                    await self._load()
        return self._current()

    async def renew(self, refused: Pairs) -> bool:
        """Run the plugin again, unless another task has just done so."""
        async with self._one_at_a_time:
            if self._current() != refused:
                return True
            if self._clock.monotonic() < self._not_before:
                return False
            before = self.certificate
            await self._load()
            return self._current() != refused or self.certificate != before

    def _current(self) -> Pairs:
        return (*_shown(self._configuration), *self._extra)

    def _ends_soon(self) -> bool:
        ends = getattr(self._loader, "exec_plugin_expiry", None)
        return (
            ends is not None
            and self._clock.now() >= ends - EARLY
            and self._clock.monotonic() >= self._not_before
        )

    async def _load(self) -> None:
        # The loader runs its plugin only if it knows of no token, or certificate, that is still good.
        state = self._loader.__dict__
        known = {name: state.pop(name) for name in _REMEMBERED if name in state}
        self._not_before = self._clock.monotonic() + PAUSE
        try:
            await self._loader.load_and_set(self._configuration)
        except _MISTAKES as error:
            state.update(known)
            log.warning("credentials.not_renewed", error=str(error))
