"""Certificates of servers and clients on loopback."""

import ssl
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import NameOID

from karpenter_local.certificates import CertificateAuthority, signing_key


def test_what_is_issued_can_serve_and_call(tmp_path: Path) -> None:
    """A pair is accepted by TLS as a chain, and names loopback."""
    authority = CertificateAuthority()

    pair = authority.issue_files(tmp_path, "server")

    context = ssl.create_default_context(cafile=str(authority.write(tmp_path)))
    context.load_cert_chain(pair.certificate, pair.key)
    issued = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    names = issued.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    issued.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate))


def test_a_client_is_a_user_of_a_group() -> None:
    """The common name of a client certificate is its user, and the organization its group."""
    certificate, _ = CertificateAuthority().issue("system:karpenter", hosts=(), group="system:masters")

    subject = x509.load_pem_x509_certificate(certificate).subject
    assert [each.value for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [
        "system:karpenter"
    ]
    assert [each.value for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == [
        "system:masters"
    ]


def test_keys_are_for_their_owner_only(tmp_path: Path) -> None:
    """No other user of the machine may read a key."""
    pair = CertificateAuthority().issue_files(tmp_path, "server")

    assert pair.key.stat().st_mode & 0o777 == 0o600


def test_the_signing_key_is_made_once(tmp_path: Path) -> None:
    """Tokens that were issued before a restart are good after it."""
    first = signing_key(tmp_path).key.read_bytes()

    assert signing_key(tmp_path).key.read_bytes() == first
