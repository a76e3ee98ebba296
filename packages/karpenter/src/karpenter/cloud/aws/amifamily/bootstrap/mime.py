"""
MIME multipart archives of user data, as cloud-init reads them.

Reads archives that users wrote and writes ours, with the boundary ``//`` and without carriage returns.
https://cloudinit.readthedocs.io/en/latest/explanation/format.html

Archives are read as Go's ``mime/multipart`` reads them, so that whatever Karpenter could merge can be merged
here: the last line may be a boundary without its closing dashes, and a part that is an archive itself stays
as it is written. https://pkg.go.dev/mime/multipart
"""

from __future__ import annotations

import quopri
import re
from email.message import Message
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import BadUserData

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# cloud-init tells parts apart by their type:
# https://cloudinit.readthedocs.io/en/latest/explanation/format.html
SHELL: Final = 'text/x-shellscript; charset="us-ascii"'
# https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/examples/
NODE_CONFIG: Final = "application/node.eks.aws"

# Karpenter's boundary. User data is compared as text by those who change over, so it stays the same:
# https://karpenter.sh/docs/concepts/nodeclasses/#specuserdata
_BOUNDARY: Final = "//"
_OURS: Final = re.compile(rf"^--{_BOUNDARY}(_*)", re.MULTILINE)
_STARTS: Final = ("MIME-Version:", "Content-Type:")
_TYPE: Final = "Content-Type"
_ENCODING: Final = "Content-Transfer-Encoding"
# The characters of a token: https://www.rfc-editor.org/rfc/rfc9110#name-tokens
_HEADER: Final = re.compile(r"(?P<key>[!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*(?P<value>.*?)[ \t]*")

Headers = tuple[tuple[str, str], ...]


class Part(msgspec.Struct, frozen=True):
    """One document: its headers and its text."""

    headers: Headers
    text: str

    @classmethod
    def of(cls, content_type: str, text: str) -> Part:
        return cls(((_TYPE, content_type),), text)

    @property
    def content_type(self) -> str:
        """What the document says that it is; empty when it does not."""
        return dict(self.headers).get(_TYPE, "")

    def with_type_only(self) -> Part:
        """Return the document without its other headers, but for the one without which it cannot be read."""
        held = dict(self.headers)
        kept = ((_ENCODING, held[_ENCODING]),) if _ENCODING in held else ()
        return Part((*kept, (_TYPE, self.content_type)), self.text)


def is_archive(text: str) -> bool:
    return text.strip().startswith(_STARTS)


def parse_archive(text: str) -> tuple[Part, ...]:
    """
    Return the documents of an archive.

    Raises:
        BadUserData: it is none.
    """
    lines = text.strip().replace("\r\n", "\n").split("\n")
    headers, rest = _headers(lines)
    boundary = _boundary(dict(headers).get(_TYPE, ""))
    return tuple(_parts(rest, f"--{boundary}"))


def render_archive(parts: Iterable[Part]) -> str:
    """Return documents as one archive, whose boundary is in none of them."""
    held = tuple(parts)
    taken = [len(found[1]) for part in held for found in _OURS.finditer(part.text)]
    boundary = _BOUNDARY + "_" * (max(taken) + 1 if taken else 0)
    written = [f'MIME-Version: 1.0\n{_TYPE}: multipart/mixed; boundary="{boundary}"\n']
    for part in held:
        headers = "".join(f"{key}: {value}\n" for key, value in part.headers)
        written.append(f"\n--{boundary}\n{headers}\n{part.text}")
    return f"{''.join(written)}\n--{boundary}--\n".replace("\r", "")


def _boundary(content_type: str) -> str:
    message = Message()
    message[_TYPE] = content_type
    boundary = message.get_param("boundary")
    if not content_type or message.get_content_maintype() != "multipart":
        raise BadUserData("the user data says that it is MIME, but it is not a multipart archive")
    if not isinstance(boundary, str) or not boundary:
        raise BadUserData("the user data is a MIME archive that does not say its boundary")
    return boundary


def _headers(lines: Sequence[str]) -> tuple[Headers, Sequence[str]]:
    """Return the headers at the beginning, sorted, and the lines behind the blank line that ends them."""
    found: list[tuple[str, str]] = []
    for place, line in enumerate(lines):
        if not line:
            return tuple(sorted(found)), lines[place + 1 :]
        if line[0] in " \t" and found:
            key, value = found.pop()
            found.append((key, f"{value} {line.strip()}"))
            continue
        match = _HEADER.fullmatch(line)
        if match is None:
            raise BadUserData(f"the user data has a MIME header that is none, in line {place + 1} of a part")
        found.append(("-".join(word.capitalize() for word in match["key"].split("-")), match["value"]))
    if found:
        raise BadUserData("the user data is a MIME archive that ends among the headers of a part")
    return (), ()


def _parts(lines: Sequence[str], boundary: str) -> Iterator[Part]:
    first = next((place for place, line in enumerate(lines) if _opens(line, boundary)), None)
    rest = lines[first + 1 :] if first is not None else ()
    while any(rest):  # a boundary with nothing behind it ends an archive as well
        headers, rest = _headers(rest)
        ends = next((place for place, line in enumerate(rest) if _ends(line, boundary)), None)
        if ends is None:
            raise BadUserData("the user data is a MIME archive whose last part does not end")
        yield _decoded(headers, "\n".join(rest[:ends]))
        line, rest = rest[ends], rest[ends + 1 :]
        if line.startswith(f"{boundary}--"):
            return
        if not _opens(line, boundary):
            raise BadUserData("the user data has a MIME boundary with something behind it")


def _opens(line: str, boundary: str) -> bool:
    return line.startswith(boundary) and not line[len(boundary) :].strip(" \t")


def _ends(line: str, boundary: str) -> bool:
    behind = line[len(boundary) :]
    return line.startswith(boundary) and (not behind or behind[0] in " \t" or behind.startswith("--"))


def _decoded(headers: Headers, text: str) -> Part:
    """Return a document; quoted-printable is taken off, as Go does, other encodings are cloud-init's."""
    held = dict(headers)
    if held.get(_ENCODING, "").lower() != "quoted-printable":
        return Part(headers, text)
    plain = quopri.decodestring(text.encode()).decode("utf-8", "replace")
    return Part(tuple(each for each in headers if each[0] != _ENCODING), plain)
