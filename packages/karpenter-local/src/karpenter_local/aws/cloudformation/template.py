"""
Templates of CloudFormation: what they say once parameters, conditions and intrinsic functions are worked out.

Pure. Knows the language, and nothing of what the resources are.
https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/intrinsic-function-reference.html
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

import msgspec
import yaml

from karpenter_local.aws.account import zones_of
from karpenter_local.aws.wire import AwsError

_FIELD: Final = re.compile(r"\$\{(!?)([^}]+)\}")
NO_VALUE: Final = object()
"""What ``AWS::NoValue`` stands for: the property is left out."""


class CfnTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A template as it is written."""

    description: str = ""
    parameters: Mapping[str, Any] = {}
    mappings: Mapping[str, Any] = {}
    conditions: Mapping[str, Any] = {}
    resources: Mapping[str, Mapping[str, Any]]
    outputs: Mapping[str, Mapping[str, Any]] = {}


class TemplateScope(msgspec.Struct, frozen=True, kw_only=True):
    """Values of the names in a template."""

    template: CfnTemplate
    values: Mapping[str, Any]
    """Of parameters, those that AWS gives included."""

    physical: Callable[[str], str] = lambda name: f"<{name}>"
    """What a reference to a resource stands for."""

    attribute: Callable[[str, str], Any] = lambda name, attribute: f"<{name}.{attribute}>"


class _Loader(yaml.SafeLoader):
    """
    Reads the short forms of functions, such as ``!Sub``.

    Aliases and hash merges are not supported; with them a short text could stand for gigabytes.
    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/template-formats.html
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not supported")
        return super().compose_node(parent, index)


_NOT_YAML: Final = (ValueError, LookupError, AttributeError, TypeError, RecursionError)
"""What values raise that do not fit their tag, and texts that are nested without end."""


def _short(loader: _Loader, suffix: str, node: yaml.Node) -> Any:
    name = suffix if suffix in {"Ref", "Condition"} else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
        if suffix == "GetAtt":
            value = value.split(".", 1)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        assert isinstance(node, yaml.MappingNode)
        value = loader.construct_mapping(node, deep=True)
    return {name: value}


_Loader.add_multi_constructor("!", _short)
# Dates, such as the version of a policy, are texts here.
_Loader.yaml_implicit_resolvers = {
    key: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for key, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse(text: str) -> CfnTemplate:
    """
    Return a template.

    Raises:
        AwsError: the text is none.
    """
    try:
        body = json.loads(text) if text.lstrip().startswith("{") else yaml.load(text, _Loader)  # noqa: S506  a safe one
    except (*_NOT_YAML, yaml.YAMLError) as error:
        raise invalid(f"Template format error: {error}") from None
    if not isinstance(body, dict) or not isinstance(body.get("Resources"), dict) or not body["Resources"]:
        raise invalid("Template format error: At least one Resources member must be defined.")
    for name, resource in body["Resources"].items():
        if not isinstance(resource, dict) or not resource.get("Type"):
            raise invalid(f"Template format error: [/Resources/{name}] resource definition has no Type")
    return CfnTemplate(
        description=str(body.get("Description") or ""),
        parameters=body.get("Parameters") or {},
        mappings=body.get("Mappings") or {},
        conditions=body.get("Conditions") or {},
        resources=body["Resources"],
        outputs=body.get("Outputs") or {},
    )


def invalid(message: str) -> AwsError:
    """Return the error for a request that says something impossible."""
    return AwsError("ValidationError", message)


def given(template: CfnTemplate, asked: Mapping[str, str]) -> dict[str, Any]:
    """
    Return the values of the parameters of a template.

    Raises:
        AwsError: one is missing, not known, or not allowed.
    """
    unknown = asked.keys() - template.parameters.keys()
    if unknown:
        raise invalid(f"Parameters: [{', '.join(sorted(unknown))}] do not exist in the template")
    values = {name: asked.get(name, said.get("Default")) for name, said in template.parameters.items()}
    missing = [name for name, value in values.items() if value is None]
    if missing:
        raise invalid(f"Parameters: [{', '.join(missing)}] must have values")
    for name, said in template.parameters.items():
        allowed = said.get("AllowedValues")
        if allowed and values[name] not in allowed:
            raise invalid(f"Parameter '{name}' must be one of AllowedValues")
        if said.get("Type") == "CommaDelimitedList" or str(said.get("Type")).startswith("List<"):
            values[name] = [each.strip() for each in str(values[name]).split(",")]
    return values


def order(template: CfnTemplate, scope: TemplateScope) -> list[str]:
    """
    Return the resources that are wanted, each after those that it needs.

    Raises:
        AwsError: something is named that does not exist, or resources need each other.
    """
    wanted = {
        name: resource
        for name, resource in template.resources.items()
        if "Condition" not in resource or holds(scope, resource["Condition"])
    }
    graph: dict[str, set[str]] = {}
    for name, resource in wanted.items():
        said = resource.get("DependsOn") or []
        named = {said} if isinstance(said, str) else set(said)
        named |= _named(resource.get("Properties"))
        unknown = named - template.resources.keys() - scope.values.keys()
        if unknown:
            raise invalid(
                "Template format error: Unresolved resource dependencies"
                f" [{', '.join(sorted(unknown))}] in the Resources block of the template"
            )
        graph[name] = named & wanted.keys()
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise invalid(f"Circular dependency between resources: {sorted(set(error.args[1]))}") from None


def _named(value: Any) -> set[str]:
    """Return what a value refers to: resources and parameters."""
    if isinstance(value, list):
        return set().union(*map(_named, value)) if value else set()
    if not isinstance(value, dict):
        return set()
    found: set[str] = set()
    for key, each in value.items():
        match key:
            case "Ref":
                found.add(str(each))
            case "Fn::GetAtt":
                found.add((each.split(".", 1) if isinstance(each, str) else each)[0])
            case "Fn::Sub":
                text, more = (each, {}) if isinstance(each, str) else each
                fields = {name.split(".", 1)[0] for mark, name in _FIELD.findall(text) if not mark}
                found |= (fields - more.keys()) | _named(more)
            case "Condition":
                continue
            case _:
                found |= _named(each)
    return {each for each in found if not each.startswith("AWS::")}


def holds(scope: TemplateScope, condition: str) -> bool:
    """
    Say whether a condition of a template holds.

    Raises:
        AwsError: there is no such condition.
    """
    if condition not in scope.template.conditions:
        raise invalid(f"Template format error: Unresolved condition {condition}")
    return bool(resolve(scope, scope.template.conditions[condition]))


def resolve(scope: TemplateScope, value: Any) -> Any:
    """
    Return a value with all functions worked out.

    Raises:
        AwsError: a function is not known, or is given what it cannot use.
    """
    if isinstance(value, list):
        return [each for each in (resolve(scope, each) for each in value) if each is not NO_VALUE]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, argument),) = value.items()
        if name in {"Ref", "Condition"} or name.startswith("Fn::"):
            return _call(scope, name, argument)
    worked = {key: resolve(scope, each) for key, each in value.items()}
    return {key: each for key, each in worked.items() if each is not NO_VALUE}


def _call(scope: TemplateScope, name: str, argument: Any) -> Any:
    match name:
        case "Ref":
            return _reference(scope, str(argument))
        case "Condition" if isinstance(argument, str):
            return holds(scope, argument)
        case "Fn::GetAtt":
            return scope.attribute(*(argument.split(".", 1) if isinstance(argument, str) else argument))
        case "Fn::Sub":
            return _substituted(scope, argument)
        case "Fn::If":
            wanted, then, otherwise = argument
            return resolve(scope, then if holds(scope, wanted) else otherwise)
    worked = resolve(scope, argument)
    if name not in _FUNCTIONS:
        raise invalid(f"Template error: the function {name} is not supported by the embedded AWS")
    try:
        return _FUNCTIONS[name](scope, worked)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise invalid(f"Template error: {name} cannot use what it is given: {error}") from None


_FUNCTIONS: Final[Mapping[str, Callable[[TemplateScope, Any], Any]]] = {
    "Fn::And": lambda _, worked: all(worked),
    "Fn::Base64": lambda _, worked: base64.b64encode(str(worked).encode()).decode(),
    "Fn::Equals": lambda _, worked: str(worked[0]) == str(worked[1]),
    "Fn::FindInMap": lambda scope, worked: scope.template.mappings[worked[0]][worked[1]][worked[2]],
    "Fn::GetAZs": lambda scope, worked: list(zones_of(worked or scope.values["AWS::Region"])),
    "Fn::Join": lambda _, worked: worked[0].join(str(each) for each in worked[1]),
    "Fn::Not": lambda _, worked: not worked[0],
    "Fn::Or": lambda _, worked: any(worked),
    "Fn::Select": lambda _, worked: worked[1][int(worked[0])],
    "Fn::Split": lambda _, worked: worked[1].split(worked[0]),
    "Fn::ToJsonString": lambda _, worked: json.dumps(worked),
}


def _reference(scope: TemplateScope, name: str) -> Any:
    if name == "AWS::NoValue":
        return NO_VALUE
    if name in scope.values:
        return scope.values[name]
    if name in scope.template.resources:
        return scope.physical(name)
    raise invalid(f"Template format error: Unresolved resource dependencies [{name}]")


def _substituted(scope: TemplateScope, argument: Any) -> str:
    text, more = (argument, {}) if isinstance(argument, str) else argument
    own = resolve(scope, more)

    def value(found: re.Match[str]) -> str:
        mark, name = found.groups()
        if mark:
            return f"${{{name}}}"
        if name in own:
            return str(own[name])
        resource, dot, attribute = name.partition(".")
        return str(scope.attribute(resource, attribute) if dot else _reference(scope, name))

    return _FIELD.sub(value, text)
