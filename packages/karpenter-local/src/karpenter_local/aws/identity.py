"""
Temporary credentials: what STS returns for a role of an account of the embedded AWS.

Every role can be assumed, with any token; the ARN of the role names the account.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from werkzeug.wrappers import Response

from karpenter_local.aws.account import ACCOUNTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter_local.aws.account import Account

KEYS: Final = re.compile(r"(AKIA|ASIA)(?P<number>\d{12})")
"""Keys of accounts: those that last, and those that were given for a while."""

ASSUMING: Final = frozenset({"AssumeRole", "AssumeRoleWithWebIdentity"})
_ROLE: Final = re.compile(r"arn:[^:]+:iam::(?P<number>\d{12}):role/(?P<name>.+)")
_LASTS: Final = timedelta(hours=1)


def owner_of(role: str) -> Account | None:
    """Return the account that a role belongs to."""
    found = _ROLE.fullmatch(role)
    return ACCOUNTS.get(found["number"]) if found else None


def assume(account: Account, operation: str, said: Mapping[str, str]) -> Response:
    """Answer with the credentials of a role."""
    role, name = said["RoleArn"], said.get("RoleSessionName", "session")
    until = (account.now() + _LASTS).strftime("%Y-%m-%dT%H:%M:%SZ")
    assumed = role.replace(":iam:", ":sts:").replace(":role/", ":assumed-role/")
    body = (
        f'<{operation}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{operation}Result>'
        f"<AssumedRoleUser><AssumedRoleId>AROA{account.number}:{name}</AssumedRoleId>"
        f"<Arn>{assumed}/{name}</Arn></AssumedRoleUser>"
        f"<Credentials><AccessKeyId>ASIA{account.number}</AccessKeyId>"
        "<SecretAccessKey>not a secret</SecretAccessKey><SessionToken>for a while</SessionToken>"
        f"<Expiration>{until}</Expiration></Credentials>"
        f"</{operation}Result><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata>"
        f"</{operation}Response>"
    )
    return Response(body, 200, {"Content-Type": "text/xml"})
