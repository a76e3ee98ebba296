"""
What is wrong with a value, in words instead of patterns and types.

The validation of an API server quotes the pattern of a field and the types of JSON, and so does ours, so
that both say the same (:mod:`karpenter.api.schema`). People get a sentence that says what is allowed.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.constraints import DURATION, DURATION_OR_NEVER, LABEL_VALUE, QUALIFIED_NAME, QUANTITY
from karpenter.api.validation.nodeclaim_validation import KEY_RULE, VALUE_RULE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.api.schema.field import FieldProblem

_AMOUNT: Final = "must be an amount such as 500m, 2 or 1.5Gi"
_TIMES: Final = "in hours, minutes and seconds without fractions, such as 90s or 1h30m"
_REASON: Final = "must be letters, digits, '_', ',' and ':', beginning with a letter"


def _id(prefix: str) -> str:
    return f"must be an id such as {prefix}-0a1b2c3d4e5f60718"


IN_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        DURATION: f"must be a duration {_TIMES}",
        DURATION_OR_NEVER: f"must be Never, or a duration {_TIMES}",
        QUALIFIED_NAME: KEY_RULE,
        LABEL_VALUE: VALUE_RULE,
        QUANTITY: _AMOUNT,
        r"^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$": (
            "must be a duration in hours and minutes, such as 8h or 1h30m"
        ),
        r"^((100|[0-9]{1,2})%|[0-9]+)$": "must be a number of nodes such as 5, or a share such as 10%",
        r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$": (
            "must be a schedule of minute, hour, day, month and weekday such as '0 9 * * mon-fri', or "
            "@hourly, @daily, @midnight, @weekly, @monthly, @yearly or @annually"
        ),
        r"^[^/]*$": "must be a group without a version, such as karpenter.k8s.aws",
        r"^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$": _REASON,
        r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$": _REASON,
        r"^\d+(\.\d+)?$": "must be a price in dollars an hour, such as 0.25",
        r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$": (
            "must have a sign, and be dollars such as +0.05 or -0.05, or a share such as +10% or -15%"
        ),
        r"^(([1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi|"
        r"([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000)G|([1-9]|[1-5][0-7]|58)?Ti|"
        r"([1-9]|[1-5][0-9]|6[0-4])?T)$": (
            "must be a size in Gi, G, Ti or T such as 100Gi, of at most 59000Gi"
        ),
        r"^[0-9]{12}$": "must be the twelve digits of an AWS account",
        r"^((\d{1,2}(\.\d{1,2})?|100(\.0{1,2})?)%|" + QUANTITY[1:-1] + ")?$": (
            "must be an amount such as 100Mi, or a share such as 5%"
        ),
        QUANTITY + r"|(vcpus|memory_mib|default_enis|ips_per_eni|max_pods|instance_type)": (
            "must be an amount such as 500m or 1Gi, or an expression over vcpus, memory_mib, default_enis, "
            "ips_per_eni, max_pods or instance_type"
        ),
        r"ami-[0-9a-z]+": _id("ami"),
        r"sg-[0-9a-z]+": _id("sg"),
        r"subnet-[0-9a-z]+": _id("subnet"),
        r"^cr-[0-9a-z]+$": _id("cr"),
        r"^pg-[0-9a-z]+$": _id("pg"),
    }
)
"""What each pattern of our definitions asks for."""

_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "array": "a list",
        "bool": "true or false",
        "boolean": "true or false",
        "date-time": "a time such as 2026-01-31T09:00:00Z",
        "float64": "a number",
        "int32": "a whole number of 32 bits",
        "int64": "a whole number",
        "integer": "a whole number",
        "null": "null",
        "number": "a number",
        "object": "an object",
        "string": "a text",
    }
)
_MATCH: Final = re.compile(r"\S+ in body should match '(?P<pattern>.*)'$", re.DOTALL)
_TYPE: Final = re.compile(
    r'Invalid value: (?P<shown>.*): \S+ in body must be of type (?P<wanted>[\w,-]+): "(?P<found>.*)"$',
    re.DOTALL,
)
_DECODING: Final = re.compile(
    r"json: cannot unmarshal (?P<found>\w+)(?P<number> \S+)? into Go (?:struct field \S+|value) "
    r"of type (?P<wanted>.+)"
)
_RANGE: Final = re.compile(r'Invalid value: "": Checked value must be of type integer.*')
_REGEX: Final = re.compile(r", regex used for validation is '(?:[^']|'(?!\)))*'")
_QUANTITIES: Final = re.compile(r"quantities must match the regular expression '[^']*'")


def in_words(problem: FieldProblem) -> FieldProblem:
    """Return a problem without patterns and types of JSON, as far as they are known here."""
    return msgspec.structs.replace(problem, message=message_in_words(problem.message))


def message_in_words(message: str) -> str:
    """Return what an API server says about a value, without patterns and types of JSON."""
    message = _QUANTITIES.sub(_AMOUNT, _REGEX.sub("", message))
    matched, typed, decoding = _MATCH.search(message), _TYPE.fullmatch(message), _DECODING.search(message)
    if matched is not None and matched["pattern"] in IN_WORDS:
        return message[: matched.start()] + IN_WORDS[matched["pattern"]]
    if typed is not None:
        wanted = " or ".join(_TYPES.get(each, each) for each in typed["wanted"].split(","))
        found = _TYPES.get(typed["found"])
        if found is None:  # a text that has not the format
            return f"Invalid value: {typed['shown']}: must be {wanted}"
        return f"Invalid value: must be {wanted}, not {found}"
    if decoding is not None:
        found = (decoding["number"] or "").strip() or _TYPES.get(decoding["found"], decoding["found"])
        return f"{message[: decoding.start()]}must be {_type_of_go(decoding['wanted'])}, not {found}"
    if _RANGE.match(message):
        return "Invalid value: must be a whole number that a computer can count"
    return message


def _type_of_go(name: str) -> str:
    return _TYPES.get(name) or ("a list" if name.startswith("[]") else "an object")
