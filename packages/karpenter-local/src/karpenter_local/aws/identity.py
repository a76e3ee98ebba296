"""
Who asks the embedded AWS: users with keys that last, and sessions of roles with keys for a while.

STS gives credentials of any role of an account, for any token: whose credentials a program gets is told by
the role that it names. The access key says which account it belongs to and, for a role, which session it is.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter_local.aws.account import ACCOUNTS, Account
from karpenter_local.aws.wire import AwsError

if TYPE_CHECKING:
    from collections.abc import Mapping


KEYS: Final = re.compile(r"(?P<key>(?:AKIA|ASIA)(?P<number>\d{12})\w*)")
"""Keys of accounts: those that last, and those that were given for a while."""

ASSUMING: Final = frozenset({"AssumeRole", "AssumeRoleWithWebIdentity"})
_ROLE: Final = re.compile(r"arn:[^:]+:iam::(?P<number>\d{12}):role/(?P<name>.+)")
_SESSION_DURATION: Final = timedelta(hours=1)


class AwsCaller(msgspec.Struct, frozen=True):
    """Who makes a request."""

    account: Account
    principal: str
    """The ARN, as GetCallerIdentity tells it."""


def caller_of(key: str) -> AwsCaller | None:
    """Return whose access key one is; None when no account here has given it."""
    found = KEYS.fullmatch(key)
    account = ACCOUNTS.get(found["number"]) if found else None
    if account is None:
        return None
    if key.startswith("AKIA"):
        return AwsCaller(account, account.administrator)
    unnamed = f"arn:aws:sts::{account.number}:assumed-role/unnamed/session"
    return AwsCaller(account, account.sessions.get(key, unnamed))


def owner_of(role: str) -> Account | None:
    found = _ROLE.fullmatch(role)
    return ACCOUNTS.get(found["number"]) if found else None


def identify(caller: AwsCaller | None, operation: str, said: Mapping[str, str]) -> dict[str, Any]:
    """
    Return what STS answers.

    Raises:
        AwsError: the caller is not known, the role is not there, or STS is asked for something else.
    """
    if operation == "GetCallerIdentity" and caller is not None:
        return _told(caller)
    account = owner_of(said.get("RoleArn", ""))
    if operation not in ASSUMING or account is None:
        who = caller.principal if caller is not None else "anonymous"
        wanted = said.get("RoleArn", "*")
        raise AwsError(
            "AccessDenied", f"User: {who} is not authorized to perform: sts:{operation} on resource: {wanted}"
        )
    return _assume(account, said)


def _told(caller: AwsCaller) -> dict[str, Any]:
    number = caller.account.number
    name = caller.principal.rpartition("/")[2]
    who = f"AIDA{number}" if ":user/" in caller.principal else f"AROA{number}:{name}"
    return {"UserId": who, "Account": number, "Arn": caller.principal}


def _assume(account: Account, said: Mapping[str, str]) -> dict[str, Any]:
    role, name = said["RoleArn"], said.get("RoleSessionName", "session")
    path, _, last = role.replace(":iam:", ":sts:").partition(":role/")
    principal = f"{path}:assumed-role/{last.rpartition('/')[2]}/{name}"
    key = next((key for key, arn in account.sessions.items() if arn == principal), "")
    key = key or f"ASIA{account.number}{len(account.sessions):04X}"
    account.sessions[key] = principal
    return {
        "AssumedRoleUser": {"AssumedRoleId": f"AROA{account.number}:{name}", "Arn": principal},
        "Credentials": {
            "AccessKeyId": key,
            "SecretAccessKey": "not a secret",
            "SessionToken": "for a while",
            "Expiration": account.now() + _SESSION_DURATION,
        },
    }
