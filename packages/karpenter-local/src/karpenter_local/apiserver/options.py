"""
The options of writes that every client may give: who writes, for real or not, how strictly.

They come in the query; those of a delete may come in its body, too. What is not an option's value is
refused here, in the name of the options object that the API would read it into.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import msgspec

from karpenter_local.apiserver import errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter_local.apiserver.request import RequestInfo

_KINDS = {
    "create": "CreateOptions",
    "update": "UpdateOptions",
    "patch": "PatchOptions",
    "delete": "DeleteOptions",
    "deletecollection": "DeleteOptions",
}
# FieldManagerMaxLength of k8s.io/apimachinery.
_LONGEST_MANAGER = 128
_GROUP = "meta.k8s.io"


def refuse(kind: str, *causes: tuple[str, str, str]) -> NoReturn:
    """Refuse options; each cause is a field, a reason and a message."""
    sentences = [f"{field}: {message}" for field, _, message in causes]
    text = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    raise errors.APIStatusError(
        422,
        "Invalid",
        f'{kind}.{_GROUP} "" is invalid: {text}',
        details={
            "group": _GROUP,
            "kind": kind,
            "causes": [
                {"reason": reason, "message": message, "field": field} for field, reason, message in causes
            ],
        },
    )


def is_dry_run(given: Sequence[str], kind: str) -> bool:
    if not given or list(given) == [""]:
        return False
    if any(value != "All" for value in given):
        text = msgspec.json.encode(list(given)).decode()
        refuse(
            kind, ("dryRun", "FieldValueNotSupported", f'Unsupported value: {text}: supported values: "All"')
        )
    return True


def check(call: RequestInfo) -> None:
    """Refuse what is wrong with the options of a create, an update or a patch."""
    kind = _KINDS[call.verb]
    manager = call.request.parameter("fieldManager")
    if len(manager) > _LONGEST_MANAGER:
        message = f"Too long: may not be more than {_LONGEST_MANAGER} bytes"
        refuse(kind, ("fieldManager", "FieldValueTooLong", message))
    if call.verb == "patch":
        _check_patch(call, manager)
    is_dry_run(call.dry_runs, kind)
    validation_mode(call)


def _check_patch(call: RequestInfo, manager: str) -> None:
    applies = call.request.header("content-type").startswith("application/apply-patch")
    if applies and not manager:
        refuse(
            "PatchOptions",
            ("fieldManager", "FieldValueRequired", "Required value: is required for apply patch"),
        )
    if not applies and call.request.parameter("force"):
        message = "Forbidden: may not be specified for non-apply patch"
        refuse("PatchOptions", ("force", "FieldValueForbidden", message))


def validation_mode(call: RequestInfo) -> str:
    """Return ``Strict``, ``Warn`` or ``Ignore``."""
    mode = call.request.parameter("fieldValidation")
    if mode in {"", "Warn"}:
        return "Warn"
    if mode not in {"Strict", "Ignore"}:
        message = f'Unsupported value: "{mode}": supported values: "", "Ignore", "Strict", "Warn"'
        refuse(_KINDS[call.verb], ("fieldValidation", "FieldValueNotSupported", message))
    return mode
