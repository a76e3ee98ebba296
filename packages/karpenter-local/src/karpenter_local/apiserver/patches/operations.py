"""JSON patch (RFC 6902): a list of operations, all or none."""

from __future__ import annotations

import copy
from typing import Any

from karpenter_local.apiserver import errors

# maxJSONPatchOperations of kube-apiserver, which keeps a patch from taking minutes.
_MAX_OPERATIONS = 10_000
# https://www.rfc-editor.org/rfc/rfc6902#section-4
_KNOWN = frozenset({"add", "remove", "replace", "move", "copy", "test"})


class PatchError(ValueError):
    """An operation cannot be carried out on this object."""


def apply(value: Any, operations: list[Any]) -> Any:
    """Return `value` changed by `operations`; `value` is not kept."""
    if not all(isinstance(item, dict) for item in operations):
        raise errors.bad_request(
            "error decoding patch: json: cannot unmarshal into Go value of type handlers.jsonPatchOp"
        )
    if len(operations) > _MAX_OPERATIONS:
        raise errors.APIStatusError(
            413,
            "RequestEntityTooLarge",
            f"The allowed maximum operations in a JSON patch is {_MAX_OPERATIONS}, got {len(operations)}",
        )
    for operation in operations:
        if operation.get("op") not in _KNOWN or not isinstance(operation.get("path"), str):
            raise rejected()
    try:
        for operation in operations:
            value = _one(value, operation)
    except PatchError:
        raise rejected() from None
    return value


def rejected() -> errors.APIStatusError:
    """The patch is well formed and does not fit the object; the API does not say more."""
    message = "the server rejected our request due to an error in our request"
    return errors.APIStatusError(422, "Invalid", message, details={})


def _one(value: Any, operation: dict[str, Any]) -> Any:
    path = operation["path"]
    match operation["op"]:
        case "add":
            return _add(value, path, operation.get("value"))
        case "remove":
            return _remove(value, path)
        case "replace":
            return _set(value, path, operation.get("value"))
        case "move":
            moved = _get(value, _from(operation), "move")
            return _add(_remove(value, _from(operation)), path, moved)
        case "copy":
            return _add(value, path, copy.deepcopy(_get(value, _from(operation), "copy")))
        case _:
            if not _same(_find(value, path), operation.get("value")):
                raise PatchError(f"testing value {path} failed")
            return value


def _same(left: Any, right: Any) -> bool:
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _from(operation: dict[str, Any]) -> str:
    origin = operation.get("from")
    if not isinstance(origin, str):
        raise PatchError(f"{operation['op']} operation has no from field")
    return origin


def _steps(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise PatchError(f"path {path!r} does not begin with a slash")
    return [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]


def _step(container: Any, step: str, path: str, operation: str) -> Any:
    if isinstance(container, dict):
        if step not in container:
            raise PatchError(
                f"{operation} operation does not apply: doc is missing key: {path}: missing value"
            )
        return container[step]
    if isinstance(container, list):
        return container[_index(step, len(container) - 1, path, operation)]
    raise PatchError(f"{operation} operation does not apply: doc is missing path: {path}: missing value")


def _index(step: str, last: int, path: str, operation: str) -> int:
    negative = step.startswith("-")
    digits = step.removeprefix("-")
    if not digits.isdigit() or negative:
        raise PatchError(f"{operation} operation does not apply: doc is missing key: {path}: missing value")
    if int(step) > last:
        raise PatchError(f"{operation} operation does not apply: doc is missing key: {path}: missing value")
    return int(step)


def _get(value: Any, path: str, operation: str) -> Any:
    for step in _steps(path):
        value = _step(value, step, path, operation)
    return value


def _find(value: Any, path: str) -> Any:
    """Return what is at `path`; a missing key is null, as ``test`` sees it."""
    for step in _steps(path):
        value = value.get(step) if isinstance(value, dict) else _step(value, step, path, "test")
    return value


def _parent(value: Any, path: str, operation: str) -> tuple[Any, str]:
    steps = _steps(path)
    for step in steps[:-1]:
        if isinstance(value, dict) and step not in value:
            raise PatchError(
                f"{operation} operation does not apply: doc is missing path: {path!r}: missing value"
            )
        value = _step(value, step, path, operation)
    return value, steps[-1]


def _add(value: Any, path: str, new: Any) -> Any:
    if not path:
        return new
    container, last = _parent(value, path, "add")
    if isinstance(container, dict):
        container[last] = new
    elif isinstance(container, list):
        position = len(container) if last == "-" else _index(last, len(container), path, "add")
        container.insert(position, new)
    else:
        raise PatchError(f"add operation does not apply: doc is missing path: {path!r}: missing value")
    return value


def _set(value: Any, path: str, new: Any) -> Any:
    if not path:
        return new
    container, last = _parent(value, path, "replace")
    if isinstance(container, dict):
        container[last] = new  # even where there was nothing, as the API has it
    elif isinstance(container, list):
        container[_index(last, len(container) - 1, path, "replace")] = new
    else:
        raise PatchError(f"replace operation does not apply: doc is missing path: {path!r}: missing value")
    return value


def _remove(value: Any, path: str) -> Any:
    _get(value, path, "remove")
    if not path:
        return None
    container, last = _parent(value, path, "remove")
    if isinstance(container, dict):
        del container[last]
    else:
        del container[int(last)]
    return value
