"""
Certificate authorities and the certificates that they issue, for servers and clients on loopback.

The embedded API server keeps its certificates in memory or in its state directory; a real control plane reads
its own from files. The key of an authority is never written, so nothing more can be issued in its name once
the process has ended.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

LOOPBACK: Final = "127.0.0.1"
_ADDRESSES: Final = (LOOPBACK, "::1")
_SERVER_NAMES: Final = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
"""The names by which an API server is called: https://kubernetes.io/docs/setup/best-practices/certificates/"""

_OWNER: Final = "karpenter-local"


class ServerCertificates(msgspec.Struct, frozen=True):
    """Certificate and key of an API server, and the authority that its clients must trust; all in PEM."""

    authority: bytes
    certificate: bytes
    key: bytes


class KeyPair(msgspec.Struct, frozen=True, kw_only=True):
    """The files of one certificate and its key."""

    certificate: Path
    key: Path


class CertificateAuthority:
    """An authority that exists as long as this object."""

    def __init__(self) -> None:
        self._ca = trustme.CA(organization_name=_OWNER)

    @property
    def certificate(self) -> bytes:
        return self._ca.cert_pem.bytes()

    def issue(
        self, name: str, *, hosts: tuple[str, ...] = _SERVER_NAMES, group: str = _OWNER
    ) -> tuple[bytes, bytes]:
        """
        Return a certificate and its key, in PEM, to serve `hosts` on loopback and to call as `name`.

        An API server takes the common name of a client certificate as the user, and the organization as the
        group: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates
        """
        issued = self._ca.issue_cert(*hosts, *_ADDRESSES, common_name=name, organization_name=group)
        chain = b"".join(each.bytes() for each in issued.cert_chain_pems)
        return chain, issued.private_key_pem.bytes()

    def write(self, directory: Path) -> Path:
        """Write ``ca.crt`` into a directory, and return where it is."""
        path = directory / "ca.crt"
        path.write_bytes(self.certificate)
        return path

    def issue_files(
        self, directory: Path, name: str, *, file: str = "", hosts: tuple[str, ...] = _SERVER_NAMES
    ) -> KeyPair:
        """Write a certificate and its key, which only its owner can read, into a directory."""
        certificate, key = self.issue(name, hosts=hosts)
        pair = KeyPair(certificate=directory / f"{file or name}.crt", key=directory / f"{file or name}.key")
        pair.certificate.write_bytes(certificate)
        _write_key(pair.key, key)
        return pair


def server_certificates() -> ServerCertificates:
    """Return a fresh authority and the certificate of an API server that it has signed."""
    authority = CertificateAuthority()
    certificate, key = authority.issue("karpenter-local-server")
    return ServerCertificates(authority=authority.certificate, certificate=certificate, key=key)


def signing_key(directory: Path) -> KeyPair:
    """Return the key pair of service-account tokens in `directory`; the first call creates it."""
    pair = KeyPair(certificate=directory / "service-account.pub", key=directory / "service-account.key")
    if pair.key.exists() and pair.certificate.exists():
        return pair
    key = ec.generate_private_key(ec.SECP256R1())
    pair.certificate.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _write_key(pair.key, private)
    return pair


def _write_key(path: Path, key: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(key)
