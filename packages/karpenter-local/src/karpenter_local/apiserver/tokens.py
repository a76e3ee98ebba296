"""
Tokens of service accounts: made on request, and known again when a client shows one.

A token is a JSON web token that this server signs with a key of its own, which ends with the process. It is
good for its audience until it expires or its service account is gone.
See https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from typing import TYPE_CHECKING, Any, Final

from karpenter_local.apiserver.access import UserInfo, known_groups

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter_local.apiserver.entry import Object
    from karpenter_local.apiserver.store import ObjectStore

# https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#service-account-issuer-discovery
ISSUER: Final = "https://kubernetes.default.svc"
DEFAULT_SECONDS: Final = 3600
SHORTEST_SECONDS: Final = 600
"""Seconds that a token is good for at least, if it is to be had at all."""


class ServiceAccountTokens:
    """Makes tokens and checks them."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._key = secrets.token_bytes(32)

    def issue(self, account: Object, *, audiences: list[str], seconds: int, now: datetime) -> str:
        meta = account["metadata"]
        begins = int(now.timestamp())
        about = {
            "namespace": meta["namespace"],
            "serviceaccount": {"name": meta["name"], "uid": meta["uid"]},
        }
        payload = {
            "aud": audiences,
            "exp": begins + seconds,
            "iat": begins,
            "iss": ISSUER,
            "kubernetes.io": about,
            "nbf": begins,
            "sub": f"system:serviceaccount:{meta['namespace']}:{meta['name']}",
        }
        signed = b".".join(
            _encode(json.dumps(part, separators=(",", ":")).encode())
            for part in ({"alg": "HS256", "typ": "JWT"}, payload)
        )
        return b".".join((signed, self._sign(signed))).decode()

    def user(self, token: str, *, now: datetime, audiences: tuple[str, ...] = (ISSUER,)) -> UserInfo | None:
        """Return whose token it is, or None when it is not, or not any more, one of ours."""
        signed, _, signature = token.encode().rpartition(b".")
        if not hmac.compare_digest(signature, self._sign(signed)):
            return None
        part = signed.partition(b".")[2]
        payload: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4)))
        about = payload["kubernetes.io"]
        place = f"{about['namespace']}/{about['serviceaccount']['name']}"
        account = self._store.get("serviceaccounts", place)
        if account is None or account.object()["metadata"]["uid"] != about["serviceaccount"]["uid"]:
            return None
        if now.timestamp() >= payload["exp"] or not set(audiences) & set(payload["aud"]):
            return None
        return UserInfo(payload["sub"], known_groups(payload["sub"]))

    def _sign(self, signed: bytes) -> bytes:
        return _encode(hmac.new(self._key, signed, hashlib.sha256).digest())


def _encode(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")
