"""Templates in values: what Go's template language and Helm's functions make of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from karpenter.chart.gotemplate import TemplateError, evaluate, go_text
from tests.helm import Helm

if TYPE_CHECKING:
    from pathlib import Path

VALUES: dict[str, Any] = {
    "global": {"name": "blue", "count": 3, "on": True, "off": False, "empty": "", "share": 0.075},
    "list": ["a", "b"],
    "map": {"b": {"c": "deep"}, "a": "first"},
}
TEMPLATES = {
    "plain": "plain",
    "{{ .Values.global.name }}": "blue",
    "{{.Values.global.name}}-{{ .Release.Name }}.{{ .Release.Namespace }}": "blue-karpenter.kube-system",
    "{{ $.Values.global.count }}": "3",
    "{{ .Values.global.share }}": "0.075",
    "{{ .Values.global.on }} {{ .Values.global.off }}": "true false",
    "{{ .Values.global.absent }}": "",
    "{{ (.Values.map.b).c }}": "deep",
    "{{ .Values.global.name | upper | quote }}": '"BLUE"',
    '{{ default "x" .Values.global.empty }}': "x",
    '{{ .Values.global.absent | default "y" }}': "y",
    '{{ printf "%s-%d-%v-%q" .Values.global.name 7 true "z" }}': 'blue-7-true-"z"',
    "{{ if .Values.global.on }}yes{{ else }}no{{ end }}": "yes",
    "{{ if .Values.global.off }}a{{ else if .Values.global.on }}b{{ else }}c{{ end }}": "b",
    "{{ if and .Values.global.on (not .Values.global.off) }}both{{ end }}": "both",
    "{{ if or .Values.global.off .Values.global.empty }}x{{ end }}": "",
    '{{ if eq .Values.global.name "red" "blue" }}known{{ end }}': "known",
    "{{ with .Values.map.b }}{{ .c }} {{ $.Release.Name }}{{ end }}": "deep karpenter",
    "{{ with .Values.global.empty }}x{{ else }}none{{ end }}": "none",
    "{{ range .Values.list }}<{{ . }}>{{ end }}": "<a><b>",
    "{{ range $i, $v := .Values.list }}{{ $i }}={{ $v }};{{ end }}": "0=a;1=b;",
    "{{ range $k, $v := .Values.global }}{{ $k }},{{ end }}": "count,empty,name,off,on,share,",
    "{{ range .Values.global.absent }}x{{ else }}none{{ end }}": "none",
    "a {{- .Values.global.name -}} b": "abluesb".replace("s", ""),
    "{{/* nothing */}}x": "x",
    '{{ $x := "v" }}{{ $x }}{{ $x = "w" }}{{ $x }}': "vw",
    '{{ join "," .Values.list }}': "a,b",
    '{{ index .Values.list 1 }}{{ index .Values.map "b" "c" }}': "bdeep",
    '{{ ternary "on" "off" .Values.global.on }}': "on",
    '{{ .Values.global.name | replace "b" "g" | trunc 2 }}': "gl",
    '{{ "x-" | trimSuffix "-" }}{{ " y " | trim }}{{ trimPrefix "a" "ab" }}': "xyb",
    '{{ hasPrefix "bl" .Values.global.name }}{{ contains "u" .Values.global.name }}': "truetrue",
    '{{ "ca" | b64enc }}{{ "Y2E=" | b64dec }}': "Y2E=ca",
    "{{ len .Values.list }}{{ list 1 2 | len }}{{ first .Values.list }}{{ last .Values.list }}": "22ab",
    "{{ coalesce .Values.global.empty .Values.global.name }}": "blue",
    '{{ get .Values.map "a" }}{{ hasKey .Values.map "z" }}': "firstfalse",
    '{{ tpl "{{ .Values.global.name }}" . }}': "blue",
    '{{ include "karpenter.fullname" . }}': "karpenter",
    "{{ toJson .Values.map }}": '{"a":"first","b":{"c":"deep"}}',
    "{{ toYaml .Values.list | nindent 2 }}": "\n  - a\n  - b",
    "{{ add 1 2 }}{{ sub 5 2 }}{{ mul 2 3 }}": "336",
    '{{ splitList "-" "a-b" | join "+" }}': "a+b",
    "{{ .Values.list }} {{ .Values.map }}": "[a b] map[a:first b:map[c:deep]]",
    "{{ lt 1 2 }}{{ ge 1 2 }}{{ ne 1 2 }}": "truefalsetrue",
    '{{ `raw` }}{{ squote 1 }}{{ cat 1 2 }}{{ nospace "a b" }}': "raw'1'1 2ab",
    '{{ dict "a" 1 | toJson }}{{ empty "" }}{{ int "7" }}{{ title "ab cd" }}': '{"a":1}true7Ab Cd',
}
FAULTS = {
    "{{ .Values.global.name": "{{ has no }}",
    "{{ .Values.nothing.below }}": "there is nothing to find below in",
    "{{ .Values.global.name.below }}": "below cannot be found in a text",
    '{{ env "HOME" }}': "there is no function env here",
    "{{ if true }}x": "{{ if }} has no end",
    "{{ end }}": "{{ end }} has no beginning",
    "{{ $x }}": "there is no variable $x",
    '{{ required "say it" .Values.global.empty }}': "say it",
    '{{ fail "no" }}': "no",
    '{{ define "x" }}{{ end }}': "{{ define }} cannot be used in a value",
    "{{ ( 1 }}": "( has no )",
    "{{ 1 | 2 }}": "'2' is not a function",
    "{{ ~ }}": "cannot be read",
    "{{ }}": "it ends too early",
    '{{ include "other" . }}': "no template other",
    "{{ join 1 2 }}": "join cannot be called with that",
    "{{ range 1.5 }}x{{ end }}": "needs a list, a mapping or a number",
    "{{ range 99999999 }}x{{ end }}": "needs a list, a mapping or a number",
    '{{ "\\q" }}': "has an escape that cannot be read",
    '{{ int "1e999" }}': "int cannot be called with that",
    "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}": "it is nested too deeply",
}


def named(name: str) -> str:
    """Return the one named template that is known."""
    if name != "karpenter.fullname":
        raise TemplateError(f"no template {name}")
    return "karpenter"


def ours(template: str) -> str:
    """Return what our reader makes of a template."""
    root = {"Values": VALUES, "Release": {"Name": "karpenter", "Namespace": "kube-system"}}
    return evaluate(template, root, named)


@pytest.mark.parametrize("template", TEMPLATES)
def test_templates_are_rendered(template: str) -> None:
    """A template gives the text that Helm gives."""
    assert ours(template) == TEMPLATES[template]


@pytest.mark.helm
def test_helm_renders_the_same(tmp_path: Path) -> None:
    """Real helm gives these texts for these templates, all in one chart."""
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: karpenter\nversion: 1.0.0\n")
    numbered = {f"t{number}": template for number, template in enumerate(TEMPLATES)}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({**VALUES, "templates": numbered}))
    (tmp_path / "templates" / "all.yaml").write_text(
        '{{- define "karpenter.fullname" }}karpenter{{ end }}\n'
        "{{- range $key, $template := .Values.templates }}\n"
        "{{ $key }}: {{ tpl $template $ | quote }}\n"
        "{{- end }}\n"
    )
    said = yaml.safe_load(Helm(tmp_path).ok("template", "karpenter", tmp_path, "--namespace", "kube-system"))

    assert {template: said[key] for key, template in numbered.items()} == TEMPLATES


@pytest.mark.parametrize("template", FAULTS)
def test_what_cannot_be_rendered_is_refused(template: str) -> None:
    """One sentence says what is wrong with a template."""
    with pytest.raises(TemplateError) as refused:
        ours(template)

    assert FAULTS[template] in str(refused.value)


def test_templates_that_call_each_other_end() -> None:
    """A template that renders itself is refused, not rendered for ever."""
    root = {"Values": {"x": "{{ tpl .Values.x . }}"}}

    with pytest.raises(TemplateError, match="do not end"):
        evaluate("{{ tpl .Values.x . }}", root, named)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(None, "", id="nothing"),
        pytest.param(True, "true", id="a truth value"),
        pytest.param(3, "3", id="a whole number"),
        pytest.param(268435456.0, "268435456", id="a whole number from a file"),
        pytest.param(0.075, "0.075", id="a share"),
        pytest.param(1e-7, "1e-07", id="a tiny share"),
        pytest.param(12345678.5, "1.23456785e+07", id="large and broken"),
        pytest.param(float("-inf"), "-Inf", id="without end"),
    ],
)
def test_values_are_printed_as_go_does(value: Any, text: str) -> None:
    """Numbers and truth values look as they do in Go; whole numbers have no exponent."""
    assert go_text(value) == text
