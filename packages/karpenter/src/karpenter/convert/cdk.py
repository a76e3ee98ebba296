"""
Props of the removed CDK add-on: ``provisionerSpecs`` and ``requirements`` with ``op`` and ``vals``.

With tags for subnets and security groups the add-on made a Provisioner from them, so a NodePool and an
EC2NodeClass come out. Without them it made none, and only the spelling of requirements changes.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from karpenter.convert.findings import (
    ConversionOptions,
    ConversionOutcome,
    Findings,
    NewDocument,
    Plain,
    items,
    mapping,
    without_empty,
)
from karpenter.convert.nodepools import convert_provisioner

_PROPS: Final = frozenset(
    {
        "amiFamily",
        "consolidation",
        "interruptionHandling",
        "limits",
        "provisionerSpecs",
        "requirements",
        "securityGroupTags",
        "subnetTags",
        "taints",
        "ttlSecondsAfterEmpty",
        "ttlSecondsUntilExpired",
        "weight",
    }
)
_HELM_PROPS: Final = frozenset({"chart", "name", "namespace", "release", "repository", "values", "version"})
_NAME: Final = "default"


def is_props(plain: Plain) -> bool:
    if "apiVersion" in plain or "kind" in plain:
        return False
    spelled = any({"op", "vals"} <= mapping(each).keys() for each in items(plain.get("requirements")))
    return "provisionerSpecs" in plain or "subnetTags" in plain or "securityGroupTags" in plain or spelled


def convert_props(plain: Plain, options: ConversionOptions, *, profile: str) -> ConversionOutcome | None:
    """Return what becomes of props of the add-on; None when nothing has to change."""
    findings = Findings()
    if "provisionerSpecs" in plain:
        findings.info("Renamed", "provisionerSpecs is a list of requirements now", "provisionerSpecs")
    for key in plain:
        if key not in _PROPS and key not in _HELM_PROPS:
            findings.error("UnknownField", "the add-on has no such prop", key)
    if not plain.get("subnetTags") or not plain.get("securityGroupTags"):
        return _respelled(plain, findings)
    findings.info("Kind", "props of the add-on become NodePool and EC2NodeClass default")
    if plain.get("interruptionHandling"):
        findings.warn(
            "Interruption",
            "name the queue in the chart's settings.interruptionQueue; the objects here do not make one",
            "interruptionHandling",
        )
    outcome = convert_provisioner(provisioner_of(plain), options, profile=profile, class_name=_NAME)
    findings.found += [each for each in outcome.findings if each.code not in {"Kind", "InlineProvider"}]
    assert outcome.node_class is not None
    documents = (
        msgspec.structs.replace(outcome.pool, moves={}),
        msgspec.structs.replace(outcome.node_class, moves={}),
    )
    return ConversionOutcome(documents=documents, findings=tuple(findings.found))


def _respelled(plain: Plain, findings: Findings) -> ConversionOutcome | None:
    if "provisionerSpecs" not in plain:
        return None
    findings.warn("NoPool", "without subnetTags and securityGroupTags the add-on makes no NodePool")
    requirements = [
        {"key": each["key"], "op": each["operator"], "vals": each.get("values", [])}
        for each in _requirements(plain)
    ]
    document = {
        "requirements" if key == "provisionerSpecs" else key: requirements
        if key == "provisionerSpecs"
        else value
        for key, value in plain.items()
        if key != "requirements"
    }
    moves = {("requirements",): ("provisionerSpecs",)}
    new = NewDocument(plain=document, moves=moves)  # type: ignore[arg-type]
    return ConversionOutcome(documents=(new,), findings=tuple(findings.found))


def _requirements(plain: Plain) -> list[Plain]:
    found: list[Plain] = [
        {"key": key, "operator": "In", "values": values if isinstance(values, list) else [values]}
        for key, values in mapping(plain.get("provisionerSpecs")).items()
    ]
    for each in items(plain.get("requirements")):
        given = mapping(each)
        values: Any = given.get("vals", given.get("values"))
        operator = given.get("op", given.get("operator"))
        found.append(without_empty({"key": given.get("key"), "operator": operator, "values": values}))
    return found


def provisioner_of(plain: Plain) -> Plain:
    """Return the Provisioner that the add-on made of its props, without its apiVersion and kind."""
    copied = ("consolidation", "limits", "taints", "ttlSecondsAfterEmpty", "ttlSecondsUntilExpired", "weight")
    provider = {
        "amiFamily": plain.get("amiFamily"),
        "subnetSelector": plain["subnetTags"],
        "securityGroupSelector": plain["securityGroupTags"],
    }
    spec = {name: plain[name] for name in copied if plain.get(name) is not None}
    spec |= {"requirements": _requirements(plain), "provider": without_empty(provider)}
    return {"metadata": {"name": _NAME}, "spec": spec}
