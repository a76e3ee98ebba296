"""
A definition that uses every part of the schema language once, and the questions put to it.

What a real API server answers is in ``tests/data/definitions/answers.json``; a contract test asks it anew.
"""

from typing import Any

import msgspec

NAME = {"type": "string"}
VALUE = {
    "type": "integer",
    "maximum": 10,
    "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "only up"}, {"rule": "self < 5"}],
}


def _rule(rule: str, message: str = "", **more: Any) -> dict[str, Any]:
    return {"rule": rule, **({"message": message} if message else {}), **more}


RULED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "integer"},
        "b": {"type": "string", "maxLength": 100},
        "c": {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 10}},
        "namespace": NAME,
        "x-y": NAME,
        "d.e": NAME,
        "m": {
            "type": "object",
            "maxProperties": 10,
            "additionalProperties": {"type": "string", "maxLength": 10},
        },
    },
    "x-kubernetes-validations": [
        _rule("!has(self.a) || self.a > 0", messageExpression="'a must be ' + 'positive'"),
        _rule("!has(self.a) || self.a != 5", "five", reason="FieldValueForbidden", fieldPath=".a"),
        _rule("!has(self.a) || self.a != 6", "six", reason="FieldValueRequired", fieldPath=".b"),
        _rule("!has(self.a) || self.a != 7", "seven", reason="FieldValueDuplicate", fieldPath=".b"),
        _rule("!has(self.a) || self.a != 8 || 1 / (self.a - 8) > 0", "div"),
        _rule(
            "!has(self.a) || self.a != 9", "fallback", messageExpression="'%s is %d'.format(['a', self.a])"
        ),
        _rule("!has(self.a) || self.a != 10", "fallback10", messageExpression="self.b + 'x'"),
        _rule("!has(self.b) || self.b.matches('^[a-z]+$')"),
        _rule("!has(self.b) || self.b.find('[0-9]+') == ''", "digits"),
        _rule("!has(self.b) || self.b.lowerAscii() == self.b", "lower"),
        _rule("!has(self.b) || self.b.split('x').size() <= 2", "split"),
        _rule("!has(self.b) || self.b.indexOf('zz') == -1", "zz"),
        _rule("!has(self.b) || size(self.b) != 3 || self.b == 'abc'", "three"),
        _rule("!has(self.c) || self.c.isSorted()", "unsorted"),
        _rule("!has(self.c) || self.c.join(',').size() < 8", "long join"),
        _rule("!has(self.c) || self.c.all(x, size(x) < 4)", "long item"),
        _rule("!has(self.__namespace__) || self.__namespace__ == 'n'", "ns"),
        _rule("!has(self.x__dash__y) || self.x__dash__y == 'n'", "dash", fieldPath="['x-y']"),
        _rule("!has(self.d__dot__e) || self.d__dot__e == 'n'", "dot", fieldPath="['d.e']"),
        _rule("!has(self.m) || self.m.all(k, self.m[k] != 'bad')", "bad entry"),
        _rule("!has(self.m) || !('z' in self.m) || self.m['y'] == 'y'", "needs y"),
        _rule(
            "!has(self.m) || !('q' in self.m) || quantity(self.m['q']).isLessThan(quantity('1Gi'))",
            "less than 1Gi",
        ),
    ],
}

MEMBERS: dict[str, dict[str, Any]] = {
    "integer": {"type": "integer", "minimum": 1, "maximum": 5, "multipleOf": 2},
    "between": {
        "type": "integer",
        "minimum": 1,
        "exclusiveMinimum": True,
        "maximum": 5,
        "exclusiveMaximum": True,
    },
    "int32": {"type": "integer", "format": "int32"},
    "number": {"type": "number", "minimum": 0.5},
    "boolean": {"type": "boolean"},
    "text": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
    "one_number": {"type": "integer", "enum": [1, 2]},
    "one_text": {"type": "string", "enum": ["a", "b"]},
    "nullable": {"type": "string", "nullable": True, "default": "d"},
    "filled": {
        "type": "object",
        "default": {},
        "properties": {"a": {"type": "integer", "default": 7}, "b": NAME},
    },
    "filled_below": {"type": "object", "properties": {"a": {"type": "integer", "default": 7}, "b": NAME}},
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": NAME},
    "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "integer"}},
    "named": {
        "type": "array",
        "maxItems": 5,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": {"name": NAME, "v": VALUE}},
    },
    "twice_named": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name", "proto"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": NAME, "proto": {"type": "string", "default": "TCP"}},
        },
    },
    "map": {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 2,
        "additionalProperties": {
            "type": "integer",
            "minimum": 0,
            "x-kubernetes-validations": [_rule("self != 3", "not three")],
        },
    },
    "map_of_sets": {
        "type": "object",
        "additionalProperties": {"type": "array", "x-kubernetes-list-type": "set", "items": NAME},
    },
    "int_or_text": {
        "x-kubernetes-int-or-string": True,
        "x-kubernetes-validations": [_rule("type(self) == string ? self == 'x' : self > 1", "int or text")],
    },
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"k": NAME}},
    "anything": {"x-kubernetes-preserve-unknown-fields": True},
    "embedded": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "one_of": {
        "type": "object",
        "properties": {"a": NAME, "b": NAME},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "any_of": {
        "type": "object",
        "properties": {"a": NAME, "b": NAME},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "all_of": {"type": "string", "allOf": [{"pattern": "^a"}, {"maxLength": 3}]},
    "not": {"type": "string", "not": {"enum": ["bad"]}},
    "moment": {
        "type": "string",
        "format": "date-time",
        "x-kubernetes-validations": [_rule("self > timestamp('2020-01-01T00:00:00Z')", "too early")],
    },
    "duration": {
        "type": "string",
        "format": "duration",
        "x-kubernetes-validations": [_rule("self >= duration('1m')", "too short")],
    },
    **{
        form: {"type": "string", "format": form}
        for form in (
            "date",
            "ipv4",
            "ipv6",
            "cidr",
            "uuid",
            "hostname",
            "email",
            "uri",
            "byte",
            "mac",
            "password",
            "nonsense",
        )
    },
    "ruled": RULED,
    "counter": {
        "type": "integer",
        "x-kubernetes-validations": [
            _rule("!oldSelf.hasValue() || self >= oldSelf.value()", "not down", optionalOldSelf=True),
            _rule("oldSelf.hasValue() || self == 1", "starts at one", optionalOldSelf=True),
        ],
    },
    "fixed": {
        "type": "array",
        "maxItems": 5,
        "x-kubernetes-list-type": "set",
        "items": {"type": "string", "maxLength": 5},
        "x-kubernetes-validations": [_rule("self == oldSelf", "immutable")],
    },
}

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "required": ["needed"], "properties": {"needed": NAME, **MEMBERS}}
    },
    "x-kubernetes-validations": [_rule("self.metadata.name != 'forbidden'", "not this name")],
}

API_VERSION = "test.example.com/v1"
PATH = f"/apis/{API_VERSION}/things"

DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.test.example.com"},
    "spec": {
        "group": "test.example.com",
        "scope": "Cluster",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}},
        ],
    },
}


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A question and what a real API server answers: what is wrong, or what it stores."""

    name: str
    spec: dict[str, Any]
    old: dict[str, Any] | None = None
    problems: tuple[tuple[str, str, str], ...] = ()
    """Field, reason and message of each, sorted."""

    stored: dict[str, Any] | None = None
    """The spec after defaults were filled in and unknown fields taken out."""

    def object(self, spec: dict[str, Any]) -> dict[str, Any]:
        return {"apiVersion": API_VERSION, "kind": "Thing", "metadata": {"name": self.name}, "spec": spec}


def decode_answers(text: bytes) -> list[Answer]:
    return msgspec.json.decode(text, type=list[Answer])
