"""User data of users merged with ours, as Karpenter 1.14.1 merges it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import BadUserData
from karpenter.cloud.aws.amifamily.bootstrap.mime import parse_archive
from tests.unit.cloud.aws.amifamily.bootstrap.test_userdata import rendered

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[5] / "data" / "userdata" / "archives.json").read_text(encoding="utf-8")
)
OUR_BOUNDARY = "nested with our boundary"


@pytest.mark.parametrize("family", ["AL2", "AL2023"])
@pytest.mark.parametrize(
    "case", [case for case in CASES if case["name"] != OUR_BOUNDARY], ids=lambda case: case["name"]
)
def test_merged_as_karpenter_merges(case: dict[str, Any], family: str) -> None:
    """Everything up to our own part, which is the last, is what Karpenter makes of it, or both refuse it."""
    expected = case[family]
    if expected is None:
        with pytest.raises(BadUserData):
            rendered(family, custom=case["text"])
        return
    ours = rendered(family)

    merged = rendered(family, custom=case["text"])

    assert merged == expected + ours[ours.index("--//\n") :]


@pytest.mark.parametrize("family", ["AL2", "AL2023"])
def test_an_archive_within_an_archive_keeps_its_boundary(family: str) -> None:
    """
    A part may hold our own boundary; another one then parts the documents.

    Karpenter takes the same boundary, and makes an archive whose inner parts are taken for outer ones.
    """
    (nested,) = (case for case in CASES if case["name"] == OUR_BOUNDARY)

    merged = rendered(family, custom=nested["text"])
    inner, own = parse_archive(merged)

    assert not merged.startswith(nested[family])
    assert inner.content_type == 'multipart/mixed; boundary="//"'
    assert [part.text for part in parse_archive(f"Content-Type: {inner.content_type}\n\n{inner.text}")] == [
        "#!/bin/bash\necho hi\n"
    ]
    assert own.text


def test_an_encoded_part_stays_encoded() -> None:
    """Without its encoding cloud-init could not read it."""
    custom = (
        'Content-Type: multipart/mixed; boundary="B"\n\n'
        "--B\nContent-Transfer-Encoding: base64\nContent-Type: text/x-shellscript\n\nZWNobw==\n--B--\n"
    )

    first, _ = parse_archive(rendered("AL2023", custom=custom))

    assert dict(first.headers)["Content-Transfer-Encoding"] == "base64"
