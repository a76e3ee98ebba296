"""
TLS towards an API server: whom we trust, and the certificate that we show.

Certificates are files, because they change while we run: a context is made anew when one of its files has.
Connections that exist keep theirs; new ones use the new.
"""

import ssl
from pathlib import Path

import msgspec

from karpenter.kube.credentials import Certificate

RECHECK = 60.0
"""Seconds between two looks at the files."""


class Trust(msgspec.Struct, frozen=True, kw_only=True):
    """How to know the server."""

    ca_file: str = ""
    """Whom we trust to vouch for it; empty means whom the machine trusts."""

    verify: bool = True
    server_name: str = ""
    """The name that its certificate must carry, if not the one it is called by."""


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
            if same and now - self._checked_at < RECHECK:
                return self._context
        self._checked_at = now
        made_of = (certificate, _times(self._trust.ca_file, *_files(certificate)))
        if self._context is None or made_of != self._made_of:
            self._context = make_context(self._trust, certificate)
            self._made_of = made_of
        return self._context


def make_context(trust: Trust, certificate: Certificate | None) -> ssl.SSLContext:
    """Return a client context for this trust and certificate."""
    context = ssl.create_default_context(cafile=trust.ca_file or None)
    # Cluster CAs are often made without the extensions that newer Pythons insist on.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not trust.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate.cert_file, certificate.key_file)
    return context


def _files(certificate: Certificate | None) -> tuple[str, ...]:
    return (certificate.cert_file, certificate.key_file) if certificate else ()


def _times(*files: str) -> tuple[int, ...]:
    return tuple(Path(file).stat().st_mtime_ns for file in files if file)
