"""
Trees written out as templates of a Helm chart.

Every note has one spelling in the template language, chosen so that it gives what :mod:`.filling` gives.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from karpenter.chart.tree import (
    Copy,
    Either,
    Entries,
    Fact,
    Given,
    Items,
    Joined,
    Lacks,
    Required,
    Text,
    Value,
    When,
    Words,
    missing,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from karpenter.chart.tree import Condition, Tree

_STEP: Final = 2
_BARE: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_WORDS_OF_YAML: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})

_FACTS: Final = {
    "release": ".Release.Name",
    "namespace": ".Release.Namespace",
    "version": ".Chart.AppVersion",
    "fullname": 'include "karpenter.fullname" .',
    "name": 'include "karpenter.name" .',
    "account": 'include "karpenter.account" .',
    "image": 'include "karpenter.image" .',
}

HELPERS: Final = """\
{{- define "karpenter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "karpenter.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "karpenter.account" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "karpenter.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "karpenter.image" -}}
{{- $image := .Values.controller.image }}
{{- $digest := ternary (printf "@%s" $image.digest) "" (not (empty $image.digest)) }}
{{- printf "%s:%s%s" $image.repository (default .Chart.AppVersion $image.tag) $digest }}
{{- end }}
"""
"""What facts are to a template."""


def template(objects: Iterable[Tree]) -> str:
    """Return a template file for some objects."""
    return "---\n".join("\n".join(_object(each)) + "\n" for each in objects)


def _object(tree: Tree) -> Iterator[str]:
    if isinstance(tree, When):
        yield f"{{{{- if {_condition(tree.condition)} }}}}"
        yield from _object(tree.then)
        yield "{{- end }}"
    else:
        yield from _mapping(tree, 0)


def _mapping(tree: dict[str, Tree], indent: int) -> Iterator[str]:
    for key, value in tree.items():
        yield from _entry(key, value, indent)


def _entry(key: str, value: Tree, indent: int) -> Iterator[str]:
    pad = " " * indent
    name = f"{pad}{_scalar(key)}:"
    match value:
        case When(condition, then):
            yield f"{pad}{{{{- if {_condition(condition)} }}}}"
            yield from _entry(key, then, indent)
            yield f"{pad}{{{{- end }}}}"
        case Either(path, otherwise):
            yield f"{pad}{{{{- if .Values.{path} }}}}"
            yield from _entry(key, Copy(path), indent)
            yield f"{pad}{{{{- else }}}}"
            yield from _entry(key, otherwise, indent)
            yield f"{pad}{{{{- end }}}}"
        case dict() | list() | Copy() | Entries() if value or not isinstance(value, dict | list):
            yield name
            yield from _below(value, indent + _STEP)
        case _:
            yield f"{name} {_scalar(value)}"


def _below(value: Tree, indent: int) -> Iterator[str]:
    """Return what stands in the lines under a key."""
    pad = " " * indent
    match value:
        case dict():
            yield from _mapping(value, indent)
        case list():
            for item in value:
                yield from _item(item, indent)
        case Copy(path):
            yield f"{pad}{{{{- toYaml .Values.{path} | nindent {indent} }}}}"
        case Entries(ours, more):
            yield from _mapping(ours, indent)
            for path in more:
                yield from _given(path, indent)


def _item(item: Tree, indent: int) -> Iterator[str]:
    pad = " " * indent
    match item:
        case When(condition, then):
            yield f"{pad}{{{{- if {_condition(condition)} }}}}"
            for each in then if isinstance(then, list) else [then]:
                yield from _item(each, indent)
            yield f"{pad}{{{{- end }}}}"
        case Items(path):
            yield from _given(path, indent)
        case dict() | Entries():
            first, *rest = _below(item, indent + _STEP)
            yield f"{pad}- {first[indent + _STEP :]}"
            yield from rest
        case _:
            yield f"{pad}- {_scalar(item)}"


def _given(path: str, indent: int) -> Iterator[str]:
    pad = " " * indent
    yield f"{pad}{{{{- with .Values.{path} }}}}"
    yield f"{pad}{{{{- toYaml . | nindent {indent} }}}}"
    yield f"{pad}{{{{- end }}}}"


def _scalar(value: Tree) -> str:  # noqa: PLR0911  one case for every sort
    match value:
        case Value(path):
            return f"{{{{ .Values.{path} }}}}"
        case Text(path):
            return f"{{{{ .Values.{path} | quote }}}}"
        case Required(path):
            return f'{{{{ required "{missing(path)}" .Values.{path} | quote }}}}'
        case Joined(path):
            return f'{{{{ join "," .Values.{path} | quote }}}}'
        case Fact(name):
            return f"{{{{ {_FACTS[name]} | quote }}}}"
        case Words(parts):
            return '"' + "".join(_piece(part) for part in parts) + '"'
        case str() if _BARE.fullmatch(value) and value.lower() not in _WORDS_OF_YAML:
            return value
        case _:
            return json.dumps(value)


def _piece(part: str | Value | Fact) -> str:
    match part:
        case Value(path):
            return f"{{{{ .Values.{path} }}}}"
        case Fact(name):
            return f"{{{{ {_FACTS[name]} }}}}"
        case _:
            return part


def _condition(condition: Condition) -> str:
    if isinstance(condition, Given):
        paths = [f".Values.{path}" for path in condition.paths]
        return paths[0] if len(paths) == 1 else f"or {' '.join(paths)}"
    if isinstance(condition, Lacks):
        return f"not .Values.{condition.path}"
    return f"eq .Values.{condition.path} {json.dumps(condition.text)}"
