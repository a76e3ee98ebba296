"""
The transport over HTTP: connections, credentials, TLS and proxies towards an API server.

:class:`HttpTransport` adds what belongs to the connection to each request, and nothing that belongs to its
meaning. After a 401 the request is sent once more with renewed credentials, if there are any. The endpoint
and the credentials come from :mod:`.kubeconfig`, which has the exec plugins, too.

Credentials are headers that may change while the process runs: a fixed token, or a file that the kubelet
rewrites. Certificates are files, too, and a new TLS context is made when one of them has changed; open
connections keep the old one.

The proxy is read from HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY in either case, as other Kubernetes
clients do. NO_PROXY holds host names (which cover their subdomains), addresses, networks such as
``10.0.0.0/8``, each with an optional port, or ``*``.

The operating system's TLS says why it refuses a server's certificate. Why a server refuses ours it says in an
alert, or not at all: kube-apiserver takes a client whose certificate has expired for a stranger and answers
401. So the date is read from the file. No signature is checked here.
"""

import asyncio
import base64
import binascii
import errno
import os
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import lru_cache
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote, unquote, urlencode, urlsplit

import aiohttp
import msgspec
import structlog
import yarl

from karpenter import __version__
from karpenter.base.clock import Clock
from karpenter.base.files import read_bounded
from karpenter.kube.errors import Status, Unreachable
from karpenter.kube.transport import Pairs, Request, Response, Streaming

log = structlog.stdlib.get_logger(__name__)

# https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/ (bound tokens expire after
# an hour)
REREAD_SECONDS = 60.0
"""Seconds after which a token file is read again; the kubelet rewrites it well before its end."""

# Certificates are renewed on disk while a process runs:
# https://kubernetes.io/docs/tasks/administer-cluster/kubeadm/kubeadm-certs/
RECHECK_SECONDS = 60.0
"""Seconds between two looks at the files."""

UNAUTHORIZED = 401
AGENT: Pairs = (
    ("user-agent", f"karpenter/{__version__}"),
    # Inside a data centre, packing costs both ends more time than it saves on the wire.
    ("accept-encoding", "identity"),
)
_PORTS = {"http": 80, "https": 443, "socks5": 1080}


class Certificate(msgspec.Struct, frozen=True):
    """A client certificate and its key, as files."""

    cert_file: str
    key_file: str


class Credentials(Protocol):
    """Certificate and headers by which a server knows its client."""

    @property
    def certificate(self) -> Certificate | None: ...

    async def headers(self) -> Pairs:
        """Return the headers to send now, renewed if they are about to expire."""
        ...

    async def renew(self, refused: Pairs) -> bool:
        """Get new headers after the server refused these; return whether there are others to try."""
        ...


class StaticCredentials:
    """Credentials that never change."""

    def __init__(self, *, token: str = "", certificate: Certificate | None = None, extra: Pairs = ()) -> None:
        self.certificate = certificate
        self._headers = (*bearer(token), *extra)

    async def headers(self) -> Pairs:
        return self._headers

    async def renew(self, refused: Pairs) -> bool:  # noqa: ARG002  there is nothing else to try
        """Say that there is nothing else to try."""
        return False


class TokenFile:
    """
    A token in a file that the kubelet rewrites before it expires.

    See https://kubernetes.io/docs/concepts/security/service-accounts/.
    """

    def __init__(
        self, path: Path, *, clock: Clock, certificate: Certificate | None = None, extra: Pairs = ()
    ) -> None:
        self.certificate = certificate
        self._path = path
        self._clock = clock
        self._extra = extra
        self._token = _token_in(path)
        self._read_at = clock.monotonic()

    async def headers(self) -> Pairs:
        """Return the token, read again if that was a while ago."""
        if self._clock.monotonic() - self._read_at >= REREAD_SECONDS:
            await self._read()
        return (*bearer(self._token), *self._extra)

    async def renew(self, refused: Pairs) -> bool:
        await self._read()
        return (*bearer(self._token), *self._extra) != refused

    async def _read(self) -> None:
        self._read_at = self._clock.monotonic()
        try:
            token = await asyncio.to_thread(_token_in, self._path)
        except (OSError, ValueError) as error:
            log.warning("token.unreadable", path=str(self._path), error=str(error))
        else:
            # A file that is being rewritten may be empty for a moment; the old token serves until then.
            self._token = token or self._token


def _token_in(path: Path) -> str:
    token = read_bounded(path).decode().strip()
    check_header(token, f"the token in {path}")
    return token


def bearer(token: str) -> Pairs:
    """
    Return the header that shows a token; none if there is no token.

    Raises:
        ValueError: it can be no part of a header.
    """
    check_header(token, "the token")
    return (("authorization", f"Bearer {token}"),) if token else ()


def check_header(value: str, name: str) -> None:
    """
    Refuse what would end a header, and begin another.

    Raises:
        ValueError: naming what the value is of, and not the value, which may be secret.
    """
    if not value.isprintable():
        raise ValueError(f"{name} has a line break or another character that no header can have")


class Trust(msgspec.Struct, frozen=True, kw_only=True):
    """Authorities and name by which a client knows the server."""

    ca_file: str = ""
    """Whom we trust to vouch for it; empty means whom the machine trusts."""

    verify: bool = True
    server_name: str = ""
    """The name that its certificate must carry, if not the one it is called by."""

    def bundle(self) -> str:
        """
        Return the certificates of those whom we trust, in base64 as a kubeconfig has them; empty for none.

        Raises:
            OSError: the file is missing.
        """
        return base64.b64encode(Path(self.ca_file).read_bytes()).decode() if self.ca_file else ""


class Tls:
    """The context for new connections, always made of the files as they are now."""

    def __init__(self, trust: Trust) -> None:
        self._trust = trust
        self._made_of: tuple[Certificate | None, tuple[int, ...]] | None = None
        self._context: ssl.SSLContext | None = None
        self._checked_at = 0.0

    def context(self, certificate: Certificate | None, *, now: float) -> ssl.SSLContext:
        """Return the context to connect with; `now` is in monotonic seconds.

        Raises:
            OSError: a file is missing.
            ssl.SSLError: a file is not what it should be.
        """
        if self._context is not None and self._made_of is not None:
            same = self._made_of[0] == certificate
            if same and now - self._checked_at < RECHECK_SECONDS:
                return self._context
        self._checked_at = now
        files = (certificate.cert_file, certificate.key_file) if certificate else ()
        made_of = (certificate, _times(self._trust.ca_file, *files))
        if self._context is None or made_of != self._made_of:
            self._context = make_context(self._trust, certificate)
            self._made_of = made_of
        return self._context


def make_context(trust: Trust, certificate: Certificate | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=trust.ca_file or None)
    # Cluster CAs are often made without the extensions that newer Pythons insist on.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not trust.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate.cert_file, certificate.key_file)
    return context


def _times(*files: str) -> tuple[int, ...]:
    return tuple(Path(file).stat().st_mtime_ns for file in files if file)


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server is, and how to know it."""

    server: str
    """Its URL, which may end in a path under which the whole API lies."""

    trust: Trust = Trust()
    proxy: str = ""


class HttpTransport:
    """Carries requests to one server over pooled connections."""

    def __init__(
        self,
        endpoint: Endpoint,
        credentials: Credentials,
        *,
        connections: int = 64,
        connect_within: float = 10.0,
    ) -> None:
        self.endpoint = endpoint
        self._base = endpoint.server.rstrip("/")
        self.host = urlsplit(self._base).netloc
        self._secure = urlsplit(self._base).scheme == "https"
        self._credentials = credentials
        self._tls = Tls(endpoint.trust)
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_within)
        self._slots = asyncio.Semaphore(connections)  # streams do not count: they stay open for minutes
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def send(self, request: Request) -> Response:
        """Return the server's answer, whatever its status."""
        async with self._slots:
            answer = await self._open(request)
            try:
                body = await _read(answer, request)
                if answer.status == UNAUTHORIZED and (why := self._refused_client()):
                    body = msgspec.json.encode(Status(code=UNAUTHORIZED, reason="Unauthorized", message=why))
                return Response(status=answer.status, headers=_headers(answer), body=body)
            finally:
                answer.release()

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response | Streaming]:
        """Open a watch; leaving closes its connection."""
        answer = await self._open(request)
        try:
            if answer.status != 200:  # noqa: PLR2004  OK
                body = await _read(answer, request)
                yield Response(status=answer.status, headers=_headers(answer), body=body)
            else:
                lines = _lines(answer, request)
                try:
                    yield Streaming(lines=lines, headers=_headers(answer))
                finally:
                    await lines.aclose()
        finally:
            answer.close()

    async def close(self) -> None:
        self._closed = True
        if self._session is not None:
            await self._session.close()

    async def _open(self, request: Request) -> aiohttp.ClientResponse:
        shown = await self._credentials.headers()
        answer = await self._open_with(request, shown)
        if answer.status == UNAUTHORIZED and await self._credentials.renew(shown):
            answer.release()
            answer = await self._open_with(request, await self._credentials.headers())
        return answer

    async def _open_with(self, request: Request, shown: Pairs) -> aiohttp.ClientResponse:
        if self._closed:
            raise Unreachable("the transport is closed", request=request, sent=False)
        try:
            context = self._context()
        except OSError as error:
            raise Unreachable(f"cannot use its certificates: {error}", request=request, sent=False) from error
        try:
            return await self._connected().request(
                request.method,
                self._url(request),
                headers=(*AGENT, *request.headers, *shown),
                data=request.body or None,
                ssl=context,
                server_hostname=self.endpoint.trust.server_name or None if self._secure else None,
                proxy=None if self._through_socks else self.endpoint.proxy or None,
                allow_redirects=False,
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise Unreachable(
                f"cannot connect{_connect_failure(error)}", request=request, sent=False
            ) from error
        except self._proxy_errors() as error:
            raise Unreachable(
                f"cannot connect through the proxy {self._proxy_host}: {error}", request=request, sent=False
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            # With TLS 1.3 a server refuses our certificate only when the connection is in use.
            raise Unreachable(self._refused_client() or _why(error), request=request) from error

    def _refused_client(self) -> str:
        """Return what is wrong with the certificate that we show, if we show one."""
        shown = self._credentials.certificate if self._secure else None
        return refused_client(shown.cert_file, datetime.now(UTC)) if shown is not None else ""

    @property
    def _proxy_host(self) -> str:
        """Return host and port of the proxy, without a password that its URL may have."""
        return urlsplit(self.endpoint.proxy).netloc.rpartition("@")[2]

    def _proxy_errors(self) -> tuple[type[Exception], ...]:
        if not self._through_socks:
            return ()
        from aiohttp_socks import (  # noqa: PLC0415  few need it: the extra "socks"
            ProxyConnectionError,
            ProxyError,
            ProxyTimeoutError,
        )

        return ProxyConnectionError, ProxyError, ProxyTimeoutError

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=self._connector(), timeout=self._timeout)
        return self._session

    @property
    def _through_socks(self) -> bool:
        return self.endpoint.proxy.startswith("socks")

    def _connector(self) -> aiohttp.TCPConnector:
        if not self._through_socks:
            return aiohttp.TCPConnector(limit=0, keepalive_timeout=60)
        from aiohttp_socks import ProxyConnector, ProxyType  # noqa: PLC0415  few need it: the extra "socks"

        proxy = urlsplit(self.endpoint.proxy)
        # The proxy resolves names, as client-go lets it: the cluster's may mean nothing on this side.
        return ProxyConnector(
            proxy_type=ProxyType.SOCKS5,
            host=proxy.hostname or "",
            port=proxy.port or _PORTS["socks5"],
            username=unquote(proxy.username) if proxy.username else None,
            password=unquote(proxy.password) if proxy.password else None,
            rdns=True,
            limit=0,
            keepalive_timeout=60,
        )

    def _context(self) -> ssl.SSLContext | bool:
        if not self._secure:
            return False
        return self._tls.context(self._credentials.certificate, now=asyncio.get_running_loop().time())

    def _url(self, request: Request) -> yarl.URL:
        query = _query_text(request.query)
        return yarl.URL(f"{self._base}{request.path}{'?' if query else ''}{query}", encoded=True)


@lru_cache(maxsize=256)  # writes have one of few
def _query_text(query: Pairs) -> str:
    return urlencode(query, quote_via=quote)


def _headers(answer: aiohttp.ClientResponse) -> Pairs:
    return tuple((name.lower(), value) for name, value in answer.headers.items())


def _connect_failure(error: aiohttp.ClientError | TimeoutError) -> str:
    """Return the address and the operating system's reason of a failed connection; TLS errors as they are."""
    if not isinstance(error, aiohttp.ClientConnectorError):
        return f": {error}"
    if isinstance(error.os_error, ssl.SSLError):
        refused = refused_server(error.os_error)
        return f" to {error.host}:{error.port}: {refused}" if refused else f": {error}"
    system = error.os_error
    number = system.errno or 0
    why = os.strerror(number) if number in errno.errorcode else system.strerror or system
    return f" to {error.host}:{error.port}: {why}"


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


async def _read(answer: aiohttp.ClientResponse, request: Request) -> bytes:
    try:
        return await answer.read()
    except (aiohttp.ClientError, OSError) as error:
        raise Unreachable(f"the answer broke off: {_why(error)}", request=request) from error


async def _lines(answer: aiohttp.ClientResponse, request: Request) -> AsyncGenerator[bytes, None]:
    """Split what comes at line breaks; a line may be as long as an object is large."""
    rest: list[bytes] = []
    try:
        async for chunk in answer.content.iter_any():
            first, *others = chunk.split(b"\n")
            rest.append(first)
            for line in others:
                yield b"".join(rest)
                rest = [line]
    except (aiohttp.ClientError, OSError) as error:
        raise Unreachable(f"the watch broke off: {_why(error)}", request=request) from error
    if any(rest):
        yield b"".join(rest)


def proxy_for(server: str, environ: Mapping[str, str]) -> str:
    """Return the proxy for a server's URL; empty if there is none."""
    url = urlsplit(server)
    host = url.hostname or ""
    port = url.port or _PORTS.get(url.scheme, 0)
    proxy = _proxy_setting(environ, f"{url.scheme}_proxy") or _proxy_setting(environ, "all_proxy")
    if not proxy or _is_local(host):
        return ""
    if any(_covers(rule.strip(), host, port) for rule in _proxy_setting(environ, "no_proxy").split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _proxy_setting(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper()) or environ.get(name) or ""


def _is_local(host: str) -> bool:
    """A proxy elsewhere could not reach our loopback, so none is used for it."""
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def _covers(rule: str, host: str, port: int) -> bool:
    if rule == "*":
        return True
    if "/" in rule:
        try:
            return _is_address(host) and ip_address(host) in ip_network(rule, strict=False)
        except ValueError:
            return False
    name, _, of_port = rule.partition(":") if rule.count(":") == 1 else (rule, "", "")
    if not name or (of_port and of_port != str(port)):
        return False
    name = name.strip("[]").lstrip("*").lower()
    return host == name.lstrip(".") or host.endswith("." + name.lstrip("."))


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


# The codes of X509_verify_cert: https://docs.openssl.org/master/man3/X509_STORE_CTX_get_error/
_CERT_EXPIRED: Final = 10
# The codes of OpenSSL's verification: https://docs.openssl.org/master/man1/openssl-verification-options/
_CERT_NOT_YET_VALID: Final = 9
_UNKNOWN: Final = frozenset({2, 18, 19, 20, 21})
_OTHER_NAME: Final = frozenset({62, 63, 64})
_PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_VERSION, _UTC_TIME, _LONG = 0xA0, 0x17, 0x80
_UTC_TIME_LENGTH: Final = 13
_FIRST_YEAR_OF_1900S: Final = 50
"""Two digits of a year below this are of this century; see section 4.1.2.5.1 of RFC 5280."""


def refused_server(error: ssl.SSLError) -> str:
    """Return what is wrong with a server's certificate; nothing when that is not the matter."""
    code = getattr(error, "verify_code", 0)
    if code == _CERT_EXPIRED:
        return "the certificate of the API server has expired; hint: renew it, and check this machine's clock"
    if code == _CERT_NOT_YET_VALID:
        return "the certificate of the API server is not valid yet; hint: check this machine's clock"
    if code in _UNKNOWN:
        return (
            "the certificate of the API server is signed by an unknown authority; "
            "hint: certificate-authority-data of the kubeconfig is that of another cluster"
        )
    if code in _OTHER_NAME:
        return f"the certificate of the API server is for another name: {error.verify_message}"  # type: ignore[attr-defined]
    return ""


def expired_since(file: str, now: datetime) -> datetime | None:
    """Return since when the certificate in a file has expired; None when it has not, or cannot be read."""
    try:
        ends = not_after(Path(file).read_bytes())
    except (OSError, ValueError, IndexError):
        return None
    return ends if ends < now else None


def refused_client(file: str, now: datetime) -> str:
    """Return what is wrong with our own certificate, as far as can be seen from here; maybe nothing."""
    since = expired_since(file, now)
    if since is None:
        return ""
    return (
        f"the client certificate of the kubeconfig has expired at {since:%Y-%m-%dT%H:%M:%SZ}; "
        "hint: renew it, or get a new kubeconfig"
    )


def not_after(pem: bytes) -> datetime:
    """
    Return until when the first certificate of a file is valid.

    Raises:
        ValueError, IndexError: there is none, or it is broken.
    """
    match = _PEM.search(pem)
    if match is None:
        raise ValueError("no certificate")
    try:
        whole = base64.b64decode(match[1])
    except binascii.Error as error:
        raise ValueError("no certificate") from error
    # Certificate, TBSCertificate, then version, serial number, signature, issuer, validity:
    # https://datatracker.ietf.org/doc/html/rfc5280#section-4.1
    parts = _members(_content(_content(whole)[1])[1])
    skipped = 4 if parts[0][0] == _VERSION else 3
    kind, text = _members(parts[skipped][1])[1]
    return _time(kind, text.decode("ascii"))


def _time(kind: int, text: str) -> datetime:
    if kind == _UTC_TIME and len(text) == _UTC_TIME_LENGTH:
        text = f"{20 if int(text[:2]) < _FIRST_YEAR_OF_1900S else 19}{text}"
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _content(data: bytes, start: int = 0) -> tuple[int, bytes, int]:
    """Return the kind and the content of the value at a place, and where it ends."""
    kind, length, at = data[start], data[start + 1], start + 2
    if length & _LONG:
        more = length & ~_LONG
        length, at = int.from_bytes(data[at : at + more], "big"), at + more
    if at + length > len(data):
        raise ValueError("the certificate is cut off")
    return kind, data[at : at + length], at + length


def _members(data: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at < len(data):
        kind, content, at = _content(data, at)
        found.append((kind, content))
    return found
