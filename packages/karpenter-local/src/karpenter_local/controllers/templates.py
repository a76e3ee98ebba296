"""
Telling pod templates apart: are two the same, and what is a template's short name.

The hash names replica sets and revisions. It only has to differ between templates of one workload and stay
the same across restarts; it is not the hash that another implementation would give.
"""

import hashlib
from typing import Any

import msgspec

from karpenter.kube.targets import Plain
from karpenter_local.controllers.plain import pruned

HASH_LABEL = "pod-template-hash"

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, no look-alikes: safe in names, never a word
_LETTERS = 10

_encode = msgspec.json.Encoder(order="sorted").encode


def same(left: Plain, right: Plain) -> bool:
    """Say whether two templates make the same pods; the hash label does not count."""
    left, right = _bare(left), _bare(right)
    return bool(left == right or pruned(left) == pruned(right))


def short_hash(value: Any, salt: int = 0) -> str:
    """Return a short text that stands for plain data; another `salt` gives another one."""
    written = _encode(pruned(value)) + (str(salt).encode() if salt else b"")
    number = int.from_bytes(hashlib.blake2b(written, digest_size=8).digest(), "big")
    letters = []
    for _ in range(_LETTERS):
        number, index = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[index])
    return "".join(letters)


def with_label(template: Plain, key: str, value: str) -> Plain:
    meta = template.get("metadata") or {}
    return {**template, "metadata": {**meta, "labels": {**(meta.get("labels") or {}), key: value}}}


def _bare(template: Plain) -> Any:
    meta = template.get("metadata") or {}
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key != HASH_LABEL}
    return {**template, "metadata": {**meta, "labels": labels, "creationTimestamp": None}}
