"""
What may be read of a cluster: each kind is asked for once, and what is missing is told from what is refused.

A kind that the API server does not serve has no objects. One that may not be read is an error where decisions
need it, and is named and left out where they do not. An API server refuses before it looks whether there is
such a kind, so that its discovery is asked, which everyone may read:
https://kubernetes.io/docs/reference/access-authn-authz/rbac/#discovery-roles.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.kube.errors import Forbidden, KubeError, NotFound
from karpenter.kube.transport import Request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from karpenter.api.meta import Resource
    from karpenter.kube.client import Client
    from karpenter.kube.targets import Target

ROLE: Final = "karpenter-reader"
"""The ClusterRole that is proposed to those who may not read."""

_USER: Final = re.compile(r'User "(?P<user>[^"]+)"')
_ACCOUNT: Final = "system:serviceaccount:"


class ClusterUnreadable(KubeError):  # noqa: N818  the tree reads as words
    """What decisions are made from may not be read; the hint is the Role that helps."""

    def __init__(self, denied: Iterable[str], error: Forbidden, hint: str) -> None:
        super().__init__(
            f"{_user(error) or 'this user'} may not list {', '.join(sorted(denied))} in the whole cluster,"
            " and without them the answer would be wrong"
        )
        self.hint = hint


class Readable(msgspec.Struct, frozen=True, kw_only=True):
    """The answers for the kinds that there are, and which kinds may not be read; both by their names."""

    answers: dict[str, Any]
    denied: dict[str, Forbidden] = {}
    resources: dict[str, str] = {}
    """What RBAC calls the kinds that may not be read, such as ``nodepools.karpenter.sh``."""

    def require(self, needed: Iterable[type[Resource]]) -> None:
        """Raise ClusterUnreadable where one of these kinds may not be read."""
        missing = [each.kind for each in needed if each.kind in self.denied]
        if missing:
            resources = {self.resources[each] for each in missing}
            raise ClusterUnreadable(resources, self.denied[missing[0]], self.role)

    @property
    def left_out(self) -> tuple[str, ...]:
        """A sentence for each kind that may not be read."""
        return tuple(f"{kind} is left out: {error}" for kind, error in self.denied.items())

    @property
    def role(self) -> str:
        """The commands by which an administrator lets the user read what was asked for, but for Secrets."""
        names = ",".join(sorted(set(self.resources.values()) - {"secrets"}))
        if not names:
            return ""
        user = _user(next(iter(self.denied.values())))
        subject = f"--user={user or 'NAME'}"
        if user.startswith(_ACCOUNT):
            subject = f"--serviceaccount={user.removeprefix(_ACCOUNT)}"
        return (
            f"kubectl create clusterrole {ROLE} --verb=get,list,watch --resource={names}"
            f" && kubectl create clusterrolebinding {ROLE} --clusterrole={ROLE} {subject}"
        )


async def ask_for_each(
    client: Client, kinds: Iterable[Target[Any]], ask: Callable[[Target[Any]], Awaitable[Any]]
) -> Readable:
    """
    Return what `ask` says about each kind that is served.

    Raises:
        KubeError: the cluster does not answer.
    """
    refused: dict[str, Forbidden] = {}
    asked = {target.kind: target for target in kinds}

    async def answer(target: Target[Any]) -> Any:
        try:
            return await ask(target)
        except NotFound:
            return None  # its definition is not installed, so there are none
        except Forbidden as error:
            refused[target.kind] = error
            return None

    found = await asyncio.gather(*map(answer, asked.values()))
    denied = {kind: error for kind, error in refused.items() if await _is_served(client, asked[kind])}
    return Readable(
        answers={kind: each for kind, each in zip(asked, found, strict=True) if each is not None},
        denied=denied,
        resources={kind: resource_of(asked[kind]) for kind in denied},
    )


def resource_of(kind: Target[Any]) -> str:
    """Return what RBAC calls a kind, such as ``nodepools.karpenter.sh``."""
    group = kind.api_version.rpartition("/")[0]
    return f"{kind.plural}.{group}" if group else kind.plural


def _user(error: Forbidden) -> str:
    found = _USER.search(error.message)
    return found["user"] if found else ""


async def _is_served(client: Client, kind: Target[Any]) -> bool:
    """Return whether the API server has a kind; true where it does not even tell that."""
    if "/" not in kind.api_version:
        return True
    path = f"/apis/{kind.api_version}"
    request = Request(method="GET", path=path, headers=(("accept", "application/json"),))
    try:
        response = await client.send(request)
    except NotFound:
        return False
    except KubeError:
        return True
    told = msgspec.json.decode(response.body)
    return any(each.get("name") == kind.plural for each in told.get("resources") or ())
