"""
Work that moto repeats for every call though its result is the same: done once, or looked up.

:func:`install` puts the shorter ways in place, once for the whole process. Each returns what moto's own does.
A simulated hour makes thousands of calls, and these four were a third of what they cost.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from moto.core import responses, serialize
from moto.core.constants import MISSING
from moto.core.serialize import AttributePicker
from moto.core.utils import get_value, method_names_from_class
from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.models.tags import TagBackend
from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE, get_prefix
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

if TYPE_CHECKING:
    from moto.core.serialize import AttributePickerContext

_KEYS: Final[dict[tuple[type, type, str, Any], tuple[str, ...]]] = {}
"""Under which names a member of an answer may be found, by picker, class of the object, member and shape."""


def _pick(self: AttributePicker, context: AttributePickerContext) -> Any:
    """Return a member of an object; where it may be found depends on the class of the object alone."""
    if self.alias_providers is not serialize.DEFAULT_ALIAS_PROVIDERS:
        keys = tuple(self.get_possible_keys(context))
    else:
        place = (type(self), type(context.obj), context.key, context.shape)
        found = _KEYS.get(place)
        if found is None:
            found = _KEYS[place] = tuple(dict.fromkeys(self.get_possible_keys(context)))
        keys = found
    value = _first(context.obj, keys)
    if self.response_transformers:
        path = f"{context.key_path}.{context.key}"
        for end, transform in self.response_transformers.items():
            if path.endswith(end):
                return transform(value)
    return value


def _first(item: Any, keys: tuple[str, ...]) -> Any:
    if type(item) is dict:
        for key in keys:
            value = item.get(key, MISSING) if "." not in key else get_value(item, key, MISSING)
            if value is not MISSING:
                return value
        return None
    for key in keys:
        value = get_value(item, key, MISSING)
        if value is not MISSING:
            return value
    return None


def _tags(self: Any) -> list[dict[str, str]]:
    """Return the tags of a resource, without a look at the tags of all others."""
    backend = self.ec2_backend
    if not self.id or not isinstance(backend, TagBackend):
        return []
    kind = EC2_PREFIX_TO_RESOURCE.get(get_prefix(self.id), "")
    return [
        {"resource_id": self.id, "key": key, "value": value, "resource_type": kind}
        for key, value in backend.tags.get(self.id, {}).items()
    ]


@cache
def install() -> None:
    """Put the shorter ways in place of moto's."""
    setattr(responses, "method_names_from_class", cache(method_names_from_class))  # noqa: B010  a function of theirs
    setattr(AttributePicker, "__call__", _pick)  # noqa: B010  a method of theirs
    setattr(TaggedEC2Resource, "get_tags", _tags)  # noqa: B010  as above
    plain: Any = DomainDispatcherApplication.get_backend_for_host
    # Its answer depends on the name alone, and it lists a folder of moto each time.
    any_of_them = DomainDispatcherApplication(create_backend_app)
    by_host = cache(lambda host: plain(any_of_them, host))
    setattr(DomainDispatcherApplication, "get_backend_for_host", lambda _, host: by_host(host))  # noqa: B010  as above
