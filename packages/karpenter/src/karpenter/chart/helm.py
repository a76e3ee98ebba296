"""
Object trees written as templates of a Helm chart.

Every placeholder of :mod:`.tree` has one spelling in the template language; Helm renders it to what
:func:`.tree.fill` gives.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from karpenter.chart.known_values import RETIRED
from karpenter.chart.tree import (
    ChartFile,
    Concatenation,
    Condition,
    Copy,
    Derived,
    Either,
    Entries,
    Equals,
    Given,
    IsFalse,
    IsNotFalse,
    IsSet,
    Joined,
    ListItems,
    ReleaseFact,
    Required,
    Templated,
    TextValue,
    Tree,
    Value,
    When,
    missing,
    upstream_image,
)
from karpenter.chart.values import without_effect

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_STEP: Final = 2
_BARE: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_WORDS_OF_YAML: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})

_ALWAYS: Final = frozenset(
    {"service", "serviceAccount", "serviceMonitor", "podDisruptionBudget", "controller", "settings"}
)
"""Mappings that the values of every chart have had; others may be absent where old values are used again."""

_FACTS: Final = {
    "release": ".Release.Name",
    "namespace": ".Release.Namespace",
    "version": ".Chart.AppVersion",
    "service": ".Release.Service",
    **{
        name: f'include "karpenter.{name}" .'
        for name in ("fullname", "name", "account", "image", "chart", "container", "lease", "leaseNamespace")
    },
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

{{- define "karpenter.chart" -}}
{{- printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "karpenter.account" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "karpenter.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "karpenter.container" -}}
{{- default "controller" .Values.controller.containerName }}
{{- end }}

{{- define "karpenter.image" -}}
{{- $image := .Values.controller.image }}
{{- if regexMatch "(^|/)(public[.]ecr[.]aws|ecr-public)/karpenter/controller$" $image.repository }}
{{- fail (printf "UPSTREAM_IMAGE" $image.repository) }}
{{- end }}
{{- $digest := ternary (printf "@%s" $image.digest) "" (not (empty $image.digest)) }}
{{- $tag := include "karpenter.text" (default .Chart.AppVersion $image.tag) }}
{{- printf "%s:%s%s" $image.repository $tag $digest }}
{{- end }}

{{- /* Numbers in files of values are floats: a whole one is printed without point and exponent. */}}
{{- define "karpenter.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) (float64 .)) }}
{{- int64 . }}
{{- else if not (kindIs "invalid" .) }}
{{- . }}
{{- end }}
{{- end }}

{{- /* The lease has the name and the namespace that the operator's environment says. */}}
{{- define "karpenter.lease" -}}
{{- $name := "karpenter-leader-election" }}
{{- range .Values.controller.env }}
{{- if eq .name "LEADER_ELECTION_NAME" }}
{{- $name = default "karpenter-leader-election" .value }}
{{- end }}
{{- end }}
{{- $name }}
{{- end }}

{{- define "karpenter.leaseNamespace" -}}
{{- $namespace := .Release.Namespace }}
{{- range .Values.controller.env }}
{{- if eq .name "LEADER_ELECTION_NAMESPACE" }}
{{- $namespace = default $.Release.Namespace .value }}
{{- end }}
{{- end }}
{{- $namespace }}
{{- end }}

{{- define "karpenter.selector" -}}
matchLabels:
  app.kubernetes.io/name: {{ include "karpenter.name" . | quote }}
  app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- /* Terms about pods that select none are about the operator's own pods. */}}
{{- define "karpenter.affinity" -}}
{{- $selector := include "karpenter.selector" . | fromYaml }}
{{- $affinity := deepCopy .Values.affinity }}
{{- range $kind := list "podAffinity" "podAntiAffinity" }}
{{- $rules := default dict (get $affinity $kind) }}
{{- $terms := default list $rules.requiredDuringSchedulingIgnoredDuringExecution }}
{{- range $rules.preferredDuringSchedulingIgnoredDuringExecution }}
{{- $terms = append $terms .podAffinityTerm }}
{{- end }}
{{- range $terms }}
{{- if not (hasKey . "labelSelector") }}
{{- $_ := set . "labelSelector" $selector }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml $affinity }}
{{- end }}

{{- define "karpenter.topologySpreadConstraints" -}}
{{- $selector := include "karpenter.selector" . | fromYaml }}
{{- $constraints := deepCopy .Values.topologySpreadConstraints }}
{{- range $constraints }}
{{- if not (hasKey . "labelSelector") }}
{{- $_ := set . "labelSelector" $selector }}
{{- end }}
{{- end }}
{{- toYaml $constraints }}
{{- end }}

{{- /* Containers beside the operator have its volumes mounted, and volumes of their own. */}}
{{- define "karpenter.sidecars" -}}
{{- $mounts := default list .Values.controller.extraVolumeMounts }}
{{- $more := concat $mounts (default list .Values.controller.sidecarVolumeMounts) }}
{{- $sidecars := deepCopy .Values.controller.sidecarContainer }}
{{- range $sidecars }}
{{- if $more }}
{{- $_ := set . "volumeMounts" (concat (default list .volumeMounts) $more) }}
{{- end }}
{{- end }}
{{- toYaml $sidecars }}
{{- end }}
""".replace("UPSTREAM_IMAGE", upstream_image("%s"))
"""What facts and derived parts are to a template."""


def notes() -> str:
    """Return what Helm says after an installation: where the logs are, and which values have no effect."""
    selected = 'app.kubernetes.io/name={{ include "karpenter.name" . }}'
    lines = [
        "The operator runs in {{ .Release.Namespace }}; its log:",
        "",
        f"  kubectl logs -n {{{{ .Release.Namespace }}}} -l {selected}",
    ]
    for path, about in RETIRED.items():
        lines += [
            f'{{{{- if not (kindIs "invalid" {_at(path)}) }}}}',
            "",
            f"WARNING: {without_effect(path, about)}",
            "{{- end }}",
        ]
    return "\n".join(lines) + "\n"


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
            yield f"{pad}{{{{- if {_at(path)} }}}}"
            yield from _entry(key, Copy(path), indent)
            yield f"{pad}{{{{- else }}}}"
            yield from _entry(key, otherwise, indent)
            yield f"{pad}{{{{- end }}}}"
        case dict() | list() | Copy() | Derived() | Entries() if value or not isinstance(value, dict | list):
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
            yield f"{pad}{{{{- toYaml {_at(path)} | nindent {indent} }}}}"
        case Derived(name):
            yield f'{pad}{{{{- include "karpenter.{name}" . | nindent {indent} }}}}'
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
        case ListItems(path):
            yield from _given(path, indent)
        case Derived():
            yield from _below(item, indent)
        case dict() | Entries():
            first, *rest = _below(item, indent + _STEP)
            yield f"{pad}- {first[indent + _STEP :]}"
            yield from rest
        case _:
            yield f"{pad}- {_scalar(item)}"


def _given(path: str, indent: int) -> Iterator[str]:
    pad = " " * indent
    yield f"{pad}{{{{- with {_at(path)} }}}}"
    yield f"{pad}{{{{- toYaml . | nindent {indent} }}}}"
    yield f"{pad}{{{{- end }}}}"


def _scalar(value: Tree) -> str:
    match value:
        case Value(path):
            return f"{{{{ {_at(path)} }}}}"
        case TextValue(path, default):
            found = f'(default "{default}" {_at(path)})' if default else _at(path)
            return f'{{{{ include "karpenter.text" {found} | quote }}}}'
        case Templated(path):
            return f"{{{{ {_tpl(path)} | quote }}}}"
        case Required(path):
            return f'{{{{ required "{missing(path)}" ({_tpl(path)}) | quote }}}}'
        case Joined(path):
            return f'{{{{ join "," {_at(path)} | quote }}}}'
        case ReleaseFact(name):
            return f"{{{{ {_FACTS[name]} | quote }}}}"
        case ChartFile(path):
            return f'{{{{ .Files.Get "{path}" | toJson }}}}'
        case Concatenation(parts):
            return '"' + "".join(_piece(part) for part in parts) + '"'
        case str() if _BARE.fullmatch(value) and value.lower() not in _WORDS_OF_YAML:
            return value
        case _:
            # What looks like a template, as in the annotations of alerts, is for other programs.
            return json.dumps(value).replace("{{", '{{ "{{" }}')


def _piece(part: str | Value | ReleaseFact) -> str:
    match part:
        case Value(path):
            return f"{{{{ {_at(path)} }}}}"
        case ReleaseFact(name):
            return f"{{{{ {_FACTS[name]} }}}}"
        case _:
            return part


def _at(path: str) -> str:
    """Return how a template names a value; parentheses let a mapping be absent."""
    first, *more = path.split(".")
    found = f".Values.{first}"
    for word, above in zip(more, [first, *more], strict=False):
        found = f"{found}.{word}" if above == first and first in _ALWAYS else f"({found}).{word}"
    return found


def _tpl(path: str) -> str:
    return f'tpl (include "karpenter.text" {_at(path)}) $'


def _condition(condition: Condition) -> str:
    match condition:
        case Given(paths):
            found = [_at(path) for path in paths]
            return found[0] if len(found) == 1 else f"or {' '.join(found)}"
        case Equals(path, text, default):
            return f'eq (default "{default}" {_at(path)}) {json.dumps(text)}'
        case IsSet(path):
            return f'not (or (kindIs "invalid" {_at(path)}) (eq (toString {_at(path)}) ""))'
        case IsFalse(path):
            return f'eq ({_tpl(path)}) "false"'
        case IsNotFalse(path):
            return f'ne ({_tpl(path)}) "false"'
        case _:
            served = f'(.Capabilities.APIVersions.Has "{condition.version}")'
            wanted = (
                f"({_condition(IsNotFalse(condition.path))})" if condition.not_false else _at(condition.path)
            )
            return f"and {wanted} {served}"
