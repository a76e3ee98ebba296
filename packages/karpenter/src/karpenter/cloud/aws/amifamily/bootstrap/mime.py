"""
MIME multipart archives of user data, as cloud-init reads them.

Reads archives of users and writes ours, always with the boundary ``//`` and without carriage returns.
https://cloudinit.readthedocs.io/en/latest/explanation/format.html
"""

from __future__ import annotations

from email import message_from_string
from email.message import Message
from email.policy import compat32
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import BadUserData

if TYPE_CHECKING:
    from collections.abc import Iterable

SHELL: Final = 'text/x-shellscript; charset="us-ascii"'
NODE_CONFIG: Final = "application/node.eks.aws"

_BOUNDARY: Final = "//"
_STARTS: Final = ("MIME-Version:", "Content-Type:")


class Part(msgspec.Struct, frozen=True):
    """One document: its headers and its text."""

    headers: tuple[tuple[str, str], ...]
    text: str

    @classmethod
    def of(cls, content_type: str, text: str) -> Part:
        """Return a document of a type."""
        return cls((("Content-Type", content_type),), text)


def is_archive(text: str) -> bool:
    """Say whether a text says that it is a MIME archive."""
    return text.strip().startswith(_STARTS)


def parse_archive(text: str) -> tuple[Part, ...]:
    """
    Return the documents of an archive.

    Raises:
        BadUserData: it is none.
    """
    message = message_from_string(text.strip().replace("\r\n", "\n") + "\n", policy=compat32)
    parts = message.get_payload()
    if not message.is_multipart() or not isinstance(parts, list):
        raise BadUserData("the user data says that it is MIME, but it is not a multipart archive")
    if message.defects:
        names = ", ".join(type(each).__name__ for each in message.defects)
        raise BadUserData(f"the user data is not a whole MIME archive: {names}")
    return tuple(
        Part(tuple((key, str(value)) for key, value in part.items()), str(part.get_payload()))
        for part in parts
        if isinstance(part, Message)
    )


def render_archive(parts: Iterable[Part]) -> str:
    """
    Return documents as one archive.

    Raises:
        BadUserData: a line of a document would end it.
    """
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{_BOUNDARY}"', ""]
    for part in parts:
        if f"\n--{_BOUNDARY}" in f"\n{part.text}":
            raise BadUserData(
                f"the user data has a line that begins with --{_BOUNDARY}, which ends a document"
            )
        lines.append(f"--{_BOUNDARY}")
        lines += [f"{key}: {value}" for key, value in part.headers]
        lines += ["", part.text.rstrip("\n"), ""]
    lines += [f"--{_BOUNDARY}--", ""]
    return "\n".join(lines).replace("\r", "")
