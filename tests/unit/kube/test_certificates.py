"""Certificates that have expired, are not valid yet, or are of others: what is said of them."""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from aiohttp import web

from karpenter.kube.errors import Unreachable, status_error
from karpenter.kube.http import (
    Certificate,
    Endpoint,
    HttpTransport,
    StaticCredentials,
    Trust,
    expired_since,
    not_after,
    refused_client,
)
from karpenter.kube.transport import Request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

REAL_TIME = True
NOW = datetime.now(UTC).replace(microsecond=0)
AGO, THEN = NOW - timedelta(days=1), NOW + timedelta(days=1)
LONG_AGO, LATER = NOW - timedelta(days=400), NOW + timedelta(days=9)


def files(folder: Path, name: str, issued: trustme.LeafCert) -> Certificate:
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    issued.cert_chain_pems[0].write_to_path(str(certificate))
    issued.private_key_pem.write_to_path(str(key))
    return Certificate(str(certificate), str(key))


@asynccontextmanager
async def served(authority: trustme.CA, shown: Certificate, *, demands: bool = False) -> AsyncIterator[str]:
    """Serve nothing but 401 with a certificate; one that `demands` wants a valid one of the client."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(shown.cert_file, shown.key_file)
    if demands:
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED

    async def refuse(_request: web.BaseRequest) -> web.Response:
        return web.json_response({"kind": "Status", "code": 401, "message": "Unauthorized"}, status=401)

    runner = web.ServerRunner(web.Server(refuse), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def said(url: str, ca_file: str, shown: Certificate | None = None) -> Exception:
    transport = HttpTransport(
        Endpoint(server=url, trust=Trust(ca_file=ca_file)), StaticCredentials(certificate=shown)
    )
    request = Request(method="GET", path="/api/v1/pods")
    try:
        return status_error(request, await transport.send(request))
    except Unreachable as error:
        return error
    finally:
        await transport.close()


@pytest.mark.parametrize(
    ("host", "valid", "expected"),
    [
        pytest.param("127.0.0.1", {"not_before": LONG_AGO, "not_after": AGO}, "has expired;", id="expired"),
        pytest.param(
            "127.0.0.1",
            {"not_before": THEN, "not_after": THEN + timedelta(days=9)},
            "is not valid yet",
            id="early",
        ),
        pytest.param("10.9.9.9", {}, "is for another name", id="of another name"),
    ],
)
async def test_a_server_that_cannot_be_trusted(
    tmp_path: Path, host: str, valid: dict[str, Any], expected: str
) -> None:
    """The sentence names the server, and says what is wrong with its certificate."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    shown = files(tmp_path, "server", authority.issue_cert(host, **valid))
    async with served(authority, shown) as url:
        error = await said(url, str(tmp_path / "ca.crt"))

    assert f"cannot connect to {url.removeprefix('https://')}: the certificate of the API server" in str(
        error
    )
    assert expected in str(error)


async def test_a_server_of_another_cluster(tmp_path: Path) -> None:
    """An unknown authority is most often that of another cluster."""
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    authority = trustme.CA()
    shown = files(tmp_path, "server", authority.issue_cert("127.0.0.1"))
    async with served(authority, shown) as url:
        error = await said(url, str(tmp_path / "ca.crt"))

    assert "is signed by an unknown authority; hint: certificate-authority-data" in str(error)


@pytest.mark.parametrize(
    "demands",
    [
        pytest.param(False, id="by 401, as kube-apiserver does"),
        pytest.param(True, id="by an alert of TLS"),
    ],
)
async def test_our_own_certificate_has_expired(tmp_path: Path, demands: bool) -> None:
    """However the server refuses it, the sentence says that and since when."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    server = files(tmp_path, "server", authority.issue_cert("127.0.0.1"))
    own = files(tmp_path, "own", authority.issue_cert("me", not_before=LONG_AGO, not_after=AGO))
    async with served(authority, server, demands=demands) as url:
        error = await said(url, str(tmp_path / "ca.crt"), own)

    assert f"the client certificate of the kubeconfig has expired at {AGO:%Y-%m-%dT%H:%M:%SZ}" in str(error)


async def test_a_valid_certificate_that_is_refused_is_not_blamed(tmp_path: Path) -> None:
    """What the server says stays as it is."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    server = files(tmp_path, "server", authority.issue_cert("127.0.0.1"))
    own = files(tmp_path, "own", authority.issue_cert("me"))
    async with served(authority, server) as url:
        error = await said(url, str(tmp_path / "ca.crt"), own)

    assert str(error).endswith(": Unauthorized")


def test_dates_of_every_century() -> None:
    """The date is read as it was written, before and after 2050, when its form changes."""
    authority = trustme.CA()
    for year in (2026, 2049, 2050, 2090):
        ends = datetime(year, 2, 28, 23, 59, 59, tzinfo=UTC)
        issued = authority.issue_cert("a", not_before=datetime(2020, 1, 1, tzinfo=UTC), not_after=ends)

        assert not_after(issued.cert_chain_pems[0].bytes()) == ends


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----", id="no base64"),
        pytest.param(b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----", id="an empty one"),
        pytest.param(b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", id="one cut off"),
    ],
)
def test_a_file_that_is_no_certificate_says_nothing(tmp_path: Path, content: bytes) -> None:
    """What cannot be read is not blamed either."""
    (tmp_path / "a.crt").write_bytes(content)

    assert expired_since(str(tmp_path / "a.crt"), NOW) is None
    assert refused_client(str(tmp_path / "none.crt"), NOW) == ""
