"""The tree of commands, those of ``karpenter-local`` included, whether or not it is installed."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from karpenter.cli import group

LOCAL = {"demo": "demo:demo", "local": "local:local", "simulate": "simulate:simulate"}


def load_local(name: str) -> Any:
    """Load a command of ``karpenter-local`` from its source."""
    module, _, attribute = LOCAL[name].partition(":")
    return getattr(importlib.import_module(f"karpenter_local.cli.{module}"), attribute)


@pytest.fixture
def every_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Find the commands of ``karpenter-local`` in its source."""
    monkeypatch.setattr(group, "_from_local", load_local)
