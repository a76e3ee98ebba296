"""
Finding a cluster and the credentials for it.

In order: the kubeconfig that was named, the one of $KUBECONFIG, the service account of the pod we run in,
and the one in the home directory. Reading kubeconfigs and refreshing provider tokens is kubernetes-asyncio's
work; here its results become an :class:`Endpoint` and :class:`Credentials`. Exec plugins are run in
:mod:`.execplugin`. A provider's token is fetched again when the server refuses it, at most once at a time.
"""

import asyncio
import os
from collections.abc import Mapping
from importlib.util import find_spec
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
from karpenter.kube.execplugin import PAUSE, ExecCredentials, ExecPlugin
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

# https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

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

_SOCKS = frozenset({"socks5", "socks5h"})


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
    # A kubeconfig that is named wins over the service account of a pod, as for kubectl:
    # https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
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
        about = _cluster(merged, chosen["context"].get("cluster", ""))
        plugin = None
        if "exec" in user:
            plugin = ExecPlugin.of(user["exec"], folder=Path(user_file).parent, cluster=about)
            loader = _without_plugin(merged, chosen["name"], user)
        await loader.load_and_set(configuration)
        endpoint = _endpoint(configuration, environ)
        if plugin is None:
            credentials = _credentials(loader, configuration, user, user_file, clock)
        else:
            credentials = await _from_plugin(plugin, configuration, user, environ, clock)
        _check(endpoint, credentials)
    except _MISTAKES as error:
        raise NotConfigured(f"kubeconfig {paths}: {error}") from error
    return Cluster(
        endpoint=endpoint,
        credentials=credentials,
        context=chosen["name"],
        namespace=chosen["context"].get("namespace") or "default",
    )


def _without_plugin(merged: Any, context: str, user: Mapping[str, Any]) -> KubeConfigLoader:
    """Return a loader that does not run the exec plugin of a user, which is run here."""
    for node in merged.value["users"]:
        if node.value.get("user") is user:
            node.value["user"] = {key: value for key, value in user.items() if key != "exec"}
    return KubeConfigLoader(merged, active_context=context, config_base_path=None)


async def _from_plugin(
    plugin: ExecPlugin, configuration: Any, user: Mapping[str, Any], environ: Mapping[str, str], clock: Clock
) -> Credentials:
    found = ExecCredentials(
        plugin,
        environ={**os.environ, **environ},
        clock=clock,
        certificate=_certificate(configuration),
        extra=_acting_as(user),
    )
    await found.load()
    return found


def _merged(paths: str) -> Any:
    """Return what the files say together, each read once; those that are not there say nothing."""
    # Files of KUBECONFIG that do not exist are skipped, and the first that sets a value wins:
    # https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/#merging-kubeconfig-files
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
    _check_proxy(proxy, server_name=configuration.tls_server_name or "")
    return Endpoint(
        server=configuration.host,
        trust=Trust(
            ca_file=configuration.ssl_ca_cert or "",
            verify=configuration.verify_ssl,
            server_name=configuration.tls_server_name or "",
        ),
        proxy=proxy,
    )


def _check_proxy(proxy: str, *, server_name: str) -> None:
    scheme = urlsplit(proxy).scheme
    if not proxy or scheme in {"http", "https"}:
        return
    if scheme not in _SOCKS:
        raise NotConfigured(f"the proxy {proxy} cannot be used: only http, https and socks5 proxies can")
    if find_spec("aiohttp_socks") is None:
        raise NotConfigured(
            f"the proxy {proxy} cannot be used yet: SOCKS needs pip install 'karpenter[socks]'"
        )
    if server_name:
        raise NotConfigured(f"the proxy {proxy} cannot be used with tls-server-name: use an http proxy")


def _credentials(
    loader: KubeConfigLoader, configuration: Any, user: Mapping[str, Any], user_file: str, clock: Clock
) -> Credentials:
    acting = _acting_as(user)
    if "auth-provider" in user:
        return Renewed(loader, configuration, clock=clock, extra=acting)
    certificate = _certificate(configuration)
    if user.get("tokenFile"):
        # Paths in a kubeconfig are relative to the file that they are in:
        # https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/#file-references
        path = Path(user_file).parent / user["tokenFile"]
        return TokenFile(path, clock=clock, certificate=certificate, extra=acting)
    return StaticCredentials(certificate=certificate, extra=(*_shown(configuration), *acting))


def _user(merged: Any, name: str) -> tuple[Mapping[str, Any], str]:
    """Return the user's entry, and the file it came from, to which its paths are relative."""
    for node in merged.value["users"]:
        if node.value["name"] == name:
            return node.value.get("user") or {}, node.path
    return {}, ""


def _cluster(merged: Any, name: str) -> Mapping[str, Any]:
    """Return the cluster's entry as it is written."""
    for node in merged.value["clusters"]:
        if node.value["name"] == name:
            return node.value.get("cluster") or {}
    return {}


def _acting_as(user: Mapping[str, Any]) -> Pairs:
    """Return the headers of ``kubectl --as`` where a kubeconfig has them built in."""
    # https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
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


class Renewed:
    """Credentials that an ``auth-provider`` hands out, for a while each."""

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
        """The kubeconfig's certificate."""
        return _certificate(self._configuration)

    async def headers(self) -> Pairs:
        """Return the token."""
        return self._current()

    async def renew(self, refused: Pairs) -> bool:
        """Ask the provider again, unless another task has just done so."""
        async with self._one_at_a_time:
            if self._current() != refused:
                return True
            if self._clock.monotonic() < self._not_before:
                return False
            await self._load()
            return self._current() != refused

    def _current(self) -> Pairs:
        return (*_shown(self._configuration), *self._extra)

    async def _load(self) -> None:
        self._not_before = self._clock.monotonic() + PAUSE
        try:
            await self._loader.load_and_set(self._configuration)
        except _MISTAKES as error:
            log.warning("credentials.not_renewed", error=str(error))
