"""
Go templates in chart values: the part of Go's template language that values use.

Helm renders some settings as templates, so that ``{{ .Values.global.clusterName }}`` names a value that
several charts share. The language is https://pkg.go.dev/text/template, the functions are those of
https://helm.sh/docs/chart_template_guide/function_list/ that turn texts, numbers, lists and mappings into
others. A function that is not known here is refused by its name; nothing here reads files or a cluster.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from karpenter.api.manifests import render_documents

_ACTION: Final = re.compile(
    r"\{\{(-(?=\s))?\s*(/\*.*?\*/|(?:\"(?:\\.|[^\"\\])*\"|`[^`]*`|.)*?)\s*((?<=\s)-)?\}\}", re.DOTALL
)
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<string>"(?:\\.|[^"\\])*"|`[^`]*`)|(?P<number>[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"""
    r"""|(?P<name>[$]?[A-Za-z_][A-Za-z0-9_]*|[$])|(?P<field>\.[A-Za-z_][A-Za-z0-9_]*)|(?P<mark>:=|=|\||\(|\)|,|\.))"""
)
_VERB: Final = re.compile(r"%(?:%|[-+#0 ]*\d{0,3}(?:\.\d{1,3})?[a-zA-Z])")
_DEEPEST: Final = 50
_MOST_TURNS: Final = 10_000


class TemplateError(ValueError):
    """A template that cannot be read, or that asks for what is not there."""


def go_text(value: Any) -> str:
    """Return a value as Go prints it: numbers in files are floats there, and true is not True."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return _go_float(value)
        case list():
            return f"[{' '.join(go_text(each) for each in value)}]"
        case dict():
            return f"map[{' '.join(f'{key}:{go_text(value[key])}' for key in sorted(value))}]"
        case _:
            return str(value)


def _go_float(value: float) -> str:
    """Return what ``%v`` of fmt gives; a whole number has no point, as the chart's own templates print it."""
    if not math.isfinite(value):
        return {"inf": "+Inf", "-inf": "-Inf"}.get(str(value), "NaN")
    if value == int(value) and abs(value) < 10**18:
        return str(int(value))
    mantissa, _, exponent = f"{value:e}".partition("e")
    if -4 <= int(exponent) < 21 and "e" not in repr(value) and abs(value) < 10**6:  # noqa: PLR2004  Go's limit
        return repr(value)
    digits = repr(value).partition("e")[0].replace(".", "").replace("-", "").strip("0") or "0"
    point = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{'-' if value < 0 else ''}{digits[0]}{point}e{int(exponent):+03d}" if mantissa else repr(value)


class Scope(msgspec.Struct, kw_only=True):
    """What a template sees: the dot, the root, variables, and the chart's own named templates."""

    dot: Any
    root: Any
    named: Callable[[str], str]
    variables: dict[str, Any] = msgspec.field(default_factory=dict)
    depth: int = 0


def evaluate(text: str, root: Mapping[str, Any], named: Callable[[str], str]) -> str:
    """
    Return a template's text.

    Args:
        text: the template.
        root: what ``.`` and ``$`` are, such as ``{"Values": …, "Release": …}``.
        named: what a named template of the chart gives, for ``include``.

    Raises:
        TemplateError: in one sentence, without the content of other values.
    """
    if "{{" not in text:
        return text
    try:
        return _evaluate(text, Scope(dot=root, root=root, named=named))
    except RecursionError:
        raise TemplateError("it is nested too deeply") from None


def _evaluate(text: str, scope: Scope) -> str:
    if scope.depth > _DEEPEST:
        raise TemplateError("templates that call each other do not end")
    reader = _TemplateReader(text)
    out = reader.block(scope, shown=True)
    if reader.ended:
        raise TemplateError(f"{{{{ {reader.ended} }}}} has no beginning")
    return out


class _TemplateReader:
    """Walks through the pieces of one template."""

    def __init__(self, text: str) -> None:
        self._pieces = list(_cut(text))
        self._at = 0
        self.ended = ""
        """The word that ended the last block, with what follows it."""

    def block(self, scope: Scope, *, shown: bool) -> str:
        """Return the text up to the end of a block; what is not shown is read but not evaluated."""
        out: list[str] = []
        while self._at < len(self._pieces):
            is_action, content = self._pieces[self._at]
            self._at += 1
            word = content.split(maxsplit=1)[0] if is_action and content else ""
            if not is_action:
                out.append(content)
            elif word in {"end", "else"}:
                self.ended = content
                return "".join(out) if shown else ""
            elif word in {"if", "with", "range"}:
                out.append(self._control(word, content[len(word) :], scope, shown=shown))
            elif word in {"define", "block", "template", "break", "continue"}:
                raise TemplateError(f"{{{{ {word} }}}} cannot be used in a value")
            elif shown:
                out.append(_statement(content, scope))
        self.ended = ""
        return "".join(out) if shown else ""

    def _control(self, word: str, head: str, scope: Scope, *, shown: bool) -> str:
        inner = msgspec.structs.replace(scope, variables=dict(scope.variables))
        value = _declared(head, inner) if shown else None
        start = self._at
        if word == "range" and shown and value:
            out = ""
            for key, item in _each(value):
                self._at = start
                inner.dot = item
                inner.variables.update(_loop_variables(head, key, item))
                out += self.block(inner, shown=True)
        else:
            if word == "with":
                inner.dot = value
            out = self.block(inner, shown=shown and bool(value))
        return out + self._rest(word, scope, shown=shown and not value)

    def _rest(self, word: str, scope: Scope, *, shown: bool) -> str:
        """Return the text of what follows ``else``, if anything does."""
        if self.ended == "end":
            return ""
        if not self.ended.startswith("else"):
            raise TemplateError(f"{{{{ {word} }}}} has no end")
        again = self.ended.removeprefix("else").strip()
        if again:
            following, _, head = again.partition(" ")
            if following not in {"if", "with"}:
                raise TemplateError(f"{{{{ {self.ended} }}}} cannot be read")
            return self._control(following, f" {head}", scope, shown=shown)
        out = self.block(scope, shown=shown)
        if self.ended != "end":
            raise TemplateError(f"{{{{ {word} }}}} has no end")
        return out


def _cut(text: str) -> Iterator[tuple[bool, str]]:
    """Return texts and actions, with white space trimmed where dashes say so."""
    at, trim = 0, False
    for found in _ACTION.finditer(text):
        before = text[at : found.start()]
        before = before.lstrip() if trim else before
        yield False, before.rstrip() if found[1] else before
        if not found[2].startswith("/*"):
            yield True, found[2].strip()
        at, trim = found.end(), bool(found[3])
    rest = text[at:].lstrip() if trim else text[at:]
    if "{{" in rest:
        raise TemplateError("{{ has no }}")
    yield False, rest


def _each(value: Any) -> list[tuple[Any, Any]]:
    match value:
        case dict():
            return [(key, value[key]) for key in sorted(value)]
        case list():
            return list(enumerate(value))
        case int() if not isinstance(value, bool) and value <= _MOST_TURNS:
            return [(number, number) for number in range(value)]
        case _:
            raise TemplateError(f"{{{{ range }}}} needs a list, a mapping or a number up to {_MOST_TURNS}")


def _statement(content: str, scope: Scope) -> str:
    tokens = _tokens(content)
    kinds = [kind for kind, _ in tokens[:2]]
    if kinds == ["name", "mark"] and tokens[1][1] in {":=", "="}:
        scope.variables[tokens[0][1]] = _Parser(tokens[2:], scope).whole()
        return ""
    return go_text(_Parser(tokens, scope).whole())


def _declared(head: str, scope: Scope) -> Any:
    """Return the value of a pipeline, and keep it where it names a variable."""
    tokens = _tokens(head)
    marks = [number for number, token in enumerate(tokens) if token == ("mark", ":=")]
    if not marks:
        return _Parser(tokens, scope).whole()
    value = _Parser(tokens[marks[0] + 1 :], scope).whole()
    scope.variables[tokens[0][1]] = value
    return value


def _loop_variables(head: str, key: Any, item: Any) -> dict[str, Any]:
    names = (
        [text for kind, text in _tokens(head.partition(":=")[0]) if kind == "name"] if ":=" in head else []
    )
    return dict(zip(names, [item] if len(names) == 1 else [key, item], strict=False))


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise TemplateError(f"{{{{ {text.strip()} }}}} cannot be read")
        # A space before a field begins another operand: `f .a .b` has two arguments, `f .a.b` one.
        kind = match.lastgroup
        spaced = match.start() != match.start(kind)
        found.append(("dot" if kind == "field" and (spaced or not at) else kind, match[kind]))
        at = match.end()
    return found


class _Parser:
    """Evaluates one pipeline."""

    def __init__(self, tokens: list[tuple[str, str]], scope: Scope) -> None:
        self._tokens = tokens
        self._scope = scope
        self._at = 0

    def whole(self) -> Any:
        value = self._pipeline()
        if self._at < len(self._tokens):
            raise TemplateError(f"{self._tokens[self._at][1]!r} is not expected there")
        return value

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "")

    def _pipeline(self) -> Any:
        value = self._command([])
        while self._peek() == ("mark", "|"):
            self._at += 1
            value = self._command([value])
        return value

    def _command(self, piped: list[Any]) -> Any:
        kind, text = self._peek()
        if kind == "name" and not text.startswith("$") and text not in {"true", "false", "nil"}:
            self._at += 1
            arguments: list[Any] = []
            while self._peek()[0] != "end" and self._peek() not in {("mark", "|"), ("mark", ")")}:
                arguments.append(self._operand())
            return _call(text, [*arguments, *piped], self._scope)
        if piped:
            raise TemplateError(f"{text!r} is not a function")
        return self._operand()

    def _operand(self) -> Any:
        kind, text = self._peek()
        self._at += 1
        match kind, text:
            case (("string" | "number"), _):
                value = _literal(text)
            case "name", _:
                value = self._name(text)
            case (("dot" | "field"), _):
                value = _field(self._scope.dot, text)
            case "mark", ".":
                value = self._scope.dot
            case "mark", "(":
                value = self._pipeline()
                if self._peek() != ("mark", ")"):
                    raise TemplateError("( has no )")
                self._at += 1
            case _:
                raise TemplateError(f"{text!r} is not expected there" if text else "it ends too early")
        while self._peek()[0] == "field":
            value = _field(value, self._peek()[1])
            self._at += 1
        return value

    def _name(self, text: str) -> Any:
        match text:
            case "true" | "false":
                return text == "true"
            case "nil":
                return None
            case "$":
                return self._scope.root
        if not text.startswith("$"):
            return _call(text, [], self._scope)
        if text not in self._scope.variables:
            raise TemplateError(f"there is no variable {text}")
        return self._scope.variables[text]


def _literal(text: str) -> Any:
    if text.startswith("`"):
        return text[1:-1]
    if text.startswith('"'):
        try:
            return json.loads(text)
        except ValueError:
            raise TemplateError(f"{text} has an escape that cannot be read") from None
    return int(text) if re.fullmatch(r"[-+]?\d+", text) else float(text)


def _field(value: Any, text: str) -> Any:
    name = text.removeprefix(".")
    if value is None:
        raise TemplateError(f"there is nothing to find {name} in")
    if not isinstance(value, Mapping):
        raise TemplateError(f"{name} cannot be found in a text, a number or a list")
    return value.get(name)


def _call(name: str, arguments: list[Any], scope: Scope) -> Any:
    match name, arguments:
        case "include", [str() as template, _]:
            return scope.named(template)
        case "tpl", [text, dot]:
            return _evaluate(
                go_text(text), msgspec.structs.replace(scope, dot=dot, variables={}, depth=scope.depth + 1)
            )
    function = _FUNCTIONS.get(name)
    if function is None:
        raise TemplateError(f"there is no function {name} here; hint: helm has more of them")
    try:
        return function(*arguments)
    except TemplateError:
        raise
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        raise TemplateError(f"{name} cannot be called with that") from error


def _refuse(message: Any) -> Any:
    raise TemplateError(go_text(message))


def _required(message: Any, value: Any) -> Any:
    return _refuse(message) if value is None or value == "" else value


def _printf(form: str, *values: Any) -> str:
    left = list(values)

    def one(found: re.Match[str]) -> str:
        verb = found[0]
        if verb == "%%":
            return "%"
        value = left.pop(0)
        match verb[-1]:
            case "q":
                return json.dumps(go_text(value), ensure_ascii=False)
            case "s" | "v":
                return f"{go_text(value):{verb[1:-1].replace('-', '<') or ''}}"
            case _:
                return str(verb % value)

    return _VERB.sub(one, form)


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else value[key]
    return value


def _indent(count: int, text: Any) -> str:
    pad = " " * count
    return pad + go_text(text).replace("\n", f"\n{pad}")


def _yaml(value: Any) -> str:
    return render_documents([value]).rstrip("\n")


def _dict(*pairs: Any) -> dict[str, Any]:
    return {go_text(key): value for key, value in zip(pairs[::2], pairs[1::2], strict=False)}


def _title(text: Any) -> str:
    return re.sub(r"(?<!\S)\S", lambda found: found[0].upper(), go_text(text))


_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "and": lambda *values: next((each for each in values if not each), values[-1]),
    "or": lambda *values: next((each for each in values if each), values[-1]),
    "not": lambda value: not value,
    "eq": lambda value, *others: any(value == each for each in others),
    "ne": lambda value, other: value != other,
    "lt": lambda value, other: value < other,
    "le": lambda value, other: value <= other,
    "gt": lambda value, other: value > other,
    "ge": lambda value, other: value >= other,
    "len": len,
    "index": _index,
    "print": lambda *values: "".join(go_text(each) for each in values),
    "printf": _printf,
    "fail": _refuse,
    "required": _required,
    "default": lambda otherwise, value=None: value or otherwise,
    "coalesce": lambda *values: next((each for each in values if each), None),
    "ternary": lambda yes, no, test: yes if test else no,
    "empty": lambda value: not value,
    "toString": go_text,
    "quote": lambda *values: " ".join(json.dumps(go_text(each), ensure_ascii=False) for each in values),
    "squote": lambda *values: " ".join(f"'{go_text(each)}'" for each in values),
    "upper": lambda text: go_text(text).upper(),
    "lower": lambda text: go_text(text).lower(),
    "title": _title,
    "trim": lambda text: go_text(text).strip(),
    "trimAll": lambda letters, text: go_text(text).strip(letters),
    "trimPrefix": lambda prefix, text: go_text(text).removeprefix(prefix),
    "trimSuffix": lambda suffix, text: go_text(text).removesuffix(suffix),
    "trunc": lambda count, text: go_text(text)[:count] if count >= 0 else go_text(text)[count:],
    "replace": lambda old, new, text: go_text(text).replace(old, new),
    "contains": lambda part, text: part in go_text(text),
    "hasPrefix": lambda prefix, text: go_text(text).startswith(prefix),
    "hasSuffix": lambda suffix, text: go_text(text).endswith(suffix),
    "cat": lambda *values: " ".join(go_text(each) for each in values),
    "nospace": lambda text: re.sub(r"\s", "", go_text(text)),
    "indent": _indent,
    "nindent": lambda count, text: "\n" + _indent(count, text),
    "join": lambda mark, values: mark.join(go_text(each) for each in values),
    "splitList": lambda mark, text: go_text(text).split(mark),
    "list": lambda *values: list(values),
    "first": lambda values: values[0] if values else None,
    "last": lambda values: values[-1] if values else None,
    "dict": _dict,
    "get": lambda values, key: values.get(key, ""),
    "hasKey": lambda values, key: key in values,
    "keys": sorted,
    "int": int,
    "int64": int,
    "float64": float,
    "add": lambda *values: sum(int(each) for each in values),
    "sub": lambda value, other: int(value) - int(other),
    "mul": lambda value, other: int(value) * int(other),
    "b64enc": lambda text: base64.b64encode(go_text(text).encode()).decode(),
    "b64dec": lambda text: base64.b64decode(go_text(text)).decode(),
    "toYaml": _yaml,
    "toJson": lambda value: msgspec.json.encode(value, order="sorted").decode(),
}
