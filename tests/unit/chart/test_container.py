"""The container file, held against the chart that runs the image."""

from __future__ import annotations

import re
from pathlib import Path

from karpenter.chart.objects import USER
from karpenter.chart.values import default_values

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "Containerfile").read_text(encoding="utf-8")


def test_it_runs_as_the_user_of_the_chart() -> None:
    """The image runs as nobody, by number, so that a cluster can see that it is not root."""
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


def test_versions_can_be_told_from_the_lock() -> None:
    """The expression that strips hashes finds every version that is locked, and with it every dependency."""
    [expression] = re.findall(r"sed -n 's/\^(.*?)/\\1/p'", TEXT)
    pattern = re.compile(expression.replace(r"\(", "(").replace(r"\)", ")"))
    locked = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8").splitlines()
    found = [match[1].strip() for line in locked if (match := pattern.match(line))]
    bare = [each.partition("==")[0] for each in found if ";" not in each]

    assert {"aiohttp", "boto3", "highspy", "msgspec"} <= set(bare)
    assert len(bare) == len(set(bare))  # what is locked twice says for which Python each is
    assert not any("hash" in each for each in found)
