"""
What names, label keys and label values may look like, and the API's sentences for those that do not.

Each function returns sentences; an empty tuple means that the text is fine.
"""

from __future__ import annotations

import re
from functools import lru_cache

# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-label-names
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = r"[a-z]([-a-z0-9]*[a-z0-9])?"
# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
_NAME_PART = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_CONFIG_KEY = r"[-._a-zA-Z0-9]+"

_ENDS = "must start and end with an alphanumeric character"

# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
LONGEST_SUBDOMAIN = 253
LONGEST_LABEL = 63

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_label_1035 = re.compile(_LABEL_1035).fullmatch
_is_name_part = re.compile(_NAME_PART).fullmatch
_is_value = re.compile(_VALUE).fullmatch
_is_config_key = re.compile(_CONFIG_KEY).fullmatch

Sentences = tuple[str, ...]


def _longer(text: str, limit: int, unit: str = "characters") -> Sentences:
    return (f"must be no more than {limit} {unit}",) if len(text) > limit else ()


def _example(sentence: str, regex: str, *examples: str) -> str:
    shown = ",  or ".join(f"'{example}'" for example in examples)
    return f"{sentence} (e.g. {shown}, regex used for validation is '{regex}')"


# The sentences are those of Kubernetes: clients and tests of others look for them.
# https://pkg.go.dev/k8s.io/apimachinery/pkg/util/validation
_BAD_SUBDOMAIN = _example(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    f"and {_ENDS}",
    _SUBDOMAIN,
    "example.com",
)
_BAD_LABEL = _example(
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and {_ENDS}",
    _LABEL,
    "my-name",
    "123-abc",
)
_BAD_LABEL_1035 = _example(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character",
    _LABEL_1035,
    "my-name",
    "abc-123",
)
_BAD_NAME_PART = _example(
    f"name part must consist of alphanumeric characters, '-', '_' or '.', and {_ENDS}",
    _NAME_PART,
    "MyName",
    "my.name",
    "123-abc",
)
_BAD_VALUE = _example(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    f"and {_ENDS}",
    _VALUE,
    "MyValue",
    "my_value",
    "12345",
)
_BAD_KEY = (
    _example(
        f"a valid label key must consist of alphanumeric characters, '-', '_' or '.', and {_ENDS}",
        _NAME_PART,
        "MyName",
        "my.name",
        "123-abc",
    )
    + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
_BAD_CONFIG_KEY = _example(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    _CONFIG_KEY,
    "key.name",
    "KEY_NAME",
    "key-name",
)


@lru_cache(maxsize=65536)
def subdomain(text: str) -> Sentences:
    """Judge a DNS subdomain: what most names must be."""
    bad = () if _is_subdomain(text) else (_BAD_SUBDOMAIN,)
    return (*_longer(text, LONGEST_SUBDOMAIN), *bad)


@lru_cache(maxsize=4096)
def label(text: str) -> Sentences:
    """Judge a DNS label: no dots, at most 63 letters."""
    bad = () if _is_label(text) else (_BAD_LABEL,)
    return (*_longer(text, LONGEST_LABEL), *bad)


@lru_cache(maxsize=4096)
def label_1035(text: str) -> Sentences:
    """Judge a DNS label that begins with a letter."""
    bad = () if _is_label_1035(text) else (_BAD_LABEL_1035,)
    return (*_longer(text, LONGEST_LABEL), *bad)


def path_segment(text: str) -> Sentences:
    """Judge a name that only has to fit in a path: roles and their bindings."""
    if text in {".", ".."}:
        return (f"may not be '{text}'",)
    return tuple(f"may not contain '{sign}'" for sign in ("/", "%") if sign in text)


@lru_cache(maxsize=4096)
def qualified(text: str) -> Sentences:
    """Judge a key with an optional domain: of labels, annotations, taints, resources."""
    parts = text.split("/")
    found: list[str] = []
    match parts:
        case [name]:
            pass
        case [prefix, name]:
            if not prefix:
                found.append("prefix part must be non-empty")
            else:
                found.extend(f"prefix part {sentence}" for sentence in subdomain(prefix))
        case _:
            return (_BAD_KEY,)
    if not name:
        found.append("name part must be non-empty")
    elif len(name) > LONGEST_LABEL:
        found.append(f"name part must be no more than {LONGEST_LABEL} bytes")
    if not _is_name_part(name):
        found.append(_BAD_NAME_PART)
    return tuple(found)


@lru_cache(maxsize=4096)
def value(text: str) -> Sentences:
    bad = () if _is_value(text) else (_BAD_VALUE,)
    return (*_longer(text, LONGEST_LABEL, "bytes"), *bad)


@lru_cache(maxsize=4096)
def config_key(text: str) -> Sentences:
    """Judge a key of a ConfigMap's or Secret's data."""
    if text in {".", ".."}:
        return (f"must not be '{text}'",)
    bad = () if _is_config_key(text) else (_BAD_CONFIG_KEY,)
    return (*_longer(text, LONGEST_SUBDOMAIN), *bad)
