"""The rules for the volumes of a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter_local.apiserver.field_errors import FieldError, duplicate, forbidden, invalid, required
from karpenter_local.apiserver.validation import names

if TYPE_CHECKING:
    from collections.abc import Iterator


def volumes(given: list[dict[str, Any]] | None, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, volume in enumerate(given or ()):
        place = f"{path}[{index}]"
        name = volume.get("name", "")
        if not name:
            yield required(f"{place}.name")
        else:
            for sentence in names.label(name):
                yield invalid(f"{place}.name", name, sentence)
        if name in seen:
            yield duplicate(f"{place}.name", name)
        seen.add(name)
        yield from _source(volume, place)


def _source(volume: dict[str, Any], path: str) -> Iterator[FieldError]:
    chosen = [key for key, part in volume.items() if key != "name" and part is not None]
    for extra in chosen[1:]:
        yield forbidden(f"{path}.{extra}", "may not specify more than 1 volume type")
    claim = volume.get("persistentVolumeClaim")
    if claim is not None and not claim.get("claimName"):
        yield required(f"{path}.persistentVolumeClaim.claimName")
    if volume.get("hostPath") is not None and not volume["hostPath"].get("path"):
        yield required(f"{path}.hostPath.path")
    if volume.get("configMap") is not None and not volume["configMap"].get("name"):
        yield required(f"{path}.configMap.name")
    if volume.get("secret") is not None and not volume["secret"].get("secretName"):
        yield required(f"{path}.secret.secretName")
