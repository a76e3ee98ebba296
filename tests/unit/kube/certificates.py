"""Certificates of a test's own servers and clients: an authority in a folder, and what it issues."""

from pathlib import Path

from karpenter.kube.http import Certificate
from karpenter_local.certificates import CertificateAuthority


class Authority:
    """An authority whose certificates are files of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = CertificateAuthority()
        self.ca_file = str(self._authority.write(folder))

    def issue(self, name: str, *, file: str = "") -> Certificate:
        """Issue a certificate for 127.0.0.1 and `name`, and write it beside its key."""
        hosts = (name,) if ":" not in name else ()
        pair = self._authority.issue_files(self._folder, name, file=file, hosts=hosts)
        return Certificate(str(pair.certificate), str(pair.key))
