"""Objects that an API server with the definitions of Karpenter 1.14.1 was shown, and whether it took them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from karpenter.api.kinds import KINDS
from karpenter.api.validation.objects import check_admission, check_object

OBJECTS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "data" / "admission.json").read_text(encoding="utf-8")
)
WHAT_THE_OPERATOR_REFUSES = {
    "label key aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "req value long",
    "dup taints",
}
"""What sets ValidationSucceeded to False, with Karpenter as with us, though an API server takes it."""


@pytest.mark.parametrize("item", OBJECTS, ids=lambda item: item["name"])
def test_our_definitions_take_what_those_of_karpenter_take(item: dict[str, Any]) -> None:
    """An object is admitted by our definitions exactly if Karpenter 1.14.1's admit it."""
    kind = KINDS[item["object"]["apiVersion"], item["object"]["kind"]]

    problems, _ = check_admission(kind, item["object"])

    assert (not problems) is item["accepted"], problems


def test_validation_refuses_what_the_operator_would() -> None:
    """``karpenter validate`` differs from admission only where the operator would refuse the object."""
    differing = {
        item["name"]
        for item in OBJECTS
        if (not check_object(KINDS[item["object"]["apiVersion"], item["object"]["kind"]], item["object"]))
        is not item["accepted"]
    }

    assert differing == WHAT_THE_OPERATOR_REFUSES
