"""Certificates for a test's own servers and clients: a CA, and whatever it signs."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from karpenter.kube.http import Certificate

DAY = timedelta(days=1)


class Authority:
    """A CA that lives in a folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self.ca_file = str(folder / f"{name}.crt")
        made = self._begin(self._name, self._key).add_extension(
            x509.BasicConstraints(True, None), critical=True
        )
        Path(self.ca_file).write_bytes(_pem(made.sign(self._key, hashes.SHA256())))

    def issue(self, name: str, *, file: str = "") -> Certificate:
        """Sign a certificate for 127.0.0.1 and `name`, and write it beside its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.DNSName(name), x509.IPAddress(ip_address("127.0.0.1"))])
        signed = self._begin(_named(name), key).add_extension(names, critical=False)
        cert, secret = self._folder / f"{file or name}.crt", self._folder / f"{file or name}.key"
        cert.write_bytes(_pem(signed.sign(self._key, hashes.SHA256())))
        secret.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return Certificate(str(cert), str(secret))

    def _begin(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return x509.CertificateBuilder(
            issuer_name=self._name,
            subject_name=subject,
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - DAY,
            not_valid_after=now + DAY,
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
