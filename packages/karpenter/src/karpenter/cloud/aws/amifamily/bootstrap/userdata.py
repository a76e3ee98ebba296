"""Renders the user data of an AMI family, and checks its size."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

import structlog

from karpenter.api.ec2nodeclass import AL2023, BOTTLEROCKET, CUSTOM
from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import BadUserData, Bootstrap, check_words
from karpenter.cloud.aws.amifamily.bootstrap.bottlerocket import render_bottlerocket
from karpenter.cloud.aws.amifamily.bootstrap.eksbootstrap import render_al2
from karpenter.cloud.aws.amifamily.bootstrap.nodeadm import render_al2023
from karpenter.cloud.aws.amifamily.bootstrap.windows import render_windows

if TYPE_CHECKING:
    from karpenter.cloud.aws.amifamily.family import Family

log = structlog.stdlib.get_logger(__name__)

# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-add-user-data.html
LIMIT: Final = 16384
"""Bytes of user data that EC2 takes, before they are encoded."""

READ_LIMIT: Final = 4 * LIMIT
"""Bytes of user data that are read; comments and carriage returns may go, so it is more than EC2 takes."""

NEAR_LIMIT: Final = LIMIT * 9 // 10


class TooMuchUserData(BadUserData):
    """The user data is larger than EC2 takes."""

    def __init__(self, size: int) -> None:
        super().__init__(f"the user data has {size} bytes, and EC2 takes {LIMIT}")
        self.size = size


def render_user_data(family: Family, bootstrap: Bootstrap) -> str:
    """
    Return the user data of a node.

    Raises:
        BadUserData: the user data of the node class cannot be merged with it, or a label, a taint or a
            setting is none.
        TooMuchUserData: it is larger than EC2 takes.
    """
    if (given := _size(bootstrap.custom)) > READ_LIMIT:
        raise TooMuchUserData(given)
    check_words(bootstrap)
    text = _rendered(family, bootstrap)
    size = _size(text)
    if size > LIMIT:
        raise TooMuchUserData(size)
    if size > NEAR_LIMIT:
        log.warning("userdata.nearly_too_large", bytes=size, limit=LIMIT)
    return text


def _size(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise BadUserData("the user data has half a surrogate pair, which is no character") from None


def encode(text: str) -> str:
    """Return user data in base64, as launch templates take it."""
    return base64.b64encode(text.encode()).decode()


def _rendered(family: Family, bootstrap: Bootstrap) -> str:
    if family.is_windows:
        return render_windows(bootstrap)
    match family.name:
        case name if name == AL2023:
            return render_al2023(bootstrap)
        case name if name == BOTTLEROCKET:
            return render_bottlerocket(bootstrap)
        case name if name == CUSTOM:
            return bootstrap.custom
        case _:
            return render_al2(bootstrap)
