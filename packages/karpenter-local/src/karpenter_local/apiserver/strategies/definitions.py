"""CustomResourceDefinitions: stored with the versions that they store, held until their objects are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver.custom import rules
from karpenter_local.apiserver.custom.lifecycle import FINALIZER
from karpenter_local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.entry import Object
    from karpenter_local.apiserver.field_errors import FieldError
    from karpenter_local.apiserver.resources import APIResource


class DefinitionStrategy(Strategy):
    """Rules for writing definitions."""

    def prepare_create(self, resource: APIResource, value: Object) -> None:
        _ = resource
        stored = [item["name"] for item in value["spec"].get("versions") or () if item.get("storage")]
        value["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": stored or None,
        }

    def validate(self, value: Object, old: Object | None) -> Sequence[FieldError]:
        return list(rules.validate_definition(value, old))

    def before_delete(self, backend: Backend, value: Object) -> None:
        """Hold the definition until its objects are gone."""
        _ = backend
        finalizers = value["metadata"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
