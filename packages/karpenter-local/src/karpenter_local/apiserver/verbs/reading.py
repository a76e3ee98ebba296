"""Get one object, or list many: whole or page by page, now or as of an earlier revision."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

import msgspec

from karpenter_local.apiserver import errors
from karpenter_local.apiserver.options import refuse
from karpenter_local.apiserver.presenting import reply_raw
from karpenter_local.apiserver.verbs.selecting import at, current, matching, parse_revision, selector

if TYPE_CHECKING:
    from karpenter.kube.transport import Response
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.entry import Entry
    from karpenter_local.apiserver.request import RequestInfo
    from karpenter_local.apiserver.selectors import ListSelector
    from karpenter_local.apiserver.views import ResponseView

# https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks
_LIST_EXPIRED = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list."  # noqa: E501  the API's own sentence, clients match on it


class Token(msgspec.Struct):
    """Content of a continue token: the list's revision and the key to go on after."""

    rv: int
    start: str
    v: str = "meta.k8s.io/v1"


def get(backend: Backend, call: RequestInfo, view: ResponseView) -> Response:
    entry = backend.entry(call.resource, call.namespace, call.name)
    if entry is None:
        raise errors.not_found(call.resource, call.name)
    return reply_raw(view.one(entry))


def list_(backend: Backend, call: RequestInfo, view: ResponseView) -> Response:
    """Return the objects that the call selects."""
    chosen = selector(backend, call)
    limit = _number(call, "limit")
    _number(call, "timeoutSeconds")
    token = call.request.parameter("continue")
    revision = _revision(backend, call, continuing=bool(token))
    after = ""
    if token:
        parsed = _parse_token(token)
        after, revision = parsed.start, parsed.rv
    entries, revision = _entries(backend, call, chosen, revision, after=after, limit=limit)
    meta: dict[str, Any] = {"resourceVersion": str(revision)}
    if limit and len(entries) > limit:
        meta["continue"] = _render_token(Token(rv=revision, start=entries[limit - 1].key))
        if not chosen:
            meta["remainingItemCount"] = len(entries) - limit
        entries = entries[:limit]
    return reply_raw(view.many(meta, entries))


def _entries(
    backend: Backend,
    call: RequestInfo,
    chosen: ListSelector,
    revision: int,
    *,
    after: str,
    limit: int,
) -> tuple[list[Entry], int]:
    """Return the rest of the list after a key, at `revision` (zero: now), and the revision that it shows."""
    if revision <= 0 or revision == backend.store.revision:
        # One more than a page has says that there are more; those that a selector leaves are not counted.
        most = limit + 1 if limit and not after else None
        found = current(backend, call, chosen, most=most)
        revision = backend.store.revision
    else:
        state = at(backend, call, revision)
        if state is None:
            fresh = _render_token(Token(rv=-1, start=after)) if after else ""
            why = (
                _LIST_EXPIRED
                if after
                else f"The resourceVersion for the provided list is too old: {revision}"
            )
            raise errors.expired(why, continues=fresh)
        found = matching([state[key] for key in sorted(state)], chosen)
    if after:
        found = [entry for entry in found if entry.key > after]
    return found, revision


def _number(call: RequestInfo, name: str) -> int:
    text = call.request.parameter(name)
    if not text:
        return 0
    try:
        number = int(text)
    except ValueError:
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
    return max(number, 0)


def _revision(backend: Backend, call: RequestInfo, *, continuing: bool) -> int:
    """Return the exact revision to show, or zero for the newest."""
    text = call.request.parameter("resourceVersion")
    match = call.request.parameter("resourceVersionMatch")
    wrong = _match_error(text, match, continuing=continuing)
    if wrong:
        reason = "FieldValueForbidden" if wrong.startswith("Forbidden") else "FieldValueNotSupported"
        refuse("ListOptions", ("resourceVersionMatch", reason, wrong))
    if continuing and text and text != "0":
        raise errors.bad_request("specifying resource version is not allowed when using continue")
    revision = parse_revision(text)
    if revision > backend.store.revision:
        raise too_large(revision, backend.store.revision)
    if match == "Exact":
        return revision
    legacy_exact = not match and revision > 0 and bool(call.request.parameter("limit"))
    return revision if legacy_exact else 0


def _match_error(text: str, match: str, *, continuing: bool) -> str:
    if not match:
        return ""
    if continuing:
        return "Forbidden: resourceVersionMatch is forbidden when continue is provided"
    if not text:
        return "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
    if match not in {"Exact", "NotOlderThan"}:
        return f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
    if match == "Exact" and text == "0":
        return 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    return ""


def too_large(asked: int, newest: int) -> errors.APIStatusError:
    """The client has seen more than the server: it must wait or start anew."""
    message = f"Too large resource version: {asked}, current: {newest}"
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    headers = (("retry-after", "1"),)
    return errors.APIStatusError(504, "Timeout", f"Timeout: {message}", details=details, headers=headers)


def _render_token(token: Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _parse_token(text: str) -> Token:
    try:
        padded = text + "=" * (-len(text) % 4)
        token = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=Token)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise errors.bad_request("invalid continue token: it is not one of this server's") from None
    if token.v != "meta.k8s.io/v1":
        raise errors.bad_request(
            f'invalid continue token: server does not recognize this encoded version "{token.v}"'
        )
    return token
