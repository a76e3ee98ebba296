"""The registry strategy of custom kinds: defaults and rules come from the schema, status is a subresource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.schema import ABSENT, apply_defaults, check
from karpenter_local.apiserver import errors
from karpenter_local.apiserver.custom.lifecycle import is_terminating
from karpenter_local.apiserver.field_errors import FieldError
from karpenter_local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.custom.definition import Version
    from karpenter_local.apiserver.entry import Object
    from karpenter_local.apiserver.resources import APIResource


class CustomStrategy(Strategy):
    """Rules for writing one custom kind."""

    unconditional_update = False

    def __init__(self, version: Version) -> None:
        super().__init__()
        self._version = version

    def check_open(self, backend: Backend, resource: APIResource) -> None:
        """Refuse new objects while the definition is being deleted."""
        if is_terminating(backend, resource.group, resource.plural):
            message = "create not allowed while custom resource definition is terminating"
            raise errors.APIStatusError(405, "MethodNotAllowed", message, details={})

    def prepare_create(self, resource: APIResource, value: Object) -> None:
        """Take the status away, and fill in the one that the schema has for those that have none."""
        super().prepare_create(resource, value)
        filled = apply_defaults(self._version.schema, value)
        if "status" in filled:
            value["status"] = filled["status"]

    def prepare_status(self, resource: APIResource, value: Object, old: Object) -> None:
        """Take the status, and nothing else: not even labels."""
        _ = resource
        status = value.get("status")
        managed = value["metadata"].get("managedFields")
        value.clear()
        value |= {key: part for key, part in old.items() if key != "status"}
        value["metadata"] = dict(old["metadata"])
        if managed:
            value["metadata"]["managedFields"] = managed
        if status is not None:
            value["status"] = status

    def desired_state(self, value: Object) -> Object:
        """Count everything but metadata, and status where it is written apart."""
        apart = {"metadata", "status"} if self._version.resource.has_status else {"metadata"}
        return {key: part for key, part in value.items() if key not in apart}

    def validate(self, value: Object, old: Object | None) -> Sequence[FieldError]:
        problems = check(self._version.schema, value, old=ABSENT if old is None else old)
        return [FieldError(item.field or "<nil>", item.reason, item.message) for item in problems]

    def validate_status(self, value: Object, old: Object) -> Sequence[FieldError]:
        return self.validate(value, old)
