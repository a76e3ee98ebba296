"""
Selectors of AWSNodeTemplate as selector terms of EC2NodeClass.

A selector is a map in which all must hold and a comma separates alternatives; terms are a list in which one
must hold. So every combination of alternatives becomes a term. Keys are taken in the order of their names,
the first varying fastest; of an AMI selector owners vary slowest, then ids, then names.
"""

from __future__ import annotations

from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from karpenter.api.ec2nodeclass import MOST_TERMS
from karpenter.convert.findings import mapping

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.convert.findings import Findings, Plain

_ID_KEYS: Final = ("aws-ids", "aws::ids")
_NAME_KEY: Final = "aws::name"
_OWNER_KEY: Final = "aws::owners"
_PREFIXES: Final[Mapping[str, str]] = MappingProxyType(
    {"subnetSelector": "subnet-", "securityGroupSelector": "sg-", "amiSelector": "ami-"}
)


def terms_of(selector: object, findings: Findings, *, field: str) -> list[Plain]:
    """Return the terms that select what a selector selected; `field` is its name in the old API."""
    alternatives = {str(key): _alternatives(value) for key, value in sorted(mapping(selector).items())}
    if not _is_usable(alternatives, findings, field):
        return []
    ids = [each for key in _ID_KEYS for each in alternatives.get(key, [])]
    is_image = field == "amiSelector"
    names = alternatives.get(_NAME_KEY, []) if is_image else []
    owners = alternatives.get(_OWNER_KEY, []) if is_image else []
    special = {*_ID_KEYS, *((_NAME_KEY, _OWNER_KEY) if is_image else ())}
    tags = {key: values for key, values in alternatives.items() if key not in special}
    if ids and (names or owners or tags):
        findings.error(
            "MixedSelector",
            "ids cannot be combined with tags, names or owners in one term; select by ids alone",
            field,
        )
        return []
    if ids:
        found = [{"id": each} for each in ids]
    else:
        found = [
            {**owner, **name, **tagged}
            for owner in _parts("owner", owners)
            for name in _parts("name", names)
            for tagged in _tag_parts(tags)
        ]
        if names and is_image:
            found = [_ordered(each) for each in found]
    if len(found) > MOST_TERMS:
        findings.error(
            "TooManyTerms", f"{len(found)} terms would be needed, and {MOST_TERMS} are allowed", field
        )
        return []
    return found


def _alternatives(value: object) -> list[str]:
    return [part.strip() for part in str(value if value is not None else "").split(",")]


def _is_usable(alternatives: dict[str, list[str]], findings: Findings, field: str) -> bool:
    before = len(findings.found)
    prefix = _PREFIXES[field]
    for key, values in alternatives.items():
        if not key or not all(values):
            findings.error("EmptySelector", f"key {key!r} has an empty key or value", field)
        elif key in _ID_KEYS:
            for each in values:
                if not each.startswith(prefix):
                    findings.error("BadID", f"{each!r} is not an id: ids begin with {prefix}", field)
    if list(alternatives) == [_OWNER_KEY] and field == "amiSelector":
        findings.error("OwnerAlone", "an owner alone selects every image it has; add a name or tags", field)
    return len(findings.found) == before


def _parts(name: str, values: list[str]) -> list[Plain]:
    return [{name: each} for each in values] or [{}]


def _tag_parts(tags: dict[str, list[str]]) -> list[Plain]:
    if not tags:
        return [{}]
    keys = list(tags)
    # product() varies its last argument fastest; the first key has to.
    combined = product(*(tags[key] for key in reversed(keys)))
    return [{"tags": dict(zip(keys, reversed(values), strict=True))} for values in combined]


def _ordered(term: Plain) -> Plain:
    return {key: term[key] for key in ("name", "owner", "tags") if key in term}


def selected(spec: Plain, old: str, findings: Findings) -> list[Any]:
    """Return the terms for one selector of a spec, empty when it has none."""
    return terms_of(spec.get(old), findings, field=old) if spec.get(old) else []
