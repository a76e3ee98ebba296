"""
Work that moto repeats for every call though its result is the same: done once, or looked up.

:func:`install` puts the shorter ways in place, once for the whole process. Each returns what moto's own does.
A simulated hour makes thousands of calls, and these were half of what they cost.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final
from xml.sax.saxutils import escape, quoteattr

from moto.core import responses, serialize
from moto.core.constants import MISSING
from moto.core.serialize import AttributePicker, AttributePickerContext, EC2Serializer
from moto.core.utils import get_value, method_names_from_class
from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.models.instances import Instance
from moto.ec2.models.tags import TagBackend
from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE, get_prefix
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


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


_SHOWN_ATTRIBUTE: Final = "_shown_as"
"""Where an instance keeps how it was shown last, and what it was like then."""


def _instance(plain: Callable[..., None]) -> Callable[..., None]:
    """Return how EC2 shows a structure; an instance that is as it was is shown as it was."""

    def show(self: Any, serialized: Any, value: Any, shape: Any, key: str) -> None:
        if type(value) is not Instance or shape.name != "Instance" or not key:
            plain(self, serialized, value, shape, key)
            return
        mark, held = (tuple(self.path), *_mark(value)), value.__dict__.get(_SHOWN_ATTRIBUTE)
        if held is None or held[0] != mark:
            shown: dict[str, Any] = {}
            plain(self, shown, value, shape, key)
            held = value.__dict__[_SHOWN_ATTRIBUTE] = (mark, shown)
        serialized.update(held[1])

    return show


def _mark(instance: Any) -> tuple[Any, ...]:
    """Return what an instance is like: its attributes, and what is changed inside of them."""
    held = instance.__dict__
    state = instance._state  # noqa: SLF001  the one that changes most
    return (
        tuple([value for key, value in held.items() if key != _SHOWN_ATTRIBUTE]),
        (state.name, state.code),
        tuple(instance.ec2_backend.tags.get(instance.id, {}).items()),
        tuple(vars(instance.metadata_options).values()),
        tuple([(each.id, each.private_ip_address, each.public_ip) for each in instance.nics.values()]),
        tuple(instance.block_device_mapping),
        len(instance.security_groups),
    )


def _document(plain: Callable[..., str]) -> Callable[..., str]:
    """Return how EC2 writes an answer as XML; names come from its model, and need no check."""

    def write(self: Any, body: Mapping[str, Any]) -> str:
        if self.pretty_print:
            return plain(self, body)
        parts = ['<?xml version="1.0" encoding="utf-8"?>\n']
        for name, value in body.items():
            _element(name, value, parts)
        return "".join(parts)

    return write


def _element(name: str, value: Any, parts: list[str]) -> None:
    if isinstance(value, dict):
        parts.append(f"<{name}")
        parts.extend([f" {key[1:]}={quoteattr(str(each))}" for key, each in value.items() if key[0] == "@"])
        parts.append(">")
        for key, each in value.items():
            if key == "#text":
                parts.append(escape(str(each)))
            elif key[0] != "@":
                _element(key, each, parts)
        parts.append(f"</{name}>")
    elif isinstance(value, list | tuple):
        for each in value:
            _element(name, each, parts)
    elif value is None or value == "":
        parts.append(f"<{name}/>")
    else:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        parts.append(f"<{name}>{escape(text)}</{name}>")


@cache
def install() -> None:
    """Put the shorter ways in place of moto's."""
    setattr(responses, "method_names_from_class", cache(method_names_from_class))  # noqa: B010  a function of theirs
    setattr(AttributePicker, "__call__", _pick)  # noqa: B010  a method of theirs
    setattr(TaggedEC2Resource, "get_tags", _tags)  # noqa: B010  as above
    for name, shorter in (("_serialize_body", _document), ("_serialize_type_structure", _instance)):
        setattr(EC2Serializer, name, shorter(getattr(EC2Serializer, name)))
    plain: Any = DomainDispatcherApplication.get_backend_for_host
    # Its answer depends on the name alone, and it lists a folder of moto each time.
    any_of_them = DomainDispatcherApplication(create_backend_app)
    by_host = cache(lambda host: plain(any_of_them, host))
    setattr(DomainDispatcherApplication, "get_backend_for_host", lambda _, host: by_host(host))  # noqa: B010  as above
