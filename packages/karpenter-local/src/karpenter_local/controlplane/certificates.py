"""
A certificate authority that lives as long as one control plane.

It signs serving certificates for the loopback address and client certificates for the components; a client
certificate's common name is its user and its organization its group. Keys are written readable by their owner
only.
"""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LOOPBACK = "127.0.0.1"
VALID = timedelta(days=365)
SKEW = timedelta(hours=1)
"""Certificates start a little in the past, for clocks that disagree."""

SERVED_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


class KeyPair(msgspec.Struct, frozen=True, kw_only=True):
    """Where one certificate and its key are."""

    certificate: Path
    key: Path


class Authority:
    """Issues certificates into `directory`, whose ``ca.crt`` is what others must trust."""

    def __init__(self, directory: Path, *, now: datetime | None = None) -> None:
        self._directory = directory
        self._now = now or datetime.now(UTC)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("karpenter-local-ca")
        self.certificate = directory / "ca.crt"
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        signed = builder.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())
        self.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str) -> KeyPair:
        """Write ``name.crt`` and ``name.key``, good for serving on loopback and for calling as `name`."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = [x509.DNSName(dns) for dns in SERVED_NAMES]
        addresses = [x509.IPAddress(ipaddress.ip_address(LOOPBACK))]
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = self._builder(_name(name), key.public_key())
        builder = builder.add_extension(
            x509.SubjectAlternativeName([*alternatives, *addresses]), critical=False
        )
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        pair = KeyPair(certificate=self._directory / f"{name}.crt", key=self._directory / f"{name}.key")
        pair.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        _write_key(pair.key, key)
        return pair

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - SKEW)
            .not_valid_after(self._now + VALID)
        )


def signing_key(directory: Path) -> KeyPair:
    """Return the key pair of service-account tokens in `directory`; the first call makes it."""
    pair = KeyPair(certificate=directory / "service-account.pub", key=directory / "service-account.key")
    if pair.key.exists() and pair.certificate.exists():
        return pair
    key = ec.generate_private_key(ec.SECP256R1())
    pair.certificate.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    _write_key(pair.key, key)
    return pair


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
