"""
Finding a cluster and the credentials for it.

In order: the kubeconfig that was named, the one of $KUBECONFIG, the service account of the pod we run in,
and the one in the home directory. What a kubeconfig says becomes an :class:`Endpoint` and
:class:`Credentials`. Exec plugins are run in :mod:`.execplugin`; an ``auth-provider``, which Kubernetes
has replaced by them, is refused.
"""

import atexit
import base64
import os
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
import structlog
import yaml

from karpenter.api.manifests import read_documents
from karpenter.api.meta import InvalidObject
from karpenter.base.clock import Clock
from karpenter.base.files import private, read_bounded
from karpenter.kube.errors import NotConfigured
from karpenter.kube.execplugin import ExecCredentials, ExecPlugin
from karpenter.kube.http import (
    Certificate,
    Credentials,
    Endpoint,
    StaticCredentials,
    TokenFile,
    Trust,
    bearer,
    check_header,
    make_context,
    proxy_for,
)
from karpenter.kube.transport import Pairs

log = structlog.stdlib.get_logger(__name__)

# https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_MISTAKES = (
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
_KINDS = {"clusters": "cluster", "contexts": "context", "users": "user"}
"""The lists of a kubeconfig, and under which key each of their items has its value."""


class _Entry(NamedTuple):
    """A cluster, a context or a user of a kubeconfig."""

    value: Mapping[str, Any]
    folder: Path
    """Where its file is, to which its paths are relative."""


class _Kubeconfig(NamedTuple):
    """Several kubeconfig files, merged."""

    files: str
    current: str
    clusters: Mapping[str, _Entry]
    contexts: Mapping[str, _Entry]
    users: Mapping[str, _Entry]

    def context(self, named: str) -> str:
        """Return the name of the context to use: the current one unless one is named."""
        name = named or self.current
        if not name:
            raise ValueError("it has no current-context, and no context is named")
        if name not in self.contexts:
            listed = ", ".join(self.contexts) or "none"
            raise ValueError(f"it has no context {name}; there are: {listed}")
        return name

    def cluster(self, context: str) -> _Entry:
        name = str(self.contexts[context].value.get("cluster") or "")
        if name not in self.clusters:
            raise ValueError(f"it has no cluster {name}, which the context {context} names")
        return self.clusters[name]

    def user(self, context: str) -> _Entry:
        """Return the user of a context; one that is not there says nothing."""
        return self.users.get(str(self.contexts[context].value.get("user") or ""), _Entry({}, Path()))


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster to talk to, and as whom."""

    endpoint: Endpoint
    credentials: Credentials
    context: str
    """The context that names it; empty in a pod."""

    name: str = ""
    """What the kubeconfig calls it; empty in a pod."""

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
    ca = service_account / "ca.crt"
    try:
        server = f"https://{_address(environ)}"
        credentials = TokenFile(service_account / "token", clock=clock)
        if not ca.read_bytes():
            raise ValueError(f"{ca} is empty")
        endpoint = Endpoint(server=server, trust=Trust(ca_file=str(ca)), proxy=proxy_for(server, environ))
        _check(endpoint, credentials)
    except _MISTAKES as error:
        raise NotConfigured(f"cannot use this pod's service account: {_in_words(error)}") from error
    own = service_account / "namespace"
    return Cluster(
        endpoint=endpoint,
        credentials=credentials,
        context="",
        namespace=own.read_text().strip() if own.is_file() else "default",
    )


def _address(environ: Mapping[str, str]) -> str:
    """Return host and port of the API server as a pod is told them."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise ValueError("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def from_kubeconfig(
    paths: str, *, environ: Mapping[str, str], clock: Clock, context: str = ""
) -> Cluster:
    """Return the cluster of a context, by default the current one; several `paths` are joined by colons."""
    try:
        config = _merged(paths)
        name = config.context(context)
        endpoint = _endpoint(config.cluster(name), environ)
        credentials = await _credentials(config, name, environ, clock)
        _check(endpoint, credentials)
    except _MISTAKES as error:
        raise NotConfigured(f"kubeconfig {paths}: {_in_words(error)}") from error
    return Cluster(
        endpoint=endpoint,
        credentials=credentials,
        context=name,
        name=str(config.contexts[name].value["cluster"]),
        namespace=config.contexts[name].value.get("namespace") or "default",
    )


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _merged(paths: str) -> _Kubeconfig:
    """Return what the files say together, each read once; those that are not there say nothing."""
    # Files of KUBECONFIG that do not exist are skipped, and the first that sets a value wins:
    # https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/#merging-kubeconfig-files
    there = [path for path in paths.split(os.pathsep) if path and Path(path).expanduser().exists()]
    if not there:
        raise NotConfigured(f"there is no kubeconfig at {paths}")
    found: dict[str, dict[str, _Entry]] = {kind: {} for kind in _KINDS}
    current = ""
    try:
        for each in there:
            path = Path(each).expanduser().absolute()
            content = _read(path, each)
            current = current or content.get("current-context") or ""
            for kind, key in _KINDS.items():
                for item in content.get(kind) or ():
                    found[kind].setdefault(str(item["name"]), _entry(item, key, path))
    except InvalidObject as error:
        raise NotConfigured(f"kubeconfig {error}") from error
    except OSError as error:
        raise NotConfigured(f"kubeconfig {error.filename} cannot be read: {error.strerror}") from error
    except (TypeError, AttributeError, KeyError) as error:
        raise NotConfigured(f"{paths} is no kubeconfig with clusters, contexts and users") from error
    return _Kubeconfig(os.pathsep.join(there), str(current), **found)


def _read(path: Path, source: str) -> Any:
    text = read_bounded(path).decode("utf-8")
    for _ in read_documents(text, source=source, repeated=[]):  # it has limits, and the reader below has none
        pass
    return yaml.safe_load(text)


def _entry(item: Mapping[str, Any], key: str, path: Path) -> _Entry:
    value = item.get(key) or {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{key} is no mapping")
    return _Entry(value, path.parent)


def _check(endpoint: Endpoint, credentials: Credentials) -> None:
    """Find out now, and not with the first request, that certificates are no certificates."""
    if endpoint.server.startswith("https"):
        make_context(endpoint.trust, credentials.certificate)


def _endpoint(cluster: _Entry, environ: Mapping[str, str]) -> Endpoint:
    about = cluster.value
    server = _server(str(about.get("server") or "http://localhost"))
    name = about.get("tls-server-name") or ""
    proxy = about.get("proxy-url") or proxy_for(server, environ)
    _check_proxy(proxy, server_name=name)
    return Endpoint(
        server=server,
        trust=Trust(
            ca_file=_file(cluster, "certificate-authority") if server.startswith("https") else "",
            verify=not about.get("insecure-skip-tls-verify"),
            server_name=name,
        ),
        proxy=proxy,
    )


def _server(text: str) -> str:
    """Return the address of an API server, to which the paths of requests are appended."""
    parts = urlsplit(text)
    is_plain = text.isprintable() and " " not in text and not parts.query and not parts.fragment
    if (
        parts.scheme not in {"http", "https"}
        or not parts.hostname
        or parts.username is not None
        or not is_plain
    ):
        raise NotConfigured("the server of the cluster is no address; expected one like https://HOST:PORT")
    return f"{parts.scheme}{text[len(parts.scheme) :]}".rstrip("/")


def _check_proxy(proxy: str, *, server_name: str) -> None:
    scheme = urlsplit(proxy).scheme
    if not proxy or scheme in {"http", "https"}:
        return
    if scheme not in _SOCKS:
        raise NotConfigured(f"the proxy {proxy} cannot be used: only http, https and socks5 proxies can")
    if find_spec("aiohttp_socks") is None:
        raise NotConfigured(f"the proxy {proxy} cannot be used yet: SOCKS needs pip install aiohttp-socks")
    if server_name:
        raise NotConfigured(f"the proxy {proxy} cannot be used with tls-server-name: use an http proxy")


async def _credentials(
    config: _Kubeconfig, context: str, environ: Mapping[str, str], clock: Clock
) -> Credentials:
    (user, folder), cluster = config.user(context), config.cluster(context)
    acting, certificate = _acting_as(user), _certificate(config.user(context), cluster)
    if user.get("auth-provider"):
        # https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
        raise NotConfigured(
            f"the user of the context {context} has an auth-provider, which is not supported: "
            "use an exec plugin (kubectl oidc-login, gke-gcloud-auth-plugin, kubelogin)"
        )
    if "exec" in user:
        plugin = ExecPlugin.of(user["exec"], folder=folder, cluster=cluster.value)
        found = ExecCredentials(
            plugin, environ={**os.environ, **environ}, clock=clock, certificate=certificate, extra=acting
        )
        await found.load()
        return found
    if user.get("tokenFile"):
        # Paths in a kubeconfig are relative to the file that they are in:
        # https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/#file-references
        return TokenFile(folder / user["tokenFile"], clock=clock, certificate=certificate, extra=acting)
    return StaticCredentials(certificate=certificate, extra=(*_shown(user), *acting))


def _certificate(user: _Entry, cluster: _Entry) -> Certificate | None:
    if not str(cluster.value.get("server") or "").startswith("https"):
        return None
    chain = _file(user, "client-certificate")
    return Certificate(chain, _file(user, "client-key")) if chain else None


def _file(entry: _Entry, key: str) -> str:
    """Return the file that an entry names, or one with the data that it has in its place; empty if none."""
    data = entry.value.get(f"{key}-data")
    if data:
        return _written(base64.standard_b64decode(data))
    if not entry.value.get(key):
        return ""
    path = os.path.normpath(entry.folder / str(entry.value[key]))
    if not Path(path).is_file():
        raise ValueError(f"{key}: there is no file {path}")
    return path


@cache
def _written(content: bytes) -> str:
    """Write what TLS reads only from files where no other user can read it, until the process ends."""
    folder = mkdtemp(prefix="karpenter-kubeconfig-")
    atexit.register(rmtree, folder, ignore_errors=True)
    path = Path(folder) / "data"
    with open(path, "wb", opener=private) as file:
        file.write(content)
    return str(path)


def _shown(user: Mapping[str, Any]) -> Pairs:
    if user.get("token"):
        return bearer(str(user["token"]).strip())
    if "username" in user and "password" in user:
        pair = f"{user['username']}:{user['password']}".encode()
        return (("authorization", f"Basic {base64.b64encode(pair).decode()}"),)
    return ()


def _acting_as(user: Mapping[str, Any]) -> Pairs:
    """Return the headers of ``kubectl --as`` where a kubeconfig has them built in."""
    # https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
    pairs = [("impersonate-user", user["as"])] if user.get("as") else []
    pairs += [("impersonate-uid", user["as-uid"])] if user.get("as-uid") else []
    pairs += [("impersonate-group", group) for group in user.get("as-groups") or ()]
    for name, value in pairs:
        check_header(str(value), name)
    return tuple((name, str(value)) for name, value in pairs)
