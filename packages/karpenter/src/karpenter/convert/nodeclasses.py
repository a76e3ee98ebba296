"""
AWSNodeTemplate, inline providers and EC2NodeClass v1beta1 as EC2NodeClass v1.

What an old API did by default and the new one does not is spelled out. Where an object has no counterpart
(launch templates, Ubuntu without an image) that is an error.

Selectors of AWSNodeTemplate become selector terms. A selector is a map in which all must hold and a comma
separates alternatives; terms are a list in which one must hold. So every combination of alternatives becomes
a term. Keys are taken in the order of their names, the first varying fastest; of an AMI selector owners vary
slowest, then ids, then names.
"""

from __future__ import annotations

from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from karpenter.api.ec2nodeclass import (
    AL2,
    AL2023,
    BOTTLEROCKET,
    CLUSTER_TAG_PREFIX,
    CUSTOM,
    MOST_TERMS,
    RESERVED_TAGS,
)
from karpenter.convert.findings import (
    ConversionOptions,
    ConversionOutcome,
    Findings,
    NewDocument,
    Path,
    Plain,
    mapping,
)
from karpenter.convert.labels import converted_metadata

if TYPE_CHECKING:
    from collections.abc import Mapping


API_VERSION: Final = "karpenter.k8s.aws/v1"
KIND: Final = "EC2NodeClass"
GROUP: Final = "karpenter.k8s.aws"
# v1 has no Ubuntu family: https://karpenter.sh/v1.0/upgrading/v1-migration/
_UBUNTU: Final = "Ubuntu"
_ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        AL2: "al2@latest",
        AL2023: "al2023@latest",
        BOTTLEROCKET: "bottlerocket@latest",
        "Windows2019": "windows2019@latest",
        "Windows2022": "windows2022@latest",
    }
)
_COPIED: Final = (
    "userData",
    "blockDeviceMappings",
    "instanceStorePolicy",
    "detailedMonitoring",
    "associatePublicIPAddress",
    "context",
)
_OLD_FIELDS: Final = frozenset(
    {
        "amiFamily",
        "amiSelector",
        "apiVersion",
        "instanceProfile",
        "kind",
        "metadataOptions",
        "securityGroupSelector",
        "subnetSelector",
        "tags",
        *_COPIED,
    }
)
_OLD_TAGS: Final = frozenset({"karpenter.sh/provisioner-name", "karpenter.sh/managed-by", *RESERVED_TAGS})
# v1 lowered the default from 2 to 1: https://karpenter.sh/v1.0/upgrading/v1-migration/
_HOP_LIMIT: Final = "httpPutResponseHopLimit"
_OLD_HOP_LIMIT: Final = 2
_UBUNTU_DISK: Final = {
    "deviceName": "/dev/sda1",
    "rootVolume": True,
    "ebs": {"encrypted": True, "volumeType": "gp3", "volumeSize": "20Gi"},
}
_MOVES: Final[Mapping[Path, Path]] = MappingProxyType(
    {
        ("spec", "subnetSelectorTerms"): ("spec", "subnetSelector"),
        ("spec", "securityGroupSelectorTerms"): ("spec", "securityGroupSelector"),
        ("spec", "role"): ("spec", "instanceProfile"),
    }
)


def convert_template(plain: Plain, options: ConversionOptions, *, profile: str) -> ConversionOutcome:
    """Return what becomes of an AWSNodeTemplate; `profile` is for those that name none."""
    findings = Findings()
    findings.info("Kind", "AWSNodeTemplate (v1alpha1) becomes EC2NodeClass (v1)")
    spec = class_spec(mapping(plain.get("spec")), options, findings, profile=profile)
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": converted_metadata(plain),
        "spec": spec,
    }
    new = NewDocument(plain=document, moves=_image_moves(spec))
    return ConversionOutcome(documents=(new,), findings=tuple(findings.found))


def _image_moves(spec: Plain) -> dict[Path, Path]:
    by_alias = "alias" in mapping((spec.get("amiSelectorTerms") or [{}])[0])
    source: Path = ("spec", "amiFamily" if by_alias else "amiSelector")
    return {**_MOVES, ("spec", "amiSelectorTerms"): source}


def class_spec(spec: Plain, options: ConversionOptions, findings: Findings, *, profile: str) -> Plain:
    """Return the spec of an EC2NodeClass for the spec of an AWSNodeTemplate or an inline provider."""
    for field in spec:
        if field in {"launchTemplate", "launchTemplateName"}:
            findings.error(
                "LaunchTemplate",
                "a launch template of your own has no counterpart; state its image, disks, security "
                "groups and "
                "user data in the EC2NodeClass",
                f"spec.{field}",
            )
        elif field not in _OLD_FIELDS:
            findings.error("UnknownField", "AWSNodeTemplate has no such field", f"spec.{field}")
    found: Plain = {}
    terms = selected(spec, "amiSelector", findings)
    if terms:
        findings.warn(
            "AMITags",
            "tags of images no longer say which instance types they are for; images are chosen by "
            "architecture and by the order of terms",
            "spec.amiSelector",
        )
    found |= images(str(spec.get("amiFamily") or AL2), terms, spec, findings)
    found |= _identity(spec, options, findings, profile)
    found["subnetSelectorTerms"] = selected(spec, "subnetSelector", findings)
    found["securityGroupSelectorTerms"] = selected(spec, "securityGroupSelector", findings)
    for old in ("subnetSelector", "securityGroupSelector"):
        if not spec.get(old):
            findings.error("MissingSelector", "is needed: the EC2NodeClass has to say which", f"spec.{old}")
    found |= _rest(spec, findings, beta=False)
    return found


def convert_beta_class(plain: Plain, options: ConversionOptions) -> ConversionOutcome:
    findings = Findings()
    findings.info("Kind", "EC2NodeClass (v1beta1) becomes EC2NodeClass (v1)")
    spec = mapping(plain.get("spec"))
    found: Plain = images(
        str(spec.get("amiFamily") or ""), list(spec.get("amiSelectorTerms") or []), spec, findings
    )
    if spec.get("instanceProfile"):
        found["instanceProfile"] = spec["instanceProfile"]
    elif spec.get("role") or options.node_role:
        found["role"] = spec.get("role") or options.node_role
    else:
        _missing_role(findings)
    found["subnetSelectorTerms"] = spec.get("subnetSelectorTerms")
    found["securityGroupSelectorTerms"] = spec.get("securityGroupSelectorTerms")
    found |= _rest(spec, findings, beta=True)
    known = {"amiFamily", "amiSelectorTerms", "role", "instanceProfile", "tags", "metadataOptions", *found}
    found |= {key: value for key, value in spec.items() if key not in known}
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": converted_metadata(plain),
        "spec": _in_order(found, spec),
    }
    moves: dict[Path, Path] = {}
    if not spec.get("amiSelectorTerms"):
        moves["spec", "amiSelectorTerms"] = ("spec", "amiFamily")
    return ConversionOutcome(
        documents=(NewDocument(plain=document, moves=moves),), findings=tuple(findings.found)
    )


def _in_order(found: Plain, old: Plain) -> Plain:
    """Return fields in the order in which the old spec had them, after those that are new."""
    kept = [key for key in old if key in found]
    return {key: found[key] for key in (*(k for k in found if k not in old), *kept)}


def images(family: str, terms: list[Any], spec: Plain, findings: Findings) -> Plain:
    """Return what selects images: an alias where the family alone did, else the family and its terms."""
    if family == _UBUNTU:
        return _ubuntu(terms, spec, findings)
    if not terms and family in _ALIASES:
        if family == AL2:
            findings.warn(
                "AL2",
                "there are no AL2 images for Kubernetes 1.33 and newer; al2023@latest is the successor",
                "spec.amiSelectorTerms",
            )
        return {"amiSelectorTerms": [{"alias": _ALIASES[family]}]}
    if family == CUSTOM:
        findings.warn(
            "UnregisteredTaint",
            "user data of family Custom has to register nodes with the taint "
            "karpenter.sh/unregistered:NoExecute",
            "spec.userData",
        )
    if not terms:
        findings.error("NoImages", f"family {family or 'none'} needs images to be selected", "spec.amiFamily")
    return {"amiFamily": family, "amiSelectorTerms": terms}


def _ubuntu(terms: list[Any], spec: Plain, findings: Findings) -> Plain:
    if not terms:
        findings.error(
            "Ubuntu", "there is no alias for Ubuntu: select its image by id, name or tags", "spec.amiFamily"
        )
        return {}
    findings.warn(
        "Ubuntu", "family Ubuntu is AL2 now, with the disk that Ubuntu had by default", "spec.amiFamily"
    )
    found: Plain = {"amiFamily": AL2, "amiSelectorTerms": terms}
    if not spec.get("blockDeviceMappings"):
        found["blockDeviceMappings"] = [_UBUNTU_DISK]
    return found


def _identity(spec: Plain, options: ConversionOptions, findings: Findings, profile: str) -> Plain:
    named = spec.get("instanceProfile")
    if options.node_role:
        if named:
            findings.warn(
                "Role",
                f"role {options.node_role} takes the place of instance profile {named}; "
                "the operator makes a profile of its own for it",
                "spec.role",
            )
        return {"role": options.node_role}
    if named:
        findings.info(
            "InstanceProfile",
            "the instance profile is kept; --node-role names a role instead, and the operator makes "
            "the profile",
            "spec.instanceProfile",
        )
        return {"instanceProfile": named}
    if profile:
        findings.info(
            "DefaultInstanceProfile",
            f"instance profile {profile} is that of the settings, which have no default any longer",
            "spec.instanceProfile",
        )
        return {"instanceProfile": profile}
    _missing_role(findings)
    return {}


def _missing_role(findings: Findings) -> None:
    findings.error(
        "Role", "a node class names its role, and this one names none: give it with --node-role", "spec.role"
    )


def _rest(spec: Plain, findings: Findings, *, beta: bool) -> Plain:
    found: Plain = {name: spec[name] for name in _COPIED if spec.get(name) is not None}
    tags = _tags(spec, findings)
    if tags:
        found["tags"] = tags
    metadata = mapping(spec.get("metadataOptions"))
    if _HOP_LIMIT not in metadata and (beta or not metadata):
        findings.warn(
            "HopLimit",
            f"{_HOP_LIMIT} was {_OLD_HOP_LIMIT} by default and is 1 now; it is spelled out so that "
            "pods still reach "
            "the metadata service",
            "spec.metadataOptions",
        )
        metadata = {**metadata, _HOP_LIMIT: _OLD_HOP_LIMIT}
    elif not beta and "httpTokens" not in metadata:
        findings.warn(
            "IMDSv2",
            "the metadata service asks for tokens (IMDSv2) unless httpTokens says optional",
            "spec.metadataOptions",
        )
    found["metadataOptions"] = metadata
    return found


def _tags(spec: Plain, findings: Findings) -> Plain:
    found: Plain = {}
    for key, value in mapping(spec.get("tags")).items():
        if key in _OLD_TAGS or key.startswith(CLUSTER_TAG_PREFIX):
            findings.warn("RestrictedTag", f"tag {key} is dropped: only the operator may set it", "spec.tags")
        else:
            found[key] = value
    return found


_ID_KEYS: Final = ("aws-ids", "aws::ids")
_NAME_KEY: Final = "aws::name"
_OWNER_KEY: Final = "aws::owners"
_PREFIXES: Final[Mapping[str, str]] = MappingProxyType(
    {"subnetSelector": "subnet-", "securityGroupSelector": "sg-", "amiSelector": "ami-"}
)


def terms_of(selector: object, findings: Findings, *, field: str) -> list[Plain]:
    """Return the terms that select what a selector selected; `field` is its name in the old API."""
    alternatives = {
        str(key): [part.strip() for part in str(value if value is not None else "").split(",")]
        for key, value in sorted(mapping(selector).items())
    }
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
            found = [{key: each[key] for key in ("name", "owner", "tags") if key in each} for each in found]
    if len(found) > MOST_TERMS:
        findings.error(
            "TooManyTerms", f"{len(found)} terms would be needed, and {MOST_TERMS} are allowed", field
        )
        return []
    return found


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


def selected(spec: Plain, old: str, findings: Findings) -> list[Any]:
    """Return the terms for one selector of a spec, empty when it has none."""
    return terms_of(spec.get(old), findings, field=old) if spec.get(old) else []
