"""What ``karpenter plan`` reads: amounts that cannot be, and how far reading is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api.manifests import Document, documents
from karpenter.api.validation.amounts import bad_amounts
from karpenter.cli.planning import input as planning
from karpenter.cli.planning.input import AmountReader, read_input

if TYPE_CHECKING:
    from pathlib import Path

AMOUNTS: list[Any] = [
    {"requests": {"cpu": "1", "memory": "1Gi"}},
    {"requests": {"cpu": "1", "memory": "-1Gi"}},
    {"a": [{"limits": {"cpu": "much"}}, {"limits": {"cpu": 2}}]},
    {"limits": {"cpu": None, "nested": {"cpu": "-1"}}},
    {"limits": [{"cpu": "-1"}]},
    {"capacity": {}, "allocatable": {"x": "{"}},
    {"overhead": {"cpu": "1", "\u00e9": "-1"}},
    {"limits": "-1", "requests": -1},
    {"annotation": '"limits": {"cpu": "-1"}'},
]


@pytest.mark.parametrize("plain", AMOUNTS, ids=range(len(AMOUNTS)))
def test_amounts_are_found_in_json_and_in_plain_data(plain: dict[str, Any]) -> None:
    """What was seen before is not parsed again, and nothing that a walk finds is missed."""
    item = {"apiVersion": "v1", "kind": "Pod", **plain}
    (raw,) = documents(json.dumps({"apiVersion": "v1", "kind": "List", "items": [item]}), "f")
    reader, expected = AmountReader(), list(bad_amounts(item))

    assert raw.raw is not None
    for document in (raw, raw, Document("f", item), Document("f", item)):
        assert list(reader.problems(document)) == expected


def test_a_name_may_be_spelled_with_escapes() -> None:
    """JSON may write any letter as its number; what is hidden that way is found all the same."""
    text = '{"apiVersion": "v1", "kind": "Pod", "lim\\u0069ts": {"cpu": "-1"}}'
    (document,) = documents(f'{{"apiVersion": "v1", "kind": "List", "items": [{text}]}}', "f")

    assert [field for field, _ in AmountReader().problems(document)] == ["limits.cpu"]


def test_long_reading_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After two seconds people are told how many objects were read."""
    monkeypatch.setattr(planning, "_PATIENCE", 0.0)
    monkeypatch.setattr(planning, "_STRIDE", 2)
    items = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{n}"}} for n in range(5)]
    path = tmp_path / "pods.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), "utf-8")
    told: list[str] = []

    assert len(read_input([str(path)], tell=told.append).view.pods) == len(items)
    assert told == [f"reading {path}: {count} objects so far" for count in (2, 4)]
