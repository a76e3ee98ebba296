r"""
How files and ``--set`` override the values of the chart, and their schema.

``--set`` is read as Helm reads it: ``a.b=1,c=x`` sets two values, ``\\.`` and ``\\,`` are a plain dot and a
plain comma, ``{a,b}`` is a list, ``a[0].b=x`` is in the first item of a list, and ``null`` removes a value.
Unlike Helm, a name that the chart does not know is refused.
See https://helm.sh/docs/intro/using_helm/
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.manifests import render_documents
from karpenter.base.pretty import excerpt, nearest
from karpenter.chart.known_values import COUNT, NUMBER, QUANTITY, RETIRED, SHARED, VALUES, ChartValue

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def with_notes(values: Mapping[str, Any], notes: Mapping[str, str]) -> str:
    """Return mappings as YAML; `notes` are keyed by path."""
    return "\n".join(_lines(values, notes, "", "")) + "\n"


def _lines(values: Mapping[str, Any], notes: Mapping[str, str], above: str, pad: str) -> Iterator[str]:
    for key, value in values.items():
        path = f"{above}{key}"
        if path in notes:
            yield f"{pad}# {notes[path]}"
            for line in render_documents([{key: value}]).splitlines():
                yield f"{pad}{line}"
        else:
            yield f"{pad}{key}:"
            yield from _lines(value, notes, f"{path}.", f"{pad}  ")


def default_values() -> dict[str, Any]:
    """Return a fresh tree of the defaults."""
    found: dict[str, Any] = {}
    for chart_value in VALUES:
        *above, last = chart_value.path.split(".")
        level = found
        for word in above:
            level = level.setdefault(word, {})
        level[last] = msgspec.json.decode(msgspec.json.encode(chart_value.default))
    return found


def render_values() -> str:
    """Return the chart's ``values.yaml``."""
    return with_notes(default_values(), {chart_value.path: chart_value.about for chart_value in VALUES})


def schema() -> dict[str, Any]:
    """
    Return the chart's ``values.schema.json``: Helm refuses what it does not allow, before it renders.

    Draft 7 is what every Helm 3 reads (https://helm.sh/docs/topics/charts/#schema-files).
    """
    root: dict[str, Any] = _object("")
    for chart_value in VALUES:
        level, last = _level(root, chart_value.path)
        level[last] = {"description": chart_value.about, "type": list(chart_value.allowed())}
        if chart_value.form is not None:
            level[last]["pattern"] = chart_value.pattern
        if chart_value.form in {COUNT, NUMBER}:
            level[last]["minimum"] = 0
        if chart_value.path == _RESOURCES:
            level[last]["properties"] = dict.fromkeys(_AMOUNTS_OF, _AMOUNTS)
        if chart_value.choices:
            level[last]["enum"] = [*chart_value.choices, "", None]
    for path, about in RETIRED.items():
        level, last = _level(root, path)
        level[last] = {"description": f"Has no effect: {about}."}
    for path, (sort, about) in SHARED.items():
        root["properties"][path] = {"description": about, "type": [sort, "null"]}
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of the chart", **root}


_RESOURCES: Final = "controller.resources"
_AMOUNTS_OF: Final = ("requests", "limits")
_AMOUNTS: Final[dict[str, Any]] = {
    "type": ["object", "null"],
    "additionalProperties": {
        "type": [*QUANTITY.sorts, "string", "null"],
        "pattern": f"^({QUANTITY.pattern})$",
    },
}


def _level(root: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
    """Return the properties that a path is one of, and its last word."""
    *above, last = path.split(".")
    level: dict[str, Any] = root["properties"]
    for word in above:
        level = level.setdefault(word, _object("null"))["properties"]
    return level, last


def _object(also: str) -> dict[str, Any]:
    sorts = ["object", *([also] if also else [])]
    return {"type": sorts, "additionalProperties": False, "properties": {}}


_WORD: Final = re.compile(r"((?:\\.|[^\\.\[\]])+)((?:\[\d+\])*)")
_WHOLE: Final = re.compile(r"-?(?:0|[1-9]\d*)")
# An index such as a[999999999]=x must not fill the memory; Helm has such a limit, too.
_LONGEST_LIST: Final = 1000
_WORDS: Final = {
    "string": "a text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "object": "a mapping",
    "array": "a list",
}


class BadValue(ValueError):  # noqa: N818  says what is wrong
    """A value that cannot be read, or that the chart does not know."""


def parse_set(text: str) -> list[tuple[list[str | int], Any]]:
    """
    Return what one ``--set`` says: paths and values.

    Raises:
        BadValue: naming what cannot be read.
    """
    return [_assignment(part, text) for part in _split(text, ",") if part]


def lay_over(values: dict[str, Any], stated: dict[str, Any]) -> None:
    """
    Lay what a file of values states over `values`.

    Raises:
        BadValue: naming a value that the chart does not know.
    """
    _check(stated, "")
    _merge(values, stated)


def put(values: dict[str, Any], path: list[str | int], value: Any) -> None:
    """
    Set one value.

    Raises:
        BadValue: the chart does not know it, or it is not where that path leads.
    """
    words = [word for word in path if isinstance(word, str)]
    _check_path(words)
    level: Any = values
    for word, after in itertools.pairwise(path):
        level = _step(level, word, [] if isinstance(after, int) else {}, path)
    last = path[-1]
    if isinstance(last, int):
        _step(level, last, None, path)
        level[last] = value
    elif not isinstance(level, dict):
        raise BadValue(f"{_spell(path)}: there is no mapping to put {last} in")
    elif value is None:
        level.pop(last, None)
    else:
        level[last] = value


def values_of(files: list[dict[str, Any]], sets: list[str]) -> dict[str, Any]:
    """
    Return the values in force: defaults, then files, then what was set, the later over the earlier.

    Raises:
        BadValue: naming what cannot be used.
    """
    values = default_values()
    for stated in files:
        lay_over(values, stated)
    for text in sets:
        for path, value in parse_set(text):
            put(values, path, value)
    _check_sorts(values)
    return values


def retired_values(values: dict[str, Any]) -> list[str]:
    """Return a sentence for every value that charts once had and that is accepted without effect."""
    found = []
    for path, about in RETIRED.items():
        level: Any = values
        for word in path.split("."):
            level = level.get(word) if isinstance(level, dict) else None
        if level is not None:
            found.append(without_effect(path, about))
    return found


def without_effect(path: str, about: str) -> str:
    """Return the sentence about a value of older charts."""
    return f"{path} has no effect: {about}."


def _step(level: Any, word: str | int, empty: Any, path: list[str | int]) -> Any:
    if isinstance(word, int):
        if not isinstance(level, list) or word > _LONGEST_LIST:
            raise BadValue(f"{_spell(path)}: there is no list with an item {word}")
        level += [None] * (word + 1 - len(level))
        if level[word] is None:
            level[word] = empty
        return level[word]
    if not isinstance(level, dict):
        raise BadValue(f"{_spell(path)}: there is no mapping to find {word} in")
    if level.get(word) is None:
        level[word] = empty
    return level[word]


def _assignment(part: str, text: str) -> tuple[list[str | int], Any]:
    name, equals, value = part.partition("=")
    if not equals:
        raise BadValue(f"{text!r} is not NAME=VALUE")
    path: list[str | int] = []
    at = 0
    while at <= len(name):
        found = _WORD.match(name, at)
        if found is None:
            raise BadValue(f"{name!r} is not the name of a value, such as controller.image.tag")
        path.append(_plain(found[1]))
        path += [int(number) for number in re.findall(r"\d+", found[2])]
        at = found.end()
        if at < len(name) and name[at] != ".":
            raise BadValue(f"{name!r} is not the name of a value, such as controller.image.tag")
        at += 1
    if value.startswith("{") and value.endswith("}"):
        return path, [_typed(each) for each in _split(value[1:-1], ",") if each]
    return path, _typed(value)


def _split(text: str, mark: str) -> list[str]:
    """Split at a mark that is neither escaped nor in braces."""
    parts, depth, current = [], 0, ""
    escaped = False
    for letter in text:
        depth += 0 if escaped else (letter == "{") - (letter == "}")
        if letter == mark and not escaped and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += letter
        escaped = letter == "\\" and not escaped
    return [*parts, current]


def _typed(text: str) -> Any:
    match text:
        case "true" | "false":
            return text == "true"
        case "null":
            return None
        case _ if _WHOLE.fullmatch(text):
            return int(text)
        case _:
            return _plain(text)


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _merge(values: dict[str, Any], stated: dict[str, Any]) -> None:
    for key, value in stated.items():
        if value is None:
            values.pop(key, None)
        elif isinstance(value, dict) and isinstance(values.get(key), dict):
            _merge(values[key], value)
        else:
            values[key] = value


def _check(stated: dict[str, Any], above: str) -> None:
    for key, value in stated.items():
        path = f"{above}{key}"
        _check_path(path.split("."))
        if isinstance(value, dict) and not _is_open(path):
            _check(value, f"{path}.")


def _check_path(words: list[str]) -> None:
    path = ".".join(words)
    known = {chart_value.path for chart_value in VALUES}
    inner = any(each.startswith(f"{path}.") for each in known)
    if path not in known and not inner and not _is_open(path):
        raise BadValue(f"the chart has no value {path}{_meant(path, known)}")


def _meant(path: str, known: set[str]) -> str:
    """Return what was probably meant: a neighbour of that name, or the same name elsewhere."""
    for length in range(path.count(".") + 1):  # the level at which the path leaves what is known
        above, word = ".".join(path.split(".")[:length]), path.split(".")[length]
        prefix = f"{above}." if above else ""
        beside = {each.removeprefix(prefix).partition(".")[0] for each in known if each.startswith(prefix)}
        if word not in beside:
            break
    else:
        return f"; {path.rpartition('.')[0]} has nothing below it"
    if near := nearest(word, beside):
        return f"; did you mean {prefix}{near}?"
    if elsewhere := [each for each in sorted(known) if each.rpartition(".")[2].lower() == word.lower()]:
        return f"; did you mean {elsewhere[0]}?"
    return f"; {above} has {', '.join(sorted(beside))}" if above and beside and len(beside) <= _FEW else ""


_FEW: Final = 12


def _is_open(path: str) -> bool:
    known = [chart_value.path for chart_value in VALUES if chart_value.open] + [*RETIRED, *SHARED]
    return any(path == each or path.startswith(f"{each}.") for each in known)


def _check_sorts(values: dict[str, Any]) -> None:
    """Refuse what the chart's schema refuses: a mapping for a number, or a word for a duration."""
    for chart_value in VALUES:
        found: Any = values
        for word in chart_value.path.split("."):
            if found is not None and not isinstance(found, dict):
                raise BadValue(
                    f"{chart_value.path.rpartition('.')[0]}: a mapping is wanted, not {excerpt(found)}"
                )
            found = found.get(word) if found else None
        _check_value(chart_value, found)
    _check_resources(values)
    _check_texts(values)


def _check_value(chart_value: ChartValue, found: Any) -> None:
    sort, allowed, form = _sort(found), chart_value.allowed(), chart_value.form
    if sort not in allowed and not (sort == "integer" and "number" in allowed):
        wanted = form.about if form is not None else " or ".join(_WORDS[each] for each in allowed[:-1])
        raise BadValue(f"{chart_value.path}: {excerpt(found)} is not {wanted}")
    if form is not None and isinstance(found, str) and not re.search(chart_value.pattern, found):
        raise BadValue(f"{chart_value.path}: {excerpt(found)} is not {form.about}")
    if form in {COUNT, NUMBER} and isinstance(found, int | float) and found < 0:
        raise BadValue(f"{chart_value.path}: {found} is less than 0")
    if chart_value.choices and found not in {*chart_value.choices, "", None}:
        near = nearest(str(found), chart_value.choices)
        meant = f"; did you mean {near}?" if near else ""
        raise BadValue(f"{chart_value.path}: {found!r} is not {_one_of(chart_value.choices)}{meant}")


def _one_of(choices: tuple[str, ...]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}"


def _check_resources(values: dict[str, Any]) -> None:
    resources = (values.get("controller") or {}).get("resources") or {}
    for of in _AMOUNTS_OF:
        amounts = resources.get(of) or {}
        if not isinstance(amounts, dict):
            raise BadValue(f"{_RESOURCES}.{of}: a mapping is wanted, not {excerpt(amounts)}")
        for name, amount in amounts.items():
            known = amount is None or type(amount) in {int, float}
            if not known and not (isinstance(amount, str) and re.fullmatch(QUANTITY.pattern, amount)):
                raise BadValue(f"{_RESOURCES}.{of}.{name}: {excerpt(amount)} is not {QUANTITY.about}")


def _check_texts(values: dict[str, Any]) -> None:
    """Refuse texts that the operator would refuse when it starts."""
    from karpenter.operator.options import (  # noqa: PLC0415  few charts have them
        SettingError,
        parse_factors,
        parse_scheduler_config,
    )

    settings = values.get("settings") or {}
    for name, parse in (("priceFactors", parse_factors), ("schedulerConfig", parse_scheduler_config)):
        try:
            parse(str(settings.get(name) or ""))
        except SettingError as error:
            raise BadValue(f"settings.{name}: {error}") from None


def _sort(value: Any) -> str:
    """Return what a value is, in the words of JSON schemas."""
    sorts = {
        type(None): "null",
        bool: "boolean",
        int: "integer",
        float: "number",
        str: "string",
        dict: "object",
    }
    return sorts.get(type(value), "array")


def _spell(path: list[str | int]) -> str:
    return ".".join(str(word) for word in path)
