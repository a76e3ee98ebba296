"""Names as Kubernetes allows them: label keys, label values, and names of objects."""

import re

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_DNS_LABEL}(\.{_DNS_LABEL})*")
_LONGEST_NAME = 63
_LONGEST_SUBDOMAIN = 253

KEY_RULE = (
    "must be at most 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit, "
    "with a DNS domain and a slash before them or without"
)
VALUE_RULE = (
    "must be empty, or at most 63 letters, digits, '-', '_' or '.', "
    "beginning and ending with a letter or digit"
)
SUBDOMAIN_RULE = (
    "must be at most 253 lower case letters, digits, '-' or '.', beginning and ending with a letter or digit"
)


def is_subdomain(text: str) -> bool:
    """Say whether `text` may name an object: a DNS name in lower case."""
    return len(text) <= _LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(text) is not None


def is_qualified_name(text: str) -> bool:
    """Say whether `text` may be a label key."""
    domain, slash, name = text.rpartition("/")
    if slash and not is_subdomain(domain):
        return False
    return len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """Say whether `text` may be a label value."""
    return text == "" or (len(text) <= _LONGEST_NAME and _NAME.fullmatch(text) is not None)
