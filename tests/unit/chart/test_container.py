"""The container file, held against the chart that runs the image."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from karpenter.chart.objects import USER
from karpenter.chart.values import default_values

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "Containerfile").read_text(encoding="utf-8")


def test_it_runs_as_the_user_of_the_chart() -> None:
    """The image runs as user 65532, by number, so that a cluster can check that it is not root."""
    assert re.findall(r"^USER (.*)$", TEXT, re.MULTILINE) == [f"{USER}:{USER}"]


def test_it_exposes_the_ports_of_the_chart() -> None:
    """Metrics and probes are where the chart looks for them."""
    controller = default_values()["controller"]

    assert f"EXPOSE {controller['metrics']['port']} {controller['healthProbe']['port']}" in TEXT


def test_images_see_what_they_copy() -> None:
    """Whatever is copied into an image is let through to the build, and nothing else is."""
    texts = [(ROOT / each).read_text("utf-8") for each in ("Containerfile", "examples/soak/Containerfile")]
    copied = [set(re.findall(r"^COPY (?!--from)(\S+)", text, re.MULTILINE)) for text in texts]
    let_through = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"}
    made = {"dist/karpenter-0.1.0-py3-none-any.whl", "dist/karpenter_local-0.1.0-py3-none-any.whl"}

    assert copied[0] <= let_through
    assert let_through == set.union(*copied)
    assert {each for each in made if any(fnmatch(each, pattern) for pattern in copied[1])} == made
    assert "karpenter-*.whl" in TEXT


@pytest.mark.parametrize("path", ["Containerfile", "examples/soak/Containerfile", "tools/install"])
def test_everything_is_installed_by_its_hash(path: str) -> None:
    """
    What is locked is checked against hashes, then our own follow; nothing is resolved.

    pip would take a release newer than the lock for a requirement with an extra, and then miss its hash.
    """
    installs = re.findall(r"pip install ((?:[^\\&|]|\\\n)*)", (ROOT / path).read_text())

    assert [("--require-hashes" in each, "--no-deps" in each) for each in installs] == [
        (True, True),
        (False, True),
    ]
