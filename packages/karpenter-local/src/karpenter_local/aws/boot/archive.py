"""
User data as cloud-init takes it apart: one document, or several in a MIME archive.

Only the parts are separated here. Each system reads the documents of the types that it knows.
See https://cloudinit.readthedocs.io/en/latest/explanation/format.html
"""

from __future__ import annotations

from email import message_from_string
from email.message import Message
from typing import Final

import msgspec

from karpenter_local.aws.boot.bootconfig import CannotJoin

SHELL: Final = "text/x-shellscript"
NODE_CONFIG: Final = "application/node.eks.aws"
CLOUD_CONFIG: Final = "text/cloud-config"
UNKNOWN: Final = "text/plain"


class UserDataDocument(msgspec.Struct, frozen=True):
    """One document."""

    type: str
    text: str


def documents(user_data: str) -> tuple[UserDataDocument, ...]:
    """
    Return the documents of user data, in their order.

    Raises:
        CannotJoin: it says that it is an archive and is none.
    """
    if not user_data.strip():
        return ()
    head = user_data.lstrip().lower()
    if not head.startswith(("mime-version:", "content-type:")):
        return (UserDataDocument(_sniffed(head), user_data),)
    archive = message_from_string(user_data.lstrip())
    parts = archive.get_payload()
    if not archive.is_multipart() or not isinstance(parts, list) or archive.defects:
        raise CannotJoin("cloud-init: the user data says that it is a MIME archive, and is none")
    return tuple(
        UserDataDocument(part.get_content_type(), str(part.get_payload()))
        for part in parts
        if isinstance(part, Message)
    )


def _sniffed(head: str) -> str:
    if head.startswith("#!"):
        return SHELL
    if head.startswith("#cloud-config"):
        return CLOUD_CONFIG
    return NODE_CONFIG if "node.eks.aws" in head else UNKNOWN
