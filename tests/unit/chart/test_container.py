"""The container file, held against the chart that runs the image."""

from __future__ import annotations

import re
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


def test_it_sees_what_it_copies() -> None:
    """Whatever is copied into the image is let through to the build, and nothing else is."""
    copied = re.findall(r"^COPY (?!--from)(\S+)", TEXT, re.MULTILINE)
    let_through = [
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")
    ]

    assert sorted(copied) == sorted(let_through)
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
