"""
What to say of certificates that a server, or we, cannot use: which one it is, and until when it was valid.

The operating system's TLS says why it refuses a server's certificate. Why a server refuses ours it says in an
alert, or not at all: kube-apiserver takes a client whose certificate has expired for a stranger and answers
401. So the date is read from the file. No signature is checked here.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ssl

# The codes of X509_verify_cert: https://docs.openssl.org/master/man3/X509_STORE_CTX_get_error/
_EXPIRED: Final = 10
# The codes of OpenSSL's verification: https://docs.openssl.org/master/man1/openssl-verification-options/
_NOT_YET: Final = 9
_UNKNOWN: Final = frozenset({2, 18, 19, 20, 21})
_OTHER_NAME: Final = frozenset({62, 63, 64})
_PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_VERSION, _UTC_TIME, _LONG = 0xA0, 0x17, 0x80
_SHORT_TIME: Final = 13
_TURN: Final = 50
"""Two digits of a year below this are of this century; see section 4.1.2.5.1 of RFC 5280."""


def refused_server(error: ssl.SSLError) -> str:
    """Return what is wrong with a server's certificate; nothing when that is not the matter."""
    code = getattr(error, "verify_code", 0)
    if code == _EXPIRED:
        return "the certificate of the API server has expired; hint: renew it, and check this machine's clock"
    if code == _NOT_YET:
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
    if kind == _UTC_TIME and len(text) == _SHORT_TIME:
        text = f"{20 if int(text[:2]) < _TURN else 19}{text}"
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
